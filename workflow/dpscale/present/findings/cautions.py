"""What a reader must know before trusting the numbers: sentences computed from the data, "" where they are not true."""

from collections.abc import Iterable, Sequence

from dpscale.analyse.answer.claims import (
    BORROWED,
    DISTURBED,
    DRIFTED,
    INTERVALS_USED,
    MISSED_OF_100,
    ON_ONE_SERVER,
    SINGLE_RUN,
    SLOW_DEVICE,
    SLOWED,
    Claim,
)
from dpscale.analyse.timing.points import DRIFT_TOLERANCE
from dpscale.present.text.numbers import measured, percent
from dpscale.present.text.words import Terms, capitalised, joined, largest, listed, out_of, plural, scope, span
from dpscale.records import OLDER
from dpscale.tables.answer import CountsRow
from dpscale.tables.column import MILLISECONDS, SECONDS
from dpscale.tables.communication import LadderRow
from dpscale.tables.study import EnvironmentsRow, MissingRow, RecordsRow, RejectedRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, SpeedupRow, TimesRow


def first_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions that change what a number means, to be read before all others."""
    cautions = (
        _slow_device(tables.ladder, terms),
        _synthetic(terms),
        _missing(tables.missing, tables.rejected),
        _several_environments(tables.environments, terms),
        _single_run(tables.times),
        _on_one_server(tables.times),
    )
    return list(filter(None, cautions))


def other_cautions(tables: Tables, terms: Terms) -> list[str]:
    """Return the cautions to be read after the numbers."""
    cautions = (
        _older_versions(tables.environments, terms),
        _different_cores(tables.environments, terms),
        _borrowed(tables.speedup),
        _drifted(tables.blocks, terms),
        _slowed(tables.records),
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


def _slow_device(rows: Sequence[LadderRow], terms: Terms) -> str:
    slow = SLOW_DEVICE.of(rows)
    if not slow.holding:
        return ""
    worst = largest(slow.holding, lambda row: row.uneven_s.value)
    return (
        f"One {terms.device} is slow in {out_of(slow.number, slow.of, 'configuration')}: {worst.slowest} needs "
        f"{measured(worst.uneven_s.value, MILLISECONDS)} more for a step than the fastest ({terms.point(worst)}). The "
        "others wait for it: that is no communication. Leave it out and measure these cells again."
    )


def _synthetic(terms: Terms) -> str:
    if not terms.synthetic:
        return ""
    return "The images are synthetic: noise of the same shape, which holds nothing to learn. Test accuracy is chance."


def _missing(missing: Sequence[MissingRow], rejected: Sequence[RejectedRow]) -> str:
    """Say that the page is partial, and how much of it is missing."""
    if not missing:
        return ""
    counts = {"failed": len([row for row in missing if row.status == "failed"]), "rejected": len(rejected)}
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in counts.items() if number)
    return (
        f"This page is partial: {plural(len(missing), 'cell')} without a record that can be used"
        f"{f' ({reasons})' if reasons else ''}. Which, and what their logs say, is under Not run."
    )


def _several_environments(environments: Sequence[EnvironmentsRow], terms: Terms) -> str:
    if not terms.several_environments:
        return ""
    return (
        f"The records come from {len(environments)} environments "
        f"({listed([row.environment for row in environments])}). Their numbers are never pooled: Set-up says how they "
        "differ."
    )


def _single_run(times: Sequence[TimesRow]) -> str:
    were_measured = _were_measured(SINGLE_RUN, times)
    return f"{were_measured} in one run. Their numbers have no interval and are not confirmed." if were_measured else ""


def _on_one_server(times: Sequence[TimesRow]) -> str:
    were_measured = _were_measured(ON_ONE_SERVER, times)
    return f"{were_measured} on one server. Their numbers say nothing of another server." if were_measured else ""


def _were_measured(claim: Claim[TimesRow], times: Sequence[TimesRow]) -> str:
    """`2 of 8 configurations were measured`; "" where the claim holds for none."""
    outcome = claim.of(times)
    were = "was" if outcome.number == 1 else "were"
    return f"{out_of(outcome.number, outcome.of, 'configuration')} {were} measured" if outcome.holding else ""


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
    sentences = []
    for row in environments:
        cores = sorted(row.cpu_cores.split("; "), key=lambda number: (len(number), number))
        if len(cores) > 1:
            sentences.append(
                f"Jobs with {joined(cores)} cores are pooled{terms.environment(row)}. Where steps wait for the host, "
                f"times may differ for that, those of 1 {terms.device} too."
            )
    return " ".join(sentences)


def _borrowed(speedup: Sequence[SpeedupRow]) -> str:
    borrowed = BORROWED.of(speedup)
    if not borrowed.holding:
        return ""
    units = "two runs" if all(row.speedup.is_one_machine for row in borrowed.holding) else "two servers"
    return (
        f"The intervals of {out_of(borrowed.number, borrowed.of, 'speedup')} rest on {units}, and the spread of "
        f"{span(row.borrowed_from for row in borrowed.holding)} other configurations."
    )


def _drifted(blocks: Sequence[BlocksRow], terms: Terms) -> str:
    drifted = DRIFTED.of(blocks)
    if not drifted.holding:
        return ""
    most = largest(drifted.holding, lambda row: abs(row.drift))
    return (
        f"In {out_of(drifted.number, drifted.of, 'run')}, 1 {terms.device} alone changed its speed by more than "
        f"{percent(DRIFT_TOLERANCE, digits=1)} while the run went on, at most by {percent(most.drift)} ({most.block} "
        f"of {terms.point(most)}, {scope(most.scope)}). No run is left out."
    )


def _slowed(records: Sequence[RecordsRow]) -> str:
    slowed = SLOWED.of(records)
    if not slowed.holding:
        return ""
    longest = largest(slowed.holding, lambda row: row.slowed_s)
    return (
        f"{out_of(slowed.number, slowed.of, 'run')} hit a limit of the clocks "
        f"({listed(sorted({row.slowed_by for row in slowed.holding}))}) inside timed epochs, for at most "
        f"{measured(longest.slowed_s, SECONDS)}."
    )


def _other_processes(records: Sequence[RecordsRow], terms: Terms) -> str:
    disturbed = DISTURBED.of(records)
    if not disturbed.holding:
        return ""
    runs = out_of(disturbed.number, disturbed.of, "run")
    return f"Other processes were seen on the {terms.devices} in {runs}."
