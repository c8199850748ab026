"""From a file to tables of text (CSV, Markdown, LaTeX, HTML and Excel), and from text to numbers as people write them:
decimal commas, groups of three digits, units and signs behind them. Nothing here knows what a table means."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpscale.errors import PublishedError
from dpscale.vocabulary.states import NOT_RESOLVABLE

_MARKDOWN, _LATEX, _HTML, _EXCEL = (".md", ".markdown"), (".tex",), (".html", ".htm"), (".xlsx",)
SUFFIXES = (".csv", ".tsv", ".txt", *_MARKDOWN, *_LATEX, *_HTML, *_EXCEL)
_TABULAR = r"tabular[*x]?|longtable|tabulary|array"
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"


# Rows of cells, each with its number in the file.
TextTable = Sequence[tuple[int, Sequence[str]]]

# A table of results has hundreds of rows. A history or a log, which is taken for one, has a million.
_MOST_MB, _MOST_CHARACTERS, _MOST_ROWS = 5, 20_000, 5_000
_HINTS = {
    _MARKDOWN: ": below its head a table has a line such as |---|---|", _HTML: ": a table is a <table>",
    _LATEX: r": a table is a whole \begin{tabular}", _EXCEL: ": its sheets are empty",
}  # fmt: skip


def read_text(path: Path) -> tuple[bytes, list[str], list[TextTable]]:
    """A file's content, its lines outside of tables (`key: value` may stand there), and its tables, one at least.

    Raises PublishedError where it cannot be read.
    """
    suffix = path.suffix.lower()
    try:
        if (megabytes := path.stat().st_size / 1e6) > _MOST_MB:
            raise PublishedError(
                f"{path}: is no table of results: it has {megabytes:,.0f} MB, a table at most {_MOST_MB}"
            )
        content = path.read_bytes()
        text = "" if suffix in _EXCEL else content.decode("utf-8-sig")
    except OSError as error:
        raise PublishedError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PublishedError(f"{path}: is not text in UTF-8. Save the table as CSV in UTF-8") from error
    lines = text.splitlines(keepends=True)
    if "\0" in text or max(map(len, lines), default=0) > _MOST_CHARACTERS:
        raise PublishedError(f"{path}: holds a line that no table has. Save the table as CSV in UTF-8")
    outside, tables = _tables(path, suffix, lines)
    filled: list[TextTable] = [rows for table in tables if (rows := [row for row in table if any(row[1])])]
    if not filled:
        hint = next((hint for suffixes, hint in _HINTS.items() if suffix in suffixes), "")
        raise PublishedError(f"{path}: has no table{hint}")
    if max(map(len, filled)) > _MOST_ROWS:
        raise PublishedError(f"{path}: is no table of results: it has more than {_MOST_ROWS:,} rows")
    return content, outside, filled


def _tables(path: Path, suffix: str, lines: list[str]) -> tuple[list[str], list[TextTable]]:
    """The lines outside of tables, and the tables."""
    if suffix in _EXCEL:
        return [], list(_excel(path))
    if suffix in _HTML:
        return lines, list(_html("".join(lines)))
    if suffix in _LATEX or any(r"\begin{tabular" in line for line in lines):
        return [_without_commands(line.lstrip("%")) for line in lines], list(_latex("".join(lines)))
    if suffix in _MARKDOWN or any(map(_is_rule, lines)):
        return lines, list(_markdown(lines))
    return [line for line in lines if line.startswith("#")], [_csv(path, lines)]


def _csv(path: Path, lines: Sequence[str]) -> TextTable:
    """The rows of a CSV file, separated by what separates its lines alike. A cell in quotes may have line breaks."""
    kept = ["\n" if line.startswith("#") else line for line in lines]
    try:
        reader = csv.reader(kept, delimiter=_delimiter(kept))
        return [(reader.line_num, [plain(cell) for cell in row]) for row in reader]
    except csv.Error as error:
        raise PublishedError(f"{path}: is no CSV: {error}") from error


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
        yield rows


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
    for tabular in re.finditer(rf"\\begin\{{({_TABULAR})\}}(.*?)\\end\{{\1\}}", text, re.DOTALL):
        body = re.sub(rf"^(\s*(\[[^\]]*\]|{_BRACES}))+", "", tabular.group(2))
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
        (r"\\cdot", "·"), (r"\\dagger", "†"),
        (r"\{,\}", ","), (r"\\([%&#_{$])", r"\1"), (r"\\(textbar|textless|textgreater)\{\}", ""),
        (r"(?<!\\)\$", ""), (r"\\[a-zA-Z]+\*?(\[[^\]]*\])?", ""), (r"[{}]", ""), (r"--+", "–"),
    ):  # fmt: skip
        cell = re.sub(pattern, sign, cell)
    return " ".join(cell.split())


def _html(text: str) -> Iterator[TextTable]:
    """Every table of a page that holds no other."""
    from lxml import html

    page = html.fromstring(text.encode() or b"-", parser=html.HTMLParser(encoding="utf-8"))
    for table in page.iter("table"):
        if table.find(".//table") is None:
            yield _numbered(_spread(list(table.iter("tr"))))


def _spread(rows: Sequence[Any]) -> Iterator[list[str]]:
    """The cells of rows: where one spans several columns or rows, the others are empty."""
    taken: set[tuple[int, int]] = set()
    for number, row in enumerate(rows):
        cells: list[str] = []
        for cell in row.iter("th", "td"):
            while (number, len(cells)) in taken:
                cells.append("")
            spans = [re.fullmatch(r"\d{1,2}", cell.get(name, "")) for name in ("colspan", "rowspan")]
            width, height = (int(span.group() if span else 1) or 1 for span in spans)
            taken |= {(number + down, len(cells) + right) for down in range(height) for right in range(width)}
            cells += [plain(cell.text_content()), *[""] * (width - 1)]
        yield cells


def _excel(path: Path) -> Iterator[TextTable]:
    """Every sheet, its numbers with the decimals that it shows."""
    import openpyxl

    try:
        shown, written = (openpyxl.load_workbook(path, data_only=is_shown).worksheets for is_shown in (True, False))
    except Exception as error:  # what a broken file does to its reader is of many types
        raise PublishedError(f"{path}: is no Excel file, or has a password. Save it as CSV") from error
    for sheet, formulas in zip(shown, written, strict=True):
        for row in formulas.iter_rows():
            for cell in row:
                if cell.data_type == "f" and sheet[cell.coordinate].value is None:
                    raise PublishedError(
                        f"{path}: cell {cell.coordinate} has a formula and no value. Open it in Excel and save it again"
                    )
        yield _numbered([_as_shown(cell.value, cell.number_format) for cell in row] for row in sheet.iter_rows())


def _as_shown(value: object, shown_as: str) -> str:
    decimals = re.fullmatch(r"#?,?#*0(?:\.(0+))?(%?)", shown_as)
    if not isinstance(value, int | float) or not decimals:
        return "" if value is None else plain(str(value))
    sign = decimals.group(2)
    return f"{value * (100 if sign else 1):.{len(decimals.group(1) or '')}f}{sign}"


def _numbered(rows: Iterable[Sequence[str]]) -> TextTable:
    return list(enumerate(rows, 1))


# Spaces that separate groups of digits, narrow ones too.
_SPACES = r"[ \u00a0\u2007\u2009\u202f'’]"
_MISSING = ("", "-", "–", "—", "n/a", "na", "nan", "none", "null", "/", "…", "...", "?", "x", "tbd")
_OUT_OF_MEMORY = r"(cuda\s*)?(oom|out[ -]of[ -]memory)( error)?"
_BOUND = r"(≥|≤|[<>]=?|at (least|most)\b)\s*\d"
# Words of this project's own tables where it has no number.
_STATES = (NOT_RESOLVABLE, "not measured", "not run", "not planned", "not available", "one run", "capped", "failed")
# What may stand behind a number: its interval, its deviation, a footnote; or a footnote and one of the others.
_BEHIND = r"(\s*[a-d*†‡]|\s*[¹²³⁴⁵⁶⁷⁸⁹])?(\s*(\[[^\]]*\]|\([^)]*\)|±.*))?$"
_UNITS = r"s|ms|min|h|sec|[kmgt]i?b(?:it)?/s|[kmgt]bps|images/s|img/s"
_SUFFIX = rf"\s*(?:x|×|%|{_UNITS})?"


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no number, that memory was too small, or no more than a bound."""
    plain = cell.strip().lower()
    is_bound, is_oom = re.match(_BOUND, plain), re.fullmatch(_OUT_OF_MEMORY, plain)
    return plain in _MISSING or bool(is_bound or is_oom) or re.sub(r"\W+", " ", plain).strip() in _STATES


