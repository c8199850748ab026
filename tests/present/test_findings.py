"""Every finding, with data that make it true and data that make it false."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import pytest
from page_tables import (
    GPU,
    around,
    bare_page,
    communication_row,
    empty,
    h200,
    key,
    place,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.present.findings import scaling
from dpscale.present.findings.findings import findings
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


class Case(NamedTuple):
    """A finding, the table that it is given, data that make it true, what it then says, and data that make it false."""

    finding: Callable[[Any, Terms], str]
    table: str
    true: Tables
    parts: list[str]
    false: Tables


def said(case: Case, given: Tables) -> str:
    """Nothing where it finds nothing."""
    return case.finding(getattr(given, case.table), GPU)


def speedups(*rows: dict[str, Any]) -> Tables:
    return tables(speedup=list(rows))


SLOW, FAST = speedup_row(0.58, 7.74, **place()), speedup_row(3.04, 2.30, **place(batch=512))
WITHOUT_INTERVAL = {**SLOW, "speedup_low": None, "speedup_high": None}


def estimated(batch: int, **ms: float) -> dict[str, Any]:
    """A row of communication.csv with some estimates of a step, in ms, known to 1 %."""
    row: dict[str, Any] = {
        **key(**place(batch=batch)), "status": "ok", "step_s": 6.6e-3, "profiler": "ok", "full_steps_per_epoch": 24,
    }  # fmt: skip
    for name, value in ms.items():
        row |= around(name, value * 1e-3)
    return row


def at_batches(*epochs: tuple[int, float]) -> Tables:
    return tables(times=[times_row(epoch_s, 0.001, **place("single", 1, batch)) for batch, epoch_s in epochs])


def with_loaders(of_ddp: int, of_dp: int) -> Tables:
    """Both strategies on four GPUs with loading, and their loader processes."""
    return tables(times=[
        {**times_row(epoch_s, **place(name, scope="end_to_end")), "loader_processes": loaders}
        for name, epoch_s, loaders in (("ddp", 3.0, of_ddp), ("dp", 5.0, of_dp))
    ])  # fmt: skip


STRONG, STRONG_LOADED = (
    speedup_row(speedup, 2.16, **place(batch=512, scaling="strong", scope=scope))
    for speedup, scope in ((3.65, "compute"), (2.0, "end_to_end"))
)
CASES = [
    Case(
        scaling.more_devices_slower,
        "speedup",
        speedups(SLOW, FAST, speedup_row(0.4, 7.74, 2.0, **place("dp")), {**WITHOUT_INTERVAL, "batch_per_gpu": 64}),
        [
            "Of 4 comparisons, more GPUs are surely slower than 1 GPU in 1, probably slower in 2 and surely faster in "
            "1.",
            "Surely slowest is ddp on 4 GPUs at batch 32 per GPU: 0.58",
        ],
        speedups(FAST, WITHOUT_INTERVAL),
    ),
    Case(
        scaling.more_devices_slower,
        "speedup",
        speedups(SLOW),
        ["Of 1 comparison, more GPUs are surely slower than 1 GPU in 1. Surely slowest is"],
        speedups(FAST),
    ),
    Case(
        scaling.strategies_compared,
        "strategy_pairs",
        tables(
            times=[
                times_row(1.0, **place(batch=128)),
                times_row(5.0, **place("dp", batch=128)),
                times_row(1.09, **place(gpus=2)),
                times_row(1.10, **place("dp", 2)),
                times_row(1.11, **place(gpus=2, batch=128)),
                times_row(1.10, **place("dp", 2, batch=128)),
            ]
        ),
        ["ddp is surely faster than dp in 1 of 3 comparisons and probably in 1 more, most on 4 GPUs"],
        tables(times=[times_row(1.09, **place(gpus=2)), times_row(1.10, **place("dp", 2))]),
    ),
    Case(
        scaling.strategies_compared,
        "strategy_pairs",
        # The larger difference in seconds is the smaller ratio.
        tables(
            times=[
                times_row(20.0, **place(gpus=2)),
                times_row(40.0, **place("dp", 2)),
                times_row(1.0, **place(batch=128)),
                times_row(5.0, **place("dp", batch=128)),
            ]
        ),
        [
            "ddp is surely faster than dp in 2 of 2 comparisons, most on 4 GPUs at batch 128 per GPU: 5.00× as fast, "
            "1.00 and 5.00 s per epoch."
        ],
        tables(times=[times_row(1.09, **place(gpus=2)), times_row(1.10, **place("dp", 2))]),
    ),
    Case(
        scaling.loaders_compared,
        "times",
        with_loaders(8, 2),
        ["loader processes are different: dp on 4 GPUs 2, ddp on 4 GPUs 8. Speedups and times with loading"],
        with_loaders(2, 2),
    ),
    Case(
        scaling.strong_scaling,
        "speedup",
        speedups(STRONG),
        ["global batch held at 2,048", "4 GPUs with ddp are 3.65 [3.61, 3.69] times as fast as 1."],
        speedups(FAST),
    ),
    Case(
        scaling.strong_scaling,
        "speedup",
        speedups(STRONG, STRONG_LOADED),
        ["4 GPUs with ddp are 3.65 [3.61, 3.69] times as fast as 1; with data loading, 2.00 [1.98, 2.02] times."],
        speedups(FAST),
    ),
    Case(
        scaling.strong_scaling,
        "speedup",
        speedups(STRONG_LOADED),
        ["4 GPUs with ddp are 2.00 [1.98, 2.02] times as fast as 1, data loading counted."],
        speedups(FAST),
    ),
    Case(
        scaling.largest_communication_share,
        "communication",
        tables(
            communication=[
                communication_row(13.3, 7.74, **place("dp")),
                communication_row(0.55, 2.16, spread=2, **place()),
            ]
        ),
        [
            "surely above zero in 1 of 2 configurations and probably in 1 more. Of the sure ones it takes most with ",
            "dp on 4 GPUs at batch 32 per GPU: 85.5 % of the epoch",
        ],
        tables(communication=[communication_row(0.55, 2.16, spread=2, **place())]),
    ),
    Case(
        scaling.profiler_left_out,
        "communication",
        tables(communication=[estimated(32), {**estimated(128), "profiler": "distorts"}]),
        ["Left out: 1 of 2 configurations."],
        tables(communication=[estimated(32)]),
    ),
    Case(
        scaling.batch_that_is_enough,
        "times",
        at_batches((32, 8.0), (128, 2.02), (512, 2.0)),
        [
            "With single on 1 GPU, batch 128 is surely within 2 % of the best throughput: 99.0",
            "of that at 512, with 3.33 GB of memory, not 8.82 GB.",
        ],
        at_batches((128, 2.02)),
    ),
    Case(
        scaling.batch_that_is_enough,
        "times",
        at_batches((32, 8.0), (128, 2.0), (512, 1.96)),
        ["With single on 1 GPU, no batch but 512 is surely within 2 % of the best throughput."],
        at_batches(),
    ),
    # An epoch at batch 8,192 has 6 full steps.
    Case(
        scaling.batch_that_is_enough,
        "times",
        at_batches((32, 8.0), (128, 2.0), (8192, 1.0)),
        ["With single on 1 GPU, no batch but 128 is surely within 2 % of the best throughput."],
        at_batches((8192, 1.0), (16384, 2.0)),
    ),
]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.finding.__name__)


@by_case
def test_finding_speaks_only_where_it_is_true(case: Case) -> None:
    assert [part for part in case.parts if part not in said(case, case.true)] == []
    assert said(case, case.false) == ""


def test_every_finding_has_a_case() -> None:
    own = {value for value in vars(scaling).values() if getattr(value, "__module__", "") == scaling.__name__}
    assert own == {case.finding for case in CASES}


def test_empty_tables_support_no_finding_and_reference_figures_most() -> None:
    assert not any(findings(empty(), GPU).values())
    assert len(list(chain(*findings(h200(), GPU).values()))) >= 4


def with_all(data: Tables, **values: Any) -> Tables:
    """With these values in every row that has such fields."""
    return Tables(**{
        name: [replace(row, **{key: entry for key, entry in values.items() if hasattr(row, key)}) for row in rows]
        for name, rows in vars(data).items()
    })  # fmt: skip


@by_case
def test_epochs_of_few_steps_are_no_headline(case: Case) -> None:
    """What the profiler distorts is left out whatever an epoch has."""
    if case.finding is not scaling.profiler_left_out:
        assert said(case, with_all(case.true, is_headline=False)) == ""


def test_intervals_are_counted_once_and_said_on_the_page() -> None:
    page = render(study(), speedups(SLOW, FAST))
    assert "Findings are chosen from 2 intervals of 95 %. Of 100 such intervals, 5 miss" in page
    assert "would miss" not in bare_page()
