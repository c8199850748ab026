"""Numbers that stand side by side on the recorded studies' pages fit each other, by the digits that are printed; and
every number is a cell of a table, to its last digit before it is rounded.

A reader divides and subtracts. What is printed stands for all numbers that are rounded to it: two of them fit where
some number lies in both (`formulas.rounded`). Tables 1 to 3 are those that are handed in: the audit reads them there.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from page_tables import audited

from dpscale.analyse import points
from dpscale.audit.page import render_studies
from dpscale.formulas.rounded import Rounded
from dpscale.tables.column import KIB, MILLISECONDS, PERCENT, PLAIN
from dpscale.tables.tables import TABLES, Tables
from dpscale.vocabulary.states import MARK
from recorded import RECORDED, page_without_charts, recorded_study, recorded_tables, watched

pytestmark = pytest.mark.slow

NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?")
Line = Mapping[str, str]
# Where it stands, what is printed, and what follows from the numbers beside it.
Pair = tuple[str, Rounded, Rounded]


class Page:
    """A page: its text, and the rows of its tables, by the table's id, each by its headings."""

    def __init__(self, html: str):
        document = lxml.html.fromstring(html)
        self.text: str = document.text_content()
        self.tables = {table.get("id") or "": _rows(table) for table in document.iter("table")}


def _rows(table: Any) -> list[Line]:
    headings, *rows = ([cell.text_content() for cell in row.iter("th", "td")] for row in table.iter("tr"))
    return [dict(zip(headings, row, strict=False)) for row in rows]


def number(text: str) -> Rounded | None:
    """Return the first number of a text as it is printed; None where there is none."""
    match = NUMBER.match(text.strip())
    return Rounded.of(Decimal(match[0].replace(",", "").replace("−", "-"))) if match else None


def cell(row: Line, heading: str) -> Rounded | None:
    """Return the number under a heading that begins so."""
    return next((number(text) for name, text in row.items() if name.startswith(heading)), None)


def numbers(row: Line, *headings: str) -> list[Rounded] | None:
    """Return those of several columns, if all are there."""
    values = [value for heading in headings if (value := cell(row, heading)) is not None]
    return values if len(values) == len(headings) else None


def is_marked(row: Line, heading: str) -> bool:
    """Return whether the figure is formed in other runs than the times beside it, as its mark says."""
    return next((MARK in text for name, text in row.items() if name.startswith(heading)), False)


Formula = Callable[..., Rounded]
# Of one row of a table: what is printed under a heading, the headings beside it, and what follows from these.
IN_A_ROW: Mapping[str, tuple[str, Sequence[str], Formula]] = {
    "answer: efficiency": ("Efficiency", ("GPUs", "Speedup"), lambda gpus, speedup: 100 * speedup / gpus.value),
    "speedup: efficiency": ("Efficiency", ("GPUs", "Speedup"), lambda gpus, speedup: 100 * speedup / gpus.value),
    "times: GPU-seconds": ("GPU-seconds", ("GPUs", "Epoch"), lambda gpus, epoch: epoch * gpus.value),
    "communication: its time": ("Communication", ("Epoch", "Compute"), lambda epoch, compute: epoch - compute),
    "communication: its share": ("Share", ("Communication", "Epoch"), lambda time, epoch: 100 * time / epoch),
    "bandwidth": (
        "Bandwidth, GB/s",
        ("Allreduce", "Steps", "Communication"),
        lambda sent, steps, time: sent * (steps.value / 1000) / time,
    ),
    "bandwidth: utilisation": ("Utilisation", ("Bandwidth, GB/s", "Bus"), lambda rate, bus: 100 * rate / bus),
    "causes: share": ("Share", ("Cost", "Whole"), lambda cost, whole: 100 * cost / whole),
}


def in_a_row(page: Page, kind: str) -> Iterator[Pair]:
    heading, headings_beside, formula = IN_A_ROW[kind]
    for row in page.tables.get(f"table-{kind.partition(':')[0]}", []):
        if (printed := cell(row, heading)) and (beside := numbers(row, *headings_beside)):
            yield str(row), printed, formula(*beside)


