"""Every finding, with data that make it true and data that make it false."""

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

import pytest
from page_tables import (
    GPU,
    around,
    bandwidth_row,
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

from dpscale.formulas.figure import Figure
from dpscale.present.findings import communication, scaling
from dpscale.present.findings.finding import Finding
from dpscale.present.findings.findings import findings
from dpscale.present.findings.forecast import forecast_said
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.answer import AnswerRow
from dpscale.tables.tables import Tables

Predicate = Callable[[Tables, Terms], Finding | None]


def said(finding: Predicate, given: Tables, terms: Terms = GPU) -> str:
    """Nothing where it finds nothing."""
    found = finding(given, terms)
    return found.sentence if found else ""


def ddp_against_dp(given: Tables, terms: Terms) -> Finding | None:
    return scaling.strategies_compared(given, terms, "compute")


def ddp_against_dp_with_loading(given: Tables, terms: Terms) -> Finding | None:
    return scaling.strategies_compared(given, terms, "end_to_end")


def speedups(*rows: dict[str, Any]) -> Tables:
    return tables(speedup=list(rows))


def in_both_scopes(*rows: dict[str, Any]) -> Tables:
    """Speedups at batch 512 on 4 devices, and the epoch times that they are of."""
    times = [times_row(row["epoch_s"], **place(batch=512, scope=row["scope"])) for row in rows]
    return tables(times=times, speedup=list(rows))


def with_loading(ddp_s: float, dp_s: float) -> Tables:
    """Epochs of both strategies on 2 devices with the DataLoader in the clock."""
    rows = [
        times_row(ddp_s, **place(gpus=2, scope="end_to_end")),
        times_row(dp_s, **place("dp", 2, scope="end_to_end")),
    ]
    return tables(times=[{**rows[0], "loader_processes": 4}, {**rows[1], "loader_processes": 2}])


SLOW, FAST = speedup_row(0.58, 7.74, **place()), speedup_row(3.04, 2.30, **place(batch=512))
BEST = AnswerRow(**key("ddp", 4, 128), best_batch_per_gpu=128, chosen_from=1, best_speedup=Figure.of(3.0, 2.9, 3.1))
DISAGREEING = {
    **SLOW,
    "speedup_from_steps": 2.0,
    "speedup_from_steps_low": 1.9,
    "speedup_from_steps_high": 2.1,
}
WITHOUT_INTERVAL = {**SLOW, "speedup_low": None, "speedup_high": None}


def estimated(batch: int, **ms: float) -> dict[str, Any]:
    """A row of communication.csv with some estimates of a step, in ms, known to 1 %."""
    row: dict[str, Any] = {
        **key(**place(batch=batch)), "status": "ok", "step_s": 6.6e-3, "profiler": "ok", "full_steps_per_epoch": 24,
    }  # fmt: skip
    for name, value in ms.items():
        row |= around(name, value * 1e-3)
    return row


def whole_step(idle_ms: float, difference: float = 0.001, device: int = 0) -> dict[str, Any]:
    """A row of steps.csv that holds all of a device's step of 10 ms."""
    return {
        **key(**place()), "device": device, "idle_s": idle_ms * 1e-3, "communication_s": 0.5e-3,
        "parts_s": 10e-3, "step_s": 10e-3 / (1 + difference), "profiler": "ok",
    }  # fmt: skip


def ahead(batch: int, efficiency: float, reason: str = "") -> dict[str, Any]:
    return {
        "environment": "A", "status": "ok", "reason": reason, "gpus": 8, "batch_per_gpu": batch,
        "efficiency": efficiency,
    }  # fmt: skip


def no_forecast(reason: str) -> dict[str, Any]:
    return {"environment": "A", "status": "not available", "reason": reason}


AGREEING = estimated(512, ablation_step_s=0.44, profiler_exposed_step_s=0.42)
APART = estimated(2048, ablation_step_s=0.70, profiler_exposed_step_s=0.42)

Case = tuple[Predicate, Tables, list[str], Tables]
CASES: list[Case] = [
    (
        scaling.best_batches,
        replace(tables(), answer=[replace(BEST, chosen_from=2), BEST]),
        ["Best batch per GPU with ddp: 3.00× [2.90, 3.10] on 4 GPUs, at 128.", "allow for the choice"],
        replace(tables(), answer=[BEST]),
    ),
    (
        scaling.more_devices_slower,
        speedups(SLOW, FAST),
        ["slower than 1 in 1 of 2 comparisons", "batch 32 per GPU", "0.58"],
        speedups(FAST, WITHOUT_INTERVAL),
    ),
    (
        ddp_against_dp,
        tables(times=[times_row(5.04, **place(gpus=2)), times_row(20.9, **place("dp", 2))]),
        ["ddp is faster than dp in 1 of 1 comparison. The largest difference is 5.04 and 20.9 s per epoch, on 2 GPUs"],
        tables(times=[times_row(1.09, **place(gpus=2)), times_row(1.10, **place("dp", 2))]),
    ),
    (
        scaling.sharded_for_nothing,
        tables(times=[times_row(5.04, **place(gpus=2)), times_row(20.9, **place("fsdp", 2))]),
        ["Memory is no reason for fsdp in 1 of 1 comparison: ddp fits at batch", "GB, fsdp", "and is faster."],
        tables(times=[times_row(5.04, **place(gpus=2)), times_row(20.9, **place("dp", 2))]),
    ),
    (
        ddp_against_dp_with_loading,
        with_loading(5.04, 20.9),
        ["With data loading, ddp is faster than dp", "5.04 and 20.9 s per epoch", "with 4 and 2 loader processes"],
        with_loading(5.04, 5.05),
    ),
    (
        scaling.loader_hides_speedup,
        in_both_scopes(FAST, speedup_row(1.01, 3.18, **place(batch=512, scope="end_to_end"))),
        ["1 of 1 comparison", "3.04", "1.01×"],
        in_both_scopes(FAST, speedup_row(3.03, 3.18, **place(batch=512, scope="end_to_end"))),
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
    (
        scaling.bandwidth_not_resolvable,
        tables(bandwidth=[bandwidth_row(0.585, **place()), bandwidth_row(0.01, resolvable=False, **place(batch=512))]),
        ["1 of 2 comparisons", "may be zero"],
        tables(bandwidth=[bandwidth_row(0.585, **place())]),
    ),
    (
        scaling.two_ways_disagree,
        speedups(DISAGREEING, FAST),
        ["1 of 2 comparisons", "0.58", "2.0"],
        speedups(SLOW, FAST),
    ),
    (
        scaling.faster_than_ideal,
        speedups(speedup_row(4.4, 2.3, **place())),
        ["1 of 1 comparison", "110", "weak scaling"],
        speedups(speedup_row(4.02, 2.3, **place())),
    ),
    (
        communication.estimates_agree,
        tables(communication=[AGREEING, APART]),
        ["disagree", "1 of 2 configurations", "0.700 ms [0.693, 0.707] and 0.4200 ms", "batch 2,048", "15.0 %"],
        tables(communication=[estimated(128, ablation_step_s=0.44, profiler_exposed_step_s=0.1)]),
    ),
    (
        communication.subtraction_is_not_communication,
        tables(communication=[estimated(32, communication_step_s=22.0, profiler_step_s=0.8)]),
        [
            "in 1 of 1 configuration.",
            "22.00 ms [21.78, 22.22]",
            "0.800 ms",
            "batch 32",
        ],
        tables(communication=[estimated(32, communication_step_s=0.8, profiler_step_s=0.8)]),
    ),
    (
        communication.communication_is_waiting,
        tables(communication=[estimated(32, profiler_step_s=8.9, profiler_least_step_s=0.32, isolated_step_s=0.27)]),
        [
            "1 of 1 configuration",
            "8.90 ms",
            "0.3200 ms",
            "ddp on 4 GPUs at batch 32",
            "the same messages take 0.27",
        ],
        tables(communication=[estimated(512, profiler_step_s=0.50, profiler_least_step_s=0.495)]),
    ),
    (
        communication.parts_make_the_step,
        tables(steps=[whole_step(1.0), whole_step(1.0, -0.05, device=3)]),
        ["parts of 1 of 2 profiled steps differ", "3.00 %", "5.00 %, with ddp on 4 GPUs"],
        tables(steps=[whole_step(1.0)]),
    ),
    (
        communication.profiler_slows,
        tables(communication=[estimated(32, training_step_s=6.6, profiled_step_s=8.25)]),
        ["1 of 1 configuration", "The most is 25.0 %"],
        tables(communication=[estimated(32, training_step_s=6.6, profiled_step_s=6.7)]),
    ),
]


OF_HEADLINES = (
    scaling.more_devices_slower, ddp_against_dp, scaling.strong_scaling, scaling.largest_communication_share,
    scaling.bandwidth_not_resolvable, scaling.two_ways_disagree, scaling.faster_than_ideal,
)  # fmt: skip
OF_PROFILES = (
    communication.subtraction_is_not_communication, communication.communication_is_waiting,
    communication.estimates_agree,
)  # fmt: skip


def test_estimates_that_agree_are_said_to() -> None:
    sentence = said(communication.estimates_agree, tables(communication=[AGREEING]))
    assert "agree on exposed communication in all 1 configuration" in sentence


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
def test_finding_speaks_only_where_it_is_true(
    predicate: Predicate, true: Tables, parts: list[str], false: Tables
) -> None:
    assert [part for part in parts if part not in said(predicate, true)] == []
    assert said(predicate, false) == ""


def test_every_finding_has_a_case() -> None:
    rooms = (scaling, communication)
    made = {name for room in rooms for name, value in vars(room).items() if isinstance(value, FunctionType)
            and value.__module__ == room.__name__ and value.__annotations__["return"] == Finding | None}  # fmt: skip
    assert made - {"strategies_compared"} < {case[0].__name__ for case in CASES}


def test_empty_tables_support_no_finding_and_reference_figures_most() -> None:
    assert findings(empty(), GPU) == []
    assert len(findings(h200(), GPU)) >= 7


def with_all(data: Tables, **values: Any) -> Tables:
    """With these values in every row that has such fields."""
    return Tables(**{
        name: [replace(row, **{key: entry for key, entry in values.items() if hasattr(row, key)}) for row in rows]
        for name, rows in vars(data).items()
    })  # fmt: skip


@pytest.mark.parametrize("case", [case for case in CASES if case[0] in OF_HEADLINES], ids=lambda case: case[0].__name__)
def test_epochs_of_few_steps_are_no_headline(case: Case) -> None:
    predicate, true, *_ = case
    assert said(predicate, with_all(true, is_headline=False)) == ""


@pytest.mark.parametrize("state", ["distorts", ""])
@pytest.mark.parametrize("case", [case for case in CASES if case[0] in OF_PROFILES], ids=lambda case: case[0].__name__)
def test_a_profiler_that_changes_the_step_is_no_witness(case: Case, state: str) -> None:
    predicate, true, *_ = case
    assert said(predicate, with_all(true, profiler=state)) == ""


def test_what_the_profiler_leaves_out_is_counted() -> None:
    rows = [estimated(32), {**estimated(128), "profiler": "distorts"}]
    assert "Left out: 1 of 2 configurations." in communication.profiler_left_out(
        tables(communication=rows).communication
    )
    assert communication.profiler_left_out(tables(communication=rows[:1]).communication) == ""


def test_intervals_are_counted_once_and_said_on_the_page() -> None:
    page = render(study(), speedups(SLOW, FAST))
    # Speedup and speedup from steps, of two rows.
    assert "Findings are chosen from 4 intervals of 95 %. Of 100 such intervals, 5 miss" in page
    assert "would miss" not in bare_page()
