"""Why a study's devices are not faster: which cause it is, what it costs, and the data with which it is none."""

import math
from dataclasses import replace
from typing import Any

import pytest

from blocks import apart
from dpscale.analyse.causes.study import causes_rows
from dpscale.formulas.figure import Figure
from dpscale.tables.answer import CausesRow
from rows import known, read_tables

BATCH = 32
Rows = list[dict[str, Any]]


def place(strategy: str = "ddp", gpus: int = 4, batch: int = BATCH) -> dict[str, Any]:
    return {
        "strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, "global_batch": gpus * batch, "environment": "A",
        "is_headline": True, "status": "ok",
    }  # fmt: skip


def timed(step_ms: float, scope: str = "compute", spread: float | None = 0.01, **where: Any) -> dict[str, Any]:
    """A row of times.csv: so many ms per step of its own batch."""
    row = {**place(**where), "scope": scope}
    row |= {**known("images_per_s", row["global_batch"] / step_ms * 1e3, spread), "epoch_s": step_ms / 1e3}
    return {**row, "loader_processes": 8}


def loading(times: Rows) -> Rows:
    """The rows of scopes.csv, with what runs differ by as if all of it were loading's: epochs have a step each."""
    rows = []
    for longer in (row for row in times if row["scope"] == "end_to_end"):
        found = {name: longer[name] for name in place() if name in longer}
        same = ("strategy", "gpus", "batch_per_gpu")
        for row in (row for row in times if row["scope"] == "compute" and all(row[n] == longer[n] for n in same)):
            ratio, more_s = longer["epoch_s"] / row["epoch_s"], longer["epoch_s"] - row["epoch_s"]
            spread = row["images_per_s_high"] and row["images_per_s_high"] / row["images_per_s"] - 1
            wide = spread and spread * longer["epoch_s"] / more_s
            rows.append({**found, **known("loading_ratio", ratio, spread), **known("loader_s", more_s, wide)})
    return rows


def alone(step_ms: float, batch: int = BATCH, **more: Any) -> dict[str, Any]:
    return timed(step_ms, strategy="single", gpus=1, batch=batch, **more)


def gain(efficiency: float = 0.95, spread: float | None = 0.01, scaling: str = "weak", **where: Any) -> dict[str, Any]:
    return {**place(**where), "scope": "compute", "scaling": scaling, **known("efficiency", efficiency, spread)}


def causes(*times: dict[str, Any], gains: Rows | None = None, **rows: Rows) -> list[CausesRow]:
    """The rows of a study with these times, with loading where it has any; ddp on 4 GPUs at batch 32 has a speedup
    unless said otherwise."""
    given = {"times": list(times), "scopes": loading(list(times)), "speedup": gains or [gain()]}
    found = causes_rows(read_tables({**given, **rows}))
    return [row for row in found if row.scope == found[-1].scope]


def first(*times: dict[str, Any], **rows: Any) -> CausesRow:
    return causes(*times, **rows)[0]


def ms(figure: Figure) -> float | None:
    return round(figure.value * 1e3, 3) if figure.is_known else None


def ends_ms(figure: Figure) -> tuple[float, float]:
    return round(figure.low * 1e3, 3), round(figure.high * 1e3, 3)


def link(bus_gb_s: float = 300.0, copy_gb_s: float = 380.0, allreduce_ms: float = 0.3) -> dict[str, Rows]:
    """What was timed of the link between 4 GPUs."""
    shared = {"operation": "allreduce", "gpus": 4, "environment": "A"}
    return {
        "collectives": [
            {**shared, "message_bytes": 44, **known("time_s", allreduce_ms / 1e3), **known("bus_bandwidth_gb_s", 9.0)},
            {**shared, "message_bytes": 4096, **known("time_s", 0.1), **known("bus_bandwidth_gb_s", bus_gb_s)},
            {**shared, "operation": "peer_copy", **known("bus_bandwidth_gb_s", copy_gb_s)},
        ],
        "environments": [{"environment": "A", "device_model": "NVIDIA H200", "links": "18 links of NVLink 4.0"}],
        "bandwidth": [{**place(), "scope": "compute", "gradient_bytes": 44}],
    }


