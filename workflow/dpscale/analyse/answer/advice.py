"""What to do on the most devices that have a speedup, at the batch of the answer, from the other tables alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpscale.analyse.answer.answer import is_one_enough, with_speedup
from dpscale.analyse.answer.series import Series, of_series, series_of
from dpscale.formulas.figure import Figure, ratio
from dpscale.formulas.statistics import best_of
from dpscale.plan.study import BASE
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AdviceRow, AnswerRow
from dpscale.tables.tables import Tables
from dpscale.tables.variants import OneGpuRow, VariantsRow

# The problems, by what is done about each.
FEWER, STRATEGY, BATCH, VARIANT, ONE_GPU = (
    "one device", "another strategy", "a larger batch", "a variant", "one device in place of more",
)  # fmt: skip
# A smaller part is no reason to change anything.
LEAST_SAVING = 0.05


def advice_rows(tables: Tables, answer: Sequence[AnswerRow]) -> list[AdviceRow]:
    """What saves enough, and by its interval, if it has one, surely something: one device first, where it is decided
    that no more are to be used; then what intervals carry; the largest saving first."""
    several = with_speedup(answer)
    if not several:
        return []
    most = max(several, key=lambda row: row.gpus)
    here = AdviceRow(**most.point, scope=most.scope, on_gpus=most.gpus)
    found = [
        *_strategies(here, tables), *_larger_batch(here, tables), *_variants(here, tables), *_one_device(here, tables),
    ]  # fmt: skip
    one = next((row for row in answer if row.gpus == 1), None)
    if one and is_one_enough(several):
        fewer = replace(here, problem=FEWER, used=str(most.gpus), better=f"1 in place of {most.gpus}", on_gpus=1)
        found.append(_saving(fewer, most.epoch_s, one.epoch_s, most.speedup, 1 / most.gpus))
    worth = [row for row in found if row.saving.is_above(0) or not row.saving.has_interval]
    worth = [row for row in worth if row.problem == FEWER or row.saving.value >= LEAST_SAVING]
    return sorted(worth, key=lambda row: (row.problem != FEWER, not row.saving.has_interval, -row.saving.value))


def _saving(row: AdviceRow, used_s: Figure, better_s: Figure, over: Figure, devices: float = 1) -> AdviceRow:
    """`over` is the better one's time over what is used. It takes so many times the `devices` that are used."""
    share = over.sure
    return replace(
        row,
        used_s=used_s.value,
        better_s=better_s.value,
        saving=share.map(lambda value: 1 - value),
        saving_gpu_s=share.map(lambda value: 1 - value * devices),
    )


def _strategies(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Another strategy on as many devices at the same batch, where it is faster than that of the answer."""
    place = (here.gpus, here.batch_per_gpu, here.scope, here.environment)
    for row in tables.strategy_pairs:
        names = (row.strategy, row.other_strategy)
        if (row.gpus, row.batch_per_gpu, row.scope, row.environment) == place and here.strategy in names:
            (fast_s, fast), (slow_s, slow) = sorted(
                zip((row.epoch_s, row.other_epoch_s), names, strict=True), key=lambda timed: timed[0].value
            )
            if slow == here.strategy:
                named = replace(here, problem=STRATEGY, used=slow, better=fast)
                yield _saving(named, slow_s, fast_s, ratio(fast_s.sure, slow_s.sure))


def _larger_batch(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """The largest batch whose epochs speak for it: it is not chosen by its time."""
    timed = [row for row in of_series(tables.times, series_of(here)) if row.scope == here.scope and row.is_headline]
    by_batch = {row.batch_per_gpu: row.epoch_s for row in timed if row.status == "ok"}
    largest = max(by_batch, default=0)
    if here.batch_per_gpu in by_batch and largest > here.batch_per_gpu:
        used_s, better_s = by_batch[here.batch_per_gpu], by_batch[largest]
        named = replace(here, problem=BATCH, used=str(here.batch_per_gpu), better=str(largest))
        yield _saving(named, used_s, better_s, ratio(better_s.sure, used_s.sure))


def _variants(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """The fastest variant beside the study's own settings: on as many devices, otherwise on one."""
    for place in (series_of(here), Series(BASELINE, 1, here.environment)):
        rows = [row for row in of_series(tables.variants, place) if _is_at(row, here) and row.status == "ok"]
        base = [row for row in rows if row.variant == BASE]
        others = [row for row in rows if row.variant != BASE and row.faster.is_known]
        if base and others:
            best = max(others, key=lambda row: row.faster.value)
            faster = best_of(best.faster, len(others), best.faster_units)
            named = replace(
                here, problem=VARIANT, used=BASE, better=best.variant, on_gpus=place.gpus, chosen_from=len(others)
            )
            yield _saving(named, base[0].epoch_s, best.epoch_s, faster.map(lambda value: 1 / value))
            return


def _is_at(row: VariantsRow | OneGpuRow, here: AdviceRow) -> bool:
    return (row.batch_per_gpu, row.scope) == (here.batch_per_gpu, here.scope) and bool(row.is_headline)


def _one_device(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """One device with its fastest variant, where it is as fast as all with the study's own settings."""
    alone = Series(BASELINE, 1, here.environment)
    chosen_from = len([row for row in of_series(tables.variants, alone) if _is_at(row, here) and row.status == "ok"])
    for row in of_series(tables.one_gpu, series_of(here)):
        if _is_at(row, here) and row.other_variant == BASE and row.ratio.value >= 1:
            times = best_of(row.ratio, max(1, chosen_from), row.units)
            named = replace(here, problem=ONE_GPU, used=BASE, better=row.variant, on_gpus=1, chosen_from=chosen_from)
            yield _saving(named, row.other_epoch_s, row.epoch_s, times.map(lambda value: 1 / value), 1 / here.gpus)
