"""A table to hand in, as text: to read on the page, and to copy as Markdown, LaTeX and CSV."""

import csv
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from dpscale.present.text.numbers import ABSENT, MINUS
from dpscale.present.text.words import capitalised

# Of a figure of which no more is known.
AT_LEAST = "≥"
_MARKDOWN_SPECIAL = re.compile(r"([\\|*_`<>~])")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", ABSENT: "--", MINUS: "$-$", "×": r"$\times$",
    "·": r"$\cdot$", AT_LEAST: r"$\geq$", "⁹": "$^9$",
}  # fmt: skip
# LaTeX numbers its tables itself.
_NUMBER = re.compile(r"^Table \d+: ")
# Where a cell goes on in a second line: at its interval or range.
_SECOND_LINE = re.compile(r" (?=[\[(])")
# Of LaTeX's article in its default size, and of 7 pt letters in it: widths in pt, rather too large than too small.
_TEXT_WIDTH, _AROUND_COLUMN = 345.0, 6.0
_NARROW, _LETTER, _CAPITAL = 2.6, 4.0, 5.6
_HEADING_CHARACTERS = 12


@dataclass(frozen=True)
class RowGroup:
    """Rows of a table that belong together, such as those of a strategy."""

    name: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Sheet:
    """A table of text: all rows have as many cells as there are columns.

    The caption gives definitions and units. `note` stands in copies alone: on the page it would be said once a table.
    `explanations` are sentences that stand below the table on the page. `grouped_by` heads the groups' names.
    """

    id: str
    title: str
    caption: str
    columns: Sequence[str] = ()
    groups: Sequence[RowGroup] = ()
    note: str = ""
    explanations: Sequence[str] = ()
    grouped_by: str = "Strategy"

    @property
    def rows(self) -> list[Sequence[str]]:
        """The rows of all groups, each below the name of its group."""
        return [[group.name, *row] for group in self.groups for row in group.rows]

    @property
    def headings(self) -> list[str]:
        return [self.grouped_by, *self.columns]

    @property
    def whole_caption(self) -> str:
        """What a copy has to say by itself, away from the page."""
        return _one_line(f"{self.title}. {self.caption} {self.note}")

    @property
    def copies(self) -> list[tuple[str, str]]:
        """Names of the forms, and the table in each."""
        return [("Markdown", self.markdown), ("LaTeX", self.latex), ("CSV", self.csv)]

    @property
    def csv_link(self) -> str:
        return f"data:text/csv;charset=utf-8,{quote(self.csv)}"

    @property
    def csv(self) -> str:
        """Below a line that starts with `#`, which is the caption."""
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerows([self.headings, *self.rows])
        return f"# {self.whole_caption}\n{written.getvalue()}"

    @property
    def markdown(self) -> str:
        """A table as GitHub's Markdown has it, below its caption."""
        ruler = [":---", ":---", *("---:" for _ in self.columns[1:])]
        lines = [_markdown_row(self.headings), f"| {' | '.join(ruler)} |", *map(_markdown_row, self.rows)]
        return f"{_markdown(self.whole_caption)}\n\n" + "\n".join(lines) + "\n"

    @property
    def latex(self) -> str:
        """A table that needs no package and is no wider than the text of an article: of many columns, it is several
        below each other."""
        return "\n".join([
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(capitalised(_NUMBER.sub('', self.whole_caption)))}}}",
            r"\medskip\scriptsize",
            r"\setlength{\tabcolsep}{3pt}",
            r"\par\medskip".join(f"\n{self._tabular(columns)}\n" for columns in self._fitting()).strip(),
            r"\end{table}",
            "",
        ])  # fmt: skip

    def _fitting(self) -> Iterator[list[int]]:
        """The columns beside each other that have room, each time after the first one."""
        room = _TEXT_WIDTH - self._width(0)
        fitting: list[int] = []
        left = room
        for place in range(1, len(self.columns)):
            if fitting and self._width(place) > left:
                yield [0, *fitting]
                fitting, left = [], room
            fitting.append(place)
            left -= self._width(place)
        yield [0, *fitting]

    def _width(self, place: int) -> float:
        lines = [*_heading_lines(self.columns[place])]
        for group in self.groups:
            for row in group.rows:
                lines += _SECOND_LINE.split(row[place])
        return _AROUND_COLUMN + max(sum(map(_character_width, line)) for line in lines)

    def _tabular(self, places: Sequence[int]) -> str:
        heading = _below_each_other([_heading_lines(self.columns[place]) for place in places], at_the_end=True)
        lines = [rf"\begin{{tabular}}{{l{''.join('r' for _ in places[1:])}}}", r"\hline", *heading, r"\hline"]
        for group in self.groups:
            lines.append(rf"\multicolumn{{{len(places)}}}{{l}}{{\textit{{{_latex(group.name)}}}}} \\")
            for row in group.rows:
                lines += _below_each_other([_SECOND_LINE.split(row[place], maxsplit=1) for place in places])
        return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def _heading_lines(heading: str) -> list[str]:
    """`4 GPUs:` above `speedup, ×`."""
    first, colon, rest = heading.partition(": ")
    parts = (f"{first}{colon}".strip(), rest)
    return [line for part in parts for line in textwrap.wrap(part, _HEADING_CHARACTERS, break_long_words=False)]


def _below_each_other(cells: Sequence[Sequence[str]], at_the_end: bool = False) -> list[str]:
    """As many rows of LaTeX as the cell with the most lines has; shorter ones are empty there, or begin later."""
    height = max(map(len, cells))
    padded = [[*([""] * (height - len(cell))), *cell] if at_the_end else [*cell, *([""] * height)] for cell in cells]
    return [_latex_row([cell[line] for cell in padded]) for line in range(height)]


def _character_width(character: str) -> float:
    if character in " .,:;[]()|!'":
        return _NARROW
    return _CAPITAL if character.isupper() or not character.isascii() or character in "%&#@" else _LETTER


def _markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", _one_line(text))


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_markdown, cells))} |"


def _latex(text: str) -> str:
    """Characters that LaTeX has no letter for without a package become a question mark."""
    known = (_LATEX.get(character, character if character.isascii() else "?") for character in _one_line(text))
    return "".join(known)


def _latex_row(cells: Sequence[str]) -> str:
    """After the end of a row, LaTeX would take a bracket or a star at the start of the next one for its distance."""
    row = " & ".join(map(_latex, cells))
    return rf"{'{}' if row.startswith(('[', '*')) else ''}{row} \\"


def _one_line(text: str) -> str:
    return " ".join(text.split())
