"""What the data say of communication: how its estimates agree. As in `scaling`."""

from collections.abc import Sequence

from dpscale.analyse.answer.claims import (
    AGREEMENT,
    AGREEMENT_BATCH,
    APART,
    MORE_THAN_COMMUNICATION,
    PARTS_OFF,
    PROFILER_LEFT_OUT,
    PROFILING_SLOWS,
    SUM_OF_PARTS,
    WAITING,
    Outcome,
)
from dpscale.analyse.communication.estimators import DISTORTED_BEYOND
from dpscale.formulas.figure import Figure
from dpscale.present.findings.finding import all_of, among, largest, says
from dpscale.present.text.numbers import estimate, percent
from dpscale.present.text.words import Terms, capitalised, plural
from dpscale.tables.column import MILLISECONDS
from dpscale.tables.communication import CommunicationRow, StepsRow


@says(APART, "estimates", of_all=True)
def estimates_agree(apart: Outcome[CommunicationRow], terms: Terms) -> str:
    """ddp at large batches: exposed communication by ablation (E2) against the profiler's (E3)."""
    they = f"Ablation (E2) and profiler (E3) {'disagree' if apart.holding else 'agree'} on exposed communication"
    limits = f"from batch {AGREEMENT_BATCH} per {terms.device} on, within {percent(AGREEMENT)} or their intervals"
    named = [
        f"{capitalised(terms.point(row))}: {_ms(row.ablation_step_s)} and {_ms(row.profiler_exposed_step_s)} per step."
        for row in apart.holding
    ]
    counted = among(apart, "configuration") if named else f"all {plural(apart.of, 'configuration')}"
    return " ".join([f"{they} in {counted} {limits}.", *named])


@says(MORE_THAN_COMMUNICATION, "estimates")
def subtraction_is_not_communication(less: Outcome[CommunicationRow], terms: Terms) -> str:
    """Where the profiler sees wholly less communication than subtraction says: the largest such share."""
    most = largest(less.holding, lambda row: row.beyond_profiler_s)
    return (
        f"Subtraction (E1) counts more than communication in {among(less, 'configuration')}. The largest difference "
        f"is with {terms.point(most)}: {_ms(most.communication_step_s)} per step by subtraction, "
        f"{_ms(most.profiler_step_s)} by the profiler (E3)."
    )


@says(WAITING, "estimates")
def communication_is_waiting(longer: Outcome[CommunicationRow], terms: Terms) -> str:
    """ddp's configuration in which collectives last longest beyond those of the device that waited least."""
    most = largest(longer.holding, lambda row: row.waiting_step_s)
    alone = ""
    if most.isolated_step_s.is_known:
        alone = f" Alone, the same messages take {_ms(most.isolated_step_s)} (E5)."
    return (
        f"{terms.heading} wait for each other inside collectives in {among(longer, 'configuration')} of ddp. They wait "
        f"most with {terms.point(most)}: collectives take {_ms(most.profiler_step_s)} of a step on the mean "
        f"{terms.device} and {_ms(most.profiler_least_step_s)} on the one that waits least.{alone}"
    )


@says(PARTS_OFF)
def parts_make_the_step(off: Outcome[StepsRow], terms: Terms) -> str:
    """Where the profiled parts do not add up to the step by the host's clock."""
    most = largest(off.holding, lambda row: abs(row.difference))
    return (
        f"The parts of {among(off, 'profiled step')} differ from the step by the host's clock by more than "
        f"{percent(SUM_OF_PARTS)}. The largest difference is {percent(most.difference)}, with {terms.point(most)}."
    )


@says(PROFILING_SLOWS, "estimates")
def profiler_slows(slowed: Outcome[CommunicationRow], terms: Terms) -> str:
    """How much longer a step takes while it is profiled, where that is more than its parts may be off."""
    most = largest(slowed.holding, lambda row: row.profiler_slows_by)
    return (
        f"Profiling makes steps longer by more than {percent(SUM_OF_PARTS)} in {among(slowed, 'configuration')}. "
        f"The most is {percent(most.profiler_slows_by)}, with {terms.point(most)}."
    )


def profiler_left_out(communication: Sequence[CommunicationRow]) -> str:
    """Of how many configurations the profiled step is no witness of the step; "" where it is one of all."""
    left_out = PROFILER_LEFT_OUT.of(communication)
    if not left_out.holding:
        return ""
    return (
        f"Left out: {among(left_out, 'configuration')}. There the profiler makes the step more than "
        f"{percent(DISTORTED_BEYOND)} longer, or shows more exposed communication than the step has room for."
    )


def _ms(figure: Figure) -> str:
    return estimate(figure, MILLISECONDS, with_unit=True)


communication_findings = all_of(
    subtraction_is_not_communication, estimates_agree, communication_is_waiting, parts_make_the_step, profiler_slows,
)  # fmt: skip
