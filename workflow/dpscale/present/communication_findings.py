"""What the data say of communication: how its estimates agree, and how good the forecast is. As in `findings`."""

from dpscale.analyse.answer.claims import AGREEMENT, AGREEMENT_BATCH, FORECAST_BATCH, SUM_OF_PARTS
from dpscale.analyse.estimators import DISTORTED
from dpscale.analyse.forecast.steps import HELD_OUT_TOLERANCE
from dpscale.present import words
from dpscale.present.finding import Count, Finding, asked, count, extreme, finding, holding, percent, with_unit
from dpscale.present.words import Tables, Terms
from dpscale.vocabulary.quantities import PERCENT, quantity
from dpscale.vocabulary.states import WHOLE_STEP

# How much of a step is most of it.
MOSTLY = 0.5


def estimates_agree(tables: Tables, terms: Terms) -> Finding | None:
    """ddp at large batches: exposed communication by ablation (E2) against the profiler's (E3)."""
    claim = "ablation and profiler are apart"
    compared, apart = asked(tables, claim), holding(tables, claim)
    if not compared:
        return None
    counted = count(tables, claim)
    limit = f"within their intervals or {percent(AGREEMENT)}"
    from_batch = f"ddp from batch {AGREEMENT_BATCH} per {terms.device} on"
    if not apart:
        return finding(
            f"Exposed communication by ablation (E2) and by the profiler (E3) agree {limit} in all "
            f"{words.plural(counted.of, 'configuration')} of {from_batch}.",
            "estimates",
            compared,
            terms,
        )
    named = "; ".join(
        f"{with_unit(row, 'ablation_step_s')} against {with_unit(row, 'profiler_exposed_step_s')} per step, with "
        f"{terms.point(row)}"
        for row in apart
    )
    return finding(
        f"Exposed communication by ablation (E2) and by the profiler (E3) do not agree {limit} in "
        f"{counted.among('configuration')} of {from_batch}: {named}.",
        "estimates",
        apart,
        terms,
    )


def subtraction_is_not_communication(tables: Tables, terms: Terms) -> Finding | None:
    """Where the profiler sees wholly less communication than subtraction says: the largest such share."""
    claim = "subtraction counts more than communication"
    less = holding(tables, claim)
    if not less:
        return None
    most = extreme(less, "beyond_profiler_s", largest=True)
    step = words.measured(most["step_s"], quantity("step_s").unit, digits=4)
    return finding(
        f"Subtraction (E1) counts more than communication in {count(tables, claim).among('configuration')}, most with "
        f"{terms.point(most)}: it says {with_unit(most, 'communication_step_s')} of a step of {step}; NCCL's kernels "
        f"and copies between {terms.devices} take {with_unit(most, 'profiler_step_s')} (E3).",
        "estimates",
        less,
        terms,
    )


def communication_is_waiting(tables: Tables, terms: Terms) -> Finding | None:
    """ddp's configuration in which collectives last longest beyond those of the device that waited least."""
    claim = "devices wait for each other"
    longer = holding(tables, claim)
    if not longer:
        return None
    most = extreme(longer, "waiting_step_s", largest=True)
    alone: str = ""
    if words.is_known(most["isolated_step_s"]):
        alone = f"; the same messages with nothing else running take {with_unit(most, 'isolated_step_s')} (E5)"
    return finding(
        f"In {count(tables, claim).among('configuration')} of ddp, {terms.devices} wait for each other "
        f"inside their collectives, most with {terms.point(most)}: {with_unit(most, 'profiler_step_s')} of a step on "
        f"the mean {terms.device}, {with_unit(most, 'profiler_least_step_s')} on the one that waited least{alone}.",
        "estimates",
        longer,
        terms,
    )


def host_leaves_devices_idle(tables: Tables, terms: Terms) -> Finding | None:
    """The profiled step with the largest share in which the first device has nothing to do."""
    steps = tables["steps"]
    first = steps[(steps["phase"] == WHOLE_STEP) & (steps["device"] == 0) & (steps["profiler"] == "ok")]
    first = first.dropna(subset=["idle_share"])
    if first.empty:
        return None
    most = extreme(first, "idle_share", largest=True)
    if most["idle_share"] < MOSTLY:
        return None
    return finding(
        f"Nothing runs on {terms.device} 0 during {percent(most['idle_share'])} of a profiled step, and it "
        f"communicates without computing during {percent(most['communication_share'])} of it, with "
        f"{terms.point(most)}.",
        "steps",
        [most],
        terms,
    )


def parts_make_the_step(tables: Tables, terms: Terms) -> Finding | None:
    """Whether the profiled parts of every step add up to the step by the host's clock."""
    claim = "parts do not make the step"
    whole = asked(tables, claim)
    if not whole:
        return None
    most = extreme(whole, "difference", largest=True, by_size=True)
    counted = count(tables, claim)
    where = f"at most {percent(most['difference'])} off, with {terms.point(most)}, {terms.device} {int(most['device'])}"
    if counted.number:
        return finding(
            f"In {counted.among('profiled step')} the parts do not add up to the step by the "
            f"host's clock within {percent(SUM_OF_PARTS)}: {where}.",
            "steps",
            whole,
            terms,
        )
    return finding(
        f"The parts of all {words.plural(counted.of, 'profiled step')} add up to the step by the host's clock within "
        f"{percent(SUM_OF_PARTS)}: {where}.",
        "steps",
        whole,
        terms,
    )