def ladder(no_op_ms: float, training_ms: float, spread: float | None = 0.01) -> Rows:
    """The last two rungs."""
    added = known("difference_s", (training_ms - no_op_ms) / 1e3, spread)
    return [
        {**place(), "rung": "no_op_hook", "order": 1, **known("step_s", no_op_ms / 1e3)},
        {
            **place(),
            "rung": "training",
            "order": 2,
            "adds": "allreduce, waiting",
            **known("step_s", training_ms / 1e3),
            **added,
        },
    ]


def test_a_healthy_step_has_nothing_wrong() -> None:
    found = first(timed(10.0), alone(9.8), alone(19.0, batch=64))
    assert (found.cause, found.is_reason, found.order) == ("nothing", False, 0)
    assert found.efficiency.value == 0.95
    assert ms(found.whole_s) == 10.0
    assert ends_ms(found.whole_s) == (9.901, 10.101)


@pytest.mark.parametrize(
    ("efficiency", "spread", "cause"),
    [
        (0.6, 0.01, "unknown"), (0.95, 0.04, "nothing"), (0.93, 0.05, "unknown"), (0.95, 0.1, "no_certain_loss"),
        (1.25, 0.5, "no_certain_loss"), (1.15, 0.01, "no_certain_loss"), (0.97, None, "no_certain_loss"),
        (0.8, None, "unknown"),
    ],
)  # fmt: skip
def test_nothing_is_wrong_only_where_the_interval_says_so(efficiency: float, spread: float | None, cause: str) -> None:
    assert first(timed(10.0), gains=[gain(efficiency, spread)]).cause == cause


LOADED = timed(25.0, "end_to_end")
FAST = timed(80.0, "end_to_end", batch=256)  # 8 processes load 256 images in 20 ms, and so 128 in 10
BY_DP = {"gains": [gain(0.3, strategy="dp")]}
OF_ONE = timed(10.0), timed(18.0, batch=256), alone(9.0), alone(16.0, batch=256)
HELD = timed(10.0), alone(9.0), alone(16.0, batch=4 * BATCH)
APART = {"ladder": ladder(6.0, 10.0), **link(allreduce_ms=5.0)}
ABLATED = {"communication": [{**place(), "scope": "compute", **known("ablation_step_s", 0.004)}]}


def uneven(ms: float, spread: float | None = 0.02) -> dict[str, Rows]:
    """One of the devices needs so many ms more than half of the step, and is known to `spread`."""
    rungs = ladder(20.0, 21.0)
    rungs[0] |= {**known("uneven_s", ms / 1e3, spread), "slowest": "rank 1 on gn2"}
    return {"gains": [gain(0.48)], "ladder": rungs}


