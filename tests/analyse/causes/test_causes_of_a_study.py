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


def alone(step_ms: float, batch: int = 32) -> Entries:
    return timed(step_ms, strategy="single", gpus=1, batch=batch)


def loading(times: list[Entries]) -> list[Entries]:
    """Return the rows of scopes.csv, with what runs differ by as if all of it were loading's."""
    alone = {tuple(row[name] for name in place()): row for row in times if row["scope"] == "compute"}
    rows = []
    for loaded in (row for row in times if row["scope"] == "end_to_end"):
        if without := alone.get(tuple(loaded[name] for name in place())):
            ratio, more_s = loaded["epoch_s"] / without["epoch_s"], loaded["epoch_s"] - without["epoch_s"]
            spread = without["images_per_s_high"] and without["images_per_s_high"] / without["images_per_s"] - 1
            figures = known("loading_ratio", ratio, spread) | known(
                "loader_s", more_s, spread and spread / (1 - 1 / ratio)
            )
            rows.append(place(loaded["strategy"]) | figures)
    return rows


def gain(efficiency: float = 0.95, spread: float | None = 0.01, **where: Any) -> Entries:
    return {**place(**where), "scope": "compute", "scaling": "weak", **known("efficiency", efficiency, spread)}


def causes(*times: Entries, gains: list[Entries] | None = None, **rows: list[Entries]) -> list[CausesRow]:
    """The rows of a study with these times, with loading where it has any; ddp on 4 GPUs at batch 32 has a speedup
    unless said otherwise."""
    entries = {"times": times, "scopes": loading(list(times)), "speedup": gains or [gain()], **rows}
    every = causes_rows(read_tables(entries))
    return [row for row in every if row.scope == every[-1].scope]


def first(*times: Entries, **rows: Any) -> CausesRow:
    return causes(*times, **rows)[0]


def ms(figure: Figure) -> float | None:
    return round(figure.value * 1e3, 3) if figure.is_known else None


def link(bus_gb_s: float = 300.0, copy_gb_s: float = 380.0, allreduce_ms: float = 0.3) -> dict[str, list[Entries]]:
    """The tables of a link between 4 GPUs."""
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


def ladder(no_op_ms: float, training_ms: float) -> list[Entries]:
    """The last two rungs."""
    added = known("difference_s", (training_ms - no_op_ms) / 1e3)
    return [
        {**place(), "rung": "no_op_hook", "order": 1, **known("step_s", no_op_ms / 1e3)},
        {**place(), "rung": "training", "order": 2, "adds": "allreduce", **known("step_s", training_ms / 1e3), **added},
    ]


def uneven(slower_ms: float, spread: float | None = 0.02) -> Entries:
    """One of the devices needs so many ms more than half of the step, and is known to `spread`."""
    rungs = ladder(20.0, 21.0)
    rungs[0] |= {**known("uneven_s", slower_ms / 1e3, spread), "slowest": "rank 1 on gn2"}
    return {"gains": [gain(0.48)], "ladder": rungs}


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
OF_ONE = timed(10.0), timed(18.0, batch=256), alone(9.0), alone(16.0, batch=256)
APART = {"ladder": ladder(6.0, 10.0), **link(allreduce_ms=5.0)}
ABLATED = {"communication": [{**place(), "scope": "compute", **known("ablation_step_s", 0.004)}]}

