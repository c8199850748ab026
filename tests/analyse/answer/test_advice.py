"""What to do: the saving, how well it is supported, and the data with which there is nothing to do."""

from typing import Any

import pytest

from dpscale.analyse.answer import advice
from dpscale.analyse.answer.advice import advice_rows
from dpscale.tables.answer import AdviceRow
from rows import known, read_tables

PLACE = {"gpus": 4, "global_batch": 2048, "environment": "A", "is_headline": True}


def row(batch: int = 512, scope: str = "compute", strategy: str = "ddp", **more: Any) -> dict[str, Any]:
    return {**PLACE, "strategy": strategy, "batch_per_gpu": batch, "scope": scope, "status": "ok", **more}


def gain(speedup: float, batch: int = 512, spread: float | None = 0.01, **more: Any) -> dict[str, Any]:
    figures = {**known("speedup", speedup, spread), **known("efficiency", speedup / 4, spread)}
    return row(batch, scaling="weak", **figures, **more)


def advised(**rows: list[dict[str, Any]]) -> list[AdviceRow]:
    return list(advice_rows(read_tables({"speedup": [gain(3.6)], **rows})))


def pair(ddp_s: float, dp_s: float, spread: float | None = 0.01, **more: Any) -> dict[str, Any]:
    times = {**known("epoch_s", ddp_s, spread), **known("other_epoch_s", dp_s, spread)}
    return row(**{"other_strategy": "dp", **times, **more})


def test_a_strategy_that_is_faster_is_to_be_used() -> None:
    (found,) = advised(strategy_pairs=[pair(1.0, 4.0)])
    assert (found.problem, found.used, found.better) == (advice.STRATEGY, "dp", "ddp")
    assert found.saving.value == pytest.approx(0.75)
    # Both times are known to 1 %: their ratio to 1.41 %.
    assert found.saving.low == pytest.approx(1 - 0.25 * 1.0142, abs=1e-3)
    assert found.saving.high == pytest.approx(1 - 0.25 / 1.0142, abs=1e-3)


@pytest.mark.parametrize(
    "pairs",
    [
        [pair(4.0, 1.0)],  # dp is faster
        [pair(1.0, 1.02)],  # by less than 5 %
        [pair(1.0, 1.3, spread=0.3)],  # not told from nothing
        [pair(1.0, 4.0, is_headline=False)],
        [pair(1.0, 4.0, gpus=2)],
        [pair(1.0, 4.0, environment="B")],
    ],
)
def test_a_strategy_that_is_not_surely_faster_is_no_advice(pairs: list[dict[str, Any]]) -> None:
    assert advised(strategy_pairs=pairs) == []


def test_the_other_strategy_may_be_the_faster_one() -> None:
    (found,) = advised(speedup=[gain(3.6, strategy="dp")], strategy_pairs=[pair(4.0, 1.0)])
    assert (found.used, found.better) == ("ddp", "dp")


def test_of_several_batches_the_best_supported_is_told() -> None:
    wide, narrow = pair(1.0, 5.0, spread=0.5, batch=32), pair(1.0, 3.0, batch=128)
    (found,) = advised(strategy_pairs=[wide, narrow, pair(1.0, 9.0, spread=None, batch=512)])
    assert found.batch_per_gpu == 128


@pytest.mark.parametrize("ranges", ["epoch_s", "other_epoch_s"])
def test_the_range_of_two_runs_gives_no_interval(ranges: str) -> None:
    (found,) = advised(strategy_pairs=[pair(1.0, 4.0, ranges=ranges)])
    assert found.saving.value == pytest.approx(0.75)
    assert not found.saving.has_interval


def test_a_larger_batch_is_told_beside_the_smallest() -> None:
    timed = [row(batch, **known("epoch_s", seconds)) for batch, seconds in ((32, 4.0), (128, 2.0), (512, 1.0))]
    (found,) = advised(times=timed)
    assert (found.problem, found.used_batch_per_gpu, found.batch_per_gpu) == (advice.BATCH, 32, 512)
    assert advised(times=[{**timed[0], "batch_per_gpu": 2048}, timed[2]]) == []
    assert advised(times=timed[:1]) == []


@pytest.mark.parametrize(("changed", "problems"), [
    ({}, []),
    ({"is_told": False}, [advice.BATCH]),
    ({"larger_batch_per_gpu": None}, [advice.BATCH]),
    ({"gpus": 2}, [advice.BATCH]),
])  # fmt: skip
def test_a_larger_batch_that_a_cause_tells_is_not_told_again(changed: dict[str, Any], problems: list[str]) -> None:
    timed = [row(batch, **known("epoch_s", seconds)) for batch, seconds in ((32, 4.0), (512, 1.0))]
    told = {**row(32), "is_told": True, "larger_batch_per_gpu": 512, **changed}
    assert [found.problem for found in advised(times=timed, causes=[told])] == problems


