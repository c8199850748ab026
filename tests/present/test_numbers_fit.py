"""Numbers that stand side by side on the recorded studies' pages fit each other, by the digits that are printed.

A reader divides and subtracts. What is printed stands for all numbers that are rounded to it: two of them fit where
some number lies in both (`formulas.rounded`). Every kind of pair is counted, so that none is silently left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from dpscale.formulas.rounded import Rounded
from recorded import recorded_page

pytestmark = pytest.mark.slow

NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?")
Line = Mapping[str, str]
# What is printed, and what follows from the numbers beside it.
Pair = tuple[str, Rounded, Rounded]


class Page(HTMLParser):
    """Rows of a page's tables by the table's id, each with its headings and the strategy above it; and the descriptions
    of its charts."""

    def __init__(self, page: str):
        super().__init__()
        self.tables: dict[str, list[Line]] = {}
        self.descriptions: list[str] = []
        self.text = ""
        self.headings: list[str] = []
        self.group = ""
        self.into: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        if tag == "table":
            self.rows: list[Line] = self.tables.setdefault(of.get("id") or "", [])
            self.headings, self.group, self.into = [], "", None
        elif tag in ("tr", "tbody"):
            self.end_row()
            self.into = []
        elif tag in ("td", "th") and self.into is not None:
            self.into.append("")
            self.is_group = of.get("scope") == "rowgroup"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("thead", "tbody", "table"):
            self.end_row()

    def end_row(self) -> None:
        if self.into and not self.headings:
            self.headings = self.into
        elif self.into and self.is_group:
            self.group = self.into[0]
        elif self.into:
            self.rows.append({"Strategy": self.group, **dict(zip(self.headings, self.into, strict=False))})
        self.into = None

    def handle_data(self, data: str) -> None:
        if self.into:
            self.into[-1] += data
        if self.lasttag == "desc":
            self.descriptions.append(data)


def number(text: str) -> Rounded | None:
    """The first number of a text as it is printed; none where there is none."""
    found = NUMBER.match(text.strip())
    return Rounded.of(Decimal(found[0].replace(",", "").replace("−", "-"))) if found else None


def cell(row: Line, heading: str) -> Rounded | None:
    """The number under a heading that begins so."""
    return next((number(text) for name, text in row.items() if name.startswith(heading)), None)


def numbers(row: Line, *headings: str) -> list[Rounded] | None:
    """Those of several columns, if all are there."""
    found = [value for heading in headings if (value := cell(row, heading)) is not None]
    return found if len(found) == len(headings) else None


def place(row: Line, *names: str) -> tuple[str, ...]:
    return tuple(text for name, text in row.items() if name.startswith(names))


def of_several(row: Line) -> Iterator[tuple[int, str]]:
    """The numbers of devices that a row of the assignment's tables has columns of: `2 GPUs`."""
    for heading in dict.fromkeys(name.partition(":")[0] for name in row):
        if (found := re.fullmatch(r"(\d+) \w+", heading)) and int(found[1]) > 1:
            yield int(found[1]), heading


def speedups_of_table_1(page: Page) -> Iterator[Pair]:
    for row in page.tables["table-1"]:
        for _, devices in of_several(row):
            if found := numbers(row, "1 GPU: time", f"{devices}: time", f"{devices}: speedup"):
                one, more, speedup = found
                yield f"{row} {devices}", speedup, one / more


def communication_of_table_2(page: Page) -> Iterator[Pair]:
    for first, second in zip(page.tables["table-1"], page.tables["table-2"], strict=True):
        for gpus, devices in of_several(second):
            times = numbers(first, "1 GPU: time", f"{devices}: time")
            parts = numbers(second, f"{devices}: computation", f"{devices}: communication")
            if times and parts:
                yield f"{second} {devices}", parts[0], times[0] / gpus
                yield f"{second} {devices}", parts[1], times[1] - parts[0]


