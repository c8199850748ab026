"""From a file to tables of text: CSV, Markdown, LaTeX, HTML and Excel. Nothing here knows what a table means."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from dpscale.errors import PublishedError

_MARKDOWN, _LATEX, _HTML, _EXCEL = (".md", ".markdown"), (".tex",), (".html", ".htm"), (".xlsx",)
SUFFIXES = (".csv", ".tsv", ".txt", *_MARKDOWN, *_LATEX, *_HTML, *_EXCEL)
_TABULAR = r"tabular[*x]?|longtable|tabulary|array"
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"


class TextTable(NamedTuple):
    """Rows of cells, each with its number in the file."""

    rows: Sequence[tuple[int, Sequence[str]]]


# A table of results has hundreds of rows. A history or a log, which is taken for one, has a million.
MOST_MB = 5


def read_text(path: Path) -> tuple[bytes, list[str], list[TextTable]]:
    """A file's content, its lines outside of tables (`key: value` may stand there), and its tables.

    Raises PublishedError where it cannot be read.
    """
    try:
        if (megabytes := path.stat().st_size / 1e6) > MOST_MB:
            raise PublishedError(
                f"{path}: is no table of results: it has {megabytes:,.0f} MB, a table at most {MOST_MB}. A run's "
                "history is read by: dpscale import"
            )
        content = path.read_bytes()
        if path.suffix.lower() in _EXCEL:
            return content, [], list(_excel(path))
        lines = content.decode("utf-8-sig").splitlines(keepends=True)
    except OSError as error:
        raise PublishedError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PublishedError(f"{path}: is not UTF-8. Save it as CSV in UTF-8") from error
    suffix = path.suffix.lower()
    if suffix in _HTML:
        return content, lines, list(_html(path, "".join(lines)))
    if suffix in _LATEX or any(r"\begin{tabular" in line for line in lines):
        return content, [_without_commands(line.lstrip("%")) for line in lines], list(_latex("".join(lines)))
    if suffix in _MARKDOWN or any(map(_is_rule, lines)):
        return content, lines, list(_markdown(lines))
    return content, [line for line in lines if line.startswith("#")], [_csv(path, lines)]


def _csv(path: Path, lines: Sequence[str]) -> TextTable:
    """The rows of a CSV file, separated by what separates its lines alike. A cell in quotes may have line breaks."""
    kept = ["\n" if line.startswith("#") else line for line in lines]
    try:
        reader = csv.reader(kept, delimiter=_delimiter(kept))
        rows = [(reader.line_num, [plain(cell) for cell in row]) for row in reader]
    except csv.Error as error:
        raise PublishedError(f"{path}: is no CSV: {error}") from error
    return TextTable([entry for entry in rows if any(entry[1])])


def _delimiter(lines: Sequence[str]) -> str:
    """The mark that every row has equally often, of those that people use."""

    def regularity(mark: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=mark) if row] or [0]
        return min(counts) == max(counts) and counts[0] > 1, min(counts)

    return max((";", "\t", ","), key=regularity)


def plain(cell: str) -> str:
    """A cell on one line."""
    return " ".join(cell.replace("\u00a0", " ").split()) if "\n" in cell else cell.strip()


def _markdown(lines: Sequence[str]) -> Iterator[TextTable]:
    """Every table of a Markdown file: what stands around a line of dashes."""
    for at, line in enumerate(lines):
        if not _is_rule(line) or at == 0:
            continue
        is_framed = lines[at - 1].strip().startswith("|")
        rows = [(at, _cells(lines[at - 1], is_framed))]
        for number, row in enumerate(lines[at + 1 :], at + 2):
            if "|" not in row:
                break
            rows.append((number, _cells(row, is_framed)))
        yield TextTable(rows)


def _is_rule(line: str) -> bool:
    return "|" in line and bool(re.fullmatch(r"[\s|:\-]*-{2,}[\s|:\-]*", line))


def _cells(line: str, is_framed: bool) -> list[str]:
    """The cells of a line. In a table without a frame, a bar in front has an empty cell before it."""
    inner = line.strip().removeprefix("|").removesuffix("|") if is_framed else line
    cells = re.split(r"(?<!\\)\|", inner)
    return [re.sub(r"\\([\\|*_`<>~\[\]])|[*_`]", r"\1", re.sub(r"<br\s*/?>", " ", cell)).strip() for cell in cells]


def _latex(text: str) -> Iterator[TextTable]:
    """Every tabular of a LaTeX file."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    for found in re.finditer(rf"\\begin\{{({_TABULAR})\}}(.*?)\\end\{{\1\}}", text, re.DOTALL):
        body = re.sub(rf"^(\s*(\[[^\]]*\]|{_BRACES}))+", "", found.group(2))
        lines = re.split(r"\\\\(?:\s*\[[^\]]*\])?|\\tabularnewline", body)
        yield _numbered([[*_latex_cells(line)] for line in lines])


