"""What to do: the saving, how well it is supported, and the data with which there is nothing to do."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from blocks import apart
from dpscale.analyse.answer import advice
from dpscale.analyse.answer.advice import advice_rows
from dpscale.formulas.figure import Figure, estimate_of_blocks
from dpscale.formulas.statistics import best_of
from dpscale.tables.answer import AdviceRow, AnswerRow
from dpscale.tables.variants import OneGpuRow, VariantsRow
from rows import known, read_tables

PLACE = {"gpus": 4, "global_batch": 512, "environment": "A", "is_headline": True}
ALONE: dict[str, Any] = {"strategy": "single", "gpus": 1}


def row(batch: int = 128, scope: str = "compute", strategy: str = "ddp", **more: Any) -> dict[str, Any]:
    return {**PLACE, "strategy": strategy, "batch_per_gpu": batch, "scope": scope, "status": "ok", **more}


def gain(speedup: float, gpus: int = 4, epoch_s: float = 2.0, **more: Any) -> AnswerRow:
    return AnswerRow.read(row(**known("speedup", speedup), **known("epoch_s", epoch_s), **more) | {"gpus": gpus})


def advised(*answer: AnswerRow, **rows: Sequence[Any]) -> list[AdviceRow]:
    """On 4 GPUs, which are 3.6 times as fast as one, unless said otherwise."""
    return advice_rows(read_tables(rows), answer or [gain(3.6)])


def pair(ddp_s: float, dp_s: float, spread: float | None = 0.01, **more: Any) -> dict[str, Any]:
    times = {**known("epoch_s", ddp_s, spread), **known("other_epoch_s", dp_s, spread)}
    return row(**{"other_strategy": "dp", **times, **more})


@pytest.mark.parametrize(("times", "used", "better"), [((1.0, 4.0), "dp", "ddp"), ((4.0, 1.0), "ddp", "dp")])
def test_the_faster_strategy_is_to_be_used(times: tuple[float, float], used: str, better: str) -> None:
    (found,) = advised(gain(3.6, strategy=used), strategy_pairs=[pair(*times)])
    assert advised(gain(3.6, strategy=better), strategy_pairs=[pair(*times)]) == [], "the answer is with it"
    assert (found.problem, found.used, found.better) == (advice.STRATEGY, used, better)
    assert (found.used_s, found.better_s, found.saving.value) == pytest.approx((4.0, 1.0, 0.75))
    # Both times are known to 1 %: their ratio to 1.41 %.
    assert found.saving.low == pytest.approx(1 - 0.25 * 1.0142, abs=1e-3)
    assert found.saving.high == pytest.approx(1 - 0.25 / 1.0142, abs=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        pair(1.02, 1.0),  # by less than 5 %
        pair(1.3, 1.0, spread=0.3),  # not told from nothing
        *(pair(4.0, 1.0, **other) for other in ({"gpus": 2}, {"environment": "B"}, {"batch": 32})),
        pair(4.0, 1.0, scope="end_to_end"),
    ],
)
def test_a_strategy_that_is_not_surely_faster_there_is_no_advice(given: dict[str, Any]) -> None:
    assert advised(strategy_pairs=[given]) == []


def test_the_largest_batch_is_told_whatever_its_time() -> None:
    timed = [
        row(batch, **known("epoch_s", seconds)) for batch, seconds in ((32, 4.0), (128, 2.0), (512, 0.9), (2048, 1.0))
    ]
    (found,) = advised(times=timed)
    assert (found.problem, found.used, found.better) == (advice.BATCH, "128", "2048")
    assert (found.used_s, found.better_s, found.saving.value) == pytest.approx((2.0, 1.0, 0.5))
    assert advised(times=[*timed[:2], {**timed[3], "is_headline": False}]) == []
    assert advised(times=timed[2:]) == [], "the batch of the answer was not timed"


def over_runs(value: float) -> Figure:
    """Of three servers, within 1 %."""
    return estimate_of_blocks(apart({server: value * 1.01**server for server in (-1, 0, 1)}))


def variant(name: str, epoch_s: float, faster: float | None, **more: Any) -> VariantsRow:
    found = VariantsRow.read(row(variant=name, **known("epoch_s", epoch_s), **more))
    return found if faster is None else replace(found, faster=over_runs(faster), faster_units=3)


def test_a_variant_is_told_on_as_many_gpus_or_else_on_one() -> None:
    one = [variant("base", 4.0, None, **ALONE), variant("graph", 1.0, 4.0, **ALONE)]
    (found,) = advised(variants=one)
    assert (found.problem, found.used, found.better, found.on_gpus) == (advice.VARIANT, "base", "graph", 1)
    assert (found.used_s, found.better_s, found.saving.value) == pytest.approx((4.0, 1.0, 0.75)), "they fit"
    assert found.saving.low == pytest.approx(1 - 1 / over_runs(4.0).low)
    (found,) = advised(variants=[*one, variant("base", 2.0, None), variant("graph", 1.0, 2.0)])
    assert found.on_gpus == 4
    assert advised(variants=[variant("base", 4.0, None, **ALONE), variant("bf16", 5.0, 0.8, **ALONE)]) == []


def test_the_best_of_several_variants_has_an_interval_for_all_of_them() -> None:
    several = [variant(name, 4.0 / faster, faster) for name, faster in (("a", 1.9), ("b", 2.0), ("c", 1.5))]
    (found,) = advised(variants=[variant("base", 4.0, None), *several])
    wider = best_of(several[1].faster, 3)
    assert (found.better, found.chosen_from) == ("b", 3)
    assert (found.saving.low, found.saving.high) == pytest.approx((1 - 1 / wider.low, 1 - 1 / wider.high))


def one_device(ratio: float, other: str = "base") -> OneGpuRow:
    times = {**known("epoch_s", 2.0 / ratio), **known("other_epoch_s", 2.0)}
    found = OneGpuRow.read(row(variant="graph", other_variant=other, **times))
    return replace(found, ratio=over_runs(ratio), units=3)


def test_one_device_saves_device_seconds_where_it_is_as_fast() -> None:
    (found,) = advised(one_gpu=[one_device(1.25)])
    assert (found.problem, found.better, found.on_gpus) == (advice.ONE_GPU, "graph", 1)
    assert (found.used_s, found.better_s) == pytest.approx((2.0, 1.6))
    assert (found.saving.value, found.saving_gpu_s.value) == pytest.approx((0.2, 1 - 1 / (1.25 * 4)))
    assert advised(one_gpu=[one_device(0.9)]) == []
    assert advised(one_gpu=[one_device(1.25, other="graph")]) == []


def test_where_nothing_is_faster_one_device_comes_first() -> None:
    one = gain(1.0, gpus=1, epoch_s=1.6)
    slow = [one, gain(0.5, gpus=2, worth="not"), gain(0.8, worth="not")]
    found = advised(*slow, strategy_pairs=[pair(9.0, 1.0)])
    assert [one.problem for one in found] == [advice.FEWER, advice.STRATEGY]
    assert (found[0].used_s, found[0].better_s, found[0].saving_gpu_s.value) == pytest.approx((2.0, 1.6, 0.8))
    assert advised(one, gain(0.5, gpus=2, worth="not"), gain(1.1, worth="not")) == []
    for worth in ("probably not", "not confirmed", "undecided"):
        assert advised(one, gain(0.5, gpus=2, worth="not"), gain(0.8, worth=worth)) == [], "that is not decided"


def test_what_intervals_carry_stands_first_and_the_largest_first() -> None:
    variants = [variant("base", 9.0, None), replace(variant("graph", 1.0, None), faster=Figure(9.0))]
    found = advised(
        strategy_pairs=[pair(2.0, 1.0)],
        times=[row(128, **known("epoch_s", 4.0)), row(512, **known("epoch_s", 1.0))],
        variants=variants,
    )
    assert [one.problem for one in found] == [advice.BATCH, advice.STRATEGY, advice.VARIANT]
