"""What a reader must know before trusting the numbers: sentences computed from the data, "" where there is nothing."""

from collections.abc import Callable, Iterable, Sequence
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
    REJECTED,
    RUN_WITHOUT_BASELINE,
    SEEDS_WANTED,
    SINGLE_RUN,
    SLOWED,
    STOLEN,
    THROTTLED,
    TWO_RUNS,
    WIDE,
    WIDTH,
    Outcome,
)
from dpscale.analyse.answer.counts import DEVICES_USED
from dpscale.analyse.timing.blocks import DRIFT_TOLERANCE
from dpscale.formulas.statistics import OUTLIER_DEVIATIONS
from dpscale.present.findings.finding import among, counted, largest, place, where
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import Terms, listed
from dpscale.tables.column import SECONDS
from dpscale.tables.quantities import SOFTWARE
from dpscale.tables.study import EnvironmentsRow, RecordsRow, RejectedRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, RunsRow, SpeedupRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow


class Caution(NamedTuple):
    """What is so, and what that means, without their full stops; "" where nothing is said of that."""

    what: str
    meaning: str = ""

    def __str__(self) -> str:
        return "".join(f"{part}. " for part in self if part).rstrip()


_HARDWARE = {"device_model": "device", "cpu_model": "CPU", "links": "links"}


def _synthetic(_: Tables, terms: Terms) -> Caution | None:
    said = "The images are synthetic: noise of the same shape, no real photographs"
    return Caution(said) if terms.synthetic else None


def _older_versions(tables: Tables, terms: Terms) -> Caution | None:
    older = [f"{row.environment} ({row.older_measurements})" for row in tables.environments if row.older_measurements]
    if not older:
        return None
    return Caution(
        f"Older versions of the measurement made records of environment {listed(older)}",
        "They are shown as what they are, and never pooled with newer ones",
    )


def _memorised(tables: Tables, terms: Terms) -> Caution | None:
    if not terms.synthetic or not tables.training:
        return None
    return Caution(
        "Arms were trained on noise, which holds nothing to learn: training accuracy says how much was memorised, test "
        "accuracy can only be chance, and no comparison of arms says anything about real images"
    )


@where(FEW_SEEDS)
def _few_seeds(few: Outcome[TrainingSummaryRow], terms: Terms) -> Caution:
    trained = f"Arms trained with fewer than {SEEDS_WANTED} seeds: {counted(few)}"
    return Caution(trained, "Their spread over seeds is hardly known")


def _no_records(tables: Tables, terms: Terms) -> Caution | None:
    return None if tables.records else Caution("Nothing has been measured yet: there is no record")


def _missing(tables: Tables, terms: Terms) -> Caution | None:
    """The page is partial: say so, and how much of it is missing."""
    failed = FAILED.of(tables.missing)
    if not failed.asked:
        return None
    return Caution(
        f"This page is partial. Cells without a record that can be used: {failed.of:,}, of which failed: "
        f"{failed.number:,}, and rejected: {len(tables.rejected):,}",
        "Which, and what their logs say, is under Not run",
    )


@where(REJECTED)
def _rejected(rejected: Outcome[RejectedRow], terms: Terms) -> Caution:
    return Caution(f"Records found and not used: {rejected.number:,}", "The reasons are under Provenance")


def _several_environments(tables: Tables, terms: Terms) -> Caution | None:
    if not terms.several_environments:
        return None
    environments = tables.environments
    letters = listed([row.environment for row in environments])
    return Caution(
        f"The records come from {len(environments)} environments ({letters}), combinations of "
        f"hardware, software and {terms.samples}, that differ in: {_differences(environments, terms)}",
        "Their numbers are never pooled, and no baseline is taken from another one",
    )


def _differences(environments: Sequence[EnvironmentsRow], terms: Terms) -> str:
    """`device, links, driver`: in what environments differ."""
    names = {**_HARDWARE, **{name: name for name in SOFTWARE}, "dataset_sha256": terms.samples}
    differ = (name for column, name in names.items() if len({getattr(row, column) for row in environments}) > 1)
    return listed(list(differ)) or "nothing that is recorded here"


@where(SINGLE_RUN)
def _single_run(single: Outcome[TimesRow], terms: Terms) -> Caution:
    return Caution(
        f"Configurations measured in a single run: {counted(single)}",
        "How much runs differ is not known there, and no figure of them has an interval",
    )


@where(TWO_RUNS)
def _two_runs(two: Outcome[TimesRow], terms: Terms) -> Caution:
    return Caution(
        f"Configurations measured in two runs: {counted(two)}",
        "Their range is shown, which is no 95 % interval, and no comparison is claimed of them",
    )


@where(DRIFTED)
def _drifted(drifted: Outcome[BlocksRow], terms: Terms) -> Caution:
    most = largest(drifted.holding, lambda row: abs(row.drift))
    return Caution(
        f"One device alone did not take the same time before and after the parallel epochs, by more than "
        f"{percent(DRIFT_TOLERANCE)}, in {among(drifted, 'block')}; at most by {percent(most.drift)}"
    )


