"""The first screen's figures, why it is not faster and what to do, in words: rows of the tables `answer`, `causes` and
`advice`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer import advice
from dpscale.analyse.answer.causes_of_study import cause_of
from dpscale.analyse.answer.series import COMPUTE
from dpscale.formulas.figure import Figure
from dpscale.present.diagnosis.page import told_cause
from dpscale.present.findings.finding import multiple
from dpscale.present.text.numbers import bounds_of, estimate, measured, percent, value_of
from dpscale.present.text.words import Terms, capitalised, listed
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.vocabulary.causes import NOTHING, UNKNOWN, cause


@dataclass(frozen=True)
class Advice:
    """What to do, the evidence for it, which stands in the section `section`, and what it saves."""

    what: str
    evidence: str
    saving: str
    section: str


@dataclass(frozen=True)
class Reason:
    """A cause at a batch, what it costs, what to change and what that saves, the figures that show it, and the section
    that has them."""

    what: str
    cost: str
    change: str
    savings: str
    evidence: str
    section: str


@dataclass(frozen=True)
class Why:
    """Why a series is not faster: the step at the batch of the answer, the reasons at it or at other batches, and what
    nobody looked for."""

    sentence: str
    reasons: Sequence[Reason]
    not_seen: str


@dataclass(frozen=True)
class Tile:
    """A figure of the answer: its name, the figure, its interval and what else belongs to it."""

    name: str
    figure: str
    details: str


def advices(rows: Sequence[AdviceRow], terms: Terms) -> list[Advice]:
    """What to do for a series, in the table's order."""
    found = []
    for row in rows:
        worded, section = _WORDED[row.problem]
        what, evidence = worded(row, terms)
        found.append(Advice(what, evidence, _saving(row, terms), section))
    return found


def why(causes: Sequence[CausesRow], answers: Sequence[AnswerRow], terms: Terms) -> Why | None:
    """Why a series is not faster; None where there is nothing that tells."""
    weak = [row for row in causes if row.scaling == "weak"]
    batches = [row.batch_per_gpu for row in answers]
    first = next((row for row in weak if row.batch_per_gpu in batches and row.order == 0), None)
    if first is None:
        return None
    # Those at the batch of the answer come first, then those that an interval carries.
    told = sorted(
        (row for row in weak if row.is_told),
        key=lambda row: (row.batch_per_gpu not in batches, not row.share.has_interval, -row.share.value),
    )
    if told and told[0].batch_per_gpu in batches:
        first = told[0]
    return Why(_sentence(first, terms), [_reason(row, terms) for row in told], _not_seen(first))


def _sentence(row: CausesRow, terms: Terms) -> str:
    """Where the step stands at the batch of the answer: `row` is the first reason that is shown, or the first row."""
    at = f"at batch {row.batch_per_gpu:,} per {terms.device}"
    step, alone = _with_unit(row.whole_s, MILLISECONDS), _with_unit(row.efficiency, PERCENT)
    loading = _loading(row)
    found = cause(row.cause)
    if found is NOTHING:
        return f"{capitalised(found.label)} {at}: {alone} efficient, {loading}. A step takes {step}."
    without = ", without loading," if row.scope != COMPUTE else ""
    first = "No cause stands out at this batch" if found is UNKNOWN else f"First reason: {found.label}"
    return (
        f"{capitalised(at)} a step takes {step} {loading}; 1 {terms.device} alone{without} takes {alone} of that. "
        f"{first}."
    )


def _reason(row: CausesRow, terms: Terms) -> Reason:
    told = told_cause(cause_of(row), terms.device)
    return Reason(
        f"{capitalised(told.label)} at batch {row.batch_per_gpu:,} per {terms.device}",
        _cost(row),
        told.change,
        "; ".join(told.savings),
        capitalised("; ".join(told.evidence)),
        cause(row.cause).section,
    )


def _cost(row: CausesRow) -> str:
    """`9.51 ms [4.1, 15.2], 46 % [27, 60] of a step`."""
    about = percent(row.share.value, digits=2)
    if not row.cost_s.has_interval:
        return f"about {measured(row.cost_s.value, MILLISECONDS)}, {about} of a step (no interval)"
    share = _with_unit(row.share, PERCENT) if row.share.has_interval else f"about {about}"
    return f"{_with_unit(row.cost_s, MILLISECONDS)}, {share} of a step"


def _not_seen(row: CausesRow) -> str:
    if not row.not_seen:
        return ""
    labels = [cause(name).label for name in row.not_seen.split("; ")]
    return f"Not seen by this study, but by dpscale diagnose: {listed(labels, separator='; ')}."


def tiles(answers: Sequence[AnswerRow], terms: Terms) -> list[Tile]:
    """The figures of a series at its best supported batch."""
    return [
        tile
        for row in answers
        for tile in (_speedup(row, terms), _efficiency(row, terms), _price(row, terms), _mfu(row))
    ]


def _tile(name: str, figure: Figure, unit: Unit, details: str) -> Tile:
    return Tile(name, value_of(figure, unit, with_unit=True), f"[{bounds_of(figure, unit)}] {details}")


