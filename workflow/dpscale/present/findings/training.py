"""What the data say of training with large batches: what it costs, which remedies recover it, what workers share.

As in `scaling`. A difference counts where its 95 % interval over seeds carries it. A best of several is named without
an interval: one that does not allow for the choice flatters it.
"""

from collections.abc import Callable, Sequence

from dpscale.analyse.answer.claims import (
    ABOVE_BASELINE,
    BELOW_BASELINE,
    DIVERGED,
    LOSS_LEVEL,
    REMEDY_HARMS,
    REMEDY_HELPS,
    REMEDY_LEVEL,
    TRAINED_ABOVE,
    TRAINED_BELOW,
    TWIN_ABOVE,
    TWIN_BELOW,
    Outcome,
)
from dpscale.formulas.figure import Figure
from dpscale.present.findings.finding import Finding, among, largest, says
from dpscale.present.text.numbers import estimate, measured, percent
from dpscale.present.text.words import Terms, listed, plural
from dpscale.tables.column import PERCENT, POINTS
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.training import TrainingSummaryRow, TwinsRow

Arms = Sequence[TrainingSummaryRow]
Pair = tuple[TrainingSummaryRow, TrainingSummaryRow]  # an arm, and what it is compared with
NO_DIFFERENCE = "no difference with these seeds"


def training_findings(tables: Tables, terms: Terms) -> list[Finding | None]:
    """Accuracies of trainings on noise are chance: nothing is said of them."""
    said = _OF_NOISE if terms.synthetic else _OF_IMAGES
    return [_finding(view, say(tables, terms)) for view, finders in said.items() for say in finders] + [
        divergence(tables, terms)
    ]


def _finding(view: str, sentences: Sequence[str]) -> Finding | None:
    return Finding(" ".join(sentences), view) if sentences else None


def large_batch_costs(tables: Tables, terms: Terms) -> list[str]:
    """Arms of a larger batch without remedies whose test accuracy lies wholly below the baseline's."""
    worse = [
        (row, baseline)
        for row, baseline in _compared(tables.training_summary)
        if baseline.is_baseline
        and BELOW_BASELINE.surely(row)
        and not row.remedies
        and row.global_batch > baseline.global_batch
    ]
    told = [
        f"{_arm(row, terms)} ends at {_accuracy(row)}: {_points(row.test_accuracy_difference)} from {baseline.arm} "
        f"({_accuracy(baseline)})."
        for row, baseline in sorted(worse, key=lambda pair: (pair[0].environment, pair[0].global_batch, pair[0].arm))
    ]
    return ["A larger batch without a remedy loses test accuracy.", *told] if told else []


def recipe_on_more_devices(tables: Tables, terms: Terms) -> list[str]:
    """Whether devices may be added at the baseline's batch per device with nothing else changed."""
    return [
        f"With the recipe of {baseline.arm} at its batch per {terms.device}, {row.arm} on {terms.count(row.gpus)} "
        f"ends {_carried_over(row)}: {_points(row.training_accuracy_difference)} in training and "
        f"{_points(row.test_accuracy_difference)} in test accuracy."
        for row, baseline in _compared(tables.training_summary)
        if baseline.is_baseline
        and TRAINED_BELOW.asks(row)
        and row.gpus > baseline.gpus
        and (row.epochs, row.batch_per_gpu, row.remedies)
        == (baseline.epochs, baseline.batch_per_gpu, baseline.remedies)
    ]


def _carried_over(row: TrainingSummaryRow) -> str:
    less = TRAINED_BELOW.surely(row) or BELOW_BASELINE.surely(row)
    more = TRAINED_ABOVE.surely(row) or ABOVE_BASELINE.surely(row)
    if less and more:
        return "lower in one and higher in the other"
    return "lower" if less else "higher" if more else f"with {NO_DIFFERENCE}"


def best_at_a_batch(tables: Tables, terms: Terms) -> list[str]:
    """The highest mean of the arms with remedies at every global batch, and what it recovers of what the batch lost."""
    compared = [pair for pair in _compared(tables.training_summary) if pair[0].recovered_status]
    by_batch = grouped(compared, lambda pair: (pair[0].environment, pair[0].global_batch))
    told = []
    for _, pairs in sorted(by_batch.items()):
        best, baseline = largest(pairs, lambda pair: pair[0].test_accuracy.value)
        recovered = (
            f"It recovers {measured(best.recovered.value, PERCENT)} of what the batch lost against {baseline.arm}."
            if best.recovered.is_known
            else "What it recovers is not resolvable: the batch may have lost nothing."
        )
        told += [
            f"Best of {plural(len(pairs), 'arm')} with remedies at global batch {best.global_batch:,}"
            f"{terms.environment(best)}: {best.arm}, {measured(best.test_accuracy.value, PERCENT)}.",
            recovered,
            *_tuning(best, baseline),
        ]
    return [*told, "Intervals in the table do not allow for such a choice."] if told else []


