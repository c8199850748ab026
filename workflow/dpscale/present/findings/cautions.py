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
    ON_ONE_SERVER,
    REJECTED,
    RUN_WITHOUT_BASELINE,
    SEEDS_WANTED,
    SINGLE_RUN,
    SLOW_DEVICE,
    SLOWED,
    STOLEN,
    THROTTLED,
    WIDE,
    WIDTH,
    Outcome,
)
from dpscale.analyse.answer.counts import DEVICES_USED
from dpscale.analyse.timing.blocks import DRIFT_TOLERANCE
from dpscale.formulas.statistics import OUTLIER_DEVIATIONS
from dpscale.present.findings.finding import among, largest, place, verb, where
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import Terms, listed, plural
from dpscale.tables.column import MILLISECONDS, SECONDS
from dpscale.tables.communication import LadderRow
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
    said = "The images are synthetic: noise of the same shape, no photographs"
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
        "Arms were trained on noise, which holds nothing to learn",
        "Training accuracy says how much was memorised, and test accuracy is chance",
    )


@where(FEW_SEEDS)
def _few_seeds(few: Outcome[TrainingSummaryRow], terms: Terms) -> Caution:
    trained = f"{among(few, 'arm')} {verb(few)} trained with fewer than {SEEDS_WANTED} seeds"
    return Caution(trained, "How much seeds differ is hardly known there")


def _no_records(tables: Tables, terms: Terms) -> Caution | None:
    return None if tables.records else Caution("Nothing has been measured yet: there is no record")


def _missing(tables: Tables, terms: Terms) -> Caution | None:
    """The page is partial: say so, and how much of it is missing."""
    failed = FAILED.of(tables.missing)
    if not failed.asked:
        return None
    counts = {"failed": failed.number, "rejected": len(tables.rejected)}
    known = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    why = f" ({known})" if known else ""
    return Caution(
        f"This page is partial: {plural(failed.of, 'cell')} without a record that can be used{why}",
        "Which, and what their logs say, is under Not run",
    )


@where(REJECTED)
def _rejected(rejected: Outcome[RejectedRow], terms: Terms) -> Caution:
    return Caution(f"{plural(rejected.number, 'record')} could not be used", "The reasons are under Provenance")


def _several_environments(tables: Tables, terms: Terms) -> Caution | None:
    if not terms.several_environments:
        return None
    environments = tables.environments
    letters = listed([row.environment for row in environments])
    return Caution(
        f"The records come from {len(environments)} environments ({letters}), which differ in: "
        f"{_differences(environments, terms)}",
        "Their numbers are never pooled",
    )


def _differences(environments: Sequence[EnvironmentsRow], terms: Terms) -> str:
    """`device, links, driver`: in what environments differ."""
    names = {**_HARDWARE, **{name: name for name in SOFTWARE}, "dataset_sha256": terms.samples}
    differ = (name for column, name in names.items() if len({getattr(row, column) for row in environments}) > 1)
    return listed(list(differ)) or "nothing that is recorded here"


@where(SINGLE_RUN)
def _single_run(single: Outcome[TimesRow], terms: Terms) -> Caution:
    return Caution(
        f"{among(single, 'configuration')} {verb(single)} measured in one run",
        "Their numbers have no interval and are not confirmed",
    )


@where(ON_ONE_SERVER)
def _on_one_server(alike: Outcome[TimesRow], terms: Terms) -> Caution:
    return Caution(
        f"{among(alike, 'configuration')} {verb(alike)} measured on one server",
        "Their intervals are over its runs and say nothing of another server",
    )


@where(DRIFTED)
def _drifted(drifted: Outcome[BlocksRow], terms: Terms) -> Caution:
    most = largest(drifted.holding, lambda row: abs(row.drift))
    return Caution(
        f"In {among(drifted, 'run')}, 1 {terms.device} alone changed its speed by more than "
        f"{percent(DRIFT_TOLERANCE, digits=1)} while the run went on, at most by {percent(most.drift)}"
    )


def _because(rows: Iterable[BlocksRow | SpeedupRow]) -> str:
    reasons = sorted({row.reason for row in rows if row.reason})
    return f"Why: {listed(reasons, 2, '; ')}" if reasons else ""


@where(RUN_WITHOUT_BASELINE)
def _runs_without_baseline(without: Outcome[BlocksRow], terms: Terms) -> Caution:
    return Caution(
        f"{among(without, 'run')} {verb(without)} left out of speedups: no time of 1 {terms.device} belongs to "
        f"{'it' if without.number == 1 else 'them'}",
        _because(without.holding),
    )


@where(OFF)
def _outliers(off: Outcome[RunsRow], terms: Terms) -> Caution:
    return Caution(
        f"{among(off, 'run')} {verb(off)} more than {plain(OUTLIER_DEVIATIONS, 1)} robust deviations off the median of "
        "the configuration",
        "All of them stay in",
    )


