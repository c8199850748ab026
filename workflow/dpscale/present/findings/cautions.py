"""What a reader must know before trusting the numbers: sentences computed from the data, "" where they are not true."""

from collections.abc import Iterable, Sequence
from typing import Any

from dpscale.analyse.answer.claims import (
    DISTURBED,
    DRIFTED,
    HOT,
    INTERVALS_USED,
    MISSED_OF_100,
    ON_ONE_SERVER,
    SINGLE_RUN,
    SLOW_DEVICE,
    SLOWED,
    Outcome,
)
from dpscale.analyse.timing.points import DRIFT_TOLERANCE
from dpscale.present.text.numbers import measured, percent
from dpscale.present.text.words import Terms, capitalised, largest, listed, out_of, plural
from dpscale.records import OLDER
from dpscale.tables.answer import CountsRow
from dpscale.tables.column import MILLISECONDS
from dpscale.tables.communication import LadderRow
from dpscale.tables.study import EnvironmentsRow, MissingRow, RecordsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, TimesRow


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions that change what a number means, to be read before all others."""
    cautions = (
        _slow_device(tables.ladder, terms),
        _synthetic(terms),
        _missing(tables.missing),
        _several_environments(tables.environments, terms),
        _single_run(tables.times),
    )
    return list(filter(None, cautions))


def other_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions to be read after the numbers."""
    cautions = (
        _older_versions(tables.environments, terms),
        _on_one_server(tables.times),
        _different_cores(tables.environments, terms),
        _drifted(tables.blocks, terms),
        _slowed(tables.records),
        _hot(tables.records, terms),
        _other_processes(tables.records, terms),
    )
    return list(filter(None, cautions))


def by_chance(counts: Iterable[CountsRow]) -> str:
    """Say how many intervals are looked at, and how many of so many miss; "" where there is none."""
    looked_at = next((row.number for row in counts if row.claim == INTERVALS_USED), None)
    if not looked_at:
        return ""
    return (
        f"Findings are chosen from {plural(looked_at, 'interval')} of 95 %. Of 100 such intervals, {MISSED_OF_100} "
        "miss the true value by chance alone."
    )


def _in_how_many(outcome: Outcome[Any], noun: str) -> str:
    """`2 of 8 configurations`; "" where the claim holds for none."""
    return out_of(outcome.number, outcome.of, noun) if outcome.holding else ""


def _slow_device(rows: Sequence[LadderRow], terms: Terms) -> str:
    slow = SLOW_DEVICE.of(rows)
    number = _in_how_many(slow, "configuration")
    if not number:
        return ""
    worst = largest(slow.holding, lambda row: row.uneven_s.value)
    return (
        f"One {terms.device} is slow in {number}: {worst.slowest} needs {measured(worst.uneven_s.value, MILLISECONDS)} "
        f"more for a step than the fastest ({terms.point(worst)}). The others wait for it: that is no communication. "
        "Leave it out and measure these cells again."
    )


def _synthetic(terms: Terms) -> str:
    if not terms.synthetic:
        return ""
    return "The images are synthetic: noise of the same shape, which holds nothing to learn. Test accuracy is chance."


def _missing(missing: Sequence[MissingRow]) -> str:
    """Say that the page is partial, and how much of it is missing."""
    if not missing:
        return ""
    cells = f"{plural(len(missing), 'cell')} without a record that can be used"
    return f"This page is partial: {cells}. Which, and what their logs say, is under Not run."


def _several_environments(environments: Sequence[EnvironmentsRow], terms: Terms) -> str:
    if not terms.several_environments:
        return ""
    letters = ", ".join(row.environment for row in environments)
    return f"The records come from environments {letters}, which are never pooled: Set-up says how they differ."


def _single_run(times: Sequence[TimesRow]) -> str:
    number = _in_how_many(SINGLE_RUN.of(times), "configuration")
    return number and f"Measured in one run, so without an interval and not confirmed: {number}."


def _on_one_server(times: Sequence[TimesRow]) -> str:
    number = _in_how_many(ON_ONE_SERVER.of(times), "configuration")
    return number and f"Measured on one server, which says nothing of another: {number}."


def _older_versions(environments: Iterable[EnvironmentsRow], terms: Terms) -> str:
    """Say what of an environment was measured by an older version of this program, and what that means."""
    sentences = []
    for row in environments:
        versions = [version for version in row.measurement_versions.split("; ") if version in OLDER]
        if versions:
            sentences.append(f"Records{terms.environment(row)} are of older versions of this program.")
            sentences += [f"{capitalised(version)}: {terms.filled(OLDER[version])}." for version in versions]
    return " ".join(sentences)


def _different_cores(environments: Iterable[EnvironmentsRow], terms: Terms) -> str:
    """Say that jobs with other numbers of cores are pooled: where the host decides, that is a difference of
    machines."""
    sentences = [
        f"Jobs with {row.cpu_cores.replace('; ', ', ')} cores are pooled{terms.environment(row)}: where steps wait for "
        f"the host, times may differ for that, those of 1 {terms.device} too."
        for row in environments
        if "; " in row.cpu_cores
    ]
    return " ".join(sentences)


def _drifted(blocks: Sequence[BlocksRow], terms: Terms) -> str:
    drifted = DRIFTED.of(blocks)
    number = _in_how_many(drifted, "run")
    if not number:
        return ""
    most = max(abs(row.drift) for row in drifted.holding)
    return (
        f"In {number}, 1 {terms.device} alone changed its speed by more than {percent(DRIFT_TOLERANCE, digits=1)} "
        f"while the run went on, at most by {percent(most)}. No run is left out."
    )


def _slowed(records: Sequence[RecordsRow]) -> str:
    number = _in_how_many(SLOWED.of(records), "run")
    return number and f"A limit of the clocks was hit inside timed epochs in {number}."


def _hot(records: Sequence[RecordsRow], terms: Terms) -> str:
    hot = HOT.of(records)
    number = _in_how_many(hot, "run")
    if not number:
        return ""
    devices = sorted({device for row in hot.holding for device in row.hot_devices.split("; ")})
    return (
        f"The driver says that heat slowed {listed(devices)} in {number}. These runs count here as all others do; a "
        f"{terms.device} of the kind that stays cool is faster."
    )


def _other_processes(records: Sequence[RecordsRow], terms: Terms) -> str:
    number = _in_how_many(DISTURBED.of(records), "run")
    return number and f"Other processes were seen on the {terms.devices} in {number}."
