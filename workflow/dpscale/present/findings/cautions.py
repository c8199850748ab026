"""What a reader must know before trusting the numbers: sentences computed from the data."""

from collections.abc import Iterable, Sequence

from dpscale.analyse.answer.claims import (
    BORROWED,
    DISTURBED,
    DRIFTED,
    FAILED,
    INTERVALS_USED,
    MISSED_OF_100,
    ON_ONE_SERVER,
    SINGLE_RUN,
    SLOW_DEVICE,
    SLOWED,
    Outcome,
)
from dpscale.analyse.timing.points import DRIFT_TOLERANCE
from dpscale.present.findings.finding import among, largest, where
from dpscale.present.text.numbers import measured, percent
from dpscale.present.text.words import Terms, capitalised, joined, listed, plural, scope, span
from dpscale.records.versions import OLDER
from dpscale.tables.answer import CountsRow
from dpscale.tables.column import MILLISECONDS, SECONDS
from dpscale.tables.communication import LadderRow
from dpscale.tables.study import EnvironmentsRow, MissingRow, RecordsRow, RejectedRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, SpeedupRow, TimesRow


def _synthetic(terms: Terms) -> str:
    if not terms.synthetic:
        return ""
    return "The images are synthetic: noise of the same shape, which holds nothing to learn. Test accuracy is chance."


def _missing(missing: Sequence[MissingRow], rejected: Sequence[RejectedRow]) -> str:
    """Say that the page is partial, and how much of it is missing."""
    failed = FAILED.of(missing)
    if not failed.asked:
        return ""
    counts = {"failed": failed.number, "rejected": len(rejected)}
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in counts.items() if number)
    why = f" ({reasons})" if reasons else ""
    return (
        f"This page is partial: {plural(failed.of, 'cell')} without a record that can be used{why}. "
        "Which, and what their logs say, is under Not run."
    )


def _several_environments(environments: Iterable[EnvironmentsRow], terms: Terms) -> str:
    letters = [row.environment for row in environments]
    return (
        f"The records come from {len(letters)} environments ({listed(letters)}). Their numbers are never pooled: "
        "Set-up says how they differ."
        if terms.several_environments
        else ""
    )


@where(SLOW_DEVICE)
def _slow_device(slow: Outcome[LadderRow], terms: Terms) -> str:
    worst = largest(slow.holding, lambda row: row.uneven_s.value)
    return (
        f"One {terms.device} is slow in {among(slow, 'configuration')}: {worst.slowest} needs "
        f"{measured(worst.uneven_s.value, MILLISECONDS)} more for a step than the fastest ({terms.point(worst)}). The "
        "others wait for it: that is no communication. Leave it out and measure these cells again."
    )


@where(SINGLE_RUN)
def _single_run(single: Outcome[TimesRow], terms: Terms) -> str:
    return f"{_were(single)} measured in one run. Their numbers have no interval and are not confirmed."


@where(ON_ONE_SERVER)
def _on_one_server(alike: Outcome[TimesRow], terms: Terms) -> str:
    return f"{_were(alike)} measured on one server. Their numbers say nothing of another server."


def _older_versions(environments: Iterable[EnvironmentsRow], terms: Terms) -> str:
    """Say what of an environment was measured by an older version of this program, and what that means."""
    sentences = []
    for row in environments:
        versions = [version for version in row.older_measurements.split("; ") if version in OLDER]
        if versions:
            sentences.append(f"Records{terms.environment(row)} are of older versions of this program.")
            sentences += [f"{capitalised(version)}: {terms.filled(OLDER[version])}." for version in versions]
    return " ".join(sentences)


def _different_cores(environments: Iterable[EnvironmentsRow], terms: Terms) -> str:
    """Say that jobs with other numbers of cores are pooled: where the host decides, that is a difference of
    machines."""
    sentences = []
    for row in environments:
        cores = sorted(row.cpu_cores.split("; "), key=lambda number: (len(number), number))
        if len(cores) > 1:
            sentences.append(
                f"Jobs with {joined(cores)} cores are pooled{terms.environment(row)}. Where steps wait for the host, "
                f"times may differ for that, those of 1 {terms.device} too."
            )
    return " ".join(sentences)


@where(BORROWED)
def _borrowed(borrowed: Outcome[SpeedupRow], terms: Terms) -> str:
    lenders = span(row.borrowed_from for row in borrowed.holding)
    units = "two runs" if all(row.speedup.is_one_machine for row in borrowed.holding) else "two servers"
    ground = f"{units}, and the spread of {lenders} other configurations"
    return f"The intervals of {among(borrowed, 'speedup')} rest on {ground}."


@where(DRIFTED)
def _drifted(drifted: Outcome[BlocksRow], terms: Terms) -> str:
    most = largest(drifted.holding, lambda row: abs(row.drift))
    run = f"{most.block} of {terms.point(most)}, {scope(most.scope)}"
    return (
        f"In {among(drifted, 'run')}, 1 {terms.device} alone changed its speed by more than "
        f"{percent(DRIFT_TOLERANCE, digits=1)} while the run went on, at most by {percent(most.drift)} ({run}). "
        "No run is left out."
    )


@where(SLOWED)
def _slowed(slowed: Outcome[RecordsRow], terms: Terms) -> str:
    longest = largest(slowed.holding, lambda row: row.slowed_s)
    policies = listed(sorted({row.slowed_by for row in slowed.holding}))
    return (
        f"{among(slowed, 'run')} hit a limit of the clocks ({policies}) inside timed epochs, for at most "
        f"{measured(longest.slowed_s, SECONDS)}."
    )


@where(DISTURBED)
def _other_processes(disturbed: Outcome[RecordsRow], terms: Terms) -> str:
    return f"Other processes were seen on the {terms.devices} in {among(disturbed, 'run')}."


def _were(outcome: Outcome[TimesRow]) -> str:
    return f"{among(outcome, 'configuration')} {'was' if outcome.number == 1 else 'were'}"


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions that change what a number means, to be read before all others."""
    cautions = (
        _slow_device(tables.ladder, terms),
        _synthetic(terms),
        _missing(tables.missing, tables.rejected),
        _several_environments(tables.environments, terms),
        _single_run(tables.times, terms),
        _on_one_server(tables.times, terms),
    )
    return list(filter(None, cautions))


def other_cautions(tables: Tables, terms: Terms) -> list[str]:
    cautions = (
        _older_versions(tables.environments, terms),
        _different_cores(tables.environments, terms),
        _borrowed(tables.speedup, terms),
        _drifted(tables.blocks, terms),
        _slowed(tables.records, terms),
        _other_processes(tables.records, terms),
    )
    return list(filter(None, cautions))


def of_records(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions about how things were measured."""
    cautions = (
        _slow_device(tables.ladder, terms),
        _single_run(tables.times, terms),
        _on_one_server(tables.times, terms),
    )
    return [*filter(None, cautions), *other_cautions(tables, terms)]


def by_chance(counts: Iterable[CountsRow]) -> str:
    """Say how many intervals are looked at, and how many of so many miss; "" where there is none."""
    looked_at = next((row.number for row in counts if row.what == INTERVALS_USED), None)
    if not looked_at:
        return ""
    return (
        f"Findings are chosen from {plural(looked_at, 'interval')} of 95 %. Of 100 such intervals, {MISSED_OF_100} "
        "miss the true value by chance alone."
    )
