"""What the data say of training with large batches: what it costs, and which remedies recover it.

As in `scaling`. A difference counts where its 95 % interval over seeds carries it. A best of several is named without
an interval: one that does not allow for the choice flatters it. Accuracies of trainings on noise are chance: nothing is
said of them.
"""

from collections.abc import Sequence

from dpscale.analyse.answer.claims import BELOW_BASELINE, REMEDY_HARMS, REMEDY_HELPS, REMEDY_LEVEL
from dpscale.formulas.figure import Figure
from dpscale.present.findings.finding import among, largest
from dpscale.present.text.numbers import estimate, measured
from dpscale.present.text.words import Terms, listed, plural
from dpscale.tables.column import PERCENT, POINTS, Unit
from dpscale.tables.row import grouped
from dpscale.tables.training import TrainingSummaryRow

Arms = Sequence[TrainingSummaryRow]


def findings(arms: Arms, terms: Terms) -> list[str]:
    """Return the findings of the arms of a study, unless they were trained on noise."""
    if terms.synthetic:
        return []
    lines = (
        large_batch_costs(arms, terms),
        best_at_a_batch(arms, terms),
        remedies(arms, terms),
    )
    return list(map(" ".join, lines))


def large_batch_costs(arms: Arms, terms: Terms) -> list[str]:
    """Name arms of a larger batch, and of nothing else, whose test accuracy lies wholly below the baseline's."""
    sentences = [
        f"{row.arm} at global batch {row.global_batch:,}{terms.environment(row)} ends at "
        f"{_with_unit(row.test_accuracy, PERCENT)}: {_with_unit(row.test_accuracy_difference, POINTS)} from "
        f"{baseline.arm} ({_with_unit(baseline.test_accuracy, PERCENT)})."
        for row, baseline in _compared(arms)
        if baseline.is_baseline
        and BELOW_BASELINE.surely(row)
        and not row.remedies
        and not row.lacks
        and row.global_batch > baseline.global_batch
    ]
    return ["A larger batch without a remedy loses test accuracy.", *sentences] if sentences else []


def best_at_a_batch(arms: Arms, terms: Terms) -> list[str]:
    """Name the highest mean of the arms with remedies at every global batch, and whether its recipe was searched."""
    compared = [(row, baseline) for row, baseline in _compared(arms) if _has_remedies_at_a_batch(row, baseline)]
    sentences = []
    for pairs in grouped(compared, lambda pair: (pair[0].environment, pair[0].global_batch)).values():
        best, baseline = largest(pairs, lambda pair: pair[0].test_accuracy.value)
        sentences += [
            f"Best of {plural(len(pairs), 'arm')} with remedies at global batch {best.global_batch:,}"
            f"{terms.environment(best)}: {best.arm}, {measured(best.test_accuracy.value, PERCENT)}.",
            *_tuning(best, baseline),
        ]
    return [*sentences, "Intervals in the table do not allow for such a choice."] if sentences else []


def _has_remedies_at_a_batch(row: TrainingSummaryRow, baseline: TrainingSummaryRow) -> bool:
    """Whether an arm has remedies for a batch that is not the baseline's, and ran without them too."""
    return bool(row.remedies and row.without_remedies) and row.without_remedies != baseline.arm


def _tuning(row: TrainingSummaryRow, baseline: TrainingSummaryRow) -> list[str]:
    """Say whether an arm that was searched is held against one that was not."""
    if row.tuned_trials is None:
        return []
    trials = f"{plural(row.tuned_trials, 'trial')}, chosen on {row.tuned_on}"
    of_baseline = "not" if baseline.tuned_trials is None else "tuned too"
    return [f"Its recipe was tuned ({trials}); that of {baseline.arm} was {of_baseline}."]


def remedies(arms: Arms, terms: Terms) -> list[str]:
    """Name the arms with remedies that end above and below the same arm without them, and those of which that is not
    shown: these with their interval, since a wide one may hold a large difference."""
    sentences = []
    for claim, outcome_in_words in (
        (REMEDY_HELPS, "Remedies help"),
        (REMEDY_LEVEL, "Remedies show no difference with these seeds"),
        (REMEDY_HARMS, "Remedies harm"),
    ):
        outcome = claim.of(arms)
        if not outcome.holding:
            continue
        named = [f"{row.arm}{terms.environment(row)}" for row in outcome.holding]
        if claim is REMEDY_LEVEL:
            differences = [_with_unit(row.test_accuracy_gain, POINTS) for row in outcome.holding]
            named = [f"{name} ({difference})" for name, difference in zip(named, differences, strict=True)]
        sentences.append(f"{outcome_in_words} in {among(outcome, 'arm')}: {listed(named)}.")
    return sentences


def _compared(arms: Arms) -> list[tuple[TrainingSummaryRow, TrainingSummaryRow]]:
    """Return arms with what they are compared with, by environment, global batch and name."""
    return [
        (row, reference)
        for row in sorted(arms, key=lambda row: (row.environment, row.global_batch, row.arm))
        for reference in arms
        if (reference.arm, reference.environment) == (row.compared_with, row.environment)
    ]


def _with_unit(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, with_unit=True)
