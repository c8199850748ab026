"""What the data say of training with large batches: what it costs, which remedies recover it, what workers share.

As in `scaling`. A difference counts where its 95 % interval over seeds carries it: it is then larger than the seeds'
spread explains. A recipe that was searched is called tuned, and what it is compared with is called untuned where no
recipe was searched for that.
"""

from collections.abc import Sequence

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
    Claim,
    Outcome,
)
from dpscale.formulas.figure import Figure
from dpscale.present.findings.finding import Finding, among, largest, where
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import Terms, listed, plural
from dpscale.tables.column import PERCENT, POINTS, SECONDS
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.training import (
    FrontierRow,
    TrainingEvidenceRow,
    TrainingOrderRow,
    TrainingSummaryRow,
    TwinsRow,
)
from dpscale.vocabulary.states import BEATEN, BEST, NOT_RESOLVABLE

Arms = Sequence[TrainingSummaryRow]
Pair = tuple[TrainingSummaryRow, TrainingSummaryRow]  # an arm, and what it is compared with
NO_DIFFERENCE = "no difference with these seeds"
BEYOND = "beyond the seeds' spread"


def training_findings(tables: Tables, terms: Terms) -> list[Finding | None]:
    """Accuracies of trainings on noise are chance: nothing is said of them."""
    arms, frontier, twins = tables.training_summary, tables.frontier, tables.twins
    if terms.synthetic:
        arms, frontier, twins = [], [], []
    evidence = tables.training_evidence
    return [
        large_batch_costs(arms, terms),
        recipe_on_more_devices(arms, terms),
        against_the_baseline(arms, terms),
        best_at_a_batch(arms, terms),
        pareto_best_arms(frontier, terms),
        fast_twins(twins, terms),
        remedies(REMEDY_HELPS, f"more accurate than without, {BEYOND}", arms, terms),
        remedies(REMEDY_LEVEL, "no different from those without, with these seeds", arms, terms),
        remedies(REMEDY_HARMS, f"less accurate than without, {BEYOND}", arms, terms),
        comparisons_at_once(arms),
        divergence(tables, terms),
        order_without_set_epoch(tables.training_order, evidence, tables.training_summary, terms),
        statistics_of_workers(evidence, terms),
    ]


def large_batch_costs(arms: Arms, terms: Terms) -> Finding | None:
    """Arms of a larger batch without remedies whose test accuracy lies wholly below the baseline's."""
    worse = [
        (row, baseline)
        for row, baseline in _compared(arms)
        if baseline.is_baseline
        and BELOW_BASELINE.surely(row)
        and not row.remedies
        and row.global_batch > baseline.global_batch
    ]
    parts = []
    for pairs in grouped(worse, lambda pair: pair[1].environment).values():
        baseline = pairs[0][1]
        named = "; ".join(
            f"{_accuracy(row)} with {_arm(row, terms)}, {_points(row.test_accuracy_difference)}{_tuning(row, baseline)}"
            for row, _ in sorted(pairs, key=lambda pair: (pair[0].global_batch, pair[0].arm))
        )
        parts.append(
            f"against the baseline {baseline.arm} (global batch {baseline.global_batch:,}, {_accuracy(baseline)}) "
            f"test accuracy after the last epoch is {named}"
        )
    return _of_pairs("A larger batch without a remedy loses accuracy", parts, worse)


def recipe_on_more_devices(arms: Arms, terms: Terms) -> Finding | None:
    """Whether devices may be added at the baseline's batch per device with nothing else changed."""
    same = [
        (row, baseline)
        for row, baseline in _compared(arms)
        if baseline.is_baseline
        and TRAINED_BELOW.asks(row)
        and row.gpus > baseline.gpus
        and (row.epochs, row.batch_per_gpu, row.remedies)
        == (baseline.epochs, baseline.batch_per_gpu, baseline.remedies)
    ]
    parts = [
        f"{row.arm}, {row.strategy} on {terms.count(row.gpus)}, ends with training accuracy "
        f"{_points(row.training_accuracy_difference)} and test accuracy {_points(row.test_accuracy_difference)} from "
        f"those of {baseline.arm}, {_carried_over(row)}"
        for row, baseline in same
    ]
    return _of_pairs(f"The baseline's recipe on more {terms.devices} at its batch per {terms.device}", parts, same)