@where(WIDE)
def _wide_intervals(wide: Outcome[TimesRow], terms: Terms) -> Caution:
    widest = largest(wide.holding, lambda row: row.interval_width)
    return Caution(
        f"{among(wide, 'epoch time')} {'has' if wide.number == 1 else 'have'} an interval wider than "
        f"{percent(WIDTH, digits=2)} of the value",
        f"The widest is {estimate(widest.epoch_s, SECONDS, with_unit=True)} with {place(widest, terms)}",
    )


@where(NO_BASELINE)
def _no_baseline(without: Outcome[SpeedupRow], terms: Terms) -> Caution:
    return Caution(
        f"{among(without, 'speedup')} {verb(without)} missing for want of a time of 1 {terms.device}",
        _because(without.holding),
    )


@where(THROTTLED)
def _throttled(throttled: Outcome[RecordsRow], terms: Terms) -> Caution:
    named = listed(sorted({row.throttle_reasons for row in throttled.holding}))
    return Caution(f"Something slowed the clocks in {among(throttled, 'run')}, for an unknown time: {named}")


@where(SLOWED)
def _slowed(slowed: Outcome[RecordsRow], terms: Terms) -> Caution:
    longest = largest(slowed.holding, lambda row: row.slowed_s)
    policies = listed(sorted({row.slowed_by for row in slowed.holding}))
    return Caution(
        f"{among(slowed, 'run')} hit a limit of the clocks ({policies}) inside timed epochs, for at most "
        f"{measured(longest.slowed_s, SECONDS)}"
    )


@where(SLOW_DEVICE)
def _slow_device(slow: Outcome[LadderRow], terms: Terms) -> Caution:
    worst = largest(slow.holding, lambda row: row.uneven_s.value)
    return Caution(
        f"One {terms.device} is slow in {among(slow, 'configuration')}: {worst.slowest} needs "
        f"{measured(worst.uneven_s.value, MILLISECONDS)} more for a step than the fastest ({terms.point(worst)})",
        "The others wait for it: that is no communication. Leave it out and measure these cells again",
    )


@where(CORES_STOLEN)
def _stolen(stolen: Outcome[RecordsRow], terms: Terms) -> Caution:
    most = largest(stolen.holding, lambda row: row.stolen_share)
    return Caution(
        f"A hypervisor took more than {percent(STOLEN, digits=1)} of the cores inside timed epochs of "
        f"{among(stolen, 'run')}, at most {percent(most.stolen_share)}"
    )


@where(DISTURBED)
def _other_processes(disturbed: Outcome[RecordsRow], terms: Terms) -> Caution:
    return Caution(f"Other processes were seen on the {terms.devices} in {among(disturbed, 'run')}")


def _several_sets_of_gpus(tables: Tables, terms: Terms) -> Caution | None:
    """A host's name does not tell machines apart that all have the same; their GPUs do."""
    used, most = next(((row.number or 0, row.of or 0) for row in tables.counts if row.what == DEVICES_USED), (0, 0))
    if used <= most:
        return None
    return Caution(
        f"The runs used {terms.count(used)} in all, each at most {most:,}",
        f"What these {terms.devices} and their hosts differ by is in every interval",
    )


@where(DIRTY)
def _dirty(dirty: Outcome[RecordsRow], terms: Terms) -> Caution:
    return Caution(
        f"{among(dirty, 'run')} {verb(dirty)} made with uncommitted changes", "Their code is not exactly the commit"
    )


# In the order of the page.
_OF_WHAT_IS_THERE = (_synthetic, _no_records, _missing)
_OF_RECORDS = (
    _single_run, _older_versions, _on_one_server, _wide_intervals, _no_baseline, _runs_without_baseline, _drifted,
    _outliers, _slow_device, _throttled, _slowed, _stolen, _other_processes, _several_sets_of_gpus, _dirty,
    _memorised, _few_seeds,
)  # fmt: skip


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Those of the cautions that change what a number means, to be read before all others."""
    return _said(
        (*_OF_WHAT_IS_THERE, _several_environments, _slow_device, _single_run, _on_one_server, _memorised),
        tables,
        terms,
    )


def cautions(tables: Tables, terms: Terms) -> list[str]:
    """The cautions that hold for these tables."""
    return _said((*_OF_WHAT_IS_THERE, _rejected, _several_environments, *_OF_RECORDS), tables, terms)


def of_records(tables: Tables, terms: Terms) -> list[Caution | None]:
    """The cautions about how things were measured, each kind at its place."""
    return [caution(tables, terms) for caution in _OF_RECORDS]


def _said(kinds: Iterable[Callable[[Tables, Terms], Caution | None]], tables: Tables, terms: Terms) -> list[str]:
    return [str(caution) for find in kinds if (caution := find(tables, terms))]
