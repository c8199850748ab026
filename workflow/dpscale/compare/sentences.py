"""What is said of studies against the first one. A change is claimed only where its 95 % interval carries it.

A group is a strategy on so many devices: slower, faster, or no difference shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpscale.compare.comparison import Comparison
from dpscale.compare.figures import ALL_SCOPES, NO_INTERVAL, NOT_APART, SUBJECTS, Subject
from dpscale.compare.groups import (
    BEYOND,
    FASTER,
    NO_BATCH,
    NO_DIFFERENCE,
    NO_RUN,
    ONLY_FIRST,
    ONLY_SECOND,
    SLOWER,
    UNDECIDED,
)
from dpscale.compare.rows import (
    ComparedCollectivesRow,
    ComparedGroupsRow,
    ComparedOutcomesRow,
    ComparedRow,
    ComparedSpeedupRow,
    ComparedTables,
    ComparedTimesRow,
    ComparedTrainingRow,
)
from dpscale.formulas.statistics import BLOCKS_FOR_INTERVAL
from dpscale.present.text.numbers import decimals_at, decimals_of, estimate, fixed, measured, plain, whole
from dpscale.present.text.words import Terms, capitalised, listed, plural, rank, scope
from dpscale.tables.column import PERCENT, POINTS, TIMES

# Groups that the verdict names.
_GROUPS_NAMED = 6
_FEW_RUNS = {1: "one run", 2: "two runs"}
# Of every table but that of times, the figure that speaks for it, and its name.
_HEADLINES = {
    "speedup": ("speedup", "Speedup"),
    "communication": ("communication_step_s", "Communication of a step by subtraction (E1)"),
    "bandwidth": ("bandwidth_gb_s", "Inferred bandwidth"),
    "collectives": ("bus_bandwidth_gb_s", "Bus bandwidth alone"),
    "training": ("test_accuracy", "Test accuracy"),
}


@dataclass(frozen=True)
class Against:
    """What is said of a study against the first one: an answer per scope; which groups show no difference, and which
    are not compared; a tally of the epochs of every scope, and of every other kind of figure; how many claims chance
    alone would make."""

    study: str
    answers: Sequence[str]
    without_difference: Sequence[str]
    not_compared: Sequence[str]
    tallies: Sequence[str]
    by_chance: str


def against_first(comparison: Comparison, terms: Terms) -> list[Against]:
    """What the intervals say of every study but the first."""
    return [_against(side.name, comparison.first.name, comparison.tables, terms) for side in comparison.others]


def _against(study: str, first: str, tables: ComparedTables, terms: Terms) -> Against:
    groups = groups_in_order(row for row in tables.groups if row.study == study)
    epochs = [row for row in tables.times if row.study == study and row.quantity == "epoch_s"]
    outcomes = [row for row in tables.outcomes if row.study == study]
    of_epochs = {row.scope: row for row in outcomes if row.quantity == "epoch_s"}
    tallies = [
        _tally(f"Epochs, {scope(name)}", SUBJECTS["times"], counts, [row for row in epochs if row.scope == name], terms)
        for name, counts in of_epochs.items()
        if name != ALL_SCOPES
    ]
    for name, (quantity, noun) in _HEADLINES.items():
        rows = [row for row in getattr(tables, name) if (row.study, row.quantity) == (study, quantity)]
        (counts,) = (row for row in outcomes if (row.quantity, row.scope) == (quantity, ALL_SCOPES))
        tallies.append(_tally(noun, SUBJECTS[name], counts, rows, terms))
    return Against(
        study,
        answers(study, first, groups, terms),
        without_difference(first, groups, epochs, terms),
        not_compared(first, groups, terms),
        [sentence for sentence in tallies if sentence],
        _by_chance(of_epochs[ALL_SCOPES]),
    )


def groups_in_order(groups: Iterable[ComparedGroupsRow]) -> list[ComparedGroupsRow]:
    """As people read them: by scope, then strategy and devices."""
    return sorted(groups, key=lambda row: (row.scope, rank(row.strategy), row.gpus))


def sentence(row: ComparedGroupsRow, terms: Terms, first: str) -> str:
    """`ddp on 4 GPUs: 15.2 % slower [14.1, 16.3]`, `... no difference shown [0.5 % faster to 1.1 % slower]`."""
    return f"{terms.group(row)}: {_told(row, first)}"


def _told(row: ComparedGroupsRow, first: str) -> str:
    """What became of the epoch time: slower or faster by so much of it, no difference shown, or why none is known."""
    if row.status != "ok":
        return f"not compared, {_why_not(row, first)}"
    if row.outcome != NO_DIFFERENCE:
        return _by_how_much(row)
    percent = row.change.map(PERCENT.of)
    if not percent.has_interval:
        directed = _directed(percent.value, decimals_at(percent.value, 2))
        return f"{NO_DIFFERENCE}: {directed} as measured, no interval ({_few_runs(row, first)})"
    decimals = decimals_of(row.change, PERCENT)
    return f"{NO_DIFFERENCE} [{_directed(percent.low, decimals)} to {_directed(percent.high, decimals)}]"


def short(row: ComparedGroupsRow) -> str:
    """The same for a line of a chart, which shows the interval itself where no difference is shown."""
    told = _by_how_much(row) if row.outcome != NO_DIFFERENCE else NO_DIFFERENCE
    return told if row.change.has_interval else f"{told}, no interval"


def _by_how_much(row: ComparedGroupsRow) -> str:
    """`15.2 % slower [14.1, 16.3]`: without a sign, the word has it."""
    change = row.change.map(lambda share: -share) if row.outcome == FASTER else row.change
    decimals = decimals_of(change, PERCENT)
    value, low, high = (fixed(PERCENT.of(share), decimals) for share in (change.value, change.low, change.high))
    return f"{value} % {row.outcome} [{low}, {high}]"


def _directed(percent: float, decimals: int) -> str:
    """`0.5 % faster` of −0.5, with one decimal."""
    if not round(percent, decimals):
        return "no change"
    return f"{fixed(abs(percent), decimals)} % {FASTER if percent < 0 else SLOWER}"


def _few_runs(row: ComparedGroupsRow, first: str) -> str:
    """`one run in before, two runs in after`."""
    runs = ((first, row.first_runs), (row.study, row.second_runs))
    return ", ".join(f"{_FEW_RUNS[number]} in {name}" for name, number in runs if number in _FEW_RUNS)


def _why_not(row: ComparedGroupsRow, first: str) -> str:
    return {
        ONLY_FIRST: f"{first} alone has them",
        ONLY_SECOND: f"{row.study} alone has them",
        NO_BATCH: "no batch is in both",
        NO_RUN: "no run has an epoch time at every batch",
    }[row.status]


def answers(study: str, first: str, groups: Sequence[ComparedGroupsRow], terms: Terms) -> list[str]:
    """A verdict for every scope that a group of both was timed in; one that says so where there is none."""
    compared = [row for row in groups if row.status == "ok"]
    if not compared:
        return [f"{study} and {first} have no epoch time in common"]
    scopes = dict.fromkeys(row.scope for row in compared)
    return [
        f"{study} against {first}, {scope(name)}: {_answer([row for row in compared if row.scope == name], terms)}"
        for name in scopes
    ]


def _answer(rows: Sequence[ComparedGroupsRow], terms: Terms) -> str:
    """The verdict of a scope in one sentence: who is slower or faster and by how much, largest changes first."""
    changed = sorted((row for row in rows if row.outcome != NO_DIFFERENCE), key=lambda row: -abs(row.change.value))
    same = [terms.group(row) for row in rows if row.outcome == NO_DIFFERENCE]
    if not any(row.change.has_interval for row in rows):
        return f"{NO_DIFFERENCE}, as no group has {BLOCKS_FOR_INTERVAL} runs in both"
    if not changed:
        return f"{NO_DIFFERENCE} in {plural(len(rows), 'group')}"
    named = listed([f"{terms.group(row)}: {_by_how_much(row)}" for row in changed], _GROUPS_NAMED, "; ")
    return f"{named}; {NO_DIFFERENCE}: {listed(same)}" if same else named


def without_difference(
    first: str, groups: Sequence[ComparedGroupsRow], epochs: Sequence[ComparedTimesRow], terms: Terms
) -> list[str]:
    """A sentence for every group that shows no difference: between what the change lies, or why that is not known.

    And at which batches, of the epoch times, a difference is shown.
    """
    found = []
    for row in groups:
        if row.outcome == NO_DIFFERENCE:
            apart = ", ".join(_apart(row, epochs))
            said = f"{capitalised(scope(row.scope))}, {sentence(row, terms, first)}"
            found.append(f"{said}, but {apart}." if apart else f"{said}.")
    return found


def _apart(row: ComparedGroupsRow, epochs: Sequence[ComparedTimesRow]) -> list[str]:
    """`slower at batch 32, 128`: the batches of a group that show a difference of their own."""
    found = []
    for outcome in (SLOWER, FASTER):
        batches = [epoch.batch_per_gpu for epoch in epochs if _is_of(row, epoch) and epoch.outcome == outcome]
        found += [f"{outcome} at batch {listed([whole(batch) for batch in sorted(batches)])}"] if batches else []
    return found


def _is_of(group: ComparedGroupsRow, row: ComparedTimesRow) -> bool:
    return (group.strategy, group.gpus, group.scope) == (row.strategy, row.gpus, row.scope)


def not_compared(first: str, groups: Sequence[ComparedGroupsRow], terms: Terms) -> list[str]:
    """A sentence for every reason why groups are not compared, with these groups."""
    by_reason: dict[str, list[str]] = {}
    for row in groups:
        if row.status != "ok":
            by_reason.setdefault(_why_not(row, first), []).append(f"{terms.group(row)} ({scope(row.scope)})")
    return [f"Not compared, {reason}: {listed(named)}." for reason, named in by_reason.items()]


def heading(groups: Sequence[ComparedGroupsRow]) -> str:
    """`2 of 5 groups slower, 0 faster`: of the groups that both have."""
    outcomes = [row.outcome for row in groups]
    number = plural(len(outcomes), "group")
    return f"{outcomes.count(SLOWER)} of {number} {SLOWER}, {outcomes.count(FASTER)} {FASTER}"


def guard(first: str, groups: Sequence[ComparedGroupsRow], terms: Terms) -> list[str]:
    """Which groups are slower by more than is tolerated, and of which it is undecided; nothing where nobody asked."""
    studies = dict.fromkeys(row.study for row in groups)
    asked = [
        row
        for study in studies
        for row in groups_in_order(row for row in groups if row.study == study and row.beyond_tolerance)
    ]
    if not asked:
        return []
    several = len(studies) > 1
    limit = f"{PERCENT.of(asked[0].tolerance):g} %"
    beyond = [
        f"{_where(row, several)}, {sentence(row, terms, first)}" for row in asked if row.beyond_tolerance == BEYOND
    ]
    undecided: dict[str, list[str]] = {}
    for row in asked:
        if row.beyond_tolerance == UNDECIDED:
            undecided.setdefault(_where(row, several), []).append(terms.group(row))
    sentences = [f"Slower by more than {limit}: {'; '.join(beyond) or 'no group'}."]
    if undecided:
        named = "; ".join(f"{where}, {listed(groups_there)}" for where, groups_there in undecided.items())
        sentences.append(f"Undecided whether slower by more than {limit}, which is no failure: {named}.")
    return sentences


def _where(row: ComparedGroupsRow, several: bool) -> str:
    """`compute scope`, and the study where there are several."""
    return f"{row.study}, {scope(row.scope)}" if several else scope(row.scope)


def operation(row: ComparedCollectivesRow) -> str:
    """`all gather`, `peer copy from 0 to 1`."""
    name = row.operation.replace("_", " ")
    return name if row.source is None else f"{name} from {row.source} to {row.target}"


def _tally(noun: str, subject: Subject, counts: ComparedOutcomesRow, rows: Sequence[ComparedRow], terms: Terms) -> str:
    """How often which outcome, and the largest changes; "" where there is nothing to tell."""
    if not counts.number:
        return ""
    named = {
        subject.above: counts.above,
        subject.below: counts.below,
        f"{NOT_APART} beyond the intervals": counts.not_apart,
        NO_INTERVAL: counts.no_interval,
    }
    parts = ", ".join(f"{outcome} in {number:,}" for outcome, number in named.items() if number)
    middle = f", median {measured(counts.ratio_median, TIMES)}" if subject.is_ratio else ""
    largest = [
        f" {word}: {_place(row, terms)}, {_effect(subject, row)}."
        for word, outcome, most in (("Highest", subject.above, max), ("Lowest", subject.below, min))
        if (changed := [row for row in rows if row.outcome == outcome])
        for row in [most(changed, key=lambda row: row.effect.value)]
    ]
    return f"{noun}: {parts} of {counts.number:,}{middle}.{''.join(largest)}"


def _place(row: ComparedRow, terms: Terms) -> str:
    if isinstance(row, ComparedTrainingRow):
        return f"arm {row.arm}"
    if isinstance(row, ComparedCollectivesRow):
        return f"{operation(row)} of {whole(row.message_bytes)} bytes on {terms.count(row.gpus)}"
    if isinstance(row, ComparedSpeedupRow):
        return f"{row.scaling}, {terms.point(row)} ({scope(row.scope)})"
    return terms.point(row)


def _effect(subject: Subject, row: ComparedRow) -> str:
    """`1.25× [1.20, 1.30]`, `by 2.1 ms [1.9, 2.3]`."""
    if subject.is_ratio:
        return estimate(row.effect, TIMES, with_unit=True)
    unit = subject.quantity(row.quantity).unit
    return f"by {estimate(row.effect, POINTS if unit is PERCENT else unit, with_unit=True)}"


def _by_chance(counts: ComparedOutcomesRow) -> str:
    """`2.5 of 50 epoch times`: how many would lie beyond their intervals if nothing differed; "" where none can."""
    if not counts.by_chance:
        return ""
    return f"{plain(counts.by_chance, 2)} of {plural(counts.with_interval or 0, 'epoch time')}"