def profiler_slows(tables: Tables, terms: Terms) -> Finding | None:
    """How much longer a step takes while it is profiled, where that is more than its parts may be off."""
    claim = "profiling slows"
    slowed = holding(tables, claim)
    if not slowed:
        return None
    most = extreme(slowed, "profiler_slows_by", largest=True)
    return finding(
        f"Profiling itself slows {count(tables, claim).among('configuration')} by more than "
        f"{percent(SUM_OF_PARTS)}, by {percent(most['profiler_slows_by'])} at most, with {terms.point(most)}.",
        "estimates",
        slowed,
        terms,
    )


def profiler_left_out(tables: Tables) -> str:
    """Of how many configurations the profiled step is no witness of the step; "" where it is one of all."""
    left_out = count(tables, "the profiler is left out")
    if not left_out.number:
        return ""
    return (
        f"Left out: {left_out.among('configuration')}. Their profiled step is more than {percent(DISTORTED)} longer "
        "than the unprofiled one, or shows more exposed communication than there is room for in that."
    )


def forecast_scored(tables: Tables, terms: Terms) -> Finding | None:
    """How well steps on the most devices are predicted from fewer, and what no model at all would have given."""
    claim = "the forecast is off"
    scored = asked(tables, claim)
    if not scored:
        return None
    most = extreme(scored, "relative_error", largest=True, by_size=True)
    unchanged = extreme(scored, "carried_over_relative_error", largest=True, by_size=True)
    counted = count(tables, claim)
    better = count(tables, "the forecast beats no model")
    worst = f"{percent(most['relative_error'])} at batch {int(most['batch_per_gpu']):,}{terms.environment(most)}"
    tolerance = percent(HELD_OUT_TOLERANCE, digits=2)
    surely = count(tables, "the forecast holds")
    known = surely.among("batch that has one", "batches that have one")
    whole = f" The whole interval of the error lies within {tolerance} at {known}." if surely.of else ""
    verdict = (
        f"is off by more than {tolerance} at {counted.among('batch', 'batches')}"
        if counted.number
        else f"is within {tolerance} of the measured one at every batch from {FORECAST_BATCH} on"
    )
    return finding(
        f"ddp's step on {terms.count(int(most['gpus']))}, predicted from fewer {terms.devices} alone, {verdict}; the "
        f"largest error is {worst}.{whole} "
        f"The step of {terms.count(int(most['calibrated_on_gpus']))} unchanged is off by up "
        f"to {percent(unchanged['carried_over_relative_error'])}. {_against_no_model(better)}",
        "held_out",
        scored,
        terms,
    )


def _against_no_model(better: Count) -> str:
    """Whether the model beats the step on fewer devices unchanged: only as far as it does is it tested."""
    if better.number == better.of:
        return "The model beats that at every batch."
    if not better.number:
        return "The model does not beat that at any batch: this score says nothing of the model of communication."
    return (
        f"The model beats that at {better.among('batch', 'batches')}. At the others this score says nothing of the "
        "model of communication."
    )


def published_scaling_scored(tables: Tables, terms: Terms) -> Finding | None:
    """How far the laws of scaling, fitted within a node, are off on the most GPUs that others published times of."""
    scored = words.ok(tables["published_scaling"])
    sentences = []
    for (study, title), part in scored.groupby(["study", "title"], sort=False):
        most = words.rows(part[part["gpus"] == part["gpus"].max()])
        errors = [f"{row['law']} {words.measured(row['relative_error'], PERCENT, 3)}" for row in most]
        worse = [str(row["law"]) for row in most if row["beats_unchanged"] == "no"]
        verdict = f" {words.listed(worse)} {'does' if len(worse) == 1 else 'do'} not beat unchanged." if worse else ""
        sentences.append(
            f"{study} ({title}): fitted on {most[0]['fitted_on_gpus']} GPUs, the laws of scaling are off on "
            f"{int(most[0]['gpus'])} GPUs by {', '.join(errors)} (efficiency as on a node).{verdict}"
        )
    if not sentences:
        return None
    cells = [f"{row['study']} × {int(row['gpus'])}, {row['law']}" for row in words.rows(scored)]
    return Finding("Figures of others, " + " ".join(sentences), "published_scaling", len(scored), cells)


def critical_batch_checked(tables: Tables, terms: Terms) -> Finding | None:
    """From which batch on communication hides behind backward, by the model and by the profiler."""
    table = tables["critical_batch"]
    checked = table[(table["status"] == "ok") & (table["profiled"] > 0)]
    if checked.empty:
        return None
    most = extreme(checked, "gpus", largest=True)
    seen = most["measured_batch_per_gpu"]
    by_profiler: str = f"first at batch {int(seen):,}" if words.is_known(seen) else "at no batch"
    sentence = (
        f"{most['reason']} So says the model of the overlap; the profiler, on the {terms.device} that waited least, "
        f"sees it {by_profiler}, of the {int(most['profiled'])} whose steps it does not change."
    )
    return Finding(sentence, "critical_batch", 1, [f"ddp on {terms.count(int(most['gpus']))}"])


def measuring_communication_costs(tables: Tables, terms: Terms) -> Finding | None:
    """What the measurements of communication cost, beside the timing cells."""
    costs = {row["measured"]: row for row in words.rows(tables["costs"])}
    if not {"timing", "communication"} <= set(costs):
        return None
    more, timing = (words.figure(costs[name]["gpu_s"], 3) for name in ("communication", "timing"))
    sentence = f"Measuring communication took {more} {terms.device}-seconds, the timing cells {timing}."
    records = tables["records"]
    kinds = ["timing", *(kind for kind in ("collectives", "communication") if kind in set(records["kind"]))]
    return Finding(sentence, "records", len(records[records["kind"].isin(kinds)]), [f"{kind} cells" for kind in kinds])
