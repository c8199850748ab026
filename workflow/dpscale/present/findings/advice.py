"""What to do, in words: rows of the table `advice`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer import advice
from dpscale.analyse.answer.series import COMPUTE
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured, percent
from dpscale.present.text.words import Terms
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.tables.column import PERCENT, SECONDS, Unit


@dataclass(frozen=True)
class Advice:
    """What to do, the evidence for it, which stands in the section `section`, and what it saves."""

    what: str
    evidence: str
    saving: str
    section: str


def advices(rows: Sequence[AdviceRow], terms: Terms) -> list[Advice]:
    """What to do for a series, in the table's order."""
    found = []
    for row in rows:
        worded, section = _WORDED[row.problem]
        what, evidence = worded(row, terms)
        found.append(Advice(what, evidence, _saving(row, terms), section))
    return found


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
