"""Why a study's devices are not faster: which cause it is, what it costs, and the data with which it is none."""

import math
from typing import Any

import pytest

from dpscale.analyse.answer.causes_of_study import causes_rows
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
    """The rows of a study with these times; ddp on 4 GPUs at batch 32 has a speedup unless said otherwise."""
    given = {"times": list(times), "scopes": loading(list(times)), "speedup": gains or [gain()]}
    return causes_rows(read_tables({**given, **rows}))


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
        {**place(), "rung": "no_op_hook", **known("step_s", no_op_ms / 1e3)},
        {**place(), "rung": "training", **known("step_s", training_ms / 1e3), **added},
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


def test_where_it_is_not_sure_that_anything_is_lost_no_cause_is_a_reason() -> None:
    times = timed(10.0), timed(18.0, batch=256), alone(9.0), alone(16.0, batch=256)
    assert first(*times, gains=[gain(0.6)]).cause == "small_batch"
    assert [first(*times, gains=[gain(value, 0.1)]).cause for value in (0.95, 1.15)] == ["no_certain_loss"] * 2


def test_loading_costs_what_the_step_takes_longer_with_it() -> None:
    found = first(timed(10.0), timed(25.0, "end_to_end"))
    assert (found.cause, found.is_reason, found.scope) == ("slow_loader", True, "end_to_end")
    assert (ms(found.cost_s), round(found.share.value, 6)) == (15.0, 0.6)
    assert 14.6 < found.cost_s.low * 1e3 < 15 < found.cost_s.high * 1e3 < 15.4
    assert found.efficiency.value == pytest.approx(0.95 * 10 / 25), "one GPU alone has its batches in memory"
    assert first(timed(10.0), timed(10.4, "end_to_end")).cause == "nothing"


def test_loading_that_could_be_in_time_disturbs_the_step() -> None:
    """8 processes load 256 images in 20 ms, and so 128 in 10."""
    fast = timed(80.0, "end_to_end", batch=256)
    found = first(timed(10.1), timed(25.0, "end_to_end"), fast)
    assert found.cause == "loading_disturbs"
    assert first(timed(9.9), timed(25.0, "end_to_end"), fast).cause == "slow_loader"
    assert first(timed(10.1), timed(25.0, "end_to_end"), {**fast, "loader_processes": 2}).cause == "slow_loader"
    in_the_step = [{**row, "loader_processes": 0} for row in (timed(25.0, "end_to_end"), fast)]
    assert first(timed(10.1), *in_the_step).cause == "slow_loader"


def test_a_cost_that_may_be_nothing_is_no_reason() -> None:
    found = causes(timed(10.0, spread=0.6), timed(14.0, "end_to_end", spread=0.6))
    assert [row.cause for row in found] == ["no_certain_loss", "slow_loader"]
    assert found[1].share.value == pytest.approx(4 / 14, rel=0.01)
    assert not found[1].is_reason


def test_without_intervals_a_cost_is_told_without_one() -> None:
    found = first(timed(10.0, spread=None), timed(25.0, "end_to_end", spread=None), gains=[gain(spread=None)])
    assert (found.cause, found.cost_s.has_interval, found.share.has_interval) == ("slow_loader", False, False)


def test_loading_is_told_by_the_runs_that_timed_both() -> None:
    """Runs that differ by far more than loading costs still tell what it costs, since each has both times."""
    told = known("loader_s", 0.025, 0.1) | known("loading_ratio", 1.25, 0.02)
    epochs = timed(10.0, spread=0.5), timed(12.5, "end_to_end", spread=0.5)
    times = [{**row, "epoch_s": 10 * row["epoch_s"]} for row in epochs]  # of ten steps
    found = first(*times, scopes=[{**place(), **told}])
    assert (found.cause, found.is_reason, ms(found.cost_s)) == ("slow_loader", True, 2.5)
    assert ends_ms(found.cost_s) == (2.25, 2.75)
    assert [found.share.value, found.share.low] == pytest.approx([0.2, 1 - 1 / (1.25 * 0.98)])
    assert found.efficiency.value == pytest.approx(0.76)
    assert found.efficiency.low == pytest.approx(0.76 * (1 - math.hypot(0.01, 0.02)), rel=0.001), "as if independent"
    none_had_both = first(*times, scopes=[])
    assert (none_had_both.cause, none_had_both.scope) == ("nothing", "compute")