def efficiencies(page: Page) -> Iterator[Pair]:
    for row in page.tables["table-speedup"]:
        if found := numbers(row, "GPUs", "Speedup", "Efficiency"):
            gpus, speedup, efficiency = found
            yield str(row), efficiency, 100 * speedup / gpus.value


def throughputs(page: Page) -> Iterator[Pair]:
    """Two configurations of a batch: their throughputs differ as their epochs do."""
    rows = [row for row in page.tables["table-times"] if cell(row, "Epoch time")]
    for one, other in pairwise(rows):
        times, rates = ([cell(row, name) for row in (one, other)] for name in ("Epoch time", "Throughput"))
        assert times[0] and times[1] and rates[0] and rates[1]
        yield f"{one} {other}", rates[1] / rates[0], times[0] / times[1]


def parts_of_ladders(page: Page) -> Iterator[Pair]:
    rows = page.tables.get("table-ladder", [])
    for before, row in pairwise(rows):
        found = numbers(row, "Step", "Difference")
        if found and (step_before := cell(before, "Step")):
            yield str(row), found[1], found[0] - step_before


def shares_of_ladders(page: Page) -> Iterator[Pair]:
    whole: Rounded | None = None
    for row in reversed(page.tables.get("table-ladder", [])):
        whole = cell(row, "Step") if row["Rung"] == "training" else whole
        part, share = cell(row, "Difference") or cell(row, "Step"), cell(row, "Share")
        assert whole and part and share
        yield str(row), share, 100 * part / whole


def stages(description: str) -> list[str]:
    return description.rstrip(".").split("; ")


def step_bars(page: Page) -> Iterator[Pair]:
    """`ddp on 2 GPUs: 11.4 ms, +2.973`: more than the bar of one device."""
    for description in page.descriptions:
        alone, *others = stages(description)
        for stage in others:
            found = re.fullmatch(r".*: (\S+) ms, ([+−]\S+).*", stage)
            if found and alone.startswith("single on 1"):
                one, more, longer = (number(text.strip("+")) for text in (alone.partition(": ")[2], *found.groups()))
                assert one and more and longer
                yield stage, longer, more - one


KINDS: Mapping[str, Callable[[Page], Iterator[Pair]]] = {
    "speedups of Table 1": speedups_of_table_1,
    "parts of Table 2": communication_of_table_2,
    "efficiencies": efficiencies,
    "throughputs": throughputs,
    "differences of rungs": parts_of_ladders,
    "shares of rungs": shares_of_ladders,
    "bars of steps": step_bars,
}
# How many pairs of every kind there are on the page of a study: its results, and its configuration.
COUNTS: Mapping[tuple[str, str], Sequence[int]] = {
    ("recorded", "recorded"): [20, 40, 48, 53, 0, 0, 12],
    ("recorded-h100-2", "recorded-h100-2"): [8, 16, 8, 11, 0, 0, 8],
    ("recorded-h200-2", "recorded-h200-2"): [8, 16, 8, 11, 28, 36, 0],
    ("recorded-h200-4", "recorded-h200-4"): [16, 32, 48, 47, 0, 0, 12],
    ("recorded-gpt", "example-gpt"): [1, 2, 2, 3, 4, 5, 0],
    ("recorded-resnet50", "example-resnet50"): [1, 2, 2, 3, 4, 5, 0],
    ("recorded-wide-mlp", "example-wide-mlp"): [1, 2, 2, 3, 4, 5, 0],
}


@pytest.mark.parametrize(("study", "counts"), COUNTS.items(), ids=[results for results, _ in COUNTS])
def test_numbers_that_stand_side_by_side_fit(root: Path, study: tuple[str, str], counts: Sequence[int]) -> None:
    page = Page(recorded_page(root, *study))
    pairs = {kind: list(of(page)) for kind, of in KINDS.items()}
    apart = [
        f"{kind}: {printed.value:g} is not {follows.value:g} [{follows.low:g}, {follows.high:g}]: {where}"
        for kind, found in pairs.items()
        for where, printed, follows in found
        if not printed.meets(follows)
    ]
    assert (apart, [len(found) for found in pairs.values()]) == ([], counts)
