"""Why a study's devices are not faster: which cause it is, what it costs, and the data with which it is none."""

import math
from dataclasses import replace
from typing import Any

import pytest

from dpscale.analyse.causes_of_study import causes_rows
from dpscale.formulas.figure import Figure
from dpscale.tables.answer import CausesRow
from rows import apart, known, read_tables

Entries = dict[str, Any]


def place(strategy: str = "ddp", gpus: int = 4, batch: int = 32) -> Entries:
    return {
        "strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, "global_batch": gpus * batch, "environment": "A",
        "is_headline": True, "status": "ok",
    }  # fmt: skip


def timed(step_ms: float, scope: str = "compute", spread: float | None = 0.01, **where: Any) -> Entries:
    """A row of times.csv: so many ms per step of its own batch, and a step per epoch."""
    row = place(**where)
    rate = known("images_per_s", row["global_batch"] / step_ms * 1e3, spread)
    return {**row, **rate, "scope": scope, "epoch_s": step_ms / 1e3, "loader_processes": 8}


def loading(more_ms: float, times: float, spread: float | None = 0.01, strategy: str = "ddp") -> dict[str, Any]:
    """The table of scopes: so much longer, and so many times as long, is an epoch with loading."""
    figures = {**known("loader_s", more_ms / 1e3, spread), **known("loading_ratio", times, spread)}
    return {"scopes": [place(strategy) | figures]}


def gain(efficiency: float = 0.95, spread: float | None = 0.01, **where: Any) -> Entries:
    return {**place(**where), "scope": "compute", "scaling": "weak", **known("efficiency", efficiency, spread)}


def causes(*times: Entries, gains: list[Entries] | None = None, **rows: list[Entries]) -> list[CausesRow]:
    """The rows of a study with these times, with loading where it has any; ddp on 4 GPUs at batch 32 has a speedup
    unless said otherwise."""
    every = causes_rows(read_tables({"times": times, "speedup": gains or [gain()], **rows}))
    return [row for row in every if row.scope == every[-1].scope]


def first(*times: Entries, **rows: Any) -> CausesRow:
    return causes(*times, **rows)[0]


def ms(figure: Figure) -> float | None:
    return round(figure.value * 1e3, 3) if figure.is_known else None


def link(bus_gb_s: float = 300.0, allreduce_ms: float = 5.0) -> dict[str, list[Entries]]:
    """The tables of a link between 4 GPUs, over which a copy reaches 380 GB/s."""
    shared = {"operation": "allreduce", "gpus": 4, "environment": "A"}
    return {
        "collectives": [
            {**shared, "message_bytes": 44, **known("time_s", allreduce_ms / 1e3), **known("bus_bandwidth_gb_s", 9.0)},
            {**shared, "message_bytes": 4096, **known("time_s", 0.1), **known("bus_bandwidth_gb_s", bus_gb_s)},
            {**shared, "operation": "peer_copy", **known("bus_bandwidth_gb_s", 380.0)},
        ],
        "bandwidth": [{**place(), "scope": "compute", "gradient_bytes": 44}],
    }


def ladder(host_ms: float, allreduce_ms: float, **more: Any) -> dict[str, list[Entries]]:
    """The last two rungs: what they add to the step."""
    host, allreduce = known("difference_s", host_ms / 1e3), known("difference_s", allreduce_ms / 1e3)
    return {
        "ladder": [
            {**place(), "rung": "no_op_hook", "order": 1, "adds": "host", **known("step_s", 0.02), **host, **more},
            {**place(), "rung": "training", "order": 2, "adds": "allreduce", **known("step_s", 0.02), **allreduce},
        ]
    }


@pytest.mark.parametrize(
    ("efficiency", "spread", "cause"),
    [
        (0.95, 0.04, "nothing"), (0.93, 0.05, "unknown"), (0.95, 0.1, "no_certain_loss"),
        (1.15, 0.01, "no_certain_loss"), (0.97, None, "no_certain_loss"), (0.8, None, "unknown"),
    ],
)  # fmt: skip
def test_nothing_is_wrong_only_where_the_interval_says_so(efficiency: float, spread: float | None, cause: str) -> None:
    row = first(timed(10.0), gains=[gain(efficiency, spread)])
    assert (row.cause, row.is_reason, row.order, row.efficiency.value) == (cause, False, 0, efficiency)
    assert [end * 1e3 for end in row.whole_s.interval] == pytest.approx([9.901, 10.101], abs=1e-3)


