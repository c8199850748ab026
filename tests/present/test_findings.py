"""Every finding, with data that make it true and data that make it false."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from page_tables import (
    GPU,
    around,
    bare_page,
    communication_row,
    empty,
    h200,
    held_out_row,
    key,
    place,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.present.findings import scaling
from dpscale.present.findings.finding import Finder
from dpscale.present.findings.findings import SECTIONS, findings
from dpscale.present.findings.forecast import forecast_said
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def said(finding: Finder, given: Tables, terms: Terms = GPU) -> str:
    """Nothing where it finds nothing."""
    return finding(given, terms) or ""


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


def ahead(batch: int, efficiency: float, reason: str = "") -> dict[str, Any]:
    return {
        "environment": "A", "status": "ok", "reason": reason, "gpus": 8, "batch_per_gpu": batch,
        "efficiency": efficiency,
    }  # fmt: skip


def no_forecast(reason: str) -> dict[str, Any]:
    return {"environment": "A", "status": "not available", "reason": reason}


Case = tuple[Finder, Tables, list[str], Tables]
CASES: list[Case] = [
    (
        scaling.more_devices_slower,
        speedups(SLOW, FAST),
        ["slower than 1 in 1 of 2 comparisons", "batch 32 per GPU", "0.58"],
        speedups(FAST, WITHOUT_INTERVAL),
    ),
    (
        scaling.strategies_compared,
        tables(times=[times_row(5.04, **place(gpus=2)), times_row(20.9, **place("dp", 2))]),
        ["ddp is faster than dp in 1 of 1 comparison. The largest difference is 5.04 and 20.9 s per epoch, on 2 GPUs"],
        tables(times=[times_row(1.09, **place(gpus=2)), times_row(1.10, **place("dp", 2))]),
    ),
    (
        scaling.strong_scaling,
        speedups(speedup_row(3.65, 2.16, **place(batch=512, scaling="strong"))),
        ["global batch held at 2,048", "4 GPUs with ddp are 3.65 [3.61, 3.69] times as fast as 1"],
        speedups(FAST),
    ),
    (
        scaling.largest_communication_share,
        tables(communication=[communication_row(13.3, 7.74, **place("dp"))]),
        ["in 1 of 1 configuration", "dp on 4 GPUs at batch 32 per GPU: 85.5 % of the epoch"],
        tables(communication=[communication_row(0.55, 2.16, spread=2, **place())]),
    ),
]


@pytest.mark.parametrize(
    ("errors", "outcome", "expected"),
    [
        (
            {32: (-0.083, -0.087), 512: (0.04, 0.03)},
            [no_forecast("this test does not show that the model helps")],
            "Our forecast of the step on 4 GPUs is at most 8.30 % off. Reusing the step on 2 GPUs is at most 8.70 % "
            "off. There is no forecast for more GPUs: this test does not show that the model helps.",
        ),
        ({}, [no_forecast("its test needs X")], "There is no forecast for more GPUs: its test needs X."),
        ({}, [], "There is no forecast: ddp was not measured on several GPUs."),
        (
            {32: (0.01, -0.1), 512: (-0.02, 0.03)},
            [ahead(batch, 0.9 - 2 / batch, "a scenario on more than one node") for batch in (32, 128, 512)],
            "Our forecast of the step on 4 GPUs is at most 2.00 % off. Reusing the step on 2 GPUs is at most 10.0 % "
            "off. Forecast for 8 GPUs: efficiency 83.8 % at batch 32, 89.6 % at batch 512. A scenario on more than "
            "one node.",
        ),
    ],
)
def test_a_forecast_follows_its_test_or_is_not_made(
    errors: dict[int, tuple[float, float]], outcome: list[dict[str, Any]], expected: str
) -> None:
    rows = [held_out_row(batch, *both) for batch, both in errors.items()]
    assert forecast_said(tables(held_out=rows, forecast=outcome), GPU) == expected


@pytest.mark.parametrize(("predicate", "true", "parts", "false"), CASES, ids=[case[0].__name__ for case in CASES])
def test_finding_speaks_only_where_it_is_true(predicate: Finder, true: Tables, parts: list[str], false: Tables) -> None:
    assert [part for part in parts if part not in said(predicate, true)] == []
    assert said(predicate, false) == ""


def test_every_finding_has_a_case() -> None:
    made = {finder for finders in scaling_sections() for finder in finders}
    assert made == {case[0] for case in CASES}


def scaling_sections() -> list[Sequence[Finder]]:
    return [finders for section, finders in SECTIONS.items() if section != "training"]


def test_empty_tables_support_no_finding_and_reference_figures_most() -> None:
    assert not any(findings(empty(), GPU).values())
    assert len(list(chain(*findings(h200(), GPU).values()))) >= 4


def with_all(data: Tables, **values: Any) -> Tables:
    """With these values in every row that has such fields."""
    return Tables(**{
        name: [replace(row, **{key: entry for key, entry in values.items() if hasattr(row, key)}) for row in rows]
        for name, rows in vars(data).items()
    })  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_epochs_of_few_steps_are_no_headline(case: Case) -> None:
    predicate, true, *_ = case
    assert said(predicate, with_all(true, is_headline=False)) == ""


def test_what_the_profiler_leaves_out_is_counted() -> None:
    rows = [estimated(32), {**estimated(128), "profiler": "distorts"}]
    assert "Left out: 1 of 2 configurations." in scaling.profiler_left_out(tables(communication=rows).communication)
    assert scaling.profiler_left_out(tables(communication=rows[:1]).communication) == ""


def test_intervals_are_counted_once_and_said_on_the_page() -> None:
    page = render(study(), speedups(SLOW, FAST))
    assert "Findings are chosen from 2 intervals of 95 %. Of 100 such intervals, 5 miss" in page
    assert "would miss" not in bare_page()