# The times of a study, what else it has, the cause that is named first, and what that costs in ms.
CASES: list[tuple[tuple[Entries, ...], Entries, str, float | None]] = [
    ((timed(10.0), LOADED), {}, "slow_loader", 15.0),
    ((timed(10.0), timed(10.4, "end_to_end")), {}, "nothing", None),
    ((timed(10.1), LOADED, FAST), {}, "loading_disturbs", 14.9),
    ((timed(9.9), LOADED, FAST), {}, "slow_loader", 15.1),
    ((timed(10.1), LOADED, {**FAST, "loader_processes": 2}), {}, "slow_loader", 14.9),
    ((timed(30.0, strategy="dp"), timed(10.0), alone(9.0)), {**BY_DP, **link()}, "data_parallel", 20.0),
    ((timed(30.0, strategy="dp"),), BY_DP, "unknown", None),
    # One GPU pays for a small batch too.
    (OF_ONE, {}, "nothing", None), (OF_ONE, {"gains": [gain(0.6)]}, "unknown", None),
    ((timed(10.0),), APART, "heavy_gradients", 4.0),
    ((timed(10.0),), {**APART, **link(30, 380, 5.0)}, "slow_link", 4.0),
    ((timed(10.0),), {**ABLATED, **link(allreduce_ms=5.0)}, "heavy_gradients", 4.0),
    *(((timed(10.0),), {**APART, table: []}, "nothing", None) for table in ("ladder", "collectives", "bandwidth")),
    ((timed(21.0), alone(10.0)), uneven(10.0), "slow_device", 10.0),
    ((timed(21.0), alone(10.0)), uneven(1.9), "unknown", None),
    # Without intervals a cost is said without one.
    (
        (timed(10.0, spread=None), timed(25.0, "end_to_end", spread=None)), {"gains": [gain(spread=None)]},
        "slow_loader", 15.0,
    ),
    # Where it is not sure that anything is lost no cause is a reason.
    ((timed(10.0, spread=0.6), timed(14.0, "end_to_end", spread=0.6)), {}, "no_certain_loss", None),
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
    row = first(*times, scopes=[])
    assert (row.cause, row.scope) == ("nothing", "compute")


def test_reasons_stand_in_the_order_of_their_costs_before_smaller_ones() -> None:
    by_dp = timed(30.0, strategy="dp"), timed(70.0, "end_to_end", strategy="dp"), timed(10.0)
    rows = causes(*by_dp, **BY_DP)
    assert [(row.cause, row.is_reason, row.order) for row in rows] == [
        ("slow_loader", True, 0), ("data_parallel", True, 1),
    ]  # fmt: skip
    rows = causes(timed(10.0), timed(30.0, "end_to_end"), ladder=ladder(9.8, 10.0), **link())
    assert [(row.cause, row.is_reason) for row in rows] == [("slow_loader", True), ("heavy_gradients", False)]


def test_a_step_without_loading_has_causes_of_its_own() -> None:
    times = [timed(10.0), LOADED]
    rows = causes_rows(read_tables({"times": times, "scopes": loading(times), "speedup": [gain(0.95)]}))
    assert [(row.scope, row.cause, ms(row.whole_s)) for row in rows] == [
        ("compute", "nothing", 10.0), ("end_to_end", "slow_loader", 25.0),
    ]  # fmt: skip
    assert [row.efficiency.value for row in rows] == pytest.approx([0.95, 0.38])


@pytest.mark.parametrize(
    ("steps", "spread", "cause", "is_by_steps"),
    [(0.94, 0.01, "nothing", True), (0.94, 0.2, "no_certain_loss", False), (0.94, None, "no_certain_loss", False)],
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
    ("host_ms", "allreduce_ms", "largest"), [(2.0, 3.0, "allreduce"), (4.0, 3.0, "host"), (-1.0, -1.0, "")]
)
def test_where_no_cause_stands_out_the_largest_part_is_named(host_ms: float, allreduce_ms: float, largest: str) -> None:
    host, allreduce = ladder(4.0, 4.0 + allreduce_ms)
    host |= {"adds": "host", **known("difference_s", host_ms / 1e3)}
    row = first(timed(10.0), gains=[gain(0.5)], ladder=[host, allreduce])
    assert (row.cause, row.part) == ("unknown", largest)
    assert ms(row.part_s) == (max(host_ms, allreduce_ms) if largest else None)


@pytest.mark.parametrize(
    "changed",
    [{"is_headline": False}, {"status": "no baseline"}, {"scope": "end_to_end"}, {"scaling": "strong"}],
)
def test_configurations_that_do_not_speak_have_no_row(changed: Entries) -> None:
    assert causes_rows(read_tables({"times": [timed(10.0)], "speedup": [{**gain(), **changed}]})) == []