LOADED = timed(25.0, "end_to_end")
FAST = timed(80.0, "end_to_end", batch=256)  # 8 processes load 256 images in 20 ms, and so 128 in 10
BY_DP = {"gains": [gain(0.3, strategy="dp")]}
SLOW_GPU = known("uneven_s", 0.01, 0.02) | {"slowest": "rank 1 on gn2"}
ABLATED = {"communication": [{**place(), "scope": "compute", **known("ablation_step_s", 0.004)}]}

# The times of a study, what else it has, the cause that is named first, and what that costs in ms.
CASES: list[tuple[tuple[Entries, ...], Entries, str, float | None]] = [
    ((timed(10.0), LOADED), loading(15.0, 2.5), "slow_loader", 15.0),
    ((timed(10.0), timed(10.4, "end_to_end")), loading(0.4, 1.04), "nothing", None),
    ((timed(10.1), LOADED, FAST), loading(14.9, 2.475), "loading_disturbs", 14.9),
    ((timed(9.9), LOADED, FAST), loading(15.1, 2.525), "slow_loader", 15.1),
    ((timed(30.0, strategy="dp"), timed(10.0)), {**BY_DP, **link()}, "data_parallel", 20.0),
    ((timed(30.0, strategy="dp"),), BY_DP, "unknown", None),
    ((timed(10.0),), {**ladder(0.0, 4.0), **link()}, "heavy_gradients", 4.0),
    ((timed(10.0),), {**ladder(0.0, 4.0), **link(allreduce_ms=3.0)}, "heavy_gradients", 3.0),
    ((timed(10.0),), {**ladder(0.0, 4.0), **link(bus_gb_s=30.0)}, "slow_link", 4.0),
    ((timed(10.0),), {**ABLATED, **link()}, "heavy_gradients", 4.0),
    ((timed(10.0),), {**ladder(0.0, 4.0), **link(), "collectives": []}, "nothing", None),
    ((timed(21.0),), {**ladder(0.0, 1.0, **SLOW_GPU), "gains": [gain(0.48)]}, "slow_device", 10.0),
    # Without intervals a cost is said without one.
    (
        (timed(10.0, spread=None), timed(25.0, "end_to_end", spread=None)),
        {"gains": [gain(spread=None)], **loading(15.0, 2.5, None)}, "slow_loader", 15.0,
    ),
    # Where it is not sure that anything is lost no cause is a reason.
    (
        (timed(10.0, spread=0.6), timed(14.0, "end_to_end", spread=0.6)), loading(4.0, 1.4, 0.6),
        "no_certain_loss", None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("times", "rows", "cause", "cost_ms"), CASES)
def test_the_first_cause_and_what_it_costs(
    times: tuple[Entries, ...], rows: Entries, cause: str, cost_ms: float | None
) -> None:
    row = first(*times, **rows)
    assert (row.cause, ms(row.cost_s), row.is_reason) == (cause, cost_ms, cost_ms is not None)
    if cost_ms:
        assert row.share.value == pytest.approx(cost_ms / 1e3 / row.whole_s.value)
        assert row.cost_s.has_interval == (times[0]["images_per_s_low"] is not None)


def test_loading_is_judged_by_the_runs_that_timed_both() -> None:
    """Runs that differ by far more than loading costs still say what it costs, since each has both times."""
    epochs = timed(10.0, spread=0.5), timed(12.5, "end_to_end", spread=0.5)
    times = [{**row, "epoch_s": 10 * row["epoch_s"]} for row in epochs]  # of ten steps
    row = first(*times, scopes=[place() | known("loader_s", 0.025, 0.1) | known("loading_ratio", 1.25, 0.02)])
    assert (row.cause, row.is_reason, ms(row.cost_s)) == ("slow_loader", True, 2.5)
    assert row.cost_s.interval == pytest.approx((2.25e-3, 2.75e-3))
    assert [row.share.value, row.share.low] == pytest.approx([0.2, 2.25 / 12.5]), "of the step beside it"
    assert row.efficiency.value == pytest.approx(0.76)
    assert row.efficiency.low == pytest.approx(0.76 * (1 - math.hypot(0.01, 0.02)), rel=0.001), "as if independent"


def test_reasons_stand_in_the_order_of_their_costs_before_smaller_ones() -> None:
    by_dp = timed(30.0, strategy="dp"), timed(70.0, "end_to_end", strategy="dp"), timed(10.0)
    rows = causes(*by_dp, **BY_DP, **loading(40.0, 70 / 30, strategy="dp"))
    assert [(row.cause, row.is_reason, row.order) for row in rows] == [
        ("slow_loader", True, 0), ("data_parallel", True, 1),
    ]  # fmt: skip
    rows = causes(timed(10.0), LOADED, **loading(15.0, 2.5), **ladder(0.0, 0.2), **link())
    assert [(row.cause, row.is_reason) for row in rows] == [("slow_loader", True), ("heavy_gradients", False)]


def test_a_step_without_loading_has_causes_of_its_own() -> None:
    tables = read_tables({"times": [timed(10.0), LOADED], "speedup": [gain(0.95)], **loading(15.0, 2.5)})
    in_memory, loaded = causes_rows(tables)
    assert (in_memory.scope, in_memory.cause, ms(in_memory.whole_s)) == ("compute", "nothing", 10.0)
    assert (loaded.scope, loaded.cause, ms(loaded.whole_s)) == ("end_to_end", "slow_loader", 25.0)
    assert [in_memory.efficiency.value, loaded.efficiency.value] == pytest.approx([0.95, 0.38])


@pytest.mark.parametrize(
    ("steps", "spread", "cause", "is_by_steps"),
    [(0.94, 0.01, "nothing", True), (0.94, 0.2, "no_certain_loss", False)],
)  # fmt: skip
def test_the_surest_efficiency_counts(steps: float, spread: float | None, cause: str, is_by_steps: bool) -> None:
    """The interval by epochs reaches 100 %."""
    row = first(timed(10.0), gains=[{**gain(0.92, 0.1), **known("speedup_from_steps", 4 * steps, spread)}])
    assert (row.cause, row.is_by_steps) == (cause, is_by_steps)
    assert row.efficiency.value == pytest.approx(steps if is_by_steps else 0.92)


@pytest.mark.parametrize(("runs", "cause"), [((0.24, 0.19, 0.16), "unknown"), ((0.24, 0.19, 0.95), "no_certain_loss")])
def test_a_loss_in_every_run_is_one_whatever_their_interval(runs: tuple[float, ...], cause: str) -> None:
    tables = read_tables({"times": [timed(10.0)], "speedup": [gain(0.19, 9.0)]})
    (row,) = tables.speedup
    row = replace(row, efficiency=replace(row.efficiency, blocks=apart(dict(enumerate(runs)))))
    assert [row.cause for row in causes_rows(replace(tables, speedup=[row]))] == [cause]


@pytest.mark.parametrize(
    ("host_ms", "allreduce_ms", "part", "part_ms"),
    [(2.0, 3.0, "allreduce", 3.0), (4.0, 3.0, "host", 4.0), (-1.0, -1.0, "", None)],
)
def test_where_no_cause_stands_out_the_largest_part_is_named(
    host_ms: float, allreduce_ms: float, part: str, part_ms: float | None
) -> None:
    row = first(timed(10.0), gains=[gain(0.5)], **ladder(host_ms, allreduce_ms))
    assert (row.cause, row.part, ms(row.part_s)) == ("unknown", part, part_ms)


@pytest.mark.parametrize(
    "changed",
    [{"is_headline": False}, {"status": "no baseline"}, {"scope": "end_to_end"}, {"scaling": "strong"}],
)
def test_configurations_that_do_not_speak_have_no_row(changed: Entries) -> None:
    assert causes_rows(read_tables({"times": [timed(10.0)], "speedup": [{**gain(), **changed}]})) == []