# The times of a study, what else it has, the cause that is named first, and what that costs in ms.
CASES: list[tuple[tuple[dict[str, Any], ...], dict[str, Any], str, float | None]] = [
    ((timed(10.0), LOADED), {}, "slow_loader", 15.0),
    ((timed(10.0), timed(10.4, "end_to_end")), {}, "nothing", None),
    ((timed(10.1), LOADED, FAST), {}, "loading_disturbs", 14.9),
    ((timed(9.9), LOADED, FAST), {}, "slow_loader", 15.1),
    ((timed(10.1), LOADED, {**FAST, "loader_processes": 2}), {}, "slow_loader", 14.9),
    ((timed(10.1), *({**row, "loader_processes": 0} for row in (LOADED, FAST))), {}, "slow_loader", 14.9),
    ((timed(30.0, strategy="dp"), timed(10.0), alone(9.0)), {**BY_DP, **link()}, "data_parallel", 20.0),
    ((timed(30.0, strategy="dp"),), BY_DP, "unknown", None),
    ((timed(9.0, strategy="dp"), timed(10.0)), {"gains": [gain(strategy="dp")]}, "nothing", None),
    # One GPU pays for a small batch too.
    (OF_ONE, {}, "nothing", None), (OF_ONE, {"gains": [gain(0.6)]}, "unknown", None),
    (HELD, {"gains": [gain(0.4, scaling="strong")]}, "batch_not_scaled", 5.0),
    (HELD, {"gains": [gain(0.4)]}, "unknown", None),
    ((timed(10.0),), APART, "heavy_gradients", 4.0),
    ((timed(10.0),), {**APART, **link(30, 380, 5.0)}, "slow_link", 4.0),
    ((timed(10.0),), {**APART, **link(20, 24, 5.0)}, "slow_link", 4.0),
    ((timed(10.0),), {**ABLATED, **link(allreduce_ms=5.0)}, "heavy_gradients", 4.0),
    *(((timed(10.0),), {**APART, table: []}, "nothing", None) for table in ("ladder", "collectives", "bandwidth")),
    ((timed(21.0), alone(10.0)), uneven(10.0), "slow_device", 10.0),
    ((timed(21.0), alone(10.0)), uneven(1.9), "unknown", None),
    ((timed(21.0), alone(10.0)), uneven(10.0, spread=None), "unknown", None),
    # Without intervals a cost is told without one.
    (
        (timed(10.0, spread=None), timed(25.0, "end_to_end", spread=None)), {"gains": [gain(spread=None)]},
        "slow_loader", 15.0,
    ),
    # Where it is not sure that anything is lost no cause is a reason.
    (OF_ONE, {"gains": [gain(0.95, 0.1)]}, "no_certain_loss", None),
    ((timed(10.0, spread=0.6), timed(14.0, "end_to_end", spread=0.6)), {}, "no_certain_loss", None),
]  # fmt: skip


@pytest.mark.parametrize(("times", "rows", "cause", "cost_ms"), CASES)
def test_the_first_cause_and_what_it_costs(
    times: tuple[dict[str, Any], ...], rows: dict[str, Any], cause: str, cost_ms: float | None
) -> None:
    found = first(*times, **rows)
    assert (found.cause, ms(found.cost_s)) == (cause, cost_ms)
    assert found.is_reason == (cost_ms is not None)
    if cost_ms:
        assert found.share.value == pytest.approx(cost_ms / ms(found.whole_s))  # type: ignore[operator]
        assert found.cost_s.has_interval == (times[0]["images_per_s_low"] is not None)


def test_loading_is_told_by_the_runs_that_timed_both() -> None:
    """Runs that differ by far more than loading costs still tell what it costs, since each has both times."""
    told = known("loader_s", 0.025, 0.1) | known("loading_ratio", 1.25, 0.02)
    epochs = timed(10.0, spread=0.5), timed(12.5, "end_to_end", spread=0.5)
    times = [{**row, "epoch_s": 10 * row["epoch_s"]} for row in epochs]  # of ten steps
    found = first(*times, scopes=[{**place(), **told}])
    assert (found.cause, found.is_reason, ms(found.cost_s)) == ("slow_loader", True, 2.5)
    assert ends_ms(found.cost_s) == (2.25, 2.75)
    assert [found.share.value, found.share.low] == pytest.approx([0.2, 2.25 / 12.5]), "of the step beside it"
    assert found.efficiency.value == pytest.approx(0.76)
    assert found.efficiency.low == pytest.approx(0.76 * (1 - math.hypot(0.01, 0.02)), rel=0.001), "as if independent"
    none_had_both = first(*times, scopes=[])
    assert (none_had_both.cause, none_had_both.scope) == ("nothing", "compute")


