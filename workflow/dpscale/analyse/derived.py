"""What follows from a study's tables and from nothing else: more columns of them, and small tables of comparisons.

The page quotes these; it computes nothing itself.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from operator import sub, truediv
from statistics import median
from typing import TypeVar

from dpscale.analyse.claims import Row
from dpscale.formulas.figure import UNKNOWN, Figure, multiplied
from dpscale.formulas.statistics import derive_in_blocks, estimate_of_blocks
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.communication import BandwidthRow, CollectivesRow, CommunicationRow, PeerCopiesRow, StepsRow
from dpscale.tables.study import AbsencesRow, CostsRow, OriginsRow, RecordsRow
from dpscale.tables.timing import RunsRow, ScopesRow, SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.variants import OneGpuRow, VariantsRow
from dpscale.vocabulary.states import ARTEFACT, DISTORTED, NOT_WORTH_IT, UNDECIDED, WHOLE_STEP, WORTH_IT

# More devices are worth it where at least half of what they could do is got from them.
WORTH = 0.5
# Fewer full steps make no epoch that speaks for a configuration: its ends, which are no steps, weigh too much.
HEADLINE_STEPS = 10
# The estimates of a step's communication that are held against each other.
ESTIMATES = (
    "communication_step_s",
    "ablation_step_s",
    "profiler_step_s",
    "profiler_exposed_step_s",
    "profiler_least_step_s",
    "logger_exposed_step_s",
    "isolated_step_s",
)

T = TypeVar("T")
Headlined = TypeVar("Headlined", TimesRow, SpeedupRow, CommunicationRow, BandwidthRow, VariantsRow, OneGpuRow)


def with_headline(row: Headlined) -> Headlined:
    """With whether findings and verdict may speak of this configuration; not known where it was not measured."""
    steps = row.full_steps_per_epoch
    return replace(row, is_headline=None if steps is None else steps >= HEADLINE_STEPS)


def completed_times(row: TimesRow) -> TimesRow:
    epoch = row.epoch_s
    return replace(
        with_headline(row),
        gpu_s=multiplied(epoch, row.gpus),
        interval_width=(epoch.high - epoch.low) / epoch.value if epoch.has_interval else nan,
    )


def completed_speedup(row: SpeedupRow) -> SpeedupRow:
    return replace(
        with_headline(row),
        efficiency_lost=1 - row.efficiency.value,
        worth=_worth(row.efficiency),
        efficiency_from_steps=row.speedup_from_steps.map(lambda speedup: speedup / row.gpus),
        steps_disagree_by=abs(row.speedup.value / row.speedup_from_steps.value - 1),
    )


def _worth(efficiency: Figure) -> str:
    """On which side of `WORTH` its interval lies wholly; undecided without an interval too."""
    if not efficiency.is_known:
        return ""
    if efficiency.is_above(WORTH):
        return WORTH_IT
    return NOT_WORTH_IT if efficiency.is_below(WORTH) else UNDECIDED


def completed_communication(row: CommunicationRow) -> CommunicationRow:
    estimates: list[Figure] = [getattr(row, name) for name in estimates_of(row)]
    above_zero = [estimate.value for estimate in estimates if estimate.is_above(0)]
    profiler_s = nan if row.profiler == DISTORTED else row.profiler_step_s.value
    return replace(
        with_headline(row),
        estimates_apart=max(above_zero) / min(above_zero) if above_zero else nan,
        beyond_profiler_s=row.communication_step_s.value - profiler_s,
        waiting_step_s=profiler_s - row.profiler_least_step_s.value,
        profiler_slows_by=row.profiled_step_s.value / row.training_step_s.value - 1,
    )


def estimates_of(row: CommunicationRow | Row) -> list[str]:
    """The estimates of communication that a row's step can be told by: not the profiler's, where that distorts it."""
    distorted = row.get("profiler") == DISTORTED
    return [name for name in ESTIMATES if not (distorted and name.startswith("profiler"))]


def completed_steps(row: StepsRow) -> StepsRow:
    if row.phase != WHOLE_STEP or row.profiler in (DISTORTED, ARTEFACT):
        return row
    return replace(
        row,
        compute_share=row.compute_s.value / row.parts_s,
        communication_share=row.communication_s.value / row.parts_s,
        copy_share=row.copy_s.value / row.parts_s,
        idle_share=row.idle_s.value / row.parts_s,
    )


def scopes_rows(
    times: Sequence[TimesRow], speedups: Sequence[SpeedupRow], runs: Sequence[RunsRow]
) -> Iterator[ScopesRow]:
    """The configurations that were measured with and without the DataLoader in the clock."""
    gained = {
        (*row.point.values(), row.scope): row.speedup
        for row in speedups
        if row.status == "ok" and row.scaling == "weak"
    }
    of_runs: dict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for run in runs:
        of_runs[*run.point.values(), run.scope][f"run {run.run}"] = run.epoch_s
    loaded = {tuple(row.point.values()): row for row in times if row.status == "ok" and row.scope == "end_to_end"}
    for row in times:
        place = tuple(row.point.values())
        if row.status != "ok" or row.scope != "compute" or place not in loaded:
            continue
        here, there = (*place, "compute"), (*place, "end_to_end")
        speedup, loaded_speedup = (gained.get(scope, UNKNOWN) for scope in (here, there))
        loader, ratio = _loading(of_runs[there], of_runs[here])
        yield ScopesRow(
            **row.point,
            is_headline=row.is_headline,
            epoch_s=row.epoch_s,
            end_to_end_epoch_s=loaded[place].epoch_s,
            loader_s=loader,
            loading_ratio=ratio,
            speedup=speedup,
            end_to_end_speedup=loaded_speedup,
            speedup_ratio=speedup.value / loaded_speedup.value,
        )


def _loading(loaded: Mapping[str, float], in_memory: Mapping[str, float]) -> tuple[Figure, Figure]:
    """What an epoch takes longer with the DataLoader in the clock, in seconds and as a ratio, over the runs that timed
    both: a run is one block."""
    if not loaded.keys() & in_memory.keys():
        return UNKNOWN, UNKNOWN
    epochs = [estimate_of_blocks(runs, "epoch") for runs in (loaded, in_memory)]
    return derive_in_blocks(sub, *epochs, scale="linear"), derive_in_blocks(truediv, *epochs, scale="log")


def strategy_pairs_rows(times: Sequence[TimesRow]) -> Iterator[StrategyPairsRow]:
    """Every two parallel strategies on the same devices at the same batch, the later one of the table first."""
    order = [name for name in STRATEGIES if name != BASELINE]
    measured = {
        (row.strategy, (row.gpus, row.batch_per_gpu, row.scope, row.environment)): row
        for row in times
        if row.status == "ok" and row.epoch_s.is_known
    }
    for (strategy, place), row in measured.items():
        for other in order[: order.index(strategy)] if strategy in order else ():
            beside = measured.get((other, place))
            if beside is not None:
                yield StrategyPairsRow(
                    **row.point,
                    scope=row.scope,
                    other_strategy=other,
                    is_headline=row.is_headline,
                    loader_processes=row.loader_processes,
                    other_loader_processes=beside.loader_processes,
                    epoch_s=row.epoch_s,
                    other_epoch_s=beside.epoch_s,
                    ratio=beside.epoch_s.value / row.epoch_s.value,
                )


def peer_copies_rows(collectives: Iterable[CollectivesRow]) -> Iterator[PeerCopiesRow]:
    """The copies from one device to another: their median, and their range over the directed pairs."""
    copies = [row for row in collectives if row.operation == "peer_copy" and row.bus_bandwidth_gb_s.is_known]
    for group in _groups(copies, lambda row: (row.gpus, row.environment)):
        rates = [row.bus_bandwidth_gb_s.value for row in group]
        yield PeerCopiesRow(
            gpus=group[0].gpus,
            environment=group[0].environment,
            directions=len(rates),
            message_bytes=max(row.message_bytes or 0 for row in group),
            bus_bandwidth_gb_s=median(rates),
            bus_bandwidth_gb_s_low=min(rates),
            bus_bandwidth_gb_s_high=max(rates),
        )


_MEASURED = {
    "timing": "timing",
    "collectives": "communication",
    "communication": "communication",
    "training": "training",
}


def costs_rows(records: Iterable[RecordsRow]) -> Iterator[CostsRow]:
    """What measuring took. Collectives are measured for the sake of communication."""
    known = [row for row in records if row.kind in _MEASURED and row.gpu_s == row.gpu_s]
    for group in _groups(known, lambda row: _MEASURED[row.kind]):
        gpu_s = sum(row.gpu_s for row in group)
        yield CostsRow(measured=_MEASURED[group[0].kind], records=len(group), gpu_s=gpu_s)


def origins_rows(records: Iterable[RecordsRow]) -> Iterator[OriginsRow]:
    """How many records there are of a kind, by what measured them."""

    def origin(row: RecordsRow) -> Hashable:
        return row.kind, row.environment, row.host, row.git_commit, row.git_dirty, row.dataset_source

    for group in _groups(records, origin):
        first = group[0]
        yield OriginsRow(
            kind=first.kind,
            environment=first.environment,
            host=first.host,
            git_commit=first.git_commit,
            git_dirty=first.git_dirty,
            dataset_source=first.dataset_source,
            records=len(group),
            first=min(filter(None, (row.started_at for row in group)), default=""),
            last=max(filter(None, (row.finished_at for row in group)), default=""),
            jobs="; ".join(sorted({row.job_id for row in group if row.job_id})),
            throttled=sum(bool(row.throttle_reasons) for row in group),
            disturbed=sum(bool(row.other_processes) for row in group),
        )


def absences_rows(times: Iterable[TimesRow]) -> Iterator[AbsencesRow]:
    """Every state but `ok` with its reason, and of how many configurations it is, the most frequent first."""
    gone = [row for row in times if row.status != "ok"]
    groups = _groups(gone, lambda row: (row.status, row.reason))
    counted = [(group[0], len({tuple(row.point.values()) for row in group})) for group in groups]
    for row, configurations in sorted(counted, key=lambda item: -item[1]):
        yield AbsencesRow(status=row.status, reason=row.reason, configurations=configurations)


def _groups(rows: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """The rows of equal keys, in the order of the first of each."""
    found: dict[Hashable, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    yield from found.values()