def _carried_over(row: TrainingSummaryRow) -> str:
    less = TRAINED_BELOW.surely(row) or BELOW_BASELINE.surely(row)
    more = TRAINED_ABOVE.surely(row) or ABOVE_BASELINE.surely(row)
    if less and more:
        return f"one less and one more {BEYOND}"
    return f"less {BEYOND}" if less else f"more {BEYOND}" if more else NO_DIFFERENCE


def against_the_baseline(arms: Arms, terms: Terms) -> Finding | None:
    """Where a batch loses accuracy without remedies: the arms with remedies that do not lie below their baseline."""
    level = [
        (row, baseline)
        for row, baseline in _compared(arms)
        if row.recovered.is_known and BELOW_BASELINE.asks(row) and not BELOW_BASELINE.holds(row)
    ]
    level.sort(key=lambda pair: (pair[0].environment, pair[0].global_batch, -pair[0].test_accuracy.value))
    parts = [
        f"{_arm(row, terms)}, {_accuracy(row)}, is {_points(row.test_accuracy_difference)} from {baseline.arm} "
        f"({_accuracy(baseline)}), {f'more accurate {BEYOND}' if ABOVE_BASELINE.surely(row) else NO_DIFFERENCE}"
        f"{_tuning(row, baseline)}"
        for row, baseline in level
    ]
    return _of_pairs("Arms with remedies that do not end below their baseline", parts, level)


def best_at_a_batch(arms: Arms, terms: Terms) -> Finding | None:
    """The highest mean of the arms with remedies at every global batch, and what it recovers of what the batch lost."""
    compared = [pair for pair in _compared(arms) if pair[0].recovered_status]
    compared.sort(key=lambda pair: (pair[0].environment, pair[0].global_batch))
    parts: list[str] = []
    rows: list[TrainingSummaryRow] = []
    for pairs in grouped(compared, lambda pair: (pair[0].environment, pair[0].global_batch)).values():
        best, baseline = largest(pairs, lambda pair: pair[0].test_accuracy.value)
        rows.append(best)
        parts.append(
            f"at {best.global_batch:,} it is {best.arm}{terms.environment(best)}, the highest of "
            f"{plural(len(pairs), 'arm')}, with {_accuracy(best)}: {_recovery(best, baseline)}"
        )
    return _of_arms(f"The best mean of a global batch with remedies: {'; '.join(parts)}.", rows) if parts else None


def _recovery(row: TrainingSummaryRow, baseline: TrainingSummaryRow) -> str:
    """What it recovers, with its interval, or that nobody can tell."""
    if not row.recovered.is_known:
        return f"what it recovers is {NOT_RESOLVABLE}, since what the batch lost is not told from zero"
    return (
        f"{_points(row.test_accuracy_difference)} from {baseline.arm}, it recovers "
        f"{estimate(row.recovered, PERCENT, with_unit=True)} of the accuracy that the batch lost"
        f"{_tuning(row, baseline)}"
    )


def pareto_best_arms(arms: Sequence[FrontierRow], terms: Terms) -> Finding | None:
    """The arms that no other one beats in seconds and test accuracy, and those that one surely beats."""
    known = [row for row in arms if row.training_s.is_known]
    if len(known) < 2:
        return None
    parts = []
    ordered = sorted(known, key=lambda row: (row.environment, row.training_s.value))
    for group in grouped(ordered, lambda row: row.environment).values():
        best = [row for row in group if row.by_time == BEST]
        beaten = [row.arm for row in group if row.by_time == BEATEN]
        named = "; ".join(
            f"{row.arm} ({_accuracy(row)} in {measured(row.training_s.value, SECONDS)}{_also_best(row, terms)})"
            for row in best
        )
        surely = f"; beaten, by the intervals of both: {listed(beaten)}" if beaten else ""
        where = terms.environment(best[0])
        parts.append(f"Pareto-best{where} by training time, from means over seeds: {named}{surely}")
    return Finding(f"{'. '.join(parts)}.", "frontier", len(known), [row.arm for row in known])


def _also_best(row: FrontierRow, terms: Terms) -> str:
    """`, also by GPU-seconds and by energy`."""
    also = {f"by {terms.device}-seconds": row.by_gpu_s, "by energy": row.by_energy}
    named = [name for name, state in also.items() if state == BEST]
    return f"; also {' and '.join(named)}" if named else ""


