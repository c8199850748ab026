"""Findings: what the tables of a study make true, each a sentence or a few with its numbers and the cells it rests on,
or "".

"Surely" is what the 95 % intervals carry: "surely slower" is an interval that lies wholly below 1. "Probably" is said
of values that no interval carries.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from dpscale.analyse.answer import COMPUTE, END_TO_END, of_configuration
from dpscale.analyse.answer.answer import with_speedup
from dpscale.analyse.answer.claims import (
    BELOW_BASELINE,
    COMMUNICATION,
    LONGER_THAN_MESSAGES,
    PROBABLY_COMMUNICATION,
    PROBABLY_FASTER,
    PROBABLY_SLOWER,
    PROBABLY_STRATEGIES,
    REMEDY_HARMS,
    REMEDY_HELPS,
    REMEDY_LEVEL,
    SLOWER,
    STRATEGIES,
    SURELY_FASTER,
)
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured, percent, plain
from dpscale.present.text.words import (
    Terms,
    headline,
    in_order,
    joined,
    largest,
    listed,
    ok,
    out_of,
    plural,
    smallest,
)
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, POINTS, Unit
from dpscale.tables.communication import CommunicationRow
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow


def findings(tables: Tables, terms: Terms) -> dict[str, list[str]]:
    """Return the findings that these tables make true, by the section of the page that they stand in."""
    by_section = {
        "speedup": [more_devices_slower(tables.speedup, terms), strong_scaling(tables.speedup, terms)],
        "times": [strategies_compared(tables.strategy_pairs, terms), loaders_compared(tables.times, terms)],
        "communication": [largest_communication_share(tables.communication, terms)],
        "training": findings_of_training(tables.training_summary, terms),
    }
    return {section: list(filter(None, sentences)) for section, sentences in by_section.items()}


def more_devices_slower(rows: Sequence[SpeedupRow], terms: Terms) -> str:
    """Say in how many configurations of a weak series more devices are slower than one, surely and probably, and in
    how many faster; and name the slowest of those that surely are."""
    slower = SLOWER.of(rows)
    if not slower.holding:
        return ""
    slowest = smallest(slower.holding, lambda row: row.speedup.value)
    counts = [f"surely slower than 1 {terms.device} in {slower.number:,}"]
    for words, claim in (
        ("probably slower", PROBABLY_SLOWER),
        ("surely faster", SURELY_FASTER),
        ("probably faster", PROBABLY_FASTER),
    ):
        number = claim.of(rows).number
        counts += [f"{words} in {number:,}"] if number else []
    loading = ", with data loading" if slowest.scope == END_TO_END else ""
    return (
        f"Of {plural(SURELY_FASTER.of(rows).of, 'comparison')}, more {terms.devices} are {joined(counts)}. Surely "
        f"slowest is {terms.point(slowest)}{loading}: {estimate(slowest.speedup, MULTIPLES, with_unit=True)}."
    )


def strong_scaling(speedup: Iterable[SpeedupRow], terms: Terms) -> str:
    """Say what the most devices gain at the largest global batch: without loading, and with it."""
    strong = in_order(row for row in headline(ok(speedup)) if row.scaling == "strong")
    if not strong:
        return ""
    in_memory = [row for row in strong if row.scope == COMPUTE]
    row = (in_memory or strong)[-1]
    loaded = [loaded_row for loaded_row in of_configuration(strong, row) if loaded_row.scope == END_TO_END]
    loading = ""
    if not in_memory:
        loading = ", data loading counted"
    elif loaded:
        loading = f"; with data loading, {estimate(loaded[0].speedup, MULTIPLES)} times"
    return (
        f"With the global batch held at {row.global_batch:,} (strong scaling), {terms.count(row.gpus)} with "
        f"{row.strategy} are {estimate(row.speedup, MULTIPLES)} times as fast as 1{loading}."
    )


def strategies_compared(rows: Iterable[StrategyPairsRow], terms: Terms) -> str:
    """Say where the later strategy of the table is faster, and where it is slower, interval against interval; and where
    it probably is."""
    pairs = grouped(rows, lambda row: (row.strategy, row.other_strategy)).values()
    sentences = []
    for pair, (outcome, claim) in product(pairs, STRATEGIES.items()):
        surely, probably = claim.of(pair), PROBABLY_STRATEGIES[outcome].of(pair)
        if surely.holding:
            farthest = largest if outcome == "faster" else smallest
            most = farthest(surely.holding, lambda row: row.ratio)
            more = f" and probably in {probably.number:,} more" if probably.holding else ""
            sentences.append(
                f"{most.strategy} is surely {outcome} than {most.other_strategy} in "
                f"{out_of(surely.number, probably.of, 'comparison')}{more}, most on {terms.count(most.gpus)} "
                f"{terms.at_batch(most)}: {measured(most.ratio, MULTIPLES)} as fast, "
                f"{plain(most.epoch_s.value, 3)} and {plain(most.other_epoch_s.value, 3)} s per epoch."
            )
    return " ".join(sentences)


def loaders_compared(times: Iterable[TimesRow], terms: Terms) -> str:
    """Say that times with loading rest on different numbers of loader processes, where they do."""
    loaded = [row for row in in_order(headline(times)) if row.scope == END_TO_END and row.loader_processes]
    processes = {(row.strategy, row.gpus): row.loader_processes for row in loaded}
    if len(set(processes.values())) < 2:
        return ""
    numbers = [f"{name} on {terms.count(gpus)} {number}" for (name, gpus), number in processes.items()]
    return (
        f"With data loading, the numbers of loader processes are different: {listed(numbers)}. Speedups and times with "
        "loading differ for that too."
    )


def largest_communication_share(rows: Sequence[CommunicationRow], terms: Terms) -> str:
    """Name the configuration that loses most of its epoch to what is not compute, where that is resolved."""
    resolved, probably = COMMUNICATION.of(rows), PROBABLY_COMMUNICATION.of(rows)
    if not resolved.holding:
        return ""
    most = largest(resolved.holding, lambda row: row.communication_share)
    more = f" and probably in {probably.number:,} more" if probably.holding else ""
    return (
        f"Communication time is surely above zero in {out_of(resolved.number, probably.of, 'configuration')}{more}. Of "
        f"the sure ones it takes most with {terms.point(most)}: {percent(most.communication_share)} of the epoch."
    )


def witnesses(rows: Sequence[CommunicationRow], answer: Sequence[AnswerRow], terms: Terms) -> str:
    """Say where the step of the answer on the most devices goes, in a study that changed nothing in the step; where
    nothing is known of that, the last step that something is known of; "" where nothing is known."""
    witnessed = [
        row
        for row in in_order(headline(ok(rows)))
        if row.communication_step_s.is_known
        and any(figure.is_known for figure in (row.ablation_step_s, row.isolated_step_s))
    ]
    if not witnessed:
        return ""
    answered = with_speedup(answer)[-1:]
    of_answer = of_configuration(witnessed, answered[0]) if answered else []
    return " ".join(_by_witness((of_answer or witnessed)[-1], terms))


def _by_witness(row: CommunicationRow, terms: Terms) -> Iterator[str]:
    longer = _ms(row.communication_step_s)
    yield f"With {terms.point(row)}, a step takes {longer} longer than on 1 {terms.device} alone (E1)."
    if row.ablation_step_s.is_known:
        yield f"Without its allreduce it is {_ms(row.ablation_step_s)} shorter (E2)."
    if row.isolated_step_s.is_known:
        yield f"Its messages take {_ms(row.isolated_step_s)} with nothing else running (E5)."
    if LONGER_THAN_MESSAGES.surely(row):
        waiting = f"{terms.devices} that wait, or transfers that take longer beside compute"
        yield f"So a part is not the messages: it is overhead of the host, {waiting}."


def _ms(figure: Figure) -> str:
    return estimate(figure, MILLISECONDS, with_unit=True, digits=3)


Arms = Sequence[TrainingSummaryRow]


def findings_of_training(arms: Arms, terms: Terms) -> list[str]:
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
