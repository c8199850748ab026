"""Advice: the saving, how well it is supported, and the data with which there is nothing to do."""

from collections.abc import Sequence
from typing import Any

import pytest

from dpscale.analyse.answer import advice
from dpscale.analyse.answer.advice import advice_rows
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import best_of
from dpscale.tables.answer import AdviceRow, AnswerRow
from rows import Entries, key, known, read_tables

ON_ONE: Entries = {"strategy": "single", "gpus": 1}


def entries(batch: int = 128, strategy: str = "ddp", gpus: int = 4, **more: Any) -> Entries:
    return {**key(strategy, gpus, batch), "is_headline": True, "status": "ok", **more}


def gain(speedup: float, epoch_s: float = 2.0, **more: Any) -> AnswerRow:
    return AnswerRow.read(entries(**known("speedup", speedup), **known("epoch_s", epoch_s), **more))


def advised(*answer: AnswerRow, **rows: Sequence[Any]) -> list[AdviceRow]:
    """On 4 GPUs, which are 3.6 times as fast as one, unless said otherwise."""
    return advice_rows(read_tables(rows), answer or [gain(3.6)])


def only(*answer: AnswerRow, **rows: Sequence[Any]) -> AdviceRow:
    (row,) = advised(*answer, **rows)
    return row


def pair(ddp_s: float, dp_s: float, spread: float | None = 0.01, **more: Any) -> Entries:
    times = {**known("epoch_s", ddp_s, spread), **known("other_epoch_s", dp_s, spread)}
    return entries(**{"other_strategy": "dp", **times, **more})


@pytest.mark.parametrize(("times", "used", "better"), [((1.0, 4.0), "dp", "ddp"), ((4.0, 1.0), "ddp", "dp")])
def test_the_faster_strategy_is_to_be_used(times: tuple[float, float], used: str, better: str) -> None:
    row = only(gain(3.6, strategy=used), strategy_pairs=[pair(*times)])
    assert advised(gain(3.6, strategy=better), strategy_pairs=[pair(*times)]) == [], "the answer is with it"
    assert (row.problem, row.used, row.better) == (advice.STRATEGY, used, better)
    assert (row.used_s, row.better_s, row.saving.value) == pytest.approx((4.0, 1.0, 0.75))
    # Both times are known to 1 %: their ratio to 1.41 %.
    assert row.saving.interval == pytest.approx((1 - 0.25 * 1.0142, 1 - 0.25 / 1.0142), abs=1e-3)


def test_a_strategy_that_is_not_surely_faster_there_is_no_advice() -> None:
    by_less_than_5_percent, not_surely, elsewhere = pair(1.02, 1.0), pair(1.3, 1.0, 0.3), pair(4.0, 1.0, gpus=2)
    assert advised(strategy_pairs=[by_less_than_5_percent, not_surely, elsewhere]) == []


def test_the_largest_batch_is_advised_whatever_its_time() -> None:
    epochs_s = {128: 2.0, 512: 0.9, 2048: 1.0}
    timed = [entries(batch, **known("epoch_s", seconds)) for batch, seconds in epochs_s.items()]
    row = only(times=timed)
    assert (row.problem, row.used, row.better) == (advice.BATCH, "128", "2048")
    assert (row.used_s, row.better_s, row.saving.value) == pytest.approx((2.0, 1.0, 0.5))
    assert advised(times=[timed[0], {**timed[2], "is_headline": False}]) == []
    assert advised(times=timed[1:]) == [], "the batch of the answer was not timed"


def variant(name: str, epoch_s: float, faster: float | None = None, **more: Any) -> Entries:
    """A row of variants.csv, over three servers."""
    times = known("faster", faster) if faster else {}
    return entries(variant=name, **known("epoch_s", epoch_s), **times, faster_units=3, **more)


def test_a_variant_is_advised_on_as_many_gpus_or_else_on_one() -> None:
    on_one = [variant("base", 4.0, **ON_ONE), variant("graph", 1.0, 4.0, **ON_ONE)]
    row = only(variants=on_one)
    assert (row.problem, row.used, row.better, row.on_gpus) == (advice.VARIANT, "base", "graph", 1)
    assert (row.used_s, row.better_s, row.saving.value) == pytest.approx((4.0, 1.0, 0.75))
    assert row.saving.low == pytest.approx(1 - 1 / (4.0 * 0.99))
    assert only(variants=[*on_one, variant("base", 2.0), variant("graph", 1.0, 2.0)]).on_gpus == 4
    assert advised(variants=[variant("base", 4.0, **ON_ONE), variant("bf16", 5.0, 0.8, **ON_ONE)]) == []


def test_the_best_of_several_variants_has_an_interval_for_all_of_them() -> None:
    several = [variant(name, 4.0 / faster, faster) for name, faster in (("a", 1.9), ("b", 2.0), ("c", 1.5))]
    row = only(variants=[variant("base", 4.0), *several])
    wider = best_of(Figure.of(2.0, 2.0 * 0.99, 2.0 * 1.01), 3, units=3)
    assert row.better == "b"
    assert row.saving.interval == pytest.approx((1 - 1 / wider.low, 1 - 1 / wider.high))


def one_device(ratio: float, other_variant: str = "base") -> Entries:
    times = {**known("epoch_s", 2.0 / ratio), **known("other_epoch_s", 2.0), **known("ratio", ratio)}
    return entries(variant="graph", other_variant=other_variant, units=3, **times)


def test_one_device_saves_device_seconds_where_it_is_as_fast() -> None:
    row = only(one_gpu=[one_device(1.25)])
    assert (row.problem, row.better, row.on_gpus, row.used_s) == (advice.ONE_GPU, "graph", 1, 2.0)
    assert (row.better_s, row.saving.value, row.saving_gpu_s.value) == pytest.approx((1.6, 0.2, 1 - 1 / (1.25 * 4)))
    assert advised(one_gpu=[one_device(0.9)]) == []
    assert advised(one_gpu=[one_device(1.25, "graph")]) == []


def test_what_intervals_carry_stands_first_and_the_largest_first() -> None:
    rows = advised(
        strategy_pairs=[pair(2.0, 1.0)],
        times=[entries(128, **known("epoch_s", 4.0)), entries(512, **known("epoch_s", 1.0))],
        variants=[variant("base", 9.0), {**variant("graph", 1.0), "faster": 9.0}],
    )
    assert [row.problem for row in rows] == [advice.BATCH, advice.STRATEGY, advice.VARIANT]
