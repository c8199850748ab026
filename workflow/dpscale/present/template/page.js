// What a page is without scripts, it is with them. They add buttons to sort a table.

// The number that a cell starts with; words stand after all numbers.
const number = text => {
  const found = /^\u2212?[\d,]+(\.\d+)?/.exec(text);
  return found ? Number(found[0].replace("\u2212", "-").replaceAll(",", "")) : Infinity;
};

for (const heading of document.querySelectorAll(".sortable thead th")) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  heading.append(button);
  button.onclick = () => {
    const table = heading.closest("table"), body = table.tBodies[0];
    const turn = heading.getAttribute("aria-sort") === "descending" ? 1 : -1;
    const text = row => row.cells[heading.cellIndex].textContent.trim();
    const known = row => Number.isFinite(number(text(row)));
    const rows = [...body.rows].sort((one, other) => known(other) - known(one)
      || turn * (number(text(one)) - number(text(other)) || text(one).localeCompare(text(other))));
    body.append(...rows);
    table.querySelectorAll("[aria-sort]").forEach(sorted => sorted.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
  };
}