def test_reasons_stand_in_the_order_of_their_costs_before_smaller_ones() -> None:
    by_dp = timed(30.0, strategy="dp"), timed(70.0, "end_to_end", strategy="dp"), timed(10.0)
    found = causes(*by_dp, gains=[gain(0.3, strategy="dp")])
    assert [(row.cause, row.is_reason, row.order) for row in found] == [
        ("slow_loader", True, 0), ("data_parallel", True, 1),
    ]  # fmt: skip
    found = causes(timed(10.0), timed(30.0, "end_to_end"), ladder=ladder(9.8, 10.0), **link())
    assert [(row.cause, row.is_reason) for row in found] == [("slow_loader", True), ("heavy_gradients", False)]


def test_without_loading_nothing_of_loading_is_told() -> None:
    found = causes_rows(
        read_tables({
            "times": (times := [timed(10.0), LOADED]), "scopes": loading(times), "speedup": [gain(0.95)],
        })
    )  # fmt: skip
    assert [(row.scope, row.cause, ms(row.whole_s)) for row in found] == [
        ("compute", "nothing", 10.0), ("end_to_end", "slow_loader", 25.0),
    ]  # fmt: skip
    assert [round(row.efficiency.value, 3) for row in found] == [0.95, 0.38]


@pytest.mark.parametrize(
    ("steps", "spread", "cause", "is_by_steps"),
    [(0.94, 0.01, "nothing", True), (0.6, 0.01, "unknown", True), (0.94, 0.2, "no_certain_loss", False),
     (0.94, None, "no_certain_loss", False)],
)  # fmt: skip
def test_the_surest_efficiency_counts(steps: float, spread: float | None, cause: str, is_by_steps: bool) -> None:
    """That of epochs reaches 100 %."""
    wide = {**gain(0.92, 0.1), **known("speedup_from_steps", 4 * steps, spread)}
    found = first(timed(10.0), gains=[wide])
    assert (found.cause, found.is_by_steps) == (cause, is_by_steps)
    assert found.efficiency.value == pytest.approx(steps if is_by_steps else 0.92)


@pytest.mark.parametrize(("runs", "cause"), [((0.24, 0.19, 0.16), "unknown"), ((0.24, 0.19, 0.95), "no_certain_loss")])
def test_a_loss_in_every_run_is_none_that_may_be_nothing(runs: tuple[float, ...], cause: str) -> None:
    """Whatever their interval."""
    rows = read_tables({"times": [timed(10.0)], "speedup": [gain(0.19, 9.0)]})
    blocks = apart(dict(enumerate(runs)))
    speedup = [replace(row, efficiency=replace(row.efficiency, blocks=blocks)) for row in rows.speedup]
    assert [row.cause for row in causes_rows(replace(rows, speedup=speedup))] == [cause]


def test_where_no_cause_stands_out_the_largest_part_that_was_found_is_told() -> None:
    parts = [{**row, "adds": adds} for row, adds in zip(ladder(4.0, 7.0), ("host work", "allreduce"), strict=True)]
    parts[0] |= known("difference_s", 0.002)
    found = first(timed(10.0), gains=[gain(0.5)], ladder=parts)
    assert (found.cause, found.part, ms(found.part_s)) == ("unknown", "allreduce", 3.0)
    parts[1] |= known("difference_s", 0.001)
    found = first(timed(10.0), gains=[gain(0.5)], ladder=parts)
    assert (found.part, ms(found.part_s)) == ("host work", 2.0)
    for part in parts:
        part |= known("difference_s", -0.001)
    assert first(timed(10.0), gains=[gain(0.5)], ladder=parts).part == "", "none of them takes time"


@pytest.mark.parametrize(
    "changed",
    [{"is_headline": False}, {"status": "no baseline"}, {"scope": "end_to_end"}, {"strategy": "other"}],
)
def test_configurations_that_do_not_speak_have_no_row(changed: dict[str, Any]) -> None:
    assert causes(timed(10.0), gains=[{**gain(), **changed}]) == []