@dataclass(frozen=True)
class Style:
    """Style of the numbers of a table: the meaning of its marks. None where no number shows it."""

    decimal_comma: bool | None

    def number(self, cell: str) -> Decimal:
        """The number in a cell, with its digits. Raises ValueError with what is wrong with it."""
        plain = _without_suffix(cell)
        grouped = re.fullmatch(rf"[+-]?\d{{1,3}}(?:{_SPACES}\d{{3}})+(?:[.,]\d+)?", plain)
        text = re.sub(_SPACES, "", plain) if grouped else plain
        if "," in text and "." in text:
            mark = "," if text.rfind(",") > text.rfind(".") else "."
            text = text.replace("." if mark == "," else ",", "").replace(mark, ".")
        elif "," in text:
            text = self._comma(text, cell)
        elif text.count(".") > 1 and re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+", text):
            text = text.replace(".", "")
        if not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?", text):
            raise ValueError(f"{cell} is not a number. Write one, such as 12.30")
        return Decimal(text)

    def _comma(self, text: str, cell: str) -> str:
        if not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text):
            return text.replace(",", ".")
        if text.count(",") > 1 or self.decimal_comma is False:
            return text.replace(",", "")
        if self.decimal_comma:
            return text.replace(",", ".")
        raise ValueError(f"{cell} may be {text.replace(',', '.')} or {text.replace(',', '')}: write it without a comma")


def unit_behind(cell: str) -> str:
    """The unit behind a number, in small letters; nothing where there is none."""
    match = re.fullmatch(rf".*\d\s*({_UNITS})", cell.strip().lower())
    return match.group(1) if match else ""


def style_of(cells: Iterable[str]) -> Style:
    """How the numbers of a table are written. Where commas are both, each number has to show what its own is."""
    plain = [_without_suffix(cell) for cell in cells if not is_missing(cell)]
    commas = any(re.fullmatch(r"[+-]?\d+,(\d{1,2}|\d{4,})", text) or re.search(r"\.\d{3},\d", text) for text in plain)
    points = any(re.fullmatch(r"[+-]?\d+\.\d+", text) or re.search(r",\d{3}\.\d", text) for text in plain)
    return Style(None if commas == points else commas)


def _without_suffix(cell: str) -> str:
    text = re.sub(_BEHIND, "", cell.strip().replace("−", "-").lower()).strip()
    match = re.fullmatch(rf"(.*?\d){_SUFFIX}", text)
    return (match.group(1) if match else text).strip()