def _tuning(row: TrainingSummaryRow, other: TrainingSummaryRow) -> list[str]:
    """Whether an arm that was searched is held against one that was not."""
    if row.tuned_trials is None:
        return []
    others = "not" if other.tuned_trials is None else "tuned too"
    return [
        f"Its recipe was tuned ({plural(row.tuned_trials, 'trial')}, chosen on {row.tuned_on}); that of {other.arm} "
        f"was {others}."
    ]


def fast_twins(tables: Tables, terms: Terms) -> list[str]:
    """Whether a training with a faster step ends where its slow twin does, and what time it takes."""
    rows = sorted(TWIN_BELOW.of(tables.twins).asked, key=lambda row: (row.global_batch, row.arm))
    return [
        f"{_arm(row, terms)} takes {estimate(row.twin_time_ratio)} of the time of {row.twin} and ends "
        f"{_twin_verdict(row)}: {_points(row.twin_accuracy_difference)}."
        for row in rows
    ]


def _twin_verdict(row: TwinsRow) -> str:
    if TWIN_ABOVE.surely(row):
        return "higher"
    return "lower" if TWIN_BELOW.surely(row) else f"with {NO_DIFFERENCE}"


def remedies(tables: Tables, terms: Terms) -> list[str]:
    """The arms with remedies that end above, level with and below the same arm without them."""
    told = []
    for claim, what in _REMEDIES:
        outcome = claim.of(tables.training_summary)
        if outcome.holding:
            named = [f"{row.arm}{terms.environment(row)}" for row in outcome.holding]
            told.append(f"{what} in {among(outcome, 'arm')}: {listed(named)}.")
    return told


_REMEDIES = (
    (REMEDY_HELPS, "Remedies help"),
    (REMEDY_LEVEL, f"Remedies make {NO_DIFFERENCE}"),
    (REMEDY_HARMS, "Remedies harm"),
)


@says(DIVERGED)
def divergence(diverged: Outcome[TrainingSummaryRow], terms: Terms) -> str:
    """Arms whose loss did not stay finite."""
    named = "; ".join(f"{_arm(row, terms)}: {row.reason}" for row in diverged.holding)
    return f"The loss did not stay finite for {plural(diverged.number, 'arm')}: {named}."


def order_without_set_epoch(tables: Tables, terms: Terms) -> list[str]:
    """What set_epoch changes for the order of samples: measured, of all epochs but the first."""
    of_ddp = {row.set_epoch: row for row in tables.training_order if row.strategy == "ddp"}
    without, remedied = of_ddp.get(False), of_ddp.get(True)
    if without is None or not without.repeated:
        return []
    told = [
        f"Without set_epoch, ddp's workers repeated the order of the epoch before in {without.repeated:,} of "
        f"{without.orders:,} orders."
    ]
    if remedied is not None:
        told.append(f"With it, {percent(remedied.same_place)} of the images stood at the same place.")
    return [*told, *_loss_without_set_epoch(tables.training_summary, terms)]


def _loss_without_set_epoch(arms: Arms, terms: Terms) -> list[str]:
    """What the same order in every epoch does to the loss, of arms that differ from another in that alone."""
    return [
        f"The training loss of {row.arm}{terms.environment(row)} then ends {estimate(row.training_loss_change)} from "
        f"that of {row.without_remedies}{f': {NO_DIFFERENCE}' if LOSS_LEVEL.surely(row) else ''}."
        for row in arms
        if row.remedies == "set_epoch off" and row.training_loss_change.is_known
    ]


def _compared(arms: Arms) -> list[Pair]:
    """Arms with what they are compared with, by environment."""
    found = {(row.arm, row.environment): row for row in arms}
    pairs = [
        (row, found[row.compared_with, row.environment])
        for row in arms
        if (row.compared_with, row.environment) in found
    ]
    return sorted(pairs, key=lambda pair: pair[0].environment)


def _arm(row: TrainingSummaryRow | TwinsRow, terms: Terms) -> str:
    return f"{row.arm} at global batch {row.global_batch:,}{terms.environment(row)}"


def _accuracy(row: TrainingSummaryRow) -> str:
    return estimate(row.test_accuracy, PERCENT, with_unit=True)


def _points(figure: Figure) -> str:
    """`31.2 points [28.8, 33.6]`, `1 point [−26, 28]`."""
    return estimate(figure, POINTS, with_unit=True)


# By the table that has the numbers: what each says, in sentences.
_Sentences = Callable[[Tables, Terms], Sequence[str]]
_OF_NOISE: dict[str, Sequence[_Sentences]] = {"training_evidence": [order_without_set_epoch]}
_OF_IMAGES: dict[str, Sequence[_Sentences]] = {
    "training_summary": [large_batch_costs, recipe_on_more_devices, best_at_a_batch, remedies],
    "twins": [fast_twins],
    **_OF_NOISE,
}
