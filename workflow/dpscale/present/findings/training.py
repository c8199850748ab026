"""Findings on training with large batches: their cost, and which remedies recover it.

A difference counts where its 95 % interval over seeds carries it. A best of several is named without an interval: one
that does not allow for the choice flatters it. Accuracies of trainings on noise are chance: nothing is said of them.
"""

from collections.abc import Sequence

from dpscale.analyse.answer.claims import BELOW_BASELINE, REMEDY_HARMS, REMEDY_HELPS, REMEDY_LEVEL
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured
from dpscale.present.text.words import Terms, largest, listed, out_of, plural
from dpscale.tables.column import PERCENT, POINTS, Unit
from dpscale.tables.row import grouped
from dpscale.tables.training import TrainingSummaryRow

Arms = Sequence[TrainingSummaryRow]


def findings(arms: Arms, terms: Terms) -> list[str]:
    """Return the findings of the arms of a study, unless they were trained on noise."""
    if terms.synthetic:
        return []
    return [large_batch_costs(arms, terms), best_at_a_batch(arms, terms), remedies(arms, terms)]


def large_batch_costs(arms: Arms, terms: Terms) -> str:
    """Name arms of a larger batch, and of nothing else, whose test accuracy lies wholly below the baseline's."""
    sentences = ["A larger batch without a remedy loses test accuracy."]
    for row, baseline in _compared(arms):
        is_of_batch_alone = baseline.is_baseline and not row.remedies and not row.lacks
        if is_of_batch_alone and row.global_batch > baseline.global_batch and BELOW_BASELINE.surely(row):
            sentences.append(
                f"{row.arm} at global batch {row.global_batch:,}{terms.environment(row)} ends at "
                f"{_with_unit(row.test_accuracy, PERCENT)}: {_with_unit(row.test_accuracy_difference, POINTS)} from "
                f"{baseline.arm} ({_with_unit(baseline.test_accuracy, PERCENT)})."
            )
    return " ".join(sentences) if len(sentences) > 1 else ""


def best_at_a_batch(arms: Arms, terms: Terms) -> str:
    """Name the highest mean of the arms with remedies at every global batch, and whether its recipe was searched. Arms
    count whose remedies are for a batch that is not the baseline's, and that ran without them too."""
    compared = [
        (row, baseline)
        for row, baseline in _compared(arms)
        if row.remedies and row.without_remedies and row.without_remedies != baseline.arm
    ]
    sentences = []
    for pairs in grouped(compared, lambda pair: (pair[0].environment, pair[0].global_batch)).values():
        best, baseline = largest(pairs, lambda pair: pair[0].test_accuracy.value)
        sentences.append(
            f"Best of {plural(len(pairs), 'arm')} with remedies at global batch {best.global_batch:,}"
            f"{terms.environment(best)}: {best.arm}, {measured(best.test_accuracy.value, PERCENT)}."
        )
        if best.tuned_trials is not None:
            of_baseline = "not" if baseline.tuned_trials is None else "tuned too"
            sentences.append(
                f"Its recipe was tuned ({plural(best.tuned_trials, 'trial')}, chosen on {best.tuned_on}); that of "
                f"{baseline.arm} was {of_baseline}."
            )
    return " ".join([*sentences, "Intervals in the table do not allow for such a choice."]) if sentences else ""


def remedies(arms: Arms, terms: Terms) -> str:
    """Name the arms with remedies that end above and below the same arm without them, and those of which that is not
    shown: these with their interval, since a wide one may hold a large difference."""
    sentences = []
    for claim, words in (
        (REMEDY_HELPS, "Remedies help"),
        (REMEDY_LEVEL, "Remedies show no difference with these seeds"),
        (REMEDY_HARMS, "Remedies harm"),
    ):
        outcome = claim.of(arms)
        names = []
        for row in outcome.holding:
            interval = f" ({_with_unit(row.test_accuracy_gain, POINTS)})" if claim is REMEDY_LEVEL else ""
            names.append(f"{row.arm}{terms.environment(row)}{interval}")
        if names:
            sentences.append(f"{words} in {out_of(outcome.number, outcome.of, 'arm')}: {listed(names)}.")
    return " ".join(sentences)


def _compared(arms: Arms) -> list[tuple[TrainingSummaryRow, TrainingSummaryRow]]:
    """Return every arm that is compared with another, and that one, by environment, global batch and name."""
    return [
        (row, reference)
        for row in sorted(arms, key=lambda row: (row.environment, row.global_batch, row.arm))
        for reference in arms
        if (reference.arm, reference.environment) == (row.compared_with, row.environment)
    ]


def _with_unit(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, with_unit=True)
