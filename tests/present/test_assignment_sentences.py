"""What explains the tables to hand in: sentences, and rows that make them false or other.

`test_sentences` has the words.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, h200, tables

from dpscale.analyse.answer.claims import counts_rows
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.handin_assignment import AssignmentRows, of_bandwidth, of_communication, of_speedup
from dpscale.present.handin_questions import sections
from dpscale.tables.tables import Tables
from rows import changed, picked

FIRST: Mapping[str, Any] = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 32}
LAST: Mapping[str, Any] = {**FIRST, "batch_per_gpu": 512}
WEAK: Mapping[str, Any] = {"scaling": "weak", "scope": "compute"}


def sure(value: float) -> Figure:
    return Figure.of(value, 0.99 * value, 1.01 * value)


def speedups(at_32: Figure, at_512: Figure) -> Tables:
    rows = changed(h200().speedup, {**WEAK, **FIRST}, speedup=at_32)
    return replace(h200(), speedup=changed(rows, {**WEAK, **LAST}, speedup=at_512))


def communicating(where: Mapping[str, Any], **values: Any) -> Tables:
    return replace(DATA, communication=changed(DATA.communication, where, **values))


def of_links(bus_gb_s: float) -> Tables:
    """Return a bandwidth of 5 GB/s everywhere."""
    rows = changed(DATA.bandwidth, {}, status="ok", bandwidth_gb_s=sure(5.0), bus_bandwidth_gb_s=Figure(bus_gb_s))
    return replace(DATA, bandwidth=rows)


# Two batches of which it is known well how fast they are.
DATA = speedups(sure(3.07), sure(3.86))
LONGER = {"communication_step_s": sure(0.002), "isolated_step_s": Figure(0.0003)}
AT_512 = replace(DATA, speedup=picked(DATA.speedup, scope="compute", batch_per_gpu=512))


# By table and paragraph: how it reads, as a pattern; `^$` where nothing is said.
@pytest.mark.parametrize(
    ("table", "data", "kind", "pattern"),
    [
        (1, DATA, "Trend", r"ddp on 4 GPUs rises from 3\.07 at batch 32 to 3\.86 at batch 512"),
        (1, speedups(sure(5.0), sure(3.86)), "Trend", r"falls from 5\.00 at batch 32 to 3\.86"),
        (1, speedups(sure(3.07), Figure.of(1.5, 1, 4)), "Trend", r"No change .* is sure: .* is 3\.07 .* and 1\.50 "),
        (1, speedups(sure(3.07), Figure(1.5, kind="one run")), "Trend", r"No change .* is sure: .* is 3.07 "),
        (1, AT_512, "Trend", "^$"),
        (1, communicating(LAST, communication_share=0.9), "Cause", r"^At batch 32: on 4 GPUs, a step takes"),
        (1, speedups(sure(3.07), Figure.of(3.86, 2.0, 6.0)), "Cause", "^At batch 32"),
        (1, replace(AT_512, causes=[]), "Cause", "^$"),
        (2, communicating(FIRST, **LONGER), "Cause", r"takes 2\.000 ms .* alone take 0\.300 ms\."),
        (2, communicating(FIRST, isolated_step_s=UNKNOWN), "Cause", "^$"),
        (3, of_links(301.8), "Cause", r"of 301\.8 GB/s.*more than transfers"),
        (3, of_links(1.0), "Cause", "^$"),
        *((table, tables(), "Formula", "^$") for table in (1, 2, 3)),
    ],
)  # fmt: skip
def test_a_paragraph_follows_from_the_rows(table: int, data: Tables, kind: str, pattern: str) -> None:
    rows = AssignmentRows.of(data)
    paragraphs = of_speedup(rows, "compute", GPU), of_communication(rows, GPU), of_bandwidth(rows.bandwidth, GPU)
    assert re.search(pattern, " ".join(paragraphs[table - 1].get(kind, [])))


ABOVE, BELOW, BETWEEN = (Figure(value, value - 1, value + 1, "two runs") for value in (10.0, 5.0, 8.5))
ONE_RUN = Figure(10.0, kind="one run")
IN_ALL_RUNS = "in all runs, too few for an interval"


@pytest.mark.parametrize(
    ("epochs", "said", "claim"),
    [
        ([sure(10.0), sure(5.0)], "falls from 10", "falls with the batch"),
        ([sure(5.0), sure(10.0)], "rises from 5", "rises with the batch"),
        ([sure(5.0), sure(5.01)], "shows no sure change: it is 5", "is level with the batch"),
        ([ABOVE, BELOW], f"falls {IN_ALL_RUNS}, from 10", f"falls with the batch {IN_ALL_RUNS}"),
        ([BELOW, ABOVE], f"rises {IN_ALL_RUNS}, from 5", f"rises with the batch {IN_ALL_RUNS}"),
        ([ABOVE, BETWEEN], "has no interval, so no change is sure: it is 10", None),
        ([ONE_RUN, BELOW], "has no interval, so no change is sure: it is 10", None),
    ],
)
def test_how_an_epoch_goes_with_the_batch_is_a_claim(epochs: list[Figure], said: str, claim: str | None) -> None:
    first, *_, last = picked(h200().times, strategy="single", scope="compute", is_headline=True)
    timed = [replace(row, epoch_s=epoch_s) for row, epoch_s in zip((first, last), epochs, strict=True)]
    data = replace(tables(), times=timed)
    (sweep, *_) = sections(AssignmentRows.of(data), [], data.times, [], GPU)
    assert f"The time of an epoch {said}" in sweep.paragraphs[""][0]
    name = "time of an epoch on one device"
    holding = [row.claim for row in counts_rows(data) if row.claim.startswith(name) and row.number]
    assert holding == ([f"{name} {claim}"] if claim else [])