def fast_twins(twins: Sequence[TwinsRow], terms: Terms) -> Finding | None:
    """Whether a training with a faster step ends where its slow twin does, and what time it takes."""
    rows = sorted(TWIN_BELOW.of(twins).asked, key=lambda row: (row.global_batch, row.arm))
    if not rows:
        return None
    named = "; ".join(
        f"{_arm(row, terms)} ends {_points(row.twin_accuracy_difference)} from {row.twin}, {_twin_verdict(row)}, "
        f"in {estimate(row.twin_time_ratio)} of its time"
        for row in rows
    )
    sentence = f"The same training with a faster step, by the test accuracy of its seeds: {named}."
    return Finding(sentence, "twins", len(rows), [row.arm for row in rows])


def _twin_verdict(row: TwinsRow) -> str:
    if TWIN_ABOVE.surely(row):
        return f"higher {BEYOND}"
    return f"lower {BEYOND}" if TWIN_BELOW.surely(row) else NO_DIFFERENCE


def remedies(claim: Claim[TrainingSummaryRow], what: str, arms: Arms, terms: Terms) -> Finding | None:
    """The arms with remedies of which a claim holds."""
    outcome = claim.of(arms)
    if not outcome.holding:
        return None
    ordered = sorted(outcome.holding, key=lambda row: (row.global_batch, -row.test_accuracy_gain.value))
    gains = "; ".join(
        f"{_arm(row, terms)}, {_points(row.test_accuracy_gain)}{f', {search}' if (search := _search_of(row)) else ''}"
        for row in ordered
    )
    verb = "is" if outcome.number == 1 else "are"
    return _of_arms(f"{among(outcome, 'arm')} with remedies {verb} {what}: {gains}.", outcome.holding)


def comparisons_at_once(arms: Arms) -> Finding | None:
    """How many differences between arms are tested: some of many look real by chance."""
    with_baseline, without_remedies = BELOW_BASELINE.of(arms).asked, REMEDY_HELPS.of(arms).asked
    if not (with_baseline or without_remedies):
        return None
    return _of_arms(
        f"Test accuracy of arms is compared {plural(len(with_baseline), 'time')} with the baseline and "
        f"{plural(len(without_remedies), 'time')} with the same arm without, each time with a 95 % interval of its "
        "own: of 20 comparisons of arms that are equal, one is expected to show a difference.",
        _once([*with_baseline, *without_remedies]),
    )


@where(DIVERGED)
def divergence(diverged: Outcome[TrainingSummaryRow], terms: Terms) -> Finding:
    """Arms whose loss did not stay finite."""
    named = "; ".join(f"{_arm(row, terms)}: {row.reason}" for row in diverged.holding)
    return _of_arms(f"The loss did not stay finite for {plural(diverged.number, 'arm')}: {named}.", diverged.holding)


def order_without_set_epoch(
    orders: Sequence[TrainingOrderRow], evidence: Sequence[TrainingEvidenceRow], arms: Arms, terms: Terms
) -> Finding | None:
    """What set_epoch changes for the order of samples: measured, of all epochs but the first."""
    of_ddp = {row.set_epoch: row for row in orders if row.strategy == "ddp"}
    without, remedied = of_ddp.get(False), of_ddp.get(True)
    if without is None or not without.repeated:
        return None
    sentence = (
        "Without set_epoch, workers of ddp took the same images in the same order as in the epoch before in "
        f"{without.repeated:,} of {without.orders:,} orders"
    )
    if remedied is not None:
        sentence += (
            f"; with it, {percent(remedied.same_place)} of the images stood at the same place, and a worker had had "
            f"{percent(remedied.seen_before)} of its images in the epoch before"
        )
    rests_on = [row for row in evidence if row.strategy == "ddp" and row.same_place == row.same_place]
    return _of_evidence(f"{sentence}.{_loss_without_set_epoch(arms, terms)}", rests_on)


def _loss_without_set_epoch(arms: Arms, terms: Terms) -> str:
    """What the same order in every epoch does to the loss, of arms that differ from another in that alone."""
    named = [
        f"{estimate(row.training_loss)} with {row.arm}{terms.environment(row)}, {estimate(row.training_loss_change)} "
        f"from that of {row.without_remedies}{f', {NO_DIFFERENCE}' if LOSS_LEVEL.surely(row) else ''}"
        for row in arms
        if row.remedies == "set_epoch off" and row.training_loss_change.is_known
    ]
    return f" The training loss after the last epoch is then {'; '.join(named)}." if named else ""


