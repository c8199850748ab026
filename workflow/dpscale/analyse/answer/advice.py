"""Advice: what to do on the most devices that have a speedup, at the batch of the answer, from the other tables
alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from dpscale.analyse.answer import configuration_of, series_of
from dpscale.analyse.answer.answer import is_one_enough, with_speedup
from dpscale.analyse.answer.claims import SAVES
from dpscale.formulas.figure import Figure, ratio
from dpscale.formulas.statistics import best_of
from dpscale.plan.study import BASE
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AdviceRow, AnswerRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import OneGpuRow, VariantsRow

V = TypeVar("V", VariantsRow, OneGpuRow)

# The problems, by what is done about each.
FEWER, STRATEGY, BATCH, VARIANT, ONE_GPU = (
    "one device", "another strategy", "a larger batch", "a variant", "one device in place of more",
)  # fmt: skip
# A smaller part is no reason to change anything.
LEAST_SAVING = 0.05


def advice_rows(tables: Tables, answer: Sequence[AnswerRow]) -> list[AdviceRow]:
    """Return the advice that saves enough, and by its interval, if it has one, surely something.

    One device comes first, where it is decided that no more are to be used; then what intervals carry; the largest
    saving first.
    """
    several = with_speedup(answer)
    if not several:
        return []
    most = max(several, key=lambda row: row.gpus)
    template = AdviceRow(**most.point, scope=most.scope, on_gpus=most.gpus)
    advice = [
        *_strategies(template, tables),
        *_larger_batch(template, tables),
        *_variants(template, tables),
        *_one_device(template, tables),
    ]
    baseline = next((row for row in answer if row.gpus == 1), None)
    if baseline and is_one_enough(several):
        fewer = replace(template, problem=FEWER, used=str(most.gpus), better=f"1 in place of {most.gpus}", on_gpus=1)
        advice.append(_saving(fewer, most.epoch_s, baseline.epoch_s, most.speedup, 1 / most.gpus))
    sure = [row for row in advice if SAVES.surely(row) or not row.saving.has_interval]
    worth = [row for row in sure if row.problem == FEWER or row.saving.value >= LEAST_SAVING]
    return sorted(worth, key=lambda row: (row.problem != FEWER, not row.saving.has_interval, -row.saving.value))


def _saving(row: AdviceRow, used_s: Figure, better_s: Figure, over: Figure, devices: float = 1) -> AdviceRow:
    """Return the row with what it saves: `over` is the better one's time over what is used. It takes so many times the
    `devices` that are used."""
    share = over.sure
    return replace(
        row,
        used_s=used_s.value,
        better_s=better_s.value,
        saving=share.map(lambda value: 1 - value),
        saving_gpu_s=share.map(lambda value: 1 - value * devices),
    )


def _strategies(template: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Yield another strategy on as many devices at the same batch, where it is faster than that of the answer."""
    place = (template.gpus, template.batch_per_gpu, template.scope, template.environment)
    for row in tables.strategy_pairs:
        names = (row.strategy, row.other_strategy)
        if (row.gpus, row.batch_per_gpu, row.scope, row.environment) == place and template.strategy in names:
            timed = zip((row.epoch_s, row.other_epoch_s), names, strict=True)
            (fast_s, fast), (slow_s, slow) = sorted(timed, key=lambda epoch_and_name: epoch_and_name[0].value)
            if slow == template.strategy:
                named = replace(template, problem=STRATEGY, used=slow, better=fast)
                yield _saving(named, slow_s, fast_s, ratio(fast_s.sure, slow_s.sure))


def _larger_batch(template: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Yield the largest batch whose epochs speak for it: it is not chosen by its time."""
    place = series_of(template), template.scope
    timed = [row for row in tables.times if (series_of(row), row.scope) == place]
    by_batch = {row.batch_per_gpu: row.epoch_s for row in timed if row.is_headline and row.status == "ok"}
    largest = max(by_batch, default=0)
    if template.batch_per_gpu in by_batch and largest > template.batch_per_gpu:
        used_s, better_s = by_batch[template.batch_per_gpu], by_batch[largest]
        named = replace(template, problem=BATCH, used=str(template.batch_per_gpu), better=str(largest))
        yield _saving(named, used_s, better_s, ratio(better_s.sure, used_s.sure))


def _variants(template: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Yield the fastest variant beside the study's own settings: on as many devices, otherwise on one."""
    for strategy, gpus in ((template.strategy, template.gpus), (BASELINE, 1)):
        rows = _speaking(tables.variants, strategy, gpus, template)
        base = next((row for row in rows if row.variant == BASE), None)
        changed = [row for row in rows if row.faster.is_known]  # base has no such figure
        if base and changed:
            best = max(changed, key=lambda row: row.faster.value)
            faster = best_of(best.faster, len(changed), best.faster_units)
            named = replace(template, problem=VARIANT, used=BASE, better=best.variant, on_gpus=gpus)
            yield _saving(named, base.epoch_s, best.epoch_s, faster.map(lambda value: 1 / value))
            return


def _one_device(template: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Yield one device with its fastest variant, where it is as fast as all with the study's own settings."""
    on_one = _speaking(tables.variants, BASELINE, 1, template)
    chosen_from = max(1, len([row for row in on_one if row.epoch_s.is_known]))
    for row in _speaking(tables.one_gpu, template.strategy, template.gpus, template):
        if row.other_variant == BASE and row.ratio.value >= 1:
            times = best_of(row.ratio, chosen_from, row.units)
            named = replace(template, problem=ONE_GPU, used=BASE, better=row.variant, on_gpus=1)
            yield _saving(named, row.other_epoch_s, row.epoch_s, times.map(lambda value: 1 / value), 1 / template.gpus)


def _speaking(rows: Sequence[V], strategy: str, gpus: int, template: AdviceRow) -> list[V]:
    """Return the rows of a strategy on so many devices in the advice's place, of ten full steps per epoch."""
    place = strategy, gpus, template.batch_per_gpu, template.environment
    return [row for row in rows if configuration_of(row) == place and row.scope == template.scope and row.is_headline]
