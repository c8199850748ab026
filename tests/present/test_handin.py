"""What is handed in: the same cells in every form, only the assignment's configurations, and a note for every word."""

import csv
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt
from page_tables import GPU, WORKER, absent_row, h200, study, tables, times_row

from dpscale.formulas.figure import Figure
from dpscale.present.handin_report import Report, files, latex, markdown, report
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def made(data: Tables | None = None, terms: Terms = GPU, **changes: Any) -> Report:
    return report(study(**changes), data or h200(), terms)


class Cells(HTMLParser):
    """The rows of all tables in HTML."""

    def __init__(self, html: str):
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def rows_of_latex(text: str) -> list[list[str]]:
    return [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in text.splitlines() if line.endswith(r" \\")]


def test_only_the_assignments_configurations_are_handed_in() -> None:
    found = made()
    assert {place[1:] for grid in found.grids for place in grid.places} == {
        (gpus, batch) for gpus in (1, 2, 4) for batch in (32, 128, 512)
    }
    assert [sheet.name for sheet in found.sheets] == ["table-1", "table-2", "table-3"]
    assert [len(sheet.cells) for sheet in found.sheets] == [15, 12, 12]


def test_a_study_of_other_batches_shows_its_own_and_says_which_are_lacking() -> None:
    rows = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=batch)
        for batch in (8, 16, 24, 48)
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    absent = absent_row("not available", "DataParallel needs CUDA GPUs", strategy="dp", gpus=2, batch=8)
    found = made(tables(times=[*rows, absent]), replace(WORKER, synthetic=True), device="cpu")
    assert {place.batch for grid in found.grids for place in grid.places} == {8, 16, 24}
    said = " ".join(found.lacking)
    for lacking in (
        "synthetic",
        "on the CPU",
        "with dp: DataParallel needs CUDA",
        "4 workers",
        "batches: 32, 128 and 512",
        "10 full",
    ):
        assert lacking in said
    assert "GPU" not in found.facts
    assert "dp: it needs CUDA GPUs." in " ".join(made(tables(times=rows), WORKER).lacking)
    assert "dp: the study does not ask for it." in " ".join(made(tables(times=rows)).lacking)
    assert made().lacking == []
    assert made(tables(times=rows[:1])).sheets == []


def test_every_form_has_the_same_cells() -> None:
    found = made()
    texts = files(found)
    cells = [
        list(row) for sheet in found.sheets for row in [[column.heading for column in sheet.columns], *sheet.cells]
    ]
    assert Cells(MarkdownIt("commonmark").enable("table").render(texts["report.md"])).rows == cells
    assert rows_of_latex(texts["report.tex"]) == [list(map(latex, row)) for row in cells]
    lines = [line for line in texts["tables.csv"].splitlines() if not line.startswith("#")]
    read = list(csv.DictReader(lines))
    assert len(read) == 15
    for row in read:
        table = next(line for line in cells if line[:3] == [row["Strategy"], row["GPUs"], row["Batch per GPU"]])
        is_of_two = row["Time state"] in ("2 machines", "2 runs")
        ends = "({} to {})" if is_of_two else "[{}, {}]"
        assert table[3].startswith(f"{row['Time (s)']} {ends.format(row['Time low (s)'], row['Time high (s)'])}")


def test_every_word_in_the_tables_has_its_note() -> None:
    data = h200()
    once = [replace(row, speedup=replace(row.speedup, kind="one run")) for row in data.speedup]
    drifted = [replace(row, drifted=1) for row in data.communication]
    ended = [replace(row, status="oom", epoch_s=Figure()) if row.batch_per_gpu == 512 else row for row in data.times]
    found = made(replace(data, speedup=once, communication=drifted, times=ended))
    words = {word for sheet in found.sheets for row in sheet.cells for word in row[-1].split(", ") if word}
    assert words >= {"OOM", "one run", "drift"}
    noted = {note.partition(":")[0] for sheet in found.sheets for note in sheet.notes}
    assert noted == words


def test_texts_are_escaped() -> None:
    evil = "100 % of $x_1$ & {y} # ~ ^ \\input\n−1.5 – × 10⁹ <b>|"
    assert latex(evil) == (
        r"100~\% of \$x\_1\$ \& \{y\} \# \textasciitilde{} \textasciicircum{} \textbackslash{}input "
        r"$-$1.5 -- $\times$ 10$^9$ \textless{}b\textgreater{}\textbar{}"
    )
    assert Cells(f"<tr><td>{MarkdownIt().renderInline(markdown(evil))}</td></tr>").rows == [[" ".join(evil.split())]]
    assert r"\item Study: a\_b" in files(made(study="a_b"))["report.tex"]