def _latex_cells(line: str) -> Iterator[str]:
    """The cells of a row; one that spans several columns is followed by empty ones."""
    line = re.sub(
        r"\\(hline|toprule|midrule|bottomrule|addlinespace(\[[^\]]*\])?|c(mid)?(rule|line)(\([^)]*\))?\{[^}]*\})",
        "",
        line,
    )
    for cell in re.split(r"(?<!\\)&", line):
        spans = re.search(r"\\multicolumn\{(\d+)\}", cell)
        yield _without_commands(
            re.sub(rf"\\multicolumn\{{\d+\}}\s*{_BRACES}|\\multirow(\[[^\]]*\])?{_BRACES}\s*({_BRACES}|\*)", "", cell)
        )
        yield from [""] * (int(spans.group(1)) - 1 if spans else 0)


def _without_commands(cell: str) -> str:
    """Text without LaTeX: what commands are about stays, and so do signs."""
    for pattern, sign in (
        (r"\\(,|;|:|!|quad|qquad)|~", " "), (r"\\times", "×"), (r"\\geq?", "≥"), (r"\\leq?", "≤"), (r"\\pm", "±"),
        (r"\\cdot", "·"), (r"\{,\}", ","), (r"\\([%&#_{$])", r"\1"), (r"\\(textbar|textless|textgreater)\{\}", ""),
        (r"(?<!\\)\$", ""), (r"\\[a-zA-Z]+\*?(\[[^\]]*\])?", ""), (r"[{}]", ""), (r"--+", "–"),
    ):  # fmt: skip
        cell = re.sub(pattern, sign, cell)
    return " ".join(cell.split())


def _library(path: Path, name: str) -> Any:
    """What reads a format that nothing else here needs."""
    try:
        return import_module(name)
    except ImportError as error:
        needed = name.partition(".")[0]
        raise PublishedError(f"{path}: to read such a file install {needed}: pip install {needed}") from error


def _html(path: Path, text: str) -> Iterator[TextTable]:
    """Every table of a page; a cell that spans several columns is followed by empty ones."""
    html = _library(path, "lxml.html")
    for table in html.fromstring(text).iter("table") if "<table" in text else ():
        rows = [
            [part for cell in row.iter("th", "td") for part in _spanning(cell.text_content(), cell.get("colspan"))]
            for row in table.iter("tr")
        ]
        yield _numbered(rows)


def _spanning(text: str, columns: str | None) -> list[str]:
    return [plain(text), *[""] * (int(columns or 1) - 1)]


def _excel(path: Path) -> Iterator[TextTable]:
    """Every sheet, its numbers with the decimals that it shows."""
    library = _library(path, "openpyxl")
    try:
        sheets = library.load_workbook(path, data_only=True).worksheets
    except Exception as error:  # what a broken file does to its reader is of many types
        raise PublishedError(f"{path}: is no Excel file: {plain(str(error))}") from error
    for sheet in sheets:
        yield _numbered([[_as_shown(cell.value, cell.number_format) for cell in row] for row in sheet.iter_rows()])


def _as_shown(value: object, shown_as: str) -> str:
    decimals = re.fullmatch(r"#?,?#*0(?:\.(0+))?(%?)", shown_as)
    if not isinstance(value, int | float) or not decimals:
        return "" if value is None else plain(str(value))
    sign = decimals.group(2)
    return f"{value * (100 if sign else 1):.{len(decimals.group(1) or '')}f}{sign}"


def _numbered(rows: Iterable[Sequence[str]]) -> TextTable:
    return TextTable([(number, row) for number, row in enumerate(rows, 1) if any(row)])
