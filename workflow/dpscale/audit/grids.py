"""From a file to grids of text and the lines of prose around them. Nothing here knows what a grid means.

CSV, Excel, LaTeX, tables drawn with characters, and HTML; Markdown and notebooks become HTML first. A cell that spans
several rows or columns stands in each of them. Sizes are bounded, and the work is linear in them.
"""

import csv
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from dpscale.errors import PublishedError
from dpscale.regular_files import read_bytes
from dpscale.vocabulary import own_yaml

WORDS = own_yaml(__file__, "words.yaml")

_MARKDOWN, _NOTEBOOK, _EXCEL, _HTML = (".md", ".markdown"), (".ipynb",), (".xlsx", ".xlsm"), (".html", ".htm")
SUFFIXES = (".csv", ".tsv", ".txt", ".rst", *_MARKDOWN, *_NOTEBOOK, ".tex", *_HTML, *_EXCEL)

# A table of results has hundreds of rows. A history or a log, which is taken for one, has a million.
_MOST_ROWS, _MOST_COLUMNS, _MOST_GRIDS, _MOST_CELLS_OF_ALL = 2_000, 60, 200, 20_000
_MOST_OF_CELL, _MOST_OF_CAPTION = 300, 1_000  # characters
_MOST_BYTES = {**dict.fromkeys(_MARKDOWN, 500_000), **dict.fromkeys(_NOTEBOOK, 50_000_000)}
_MOST_BYTES_OF_OTHERS, _MOST_CHARACTERS, _MOST_UNZIPPED = 5_000_000, 20_000, 30_000_000
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"

_Rows = Iterable[Sequence[str]]
_Reader = Callable[[str, "Document"], object]


@dataclass(frozen=True)
class Grid:
    """Rows of cells, all equally long, and the line that stands before them."""

    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass
