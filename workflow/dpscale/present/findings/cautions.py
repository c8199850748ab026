"""What a reader must know before trusting the numbers: sentences computed from the data, "" where there is nothing."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dpscale.analyse.answer.claims import (
    CORES_STOLEN,
    DIRTY,
    DISTURBED,
    DRIFTED,
    FAILED,
    FEW_SEEDS,
    NO_BASELINE,
    OFF,
    RUN_WITHOUT_BASELINE,
    SEEDS_WANTED,
    SINGLE_RUN,
    SLOWED,
    STOLEN,
    THROTTLED,
    TWO_RUNS,
    WIDE,
    WIDTH,
)
from dpscale.analyse.answer.counts import DEVICES_USED
from dpscale.analyse.timing.blocks import DRIFT_TOLERANCE
from dpscale.formulas.statistics import OUTLIER_DEVIATIONS
from dpscale.present.findings.finding import among, counted, largest, place
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import Terms, listed
from dpscale.tables.answer import CountsRow
from dpscale.tables.column import SECONDS
from dpscale.tables.quantities import SOFTWARE
from dpscale.tables.study import EnvironmentsRow, MissingRow, RecordsRow, RejectedRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, RunsRow, SpeedupRow, TimesRow
from dpscale.tables.training import TrainingRow, TrainingSummaryRow


class Caution(NamedTuple):
    """What is so, and what that means, without their full stops; "" where nothing is said of that."""

    what: str
    meaning: str = ""

    def __str__(self) -> str:
        return "".join(f"{part}. " for part in self if part).rstrip()


_HARDWARE = {"device_model": "device", "cpu_model": "CPU", "links": "links"}


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Those of the cautions that change what a number means, to be read before all others."""
    return _said(
        _synthetic(terms),
        _no_records(tables.records),
        _missing(tables.missing),
        _several_environments(tables.environments, terms),
        _single_run(tables.times),
        _two_runs(tables.times),
        _memorised(tables.training, terms),
    )


def cautions(tables: Tables, terms: Terms) -> list[str]:
    """The cautions that hold for these tables."""
    return _said(
        _synthetic(terms),
        _no_records(tables.records),
        _missing(tables.missing),
        _rejected(tables.rejected),
        _several_environments(tables.environments, terms),
        *of_records(tables, terms),
    )


def of_records(tables: Tables, terms: Terms) -> Sequence[Caution | None]:
    """The cautions about how things were measured, each kind at its place."""
    times, records, blocks = tables.times, tables.records, tables.blocks
    return (
        _single_run(times),
        _older_versions(tables.environments),
        _two_runs(times),
        _wide_intervals(times, terms),
        _no_baseline(tables.speedup),
        _runs_without_baseline(blocks),
        _drifted(blocks),
        _outliers(tables.runs),
        _throttled(records),
        _slowed(records),
        _stolen(records),
        _other_processes(records, terms),
        _several_sets_of_gpus(tables.counts, terms),
        _dirty(records),
        _several_commits(records),
        _memorised(tables.training, terms),
        _few_seeds(tables.training_summary),
    )


def _said(*found: Caution | str | None) -> list[str]:
    return [str(caution) for caution in found if caution]


def _synthetic(terms: Terms) -> str:
    return "The images are synthetic: noise of the same shape, no real photographs." if terms.synthetic else ""


def _older_versions(environments: Sequence[EnvironmentsRow]) -> Caution | None:
    older = [f"{row.environment} ({row.older_measurements})" for row in environments if row.older_measurements]
    if not older:
        return None
    return Caution(
        f"Older versions of the measurement made records of environment {listed(older)}",
        "They are shown as what they are, and never pooled with newer ones",
    )


def _memorised(training: Sequence[TrainingRow], terms: Terms) -> Caution | None:
    if not terms.synthetic or not training:
        return None
    return Caution(
        "Arms were trained on noise, which holds nothing to learn: training accuracy says how much was memorised, test "
        "accuracy can only be chance, and no comparison of arms says anything about real images"
    )


def _few_seeds(summary: Sequence[TrainingSummaryRow]) -> Caution | None:
    few = FEW_SEEDS.of(summary)
    if not few.holding:
        return None
    trained = f"Arms trained with fewer than {SEEDS_WANTED} seeds: {counted(few)}"
    return Caution(trained, "Their spread over seeds is hardly known")


def _no_records(records: Sequence[RecordsRow]) -> str:
    return "" if records else "Nothing has been measured yet: there is no record."


def _missing(missing: Sequence[MissingRow]) -> str:
    """The page is partial: say so, and how much of it is missing."""
    failed = FAILED.of(missing)
    if not failed.asked:
        return ""
    return (
        f"This page is partial. Cells without a record: {failed.of:,}, of which failed: {failed.number:,}. "
        "Which, and what their logs say, is under Not run."
    )


def _rejected(rejected: Sequence[RejectedRow]) -> str:
    return f"Records found and not used: {len(rejected):,}. The reasons are under Provenance." if rejected else ""


def _several_environments(environments: Sequence[EnvironmentsRow], terms: Terms) -> str:
    if not terms.several_environments:
        return ""
    letters = listed([row.environment for row in environments])
    return (
        f"The records come from {len(environments)} environments ({letters}), combinations of "
        f"hardware, software and {terms.samples}, that differ in: {_differences(environments, terms)}. Their "
        "numbers are never pooled, and no baseline is taken from another one."
    )