def _because(rows: Iterable[BlocksRow | SpeedupRow]) -> str:
    reasons = sorted({row.reason for row in rows if row.reason})
    return f", as {listed(reasons, 3)}" if reasons else ""


@where(RUN_WITHOUT_BASELINE)
def _runs_without_baseline(without: Outcome[BlocksRow], terms: Terms) -> Caution:
    return Caution(
        f"Blocks without a baseline: {counted(without)}{_because(without.holding)}",
        "They are left out of speedup and communication time; no other baseline is borrowed",
    )


@where(OFF)
def _outliers(off: Outcome[RunsRow], terms: Terms) -> Caution:
    return Caution(
        f"Runs more than {plain(OUTLIER_DEVIATIONS, 1)} robust deviations off the median of their configuration: "
        f"{among(off, 'run')}",
        "All of them stay in; the table of runs names them",
    )


@where(WIDE)
def _wide_intervals(wide: Outcome[TimesRow], terms: Terms) -> Caution:
    widest = largest(wide.holding, lambda row: row.interval_width)
    return Caution(
        f"Epoch times whose 95 % interval is wider than {percent(WIDTH)} of them: {counted(wide)}",
        f"The widest is {estimate(widest.epoch_s, SECONDS, with_unit=True)} with {place(widest, terms)}",
    )


@where(NO_BASELINE)
def _no_baseline(without: Outcome[SpeedupRow], terms: Terms) -> Caution:
    return Caution(f"Speedups without a baseline: {counted(without)}{_because(without.holding)}")


@where(THROTTLED)
def _throttled(throttled: Outcome[RecordsRow], terms: Terms) -> Caution:
    named = listed(sorted({row.throttle_reasons for row in throttled.holding}))
    return Caution(f"Clocks were held down in {among(throttled, 'record')} without a count of how long: {named}")


@where(SLOWED)
def _slowed(slowed: Outcome[RecordsRow], terms: Terms) -> Caution:
    longest = largest(slowed.holding, lambda row: row.slowed_s)
    policies = listed(sorted({row.slowed_by for row in slowed.holding}))
    return Caution(
        f"Inside timed epochs, clocks were kept down in {among(slowed, 'record')}, by {policies}; for at "
        f"most {measured(longest.slowed_s, SECONDS)}"
    )


@where(CORES_STOLEN)
def _stolen(stolen: Outcome[RecordsRow], terms: Terms) -> Caution:
    most = largest(stolen.holding, lambda row: row.stolen_share)
    return Caution(
        f"Inside timed epochs, a hypervisor took away more than {percent(STOLEN)} of the cores given in "
        f"{among(stolen, 'record')}; at most {percent(most.stolen_share)}"
    )


@where(DISTURBED)
def _other_processes(disturbed: Outcome[RecordsRow], terms: Terms) -> Caution:
    return Caution(f"Other processes were seen on the {terms.devices} in {among(disturbed, 'record')}")


def _several_sets_of_gpus(tables: Tables, terms: Terms) -> Caution | None:
    """A host's name does not tell machines apart that all have the same; their GPUs do."""
    used, most = next(((row.number or 0, row.of or 0) for row in tables.counts if row.what == DEVICES_USED), (0, 0))
    if used <= most:
        return None
    return Caution(
        f"The records come from {terms.count(used)}, of which no job had more than {most:,}: figures hold "
        f"what these {terms.devices} and their hosts differ by"
    )


@where(DIRTY)
def _dirty(dirty: Outcome[RecordsRow], terms: Terms) -> Caution:
    return Caution(
        f"Records from a dirty commit: {counted(dirty)}", "The code that ran is not exactly the commit named"
    )


def _several_commits(tables: Tables, terms: Terms) -> Caution | None:
    commits = sorted({row.git_commit[:12] for row in tables.records if row.git_commit})
    if len(commits) < 2:
        return None
    return Caution(f"The records come from {len(commits)} commits: {listed(commits)}")


# In the order of the page.
_OF_WHAT_IS_THERE = (_synthetic, _no_records, _missing)
_OF_RECORDS = (
    _single_run, _older_versions, _two_runs, _wide_intervals, _no_baseline, _runs_without_baseline, _drifted, _outliers,
    _throttled, _slowed, _stolen, _other_processes, _several_sets_of_gpus, _dirty, _several_commits, _memorised,
    _few_seeds,
)  # fmt: skip


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Those of the cautions that change what a number means, to be read before all others."""
    return _said((*_OF_WHAT_IS_THERE, _several_environments, _single_run, _two_runs, _memorised), tables, terms)


def cautions(tables: Tables, terms: Terms) -> list[str]:
    """The cautions that hold for these tables."""
    return _said((*_OF_WHAT_IS_THERE, _rejected, _several_environments, *_OF_RECORDS), tables, terms)


def of_records(tables: Tables, terms: Terms) -> list[Caution | None]:
    """The cautions about how things were measured, each kind at its place."""
    return [caution(tables, terms) for caution in _OF_RECORDS]


def _said(kinds: Iterable[Callable[[Tables, Terms], Caution | None]], tables: Tables, terms: Terms) -> list[str]:
    return [str(caution) for find in kinds if (caution := find(tables, terms))]