def statistics_of_workers(evidence: Sequence[TrainingEvidenceRow], terms: Terms) -> Finding | None:
    """Whether workers share batch-norm's running statistics: whose are in the network that is tested."""
    known = [row for row in evidence if row.statistics_kept is not None]
    if not known:
        return None
    parts = []
    ordered = sorted(known, key=lambda row: (row.strategy, bool(row.sync_batch_norm)))
    for (strategy, is_shared), rows in grouped(ordered, lambda row: (row.strategy, bool(row.sync_batch_norm))).items():
        name = f"{strategy} with SyncBatchNorm" if is_shared else strategy
        apart = largest(rows, lambda row: row.statistics_difference).statistics_difference
        parts.append(
            f"of {name} {_kept(rows, terms)} (running means {plain(apart, 2)} standard deviations apart at most)"
        )
    return _of_evidence(f"Batch-norm's running statistics after an epoch: {'; '.join(parts)}.", known)


def _kept(rows: Sequence[TrainingEvidenceRow], terms: Terms) -> str:
    """Whose statistics are tested, of what was found in each epoch."""
    if all(row.statistics_kept for row in rows):
        return "all workers are equal"
    epochs = grouped(rows, lambda row: (row.arm, row.environment, row.seed, row.epoch)).values()
    kept = {tuple(sorted(row.worker for row in epoch if row.statistics_kept)) for epoch in epochs}
    if len(kept) > 1:
        return "not the same workers' are tested in every epoch"
    (workers,) = kept
    if not workers:
        return "none is kept as it was"
    return f"only those of {terms.device} {listed(list(map(str, workers)))} are tested, the others' are lost"


def _of_arms(sentence: str, arms: Arms) -> Finding:
    """Arms are named in the sentence; their recipes, which are long, are what it rests on."""
    recipes = [f"{row.arm}: {row.remedies}" if row.remedies else row.arm for row in arms]
    return Finding(sentence, "training_summary", len(arms), recipes)


def _of_pairs(what: str, parts: Sequence[str], pairs: Sequence[Pair]) -> Finding | None:
    """On arms and what they are compared with."""
    if not parts:
        return None
    return _of_arms(f"{what}: {'; '.join(parts)}.", _once([arm for row, other in pairs for arm in (other, row)]))


def _of_evidence(sentence: str, rows: Sequence[TrainingEvidenceRow]) -> Finding:
    return Finding(sentence, "training_evidence", len(rows), list(dict.fromkeys(row.arm for row in rows)))


def _compared(arms: Arms) -> list[Pair]:
    """Arms with what they are compared with, by environment."""
    found = {(row.arm, row.environment): row for row in arms}
    pairs = [
        (row, found[row.compared_with, row.environment])
        for row in arms
        if (row.compared_with, row.environment) in found
    ]
    return sorted(pairs, key=lambda pair: pair[0].environment)


def _once(arms: Arms) -> list[TrainingSummaryRow]:
    return list({(row.arm, row.environment): row for row in arms}.values())


def _tuning(row: TrainingSummaryRow, other: TrainingSummaryRow) -> str:
    """`, tuned (80 trials, chosen on test accuracy) against an untuned b128`; nothing where neither was searched."""
    mine, others = _search_of(row), _search_of(other)
    if not mine and not others:
        return ""
    return f", {mine or 'untuned'} against {others or 'an untuned'} {other.arm}"


def _search_of(row: TrainingSummaryRow) -> str:
    if row.tuned_trials is None:
        return ""
    return f"tuned ({plural(row.tuned_trials, 'trial')}, chosen on {row.tuned_on})"


def _arm(row: TrainingSummaryRow | TwinsRow, terms: Terms) -> str:
    return f"{row.arm} at global batch {row.global_batch:,}{terms.environment(row)}"


def _accuracy(row: TrainingSummaryRow | FrontierRow) -> str:
    return estimate(row.test_accuracy, PERCENT, with_unit=True)


def _points(figure: Figure) -> str:
    """`31.2 points [28.8, 33.6]`, `1 point [−26, 28]`."""
    return estimate(figure, POINTS, with_unit=True)