def _speedup(row: AnswerRow, terms: Terms) -> Tile:
    details = f"{_loading(row)}, {row.strategy}, batch {row.batch_per_gpu:,} per {terms.device}"
    if row.end_to_end_speedup.is_known:
        details += f"; with loading {multiple(row.end_to_end_speedup)}"
    return _tile(f"Speedup on {terms.count(row.gpus)}", row.speedup, MULTIPLES, details)


def _efficiency(row: AnswerRow, terms: Terms) -> Tile:
    return _tile("Efficiency", row.efficiency, PERCENT, f"of what {terms.count(row.gpus)} could do")


def _price(row: AnswerRow, terms: Terms) -> Tile:
    details = f"the {terms.device}-seconds of 1 {terms.device}"
    if row.energy_over_one.is_known:
        details += f"; {multiple(row.energy_over_one)} its joules"
    return _tile("Price of an epoch", row.gpu_s_over_one, MULTIPLES, details)


def _mfu(row: AnswerRow) -> Tile:
    name = "Share of the chip (MFU)"
    if not row.mfu.is_known:
        return Tile(name, "not known", "peak of this chip or work of an image not known")
    return _tile(name, row.mfu, PERCENT, "of its peak FLOP/s")


def _with_unit(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, with_unit=True)


def _strategy(row: AdviceRow, terms: Terms) -> tuple[str, str]:
    return f"Use {row.better} in place of {row.used}", f"An epoch takes {_times(row)}{_at(row, terms)}."


def _batch(row: AdviceRow, terms: Terms) -> tuple[str, str]:
    return (
        f"Use a batch of {row.batch_per_gpu:,} per {terms.device} in place of {row.used_batch_per_gpu:,}, where "
        "accuracy allows it",
        f"An epoch takes {_times(row)} on {terms.count(row.gpus)}, without loading.",
    )


def _variant(row: AdviceRow, terms: Terms) -> tuple[str, str]:
    return (
        f"Use the settings of {row.better} on every {terms.device}",
        f"An epoch takes {_times(row)} on {terms.count(row.on_gpus)}{_at(row, terms)}.",
    )


def _one_device(row: AdviceRow, terms: Terms) -> tuple[str, str]:
    many, one = terms.count(row.gpus), terms.count(row.on_gpus)
    return (
        f"Use {one} with {row.better} in place of {many} with {row.used}",
        f"An epoch takes {_times(row)}{_at(row, terms)}.",
    )


def _recipe(row: AdviceRow, terms: Terms) -> tuple[str, str]:
    without, used, better = (
        measured(accuracy, PERCENT) for accuracy in (row.without_accuracy, row.used_accuracy, row.better_accuracy)
    )
    tuned = ""
    if row.tuned_trials is not None:
        tuned = f" Best of {row.tuned_trials:,} trials, chosen on {row.tuned_on}."
    used_s, better_s, used_gpu_s, better_gpu_s = (
        measured(seconds, SECONDS)
        for seconds in (row.used_s.value, row.better_s.value, row.used_gpu_s, row.better_gpu_s)
    )
    return (
        f"For a large batch, train as {row.better} in place of {row.without_remedies}",
        f"It ends at {better} in place of {without}; {row.used}, the baseline, ends at {used}. Training takes "
        f"{better_s} on {terms.count(row.gpus)}, that of the baseline {used_s} on {terms.count(row.on_gpus)}: "
        f"{better_gpu_s} and {used_gpu_s} of {terms.device} time.{tuned}",
    )


Worded = Callable[[AdviceRow, Terms], tuple[str, str]]
# By problem: how it is worded, and the section that has the evidence.
_WORDED: Mapping[str, tuple[Worded, str]] = {
    advice.STRATEGY: (_strategy, "speedup"),
    advice.BATCH: (_batch, "speedup"),
    advice.VARIANT: (_variant, "variants"),
    advice.ONE_GPU: (_one_device, "variants"),
    advice.RECIPE: (_recipe, "training"),
}


def _times(row: AdviceRow) -> str:
    """`0.590 s in place of 1.10 s`."""
    return f"{measured(row.better_s.value, SECONDS)} in place of {measured(row.used_s.value, SECONDS)}"


def _at(row: AdviceRow, terms: Terms) -> str:
    return f" at batch {row.batch_per_gpu:,} per {terms.device}, {_loading(row)}"


def _loading(row: AdviceRow | AnswerRow | CausesRow) -> str:
    return "without loading" if row.scope == COMPUTE else "with loading"


def _saving(row: AdviceRow, terms: Terms) -> str:
    """`46 % [27, 60] of the epoch time`; `about 46 % (no interval) of the epoch time`."""
    of = {
        advice.DEVICE_SECONDS: f"{terms.device}-seconds",
        advice.TRAINING_TIME: f"{advice.TRAINING_TIME} of {row.used}",
    }.get(row.saves, row.saves)
    if not row.saving.has_interval:
        return f"about {percent(row.saving.value, digits=2)} (no interval) of the {of}"
    return f"{_with_unit(row.saving, PERCENT)} of the {of}"
