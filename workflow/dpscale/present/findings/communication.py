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
from dpscale.present.findings.finding import Finding, all_of, among, finding, largest, says, where
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import Terms, plural
from dpscale.tables.column import MILLISECONDS
from dpscale.tables.communication import CommunicationRow, StepsRow
from dpscale.tables.tables import Tables

# How much of a step is most of it.
MOSTLY = 0.5


@where(APART, of_all=True)
def estimates_agree(apart: Outcome[CommunicationRow], terms: Terms) -> Finding:
    """ddp at large batches: exposed communication by ablation (E2) against the profiler's (E3)."""
    limit = f"within their intervals or {percent(AGREEMENT)}"
    from_batch = f"ddp from batch {AGREEMENT_BATCH} per {terms.device} on"
    named = "; ".join(
        f"{_ms(row.ablation_step_s)} against {_ms(row.profiler_exposed_step_s)} per step, with {terms.point(row)}"
        for row in apart.holding
    )
    they = "Exposed communication by ablation (E2) and by the profiler (E3)"
    sentence = (
        f"{they} do not agree {limit} in {among(apart, 'configuration')} of {from_batch}: {named}."
        if apart.holding
        else f"{they} agree {limit} in all {plural(apart.of, 'configuration')} of {from_batch}."
    )
    return finding(sentence, "estimates", apart.holding or apart.asked, terms)


@says(MORE_THAN_COMMUNICATION, "estimates")
def subtraction_is_not_communication(less: Outcome[CommunicationRow], terms: Terms) -> str:
    """Where the profiler sees wholly less communication than subtraction says: the largest such share."""
    most = largest(less.holding, lambda row: row.beyond_profiler_s)
    step = measured(most.step_s, MILLISECONDS, digits=4)
    return (
        f"Subtraction (E1) counts more than communication in {among(less, 'configuration')}, most with "
        f"{terms.point(most)}: it says {_ms(most.communication_step_s)} of a step of {step}; NCCL's kernels "
        f"and copies between {terms.devices} take {_ms(most.profiler_step_s)} (E3)."
    )


@says(WAITING, "estimates")
def communication_is_waiting(longer: Outcome[CommunicationRow], terms: Terms) -> str:
    """ddp's configuration in which collectives last longest beyond those of the device that waited least."""
    most = largest(longer.holding, lambda row: row.waiting_step_s)
    alone = ""
    if most.isolated_step_s.is_known:
        alone = f"; the same messages with nothing else running take {_ms(most.isolated_step_s)} (E5)"
    return (
        f"In {among(longer, 'configuration')} of ddp, {terms.devices} wait for each other "
        f"inside their collectives, most with {terms.point(most)}: {_ms(most.profiler_step_s)} of a step on "
        f"the mean {terms.device}, {_ms(most.profiler_least_step_s)} on the one that waited least{alone}."
    )


def host_leaves_devices_idle(tables: Tables, terms: Terms) -> Finding | None:
    """The profiled step with the largest share in which the first device has nothing to do."""
    first = (row for row in tables.steps if row.device == 0 and row.profiler == "ok")
    most = max((row for row in first if row.idle_share >= MOSTLY), key=lambda row: row.idle_share, default=None)
    if most is None:
        return None
    return finding(
        f"Nothing runs on {terms.device} 0 during {percent(most.idle_share)} of a profiled step, and it "
        f"communicates without computing during {percent(most.communication_share)} of it, with "
        f"{terms.point(most)}.",
        "steps",
        [most],
        terms,
    )


@says(PARTS_OFF, of_all=True)
def parts_make_the_step(off: Outcome[StepsRow], terms: Terms) -> str:
    """Whether the profiled parts of every step add up to the step by the host's clock."""
    most = largest(off.asked, lambda row: abs(row.difference))
    where = f"at most {percent(most.difference)} off, with {terms.point(most)}, {terms.device} {most.device}"
    if off.holding:
        return (
            f"In {among(off, 'profiled step')} the parts do not add up to the step by the "
            f"host's clock within {percent(SUM_OF_PARTS)}: {where}."
        )
    return (
        f"The parts of all {plural(off.of, 'profiled step')} add up to the step by the host's clock within "
        f"{percent(SUM_OF_PARTS)}: {where}."
    )


@says(PROFILING_SLOWS, "estimates")
def profiler_slows(slowed: Outcome[CommunicationRow], terms: Terms) -> str:
    """How much longer a step takes while it is profiled, where that is more than its parts may be off."""
    most = largest(slowed.holding, lambda row: row.profiler_slows_by)
    return (
        f"Profiling itself slows {among(slowed, 'configuration')} by more than "
        f"{percent(SUM_OF_PARTS)}, by {percent(most.profiler_slows_by)} at most, with {terms.point(most)}."
    )


def profiler_left_out(communication: Sequence[CommunicationRow]) -> str:
    """Of how many configurations the profiled step is no witness of the step; "" where it is one of all."""
    left_out = PROFILER_LEFT_OUT.of(communication)
    if not left_out.holding:
        return ""
    return (
        f"Left out: {among(left_out, 'configuration')}. Their profiled step is more than "
        f"{percent(DISTORTED_BEYOND)} longer than the unprofiled one, or shows more exposed communication than there "
        "is room for in that."
    )


def measuring_communication_costs(tables: Tables, terms: Terms) -> Finding | None:
    """What the measurements of communication cost, beside the timing cells."""
    took = {row.measured: row.gpu_s for row in tables.costs}
    if not {"timing", "communication"} <= set(took):
        return None
    more, timing = (plain(took[name], 3) for name in ("communication", "timing"))
    sentence = f"Measuring communication took {more} {terms.device}-seconds, the timing cells {timing}."
    found = [row.kind for row in tables.records if row.kind in ("timing", "collectives", "communication")]
    kinds = ["timing", *(kind for kind in ("collectives", "communication") if kind in found)]
    return Finding(sentence, "records", len(found), [f"{kind} cells" for kind in kinds])


def _ms(figure: Figure) -> str:
    return estimate(figure, MILLISECONDS, with_unit=True)


communication_findings = all_of(
    subtraction_is_not_communication, estimates_agree, communication_is_waiting, host_leaves_devices_idle,
    parts_make_the_step, profiler_slows, measuring_communication_costs,
)  # fmt: skip
