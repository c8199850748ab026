"""What the data say of communication: how its estimates agree, and how good the forecast is. As in `scaling`."""

from collections.abc import Sequence

from dpscale.analyse.answer.claims import (
    AGREEMENT,
    AGREEMENT_BATCH,
    APART,
    FORECAST_BATCH,
    FORECAST_BEATS,
    FORECAST_HOLDS,
    FORECAST_OFF,
    MORE_THAN_COMMUNICATION,
    PARTS_OFF,
    PROFILER_LEFT_OUT,
    PROFILING_SLOWS,
    SUM_OF_PARTS,
    WAITING,
    Outcome,
)
from dpscale.analyse.communication.estimators import DISTORTED_BEYOND
from dpscale.analyse.forecast.steps import HELD_OUT_TOLERANCE
from dpscale.formulas.figure import Figure
from dpscale.present.findings.finding import Finding, all_of, among, finding, largest, says, where
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import Terms, listed, ok, plural
from dpscale.tables.column import MILLISECONDS, PERCENT
from dpscale.tables.communication import CommunicationRow, StepsRow
from dpscale.tables.forecast import ForecastRow
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.vocabulary.states import WHOLE_STEP

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
    first = (row for row in tables.steps if row.phase == WHOLE_STEP and row.device == 0 and row.profiler == "ok")
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


@says(FORECAST_OFF, "held_out", of_all=True)
def forecast_scored(off: Outcome[ForecastRow], terms: Terms) -> str:
    """How well steps on the most devices are predicted from fewer, and what no model at all would have given."""
    most = largest(off.asked, lambda row: abs(row.relative_error.value))
    unchanged = largest(off.asked, lambda row: abs(row.carried_over_relative_error))
    worst = f"{percent(most.relative_error.value)} at batch {most.batch_per_gpu:,}{terms.environment(most)}"
    tolerance = percent(HELD_OUT_TOLERANCE, digits=2)
    surely = FORECAST_HOLDS.of(off.asked)
    known = among(surely, "batch that has one", "batches that have one")
    whole = f" The whole interval of the error lies within {tolerance} at {known}." if surely.asked else ""
    verdict = (
        f"is off by more than {tolerance} at {among(off, 'batch', 'batches')}"
        if off.holding
        else f"is within {tolerance} of the measured one at every batch from {FORECAST_BATCH} on"
    )
    return (
        f"ddp's step on {terms.count(most.gpus)}, predicted from fewer {terms.devices} alone, {verdict}; the "
        f"largest error is {worst}.{whole} "
        f"The step of {terms.count(most.calibrated_on_gpus)} unchanged is off by up "
        f"to {percent(unchanged.carried_over_relative_error)}. {_against_no_model(FORECAST_BEATS.of(off.asked))}"
    )


def _against_no_model(better: Outcome[ForecastRow]) -> str:
    """Whether the model beats the step on fewer devices unchanged: only as far as it does is it tested."""
    if better.number == better.of:
        return "The model beats that at every batch."
    if not better.number:
        return "The model does not beat that at any batch: this score says nothing of the model of communication."
    return (
        f"The model beats that at {among(better, 'batch', 'batches')}. At the others this score says nothing of the "
        "model of communication."
    )


def published_scaling_scored(tables: Tables, terms: Terms) -> Finding | None:
    """How far the laws of scaling, fitted within a node, are off on the most GPUs that others published times of."""
    scored = ok(tables.published_scaling)
    sentences = []
    for (study, title), part in grouped(scored, lambda row: (row.study, row.title)).items():
        gpus = max(row.gpus for row in part)
        most = [row for row in part if row.gpus == gpus]
        errors = [f"{row.law} {measured(row.relative_error, PERCENT)}" for row in most]
        worse = [row.law for row in most if row.beats_unchanged == "no"]
        verdict = f" {listed(worse)} {'does' if len(worse) == 1 else 'do'} not beat unchanged." if worse else ""
        sentences.append(
            f"{study} ({title}): fitted on {most[0].fitted_on_gpus} GPUs, the laws of scaling are off on "
            f"{gpus} GPUs by {', '.join(errors)} (efficiency as on a node).{verdict}"
        )
    if not sentences:
        return None
    cells = [f"{row.study} × {row.gpus}, {row.law}" for row in scored]
    return Finding("Figures of others, " + " ".join(sentences), "published_scaling", len(scored), cells)


def critical_batch_checked(tables: Tables, terms: Terms) -> Finding | None:
    """From which batch on communication hides behind backward, by the model and by the profiler."""
    most = max((row for row in ok(tables.critical_batch) if row.profiled), key=lambda row: row.gpus, default=None)
    if most is None:
        return None
    seen = most.measured_batch_per_gpu
    by_profiler = "at no batch" if seen is None else f"first at batch {seen:,}"
    sentence = (
        f"{most.reason} So says the model of the overlap; the profiler, on the {terms.device} that waited least, "
        f"sees it {by_profiler}, of the {most.profiled} whose steps it does not change."
    )
    return Finding(sentence, "critical_batch", 1, [f"ddp on {terms.count(most.gpus)}"])


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
    parts_make_the_step, profiler_slows, forecast_scored, published_scaling_scored, critical_batch_checked,
    measuring_communication_costs,
)  # fmt: skip