def test_data_parallel_costs_what_ddp_saves() -> None:
    by_dp = gain(0.3, strategy="dp")
    found = first(timed(30.0, strategy="dp"), timed(10.0), alone(9.0), gains=[by_dp], **link())
    assert (found.cause, ms(found.cost_s), round(found.share.value, 6)) == ("data_parallel", 20.0, 0.666667)
    without = first(timed(30.0, strategy="dp"), gains=[by_dp])
    assert without.cause == "unknown"
    assert first(timed(9.0, strategy="dp"), timed(10.0), gains=[gain(strategy="dp")]).cause == "nothing"


def test_a_small_batch_costs_what_its_samples_take_longer_than_in_a_large_one() -> None:
    times = timed(10.0), timed(18.0, batch=256), alone(9.0), alone(16.0, batch=256), alone(30.0, batch=1024)
    found = first(*times)
    assert (found.cause, ms(found.cost_s)) == ("small_batch", 9 - 16 / 8), "4 GPUs have no batch of 1,024"
    assert found.share.value == pytest.approx(0.7)
    assert first(timed(10.0), alone(9.0), alone(66.0, batch=256)).cause == "nothing"
    assert first(*times[:4], gains=[gain(batch=256)]).cause == "nothing", "at the largest batch"


def test_a_batch_that_was_not_scaled_is_told_where_the_global_batch_is_held() -> None:
    times = timed(10.0), alone(9.0), alone(16.0, batch=4 * BATCH)
    found = first(*times, gains=[gain(0.4, scaling="strong")])
    assert (found.cause, found.scaling, ms(found.cost_s)) == ("batch_not_scaled", "strong", 5.0)
    assert [row.cause for row in causes(*times)] == ["small_batch"]


@pytest.mark.parametrize(
    ("bus_gb_s", "copy_gb_s", "cause"), [(300, 380, "heavy_gradients"), (30, 380, "slow_link"), (20, 24, "slow_link")]
)
def test_a_link_is_slow_beside_a_plain_copy_or_its_data_sheet(bus_gb_s: float, copy_gb_s: float, cause: str) -> None:
    found = first(timed(10.0), ladder=ladder(6.0, 10.0), **link(bus_gb_s, copy_gb_s, allreduce_ms=5.0))
    assert (found.cause, ms(found.cost_s), round(found.share.value, 6)) == (cause, 4.0, 0.4)


def test_records_without_a_ladder_tell_it_by_ablation() -> None:
    told = {**place(), "scope": "compute", **known("ablation_step_s", 0.004)}
    found = first(timed(10.0), communication=[told], **link(allreduce_ms=5.0))
    assert (found.cause, ms(found.cost_s)) == ("heavy_gradients", 4.0)


@pytest.mark.parametrize("missing", ["ladder", "collectives", "bandwidth"])
def test_communication_that_was_not_taken_apart_is_not_claimed(missing: str) -> None:
    found = causes(timed(10.0), **{"ladder": ladder(6.0, 10.0), **link(allreduce_ms=5.0), missing: []})
    assert [row.cause for row in found] == ["nothing"]


def test_reasons_stand_in_the_order_of_their_costs_before_smaller_ones() -> None:
    found = causes(timed(10.0), timed(30.0, "end_to_end"), alone(9.0), alone(16.0, batch=256),
                   ladder=ladder(9.8, 10.0), **link())  # fmt: skip
    assert [row.cause for row in found] == ["slow_loader", "small_batch", "heavy_gradients"]
    assert [row.is_reason for row in found] == [True, True, False]
    assert [row.order for row in found] == [0, 1, 2]


@pytest.mark.parametrize(
    "changed",
    [{"is_headline": False}, {"status": "no baseline"}, {"scope": "end_to_end"}, {"strategy": "other"}],
)
def test_configurations_that_do_not_speak_have_no_row(changed: dict[str, Any]) -> None:
    assert causes(timed(10.0), gains=[{**gain(), **changed}]) == []


@pytest.mark.parametrize(
    ("uneven_ms", "spread", "is_slow"), [(10.0, 0.02, True), (1.9, 0.02, False), (10.0, None, False)]
)
def test_a_device_at_half_speed_is_the_first_cause_and_a_healthy_one_never(
    uneven_ms: float, spread: float | None, is_slow: bool
) -> None:
    rungs = ladder(20.0, 21.0)
    rungs[0] |= {**known("uneven_s", uneven_ms / 1e3, spread), "slowest": "rank 1 on gn2"}
    found = first(timed(21.0), alone(10.0), gains=[gain(0.48)], ladder=rungs)
    assert (found.cause == "slow_device") == is_slow
    assert found.is_reason or not is_slow
