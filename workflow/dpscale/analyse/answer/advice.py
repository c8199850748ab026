"""What to do, from the other tables and nothing else. It is told where the saving is best supported: by an interval,
and of those by the largest low end."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dpscale.analyse.answer.claims import ABOVE_BASELINE, REMEDY_HELPS
from dpscale.analyse.answer.series import COMPUTE, Series, configuration_of, of_series, series_of, support, weak_series
from dpscale.formulas.figure import Figure, ratio
from dpscale.plan.study import BASE
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AdviceRow
from dpscale.tables.tables import Tables
from dpscale.vocabulary.states import DOES_NOT

# The problems, by what is done about each.
STRATEGY, BATCH, VARIANT, ONE_GPU, RECIPE = (
    "another strategy", "a larger batch", "a variant", "one device in place of more", "another recipe",
)  # fmt: skip
# What a saving is of.
EPOCH_TIME, DEVICE_SECONDS, TRAINING_TIME = "epoch time", "device-seconds", "training time"
# A smaller part is no reason to change anything.
LEAST_SAVING = 0.05


def advice_rows(tables: Tables) -> Iterator[AdviceRow]:
    """For every series what to do, at most once per problem: what intervals carry first, the largest saving first.

    What its causes say is not said again (`causes`)."""
    for series in weak_series(tables.speedup):
        here = AdviceRow(**series._asdict(), saves=EPOCH_TIME)
        options = (
            _strategies(here, tables), _batches(here, tables), _variants(here, tables), _one_device(here, tables),
            _recipes(here, tables),
        )  # fmt: skip
        found = [max(worth, key=lambda row: support(row.saving)) for some in options if (worth := _worth(some))]
        yield from sorted(found, key=lambda row: (not row.saving.has_interval, -row.saving.value))


def _worth(found: Iterable[AdviceRow]) -> list[AdviceRow]:
    """Those that save enough, and whose interval, if any, lies above zero."""
    return [
        row
        for row in found
        if row.saving.value >= LEAST_SAVING and (row.saving.is_above(0) or not row.saving.has_interval)
    ]


def _saved(better_s: Figure, used_s: Figure) -> Figure:
    return ratio(better_s.sure, used_s.sure).map(lambda value: 1 - value)


def _strategies(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """This strategy in place of every other one, on as many devices at the same batch."""
    for row in tables.strategy_pairs:
        names, times = (row.strategy, row.other_strategy), (row.epoch_s, row.other_epoch_s)
        is_here = (row.gpus, row.environment) == (here.gpus, here.environment) and here.strategy in names
        if is_here and row.is_headline:
            mine = names.index(here.strategy)
            yield replace(
                here,
                problem=STRATEGY,
                batch_per_gpu=row.batch_per_gpu,
                scope=row.scope,
                evidence="times",
                used=names[1 - mine],
                better=here.strategy,
                used_s=times[1 - mine],
                better_s=times[mine],
                saving=_saved(times[mine], times[1 - mine]),
            )


def _batches(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """The smallest batch beside every larger one, without loading; nothing where a cause says what a larger one
    saves."""
    series = series_of(here)
    if any(row.is_told and row.larger_batch_per_gpu is not None for row in of_series(tables.causes, series)):
        return
    here_timed = of_series(tables.times, series)
    timed = [row for row in here_timed if row.scope == COMPUTE and row.status == "ok" and row.is_headline]
    timed.sort(key=lambda row: row.batch_per_gpu)
    for row in timed[1:]:
        smallest = timed[0]
        yield replace(
            here,
            problem=BATCH,
            batch_per_gpu=row.batch_per_gpu,
            used_batch_per_gpu=smallest.batch_per_gpu,
            scope=COMPUTE,
            evidence="times",
            used_s=smallest.epoch_s,
            better_s=row.epoch_s,
            saving=_saved(row.epoch_s, smallest.epoch_s),
        )


def _variants(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Every variant beside the study's own settings: on the devices of the series, otherwise on one."""
    base = {(configuration_of(row), row.scope): row.epoch_s for row in tables.variants if row.variant == BASE}
    for place in (series_of(here), Series(BASELINE, 1, here.environment)):
        measured = [
            row
            for row in of_series(tables.variants, place)
            if row.variant != BASE and row.status == "ok" and row.is_headline and row.faster.is_known
        ]
        for row in measured:
            yield replace(
                here,
                problem=VARIANT,
                batch_per_gpu=row.batch_per_gpu,
                scope=row.scope,
                evidence="variants",
                used=BASE,
                better=row.variant,
                on_gpus=row.gpus,
                used_s=base.get((configuration_of(row), row.scope), Figure()),
                better_s=row.epoch_s,
                saving=row.faster.sure.map(lambda faster: 1 - 1 / faster),
            )
        if measured:
            return


def _one_device(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """One device with its fastest variant, where it is as fast as the series with the study's own settings."""
    for row in of_series(tables.one_gpu, series_of(here)):
        is_of_base = row.other_variant == BASE and row.is_headline
        if is_of_base and row.as_fast != DOES_NOT and row.ratio.value >= 1:
            yield replace(
                here,
                problem=ONE_GPU,
                batch_per_gpu=row.batch_per_gpu,
                scope=row.scope,
                evidence="one_gpu",
                used=BASE,
                better=row.variant,
                on_gpus=1,
                used_s=row.other_epoch_s,
                better_s=row.epoch_s,
                saves=DEVICE_SECONDS,
                saving=row.ratio.sure.map(lambda ratio: 1 - 1 / (ratio * here.gpus)),
            )


def _recipes(here: AdviceRow, tables: Tables) -> Iterator[AdviceRow]:
    """Arms with remedies that end higher than the same arm without, and higher than their baseline, beside its time."""
    costs = {row.arm: row for row in tables.frontier if row.environment == here.environment}
    arms = {row.arm: row for row in tables.training_summary if row.environment == here.environment}
    for row in of_series(arms.values(), series_of(here)):
        baseline, plain, cost = arms.get(row.compared_with), arms.get(row.without_remedies), costs.get(row.arm)
        used = costs.get(row.compared_with)
        gains = REMEDY_HELPS.holds(row) and ABOVE_BASELINE.holds(row)
        if gains and baseline and plain and cost and used:
            yield replace(
                here,
                problem=RECIPE,
                batch_per_gpu=row.batch_per_gpu,
                evidence="training_summary",
                used=baseline.arm,
                better=row.arm,
                on_gpus=baseline.gpus,
                used_s=used.training_s,
                better_s=cost.training_s,
                saves=TRAINING_TIME,
                saving=_saved(cost.training_s, used.training_s),
                used_gpu_s=used.gpu_s.value,
                better_gpu_s=cost.gpu_s.value,
                without_remedies=plain.arm,
                without_accuracy=plain.test_accuracy.value,
                used_accuracy=baseline.test_accuracy.value,
                better_accuracy=row.test_accuracy.value,
                tuned_trials=row.tuned_trials,
                tuned_on=row.tuned_on,
            )