class Document:
    """A file's checksum, its lines outside of tables, its grids, and what of it could not be read."""

    sha256: str
    lines: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, rows: _Rows) -> None:
        """Add a grid: without its empty rows and columns. More of them than a table has are left out. What stands
        beside it is a grid of its own: behind an empty column it begins with the same text."""
        filled = islice((row for row in rows if any(map(str.strip, row))), _MOST_ROWS)
        # Every cell in a line of its own, with no more of it than a figure or a head has.
        kept = [[" ".join(cell.split())[:_MOST_OF_CELL] for cell in row[:_MOST_COLUMNS]] for row in filled]
        width = max((at + 1 for row in kept for at, cell in enumerate(row) if cell), default=0)
        kept = [[*row[:width], *[""] * (width - len(row))] for row in kept]
        for at in range(1, width - 1):
            is_again = [
                row[at + 1] == next(filter(None, row), "") for row in kept if re.search(r"[^\W\d_]", row[at + 1])
            ]
            if any(is_again) and not any(row[at] for row in kept):
                self.add(row[:at] for row in kept)
                self.add(row[at + 1 :] for row in kept)
                return
        # A text alone is the name of what is below it.
        first = next((at for at, row in enumerate(kept) if sum(map(bool, row)) > 1), 0)
        self.lines += [text for row in kept[:first] for text in row if text]
        kept = kept[first:]
        room = _MOST_CELLS_OF_ALL - sum(len(grid.rows) * len(grid.rows[0]) for grid in self.grids)
        if 0 < width <= room and len(self.grids) < _MOST_GRIDS:
            last = next((line for line in reversed(self.lines) if line.strip()), "")
            self.grids.append(Grid(kept[: room // width], last[:_MOST_OF_CAPTION]))

    def add_blocks(self, rows: _Rows) -> None:
        """Add the tables among rows, which empty rows separate. What goes on with numbers alone is the same table."""
        block: list[Sequence[str]] = []
        is_ended = False
        for row in rows:
            texts = [cell.strip() for cell in row if cell.strip()]
            if texts:
                if is_ended and not all(re.match(r"[\d.,~x×-]", text) for text in texts):
                    self.add(block)
                    block = []
                block.append(row)
            is_ended = not texts
        self.add(block)


def read_document(path: Path) -> Document:
    """Return the grids and lines of a file. Raises PublishedError where it cannot be read."""
    suffix = path.suffix.lower()
    try:
        content = read_bytes(path, _MOST_BYTES.get(suffix, _MOST_BYTES_OF_OTHERS))
    except OSError as error:
        raise PublishedError(f"{path}: cannot be read: {error.strerror}") from error
    document = Document(hashlib.sha256(content).hexdigest())
    if suffix in _EXCEL:
        _excel(path, content, document)
    else:
        _text(path, suffix, _decoded(path, content), document)
    return document


def _decoded(path: Path, content: bytes) -> str:
    """Return a file as text: UTF-8, UTF-16 with its mark, or what spreadsheets of the West write."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace")
    if b"\0" in content:
        raise PublishedError(f"{path}: is no text. Save the table as CSV in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _text(path: Path, suffix: str, text: str, document: Document) -> None:
    if suffix in _NOTEBOOK:
        _notebook(path, text, document)
    elif suffix in _HTML:
        _html(text, document)
    elif any(len(line) > _MOST_CHARACTERS for line in text.splitlines()):
        raise PublishedError(f"{path}: holds a line that no table has")
    elif suffix == ".tex" or r"\begin{tabular" in text:
        _latex(text, document)
    elif suffix in _MARKDOWN or re.search(r"^\s*\|?\s*:?-+:?\s*\|[\s|:-]*$", text, re.MULTILINE):
        _markdown(text, document)
    elif suffix in (".csv", ".tsv") or not _drawn(text, document):
        _csv(path, text, document)


def _csv(path: Path, text: str, document: Document) -> None:
    """Add the tables of a CSV file. Its remarks begin with `#`, `//` or `%`."""
    plain: list[str] = []
    for line in text.splitlines(keepends=True):
        is_remark = re.match(r"\s*(//|%|#(?!\w+[;,\t]|\w[\w ]*,.*,))", line)
        (document.lines if is_remark else plain).append(line)
    delimiter = next((mark for mark in ";\t" if 2 * sum(mark in line for line in plain) > len(plain)), ",")
    try:
        rows = [*csv.reader(plain, delimiter=delimiter)]
    except csv.Error as error:
        raise PublishedError(f"{path}: is no CSV: {error}") from error
    if len(rows) > 1 and len(rows[0]) > max(map(len, rows[1:])):
        # A comma within brackets of a head separates nothing.
        rows[0] = re.split(r",(?![^(]*\))", ",".join(rows[0]))
    document.add_blocks(rows)


def _markdown(text: str, document: Document) -> None:
    from markdown_it import MarkdownIt

    # What goes on behind an empty line, without a head of its own, is the same table; and one may begin below any text.
    is_rule = r"[ \t]*\|?[ \t:|-]*-[ \t:|-]*$"
    text = re.sub(rf"(?m)(^[ \t]*\|.*\n)(?:[ \t]*\n)+(?=[ \t]*\|.*\n(?!{is_rule}))", r"\1", text)
    text = re.sub(rf"(?m)^(?=[ \t]*\|.*\n{is_rule})", "\n", text)
    # In a table without a frame, a bar in front has an empty cell before it.
    frameless = r"^(?!\s*\|)[^\n]*\|[^\n]*\n[\s:|-]*-[\s:|-]*\n(?:[^\n]*\|[^\n]*(?:\n|\Z))+"
    text = re.sub(frameless, lambda table: re.sub(r"(?m)^\s*\|", "| |", table[0]), text, flags=re.MULTILINE)
    _html(MarkdownIt("commonmark", {"html": True}).enable("table").render(text), document)


def _notebook(path: Path, text: str, document: Document) -> None:
    """Add what the cells of a notebook say and show: Markdown, and outputs as HTML or text."""
    budget = _MOST_BYTES[".md"]
    try:
        for cell in json.loads(text)["cells"]:
            shown: list[tuple[_Reader, Iterable[str]]] = []
            if cell["cell_type"] == "markdown":
                shown.append((_markdown, cell["source"]))
            for output in cell.get("outputs", ()):
                data = {"text/plain": output.get("text", ""), **output.get("data", {})}
                shown.append((_html, data["text/html"]) if "text/html" in data else (_drawn, data["text/plain"]))
            for read, source in shown:
                words = "".join(source)[:budget]
                read(words, document)
                budget -= len(words)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PublishedError(f"{path}: is no notebook") from error


def _html(text: str, document: Document) -> None:
    """Add the tables of a page that hold no other, and the text between them in its order. Footnotes are no digits, and
    words above the line are none."""
    from lxml import etree, html

    page = html.fromstring(text.encode() or b"-", parser=html.HTMLParser(encoding="utf-8"))
    for above in page.iter("sup"):
        above.tag = "span" if re.search("[a-z]{3}", above.text_content()) else "script"
    etree.strip_elements(page, "script", "style", with_tail=False)
    blocks = ("p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "caption", "figcaption", "dt", "dd", "summary")
    for element in page.iter("table", "pre", *blocks):
        if element.tag == "table":
            if element.find(".//table") is None:
                document.lines += [caption.text_content() for caption in element.iter("caption")]
                document.add(_spread(element))
        elif element.tag == "pre":
            _drawn(element.text_content(), document)
        elif element.find(".//table") is None and next(element.iterancestors("table"), None) is None:
            text = element.text_content()
            if len(re.findall(r"(?m)^.*\|.*\|", text)) > 1:
                _drawn(text, document)
            else:
                document.lines += text.splitlines()


def _spread(table: Any) -> Iterator[list[str]]:
    """The rows of a table; a cell that spans several rows or columns stands in each of them."""
    below: dict[int, tuple[str, int]] = {}
    for row in table.iter("tr"):
        cells, sources = list[str](), row.iter("th", "td")
        while len(cells) < _MOST_COLUMNS:
            width = 1
            if len(cells) in below:
                text, height = below.pop(len(cells))
            elif (cell := next(sources, None)) is not None:
                for line_break in cell.iter("br"):
                    line_break.tail = f" {line_break.tail or ''}"
                text = cell.text_content()
                spans = [re.fullmatch(r"\s*(\d{1,4})\s*", cell.get(name, "")) for name in ("colspan", "rowspan")]
                width, height = (min(_MOST_COLUMNS, int(span.group(1) if span else 1)) or 1 for span in spans)
            else:
                break
            if height > 1:
                below |= dict.fromkeys(range(len(cells), len(cells) + width), (text, height - 1))
            cells += [text] * width
        yield cells


def _latex(text: str, document: Document) -> None:
    """Add every tabular of a LaTeX file, and its text between them. A remark may say what no table does."""
    document.lines += [_plain(line.lstrip("% ")) for line in text.splitlines() if line.startswith("%")]
    text = re.sub(r"(?<!\\)%.*", "", text)
    # Lines within a cell end as rows do.
    within = rf"\\(?:makecell|shortstack|thead|specialcell)\s*(?:\[[^\]]*\])?({_BRACES})"
    text = re.sub(within, lambda cell: cell[1].replace(r"\\", " "), text)
    end = 0
    for tabular in re.finditer(r"\\begin\{(tabular[*x]?|longtable|tabulary|array)\}(.*?)\\end\{\1\}", text, re.DOTALL):
        document.lines += map(_plain, text[end : tabular.start()].splitlines())
        end = tabular.end()
        body = re.sub(rf"^(\s*(\[[^\]]*\]|{_BRACES}))+", "", tabular.group(2))
        rows = re.split(r"\\\\(?:\s*\[[^\]]*\])?|\\tabularnewline", body)
        document.add([*_latex_cells(row)] for row in rows)
    document.lines += map(_plain, text[end:].splitlines())


def _latex_cells(row: str) -> Iterator[str]:
    rules = r"\\(?:hline|toprule|midrule|bottomrule|addlinespace|c(?:mid)?(?:rule|line)(?:\([^)]*\))?\{[^}]*\})"
    for cell in re.split(r"(?<!\\)&", re.sub(rules, "", row)):
        spans = re.search(r"\\multicolumn\{(\d{1,4})\}", cell)
        pattern = rf"\\multicolumn\{{\d+\}}\s*{_BRACES}|\\multirow(?:\[[^\]]*\])?{_BRACES}\s*(?:{_BRACES}|\*)"
        yield from [_plain(re.sub(pattern, "", cell))] * min(_MOST_COLUMNS, int(spans.group(1)) if spans else 1)


def _plain(cell: str) -> str:
    """Text without LaTeX: what commands are about stays, and so do signs."""
    for pattern, sign in WORDS["latex"]:
        cell = re.sub(pattern, sign, cell)
    return " ".join(cell.split())


def _drawn(text: str, document: Document) -> bool:
    """Add tables that are drawn with characters: bars, rules of dashes, or columns apart by spaces. Returns whether
    there is one."""
    before, block = len(document.grids), list[str]()
    lists = r"\.\. list-table::.*?(?=\n\S|\Z)"
    text = re.sub(lists, lambda rows: re.sub(r"\n\s*- ", " | ", rows[0]).replace("* - ", "| "), text, flags=re.DOTALL)
    for line in [*text.splitlines(), ""]:
        # Trees of folders are none.
        if not re.search("[├└]", line) and (_is_rule(line) or len(_split(line)) > 1):
            block.append(line)
        else:
            document.add(_columns(block))
            document.lines += [*block, line]
            block = []
    return len(document.grids) > before


def _is_rule(line: str) -> bool:
    return bool(re.fullmatch(r"[\s|+=:_─│┼-]+", line) and line.strip())


def _split(line: str) -> list[str]:
    """Return the cells of a line: between bars, tabs, or two spaces at least. `Actual: 1.0 1.95` are numbers with a
    name."""
    if re.search(r"[|│].*[|│]", line):
        return [cell.strip() for cell in re.split(r"[|│]", line.strip().strip("|│"))]
    if named := re.fullmatch(r"\s*(\D+):\s*([\d.]+(?:\s+[\d.]+)+)\s*", line):
        return [named[1], *named[2].split()]
    return re.split(r"\s{2,}|\t", line.strip())


def _columns(block: Sequence[str]) -> list[list[str]]:
    """Return the cells of aligned lines: where a rule has a gap, or all of them one of two spaces, columns end. pandas
    leaves the index without a head."""
    lines = [line for line in block if not _is_rule(line)]
    rows = [_split(line) for line in lines]
    if len(lines) < 2 or any("\t" in line or len(re.findall(r"[|│]", line)) > 1 for line in lines):
        return rows[: len(rows) if len(rows) > 1 else 0]
    width = max(map(len, rows))
    rules = [line for line in block if _is_rule(line) and " " in line.strip()][:1]
    # A head may have a space less between two columns than their figures have.
    for aligned in (rules or lines, lines[1:]):
        solid = [any(line[at : at + 1].strip() for line in aligned) for at in range(max(map(len, lines)) + 1)]
        gap = 1 if rules else 2
        starts = [at for at, is_solid in enumerate(solid) if is_solid and not any(solid[max(0, at - gap) : at])]
        is_cut = any(lines[0][at - 1 : at].strip() for at in starts[1:])
        if len(starts) >= width and not is_cut:
            ends = [*pairwise([0, *starts[1:], None])]
            return [[line[start:end].strip() for start, end in ends] for line in lines]
    return [[""] * (len(rows[0]) < width) + rows[0], *rows[1:]]


def _excel(path: Path, content: bytes, document: Document) -> None:
    """Add every sheet that is not hidden, its numbers with the decimals that it shows."""
    import openpyxl

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_UNZIPPED:
                most = f"{_MOST_UNZIPPED / 1e6:.0f} MB"
                raise PublishedError(f"{path}: is no table of results: it unpacks to more than {most}")
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            for sheet in book.worksheets:
                if sheet.sheet_state != "visible":
                    document.left_out.append(f"The hidden sheet {sheet.title} is left out")
                    continue
                # What the library keeps for itself: the place of a sheet, where its merged cells are written.
                source = archive.read(sheet._worksheet_path.lstrip("/"))
                if re.search(rb"</f>\s*(<v\s*/>|<v></v>)?\s*</c>", source):
                    again = "open it in Excel and save it again"
                    document.left_out.append(f"Formulas of the sheet {sheet.title} have no values: {again}")
                bounded = sheet.iter_rows(max_row=_MOST_ROWS, max_col=_MOST_COLUMNS)
                rows = [[_as_shown(cell) for cell in row] for row in bounded]
                document.lines.append(sheet.title)
                document.add_blocks(rows)
    except PublishedError:
        raise
    except Exception as error:  # what a broken file does to its reader is of many types
        raise PublishedError(f"{path}: is no Excel file, or has a password. Save it as CSV") from error


def _as_shown(cell: Any) -> str:
    value, shown_as = cell.value, str(getattr(cell, "number_format", ""))
    decimals = re.fullmatch(r"#?,?#*0(?:\.(0+))?(%?)", shown_as)
    if not isinstance(value, int | float) or not decimals:
        return "" if value is None else str(value)
    sign = decimals.group(2)
    return f"{value * (100 if sign else 1):.{len(decimals.group(1) or '')}f}{sign}"