def answers(page: Page) -> Iterator[Pair]:
    """Yield speedup and price of more devices, beside the epoch of one."""
    one_device, *several = page.tables["table-answer"]
    alone_s = cell(one_device, "Epoch")
    for row in several:
        assert is_marked(row, "Speedup") == is_marked(row, "GPU-seconds")
        printed = numbers(row, "GPUs", "Epoch", "Speedup", "GPU-seconds")
        if alone_s and printed and not is_marked(row, "Speedup"):
            gpus, epoch_s, speedup, price = printed
            yield str(row), speedup, alone_s / epoch_s
            yield str(row), price, epoch_s * gpus.value / alone_s


def variants(page: Page) -> Iterator[Pair]:
    """Yield how many times as fast as base variants are, and speedups over one device with the same variant."""
    names = ("Variant", "Strategy", "Scope", "GPUs", "Batch per GPU, images")
    rows = {tuple(row.get(name, "") for name in names): row for row in page.tables.get("table-variants", [])}
    for (variant, strategy, scope, gpus, batch), row in rows.items():
        base = rows.get(("base", strategy, scope, gpus, batch))
        one_device = rows.get((variant, "single", scope, "1", batch))
        for slower, heading in ((base, "Faster"), (one_device, "Speedup")):
            slower_s, epoch_s, printed = cell(slower or {}, "Epoch time"), cell(row, "Epoch time"), cell(row, heading)
            if slower_s and epoch_s and printed and not is_marked(row, heading):
                yield str(row), printed, slower_s / epoch_s


KINDS: Mapping[str, Callable[[Page], Iterator[Pair]]] = {
    "answer": answers,
    "variants": variants,
    **{kind: partial(in_a_row, kind=kind) for kind in IN_A_ROW},
}


@pytest.fixture(scope="module")
def pages(root: Path) -> Mapping[str, Page]:
    return {results: Page(page_without_charts(root, results)[0]) for results in RECORDED}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_stand_side_by_side_fit(pages: Mapping[str, Page], kind: str) -> None:
    pairs = [(study, *pair) for study, page in pages.items() for pair in KINDS[kind](page)]
    misfits = [
        f"{printed.value:g} is not {follows.value:g} [{follows.low:g}, {follows.high:g}]: {study}, {where}"
        for study, where, printed, follows in pairs
        if not printed.meets(follows)
    ]
    assert misfits == []
    assert len(pairs) >= 5, "so that no kind is silently left out"


# Limits that a sentence names because the code decides by them.
LIMITS = [PERCENT.of(points.DRIFT_TOLERANCE)]


def cells(tables: Tables) -> Iterator[float]:
    """Every number of the tables without its sign, as stored and as its unit is shown."""
    for name, kind in TABLES.items():
        # Figures of published studies are shares that are shown in %.
        shares = (PERCENT,) if name == "audit" else ()
        units = {entry: (PLAIN, column.unit, *shares) for column in kind.columns().values() for entry in column.names}
        units["message_bytes"] = (PLAIN, KIB)
        for row in getattr(tables, name):
            for column, entry in row.flat().items():
                if isinstance(entry, int | float):
                    yield from (abs(float(unit.of(entry))) for unit in units[column])


def allreduces_ms(tables: Tables) -> Iterator[float]:
    """What the hand-in's formula gives with the numbers that it shows: bytes of an allreduce over bus bandwidth."""
    for row in tables.bandwidth:
        if row.allreduce_bytes_per_step:
            yield MILLISECONDS.of(row.allreduce_bytes_per_step / row.bus_bandwidth_gb_s.value / 1e9)


@pytest.mark.parametrize("name", ["recorded", "recorded-two-gpus", "recorded-h200-2"])
def test_every_number_is_a_cell_to_its_last_digit(root: Path, name: str) -> None:
    """The studies have trainings, variants and a ladder."""
    study = recorded_study(root, name)
    tables = audited(root, recorded_tables(root, name))
    _, of_page = page_without_charts(root, name)
    with watched() as of_others:
        render_studies(study.values, tables, "page.html")
    of_study = {float(study["dataset"]["images"]), PERCENT.of(study["training"]["target_accuracy"])}
    in_tables = {*cells(tables), *LIMITS, *of_study, *allreduces_ms(tables)}
    assert len(of_page) > 800
    assert sorted({*of_page, *of_others} - in_tables) == []