def variant(name: str, epoch_s: float, faster: float | None, spread: float | None = 0.01, **more: Any) -> Any:
    ratio = {} if faster is None else known("faster", faster, spread)
    return row(variant=name, **known("epoch_s", epoch_s), **ratio, **more)


def test_a_variant_is_told_on_as_many_gpus_or_else_on_one() -> None:
    alone: dict[str, Any] = {"strategy": "single", "gpus": 1}
    one = [variant("base", 4.0, None, **alone), variant("graph", 1.0, 4.0, **alone)]
    (found,) = advised(variants=one)
    assert (found.problem, found.used, found.better) == (advice.VARIANT, "base", "graph")
    assert (found.on_gpus, round(found.saving.value, 6)) == (1, 0.75)
    assert found.saving.low == pytest.approx(1 - 1 / 3.96)
    (found,) = advised(variants=[*one, variant("base", 2.0, None), variant("graph", 1.0, 2.0)])
    assert (found.on_gpus, round(found.saving.value, 6)) == (4, 0.5)
    assert advised(variants=[variant("base", 4.0, None, **alone), variant("bf16", 5.0, 0.8, **alone)]) == []


def one_device(ratio: float, as_fast: str, other: str = "base") -> dict[str, Any]:
    times = {**known("epoch_s", 1.0), **known("other_epoch_s", ratio), **known("ratio", ratio)}
    return row(variant="graph", other_variant=other, as_fast=as_fast, **times)


def test_one_device_saves_device_seconds_where_it_is_as_fast() -> None:
    (found,) = advised(one_gpu=[one_device(1.25, "holds")])
    assert (found.problem, found.saves, found.on_gpus) == (advice.ONE_GPU, advice.DEVICE_SECONDS, 1)
    assert found.saving.value == pytest.approx(1 - 1 / (1.25 * 4))
    assert advised(one_gpu=[one_device(0.9, "does not")]) == []
    assert advised(one_gpu=[one_device(1.25, "holds", other="graph")]) == []


def arm(name: str, gained: float | None, above: float, **more: Any) -> dict[str, Any]:
    figures = {**known("test_accuracy_difference", above, 0.1), "test_accuracy": 0.7}
    figures |= {} if gained is None else known("test_accuracy_gain", gained, 0.1)
    others = {"without_remedies": None if gained is None else "plain", "compared_with": "small"}
    return row(arm=name, **{**others, **figures, **more})


def trained(*arms: dict[str, Any]) -> list[AdviceRow]:
    alone = {**arm("small", None, 0.0), "strategy": "single", "gpus": 1, "is_baseline": True}
    cost = {"small": 10.0, "plain": 3.0, "recipe": 4.0}
    frontier = [
        {
            "arm": name,
            "environment": "A",
            **known("training_s", seconds),
            "gpu_s": (1 if name == "small" else 4) * seconds,
        }
        for name, seconds in cost.items()
    ]
    return advised(training_summary=[alone, arm("plain", None, -0.2), *arms], frontier=frontier)


def test_a_recipe_counts_where_it_gains_and_ends_no_lower_than_the_baseline() -> None:
    (found,) = trained(arm("recipe", 0.3, 0.1, tuned_trials=80, tuned_on="test accuracy"))
    assert (found.problem, found.better, found.used) == (advice.RECIPE, "recipe", "small")
    assert (found.without_remedies, found.tuned_trials) == ("plain", 80)
    assert (found.saves, round(found.saving.value, 6)) == (advice.TRAINING_TIME, 0.6)
    assert (found.on_gpus, found.used_gpu_s, found.better_gpu_s) == (1, 10.0, 16.0)
    assert trained(arm("recipe", 0.3, -0.1)) == []
    assert trained(arm("recipe", -0.3, 0.1)) == []
    assert trained(arm("recipe", 0.3, 0.1, gpus=2)) == []


def test_what_intervals_carry_stands_first_and_the_largest_first() -> None:
    alone: dict[str, Any] = {"strategy": "single", "gpus": 1}
    found = advised(
        strategy_pairs=[pair(1.0, 2.0)],
        times=[row(32, **known("epoch_s", 4.0)), row(512, **known("epoch_s", 1.0))],
        variants=[variant("base", 9.0, None, **alone), variant("graph", 1.0, 9.0, spread=None, **alone)],
    )
    assert [one.problem for one in found] == [advice.BATCH, advice.STRATEGY, advice.VARIANT]


def test_without_a_speedup_there_is_no_series_to_advise() -> None:
    assert advised(speedup=[], strategy_pairs=[pair(1.0, 4.0)]) == []
    assert advised(speedup=[gain(3.6, is_headline=False)], strategy_pairs=[pair(1.0, 4.0)]) == []
    assert advised(speedup=[{**gain(3.6), "scaling": "strong"}], strategy_pairs=[pair(1.0, 4.0)]) == []
