"""What a reader must know before trusting the numbers: sentences computed from the data, or None."""

from collections.abc import Sequence

from dpscale.analyse.answer.claims import (
    DISTURBED,
    DRIFTED,
    FAILED,
    ON_ONE_SERVER,
    SINGLE_RUN,
    SLOW_DEVICE,
    SLOWED,
    Outcome,
)
from dpscale.analyse.timing.blocks import DRIFT_TOLERANCE
from dpscale.present.findings.finding import Finder, among, largest, where
from dpscale.present.text.numbers import measured, percent
from dpscale.present.text.words import Terms, listed, plural
from dpscale.tables.column import MILLISECONDS, SECONDS
from dpscale.tables.communication import LadderRow
from dpscale.tables.study import RecordsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, TimesRow


def _synthetic(tables: Tables, terms: Terms) -> str | None:
    said = "The images are synthetic: noise of the same shape, which holds nothing to learn. Test accuracy is chance."
    return said if terms.synthetic else None


def _missing(tables: Tables, terms: Terms) -> str | None:
    """The page is partial: say so, and how much of it is missing."""
    failed = FAILED.of(tables.missing)
    if not failed.asked:
        return None
    counts = {"failed": failed.number, "rejected": len(tables.rejected)}
    known = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    why = f" ({known})" if known else ""
    return (
        f"This page is partial: {plural(failed.of, 'cell')} without a record that can be used{why}. "
        "Which, and what their logs say, is under Not run."
    )


def _several_environments(tables: Tables, terms: Terms) -> str | None:
    letters = [row.environment for row in tables.environments]
    return (
        f"The records come from {len(letters)} environments ({listed(letters)}). Their numbers are never pooled: "
        "Set-up says how they differ."
        if terms.several_environments
        else None
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
    return (
        f"{_were(single, 'configuration')} measured in one run. Their numbers have no interval and are not confirmed."
    )


@where(ON_ONE_SERVER)
def _on_one_server(alike: Outcome[TimesRow], terms: Terms) -> str:
    return (
        f"{_were(alike, 'configuration')} measured on one server. Their intervals are over its runs and say nothing of "
        "another server."
    )


def _older_versions(tables: Tables, terms: Terms) -> str | None:
    older = [f"{row.environment} ({row.older_measurements})" for row in tables.environments if row.older_measurements]
    return (
        f"Older versions of the measurement made records of environment {listed(older)}. They are shown as what they "
        "are, and never pooled with newer ones."
        if older
        else None
    )


@where(DRIFTED)
def _drifted(drifted: Outcome[BlocksRow], terms: Terms) -> str:
    most = largest(drifted.holding, lambda row: abs(row.drift))
    return (
        f"In {among(drifted, 'run')}, 1 {terms.device} alone changed its speed by more than "
        f"{percent(DRIFT_TOLERANCE, digits=1)} while the run went on, at most by {percent(most.drift)}."
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


def _were(outcome: Outcome[TimesRow], noun: str) -> str:
    return f"{among(outcome, noun)} {'was' if outcome.number == 1 else 'were'}"


_FIRST = (_slow_device, _synthetic, _missing, _several_environments, _single_run, _on_one_server)
_OTHERS = (_older_versions, _drifted, _slowed, _other_processes)


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Those of the cautions that change what a number means, to be read before all others."""
    return _said(_FIRST, tables, terms)


def other_cautions(tables: Tables, terms: Terms) -> list[str]:
    return _said(_OTHERS, tables, terms)


def of_records(tables: Tables, terms: Terms) -> list[str]:
    """The cautions about how things were measured."""
    return _said((_slow_device, _single_run, _on_one_server, *_OTHERS), tables, terms)


def _said(kinds: Sequence[Finder], tables: Tables, terms: Terms) -> list[str]:
    return [caution for find in kinds if (caution := find(tables, terms))]