def _differences(environments: Sequence[EnvironmentsRow], terms: Terms) -> str:
    """`device, links, driver`: in what environments differ."""
    names = {**_HARDWARE, **{name: name for name in SOFTWARE}, "dataset_sha256": terms.samples}
    differ = (name for column, name in names.items() if len({getattr(row, column) for row in environments}) > 1)
    return listed(list(differ)) or "nothing that is recorded here"


def _single_run(times: Sequence[TimesRow]) -> Caution | None:
    single = SINGLE_RUN.of(times)
    if not single.holding:
        return None
    return Caution(
        f"Configurations measured in a single run: {counted(single)}",
        "How much runs differ is not known there, and no figure of them has an interval",
    )


def _two_runs(times: Sequence[TimesRow]) -> Caution | None:
    two = TWO_RUNS.of(times)
    if not two.holding:
        return None
    return Caution(
        f"Configurations measured in two runs: {counted(two)}",
        "Their range is shown, which is no 95 % interval, and no comparison is claimed of them",
    )


def _drifted(blocks: Sequence[BlocksRow]) -> Caution | None:
    drifted = DRIFTED.of(blocks)
    if not drifted.holding:
        return None
    most = largest(drifted.holding, lambda row: abs(row.drift))
    return Caution(
        f"One device alone did not take the same time before and after the parallel epochs, by more than "
        f"{percent(DRIFT_TOLERANCE)}, in {among(drifted, 'block')}; at most by {percent(most.drift)}"
    )


def _because(rows: Iterable[BlocksRow | SpeedupRow]) -> str:
    reasons = sorted({row.reason for row in rows if row.reason})
    return f", as {listed(reasons, 3)}" if reasons else ""


def _runs_without_baseline(blocks: Sequence[BlocksRow]) -> Caution | None:
    without = RUN_WITHOUT_BASELINE.of(blocks)
    if not without.holding:
        return None
    return Caution(
        f"Blocks without a baseline: {counted(without)}{_because(without.holding)}",
        "They are left out of speedup and communication time; no other baseline is borrowed",
    )


def _outliers(runs: Sequence[RunsRow]) -> Caution | None:
    off = OFF.of(runs)
    if not off.holding:
        return None
    return Caution(
        f"Runs more than {plain(OUTLIER_DEVIATIONS, 1)} robust deviations off the median of their configuration: "
        f"{among(off, 'run')}",
        "All of them stay in; the table of runs names them",
    )


def _wide_intervals(times: Sequence[TimesRow], terms: Terms) -> Caution | None:
    wide = WIDE.of(times)
    if not wide.holding:
        return None
    widest = largest(wide.holding, lambda row: row.interval_width)
    return Caution(
        f"Epoch times whose 95 % interval is wider than {percent(WIDTH)} of them: {counted(wide)}",
        f"The widest is {estimate(widest.epoch_s, SECONDS, with_unit=True)} with {place(widest, terms)}",
    )


def _no_baseline(speedup: Sequence[SpeedupRow]) -> Caution | None:
    without = NO_BASELINE.of(speedup)
    if not without.holding:
        return None
    return Caution(f"Speedups without a baseline: {counted(without)}{_because(without.holding)}")


def _throttled(records: Sequence[RecordsRow]) -> Caution | None:
    throttled = THROTTLED.of(records)
    if not throttled.holding:
        return None
    named = listed(sorted({row.throttle_reasons for row in throttled.holding}))
    return Caution(f"Clocks were held down in {among(throttled, 'record')} without a count of how long: {named}")


def _slowed(records: Sequence[RecordsRow]) -> Caution | None:
    slowed = SLOWED.of(records)
    if not slowed.holding:
        return None
    longest = largest(slowed.holding, lambda row: row.slowed_s)
    policies = listed(sorted({row.slowed_by for row in slowed.holding}))
    return Caution(
        f"Inside timed epochs, clocks were kept down in {among(slowed, 'record')}, by {policies}; for at "
        f"most {measured(longest.slowed_s, SECONDS)}"
    )


def _stolen(records: Sequence[RecordsRow]) -> Caution | None:
    stolen = CORES_STOLEN.of(records)
    if not stolen.holding:
        return None
    most = largest(stolen.holding, lambda row: row.stolen_share)
    return Caution(
        f"Inside timed epochs, a hypervisor took away more than {percent(STOLEN)} of the cores given in "
        f"{among(stolen, 'record')}; at most {percent(most.stolen_share)}"
    )


def _other_processes(records: Sequence[RecordsRow], terms: Terms) -> Caution | None:
    disturbed = DISTURBED.of(records)
    if not disturbed.holding:
        return None
    return Caution(f"Other processes were seen on the {terms.devices} in {among(disturbed, 'record')}")


def _several_sets_of_gpus(counts: Sequence[CountsRow], terms: Terms) -> Caution | None:
    """A host's name does not tell machines apart that all have the same; their GPUs do."""
    used, most = next(((row.number or 0, row.of or 0) for row in counts if row.what == DEVICES_USED), (0, 0))
    if used <= most:
        return None
    return Caution(
        f"The records come from {terms.count(used)}, of which no job had more than {most:,}: figures hold "
        f"what these {terms.devices} and their hosts differ by"
    )


def _dirty(records: Sequence[RecordsRow]) -> Caution | None:
    dirty = DIRTY.of(records)
    if not dirty.holding:
        return None
    return Caution(
        f"Records from a dirty commit: {counted(dirty)}", "The code that ran is not exactly the commit named"
    )


def _several_commits(records: Sequence[RecordsRow]) -> Caution | None:
    commits = sorted({row.git_commit[:12] for row in records if row.git_commit})
    if len(commits) < 2:
        return None
    return Caution(f"The records come from {len(commits)} commits: {listed(commits)}")
