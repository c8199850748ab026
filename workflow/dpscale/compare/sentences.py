"""What is said of studies against the first one. A change is claimed only where its 95 % interval carries it.

A group is a strategy on so many devices: slower, faster, or no difference shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpscale.compare.comparison import ComparedStudies, Pair
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
    ComparedTrainingRow,
    group_of,
)
from dpscale.present.text.numbers import decimals_at, decimals_of, estimate, fixed, measured, plain, whole
from dpscale.present.text.words import Terms, capitalised, listed, plural, rank, scope
from dpscale.tables.column import PERCENT, POINTS, TIMES

# Groups that the verdict names.
_GROUPS_NAMED = 6
_FEW_RUNS = {1: "one run", 2: "two runs"}
# By table, the figure that speaks for it, and what it is called. Epochs are told scope by scope.
_HEADLINES = {
    "times": ("measured_epoch_s", "Epochs"),
    "speedup": ("speedup", "Speedup"),
    "communication": ("communication_step_s", "Communication of a step by subtraction (E1)"),
    "bandwidth": ("bandwidth_gb_s", "Inferred bandwidth"),
    "collectives": ("bus_bandwidth_gb_s", "Bus bandwidth alone"),
    "training": ("test_accuracy", "Test accuracy"),
}


@dataclass(frozen=True)
class Against:
    """What is said of a pair: an answer per scope; sentences with what rests behind it; how many claims chance alone
    would make, "" where none can."""

    pair: Pair
    answers: Sequence[str]
    sentences: Sequence[str]
    by_chance: str


def verdicts(comparison: ComparedStudies, terms: Terms) -> list[Against]:
    """What the intervals say of every study but the first."""
    return [
        Against(
            pair,
            answers(pair, terms),
            [*without_difference(pair, terms), *not_compared(pair, terms), *tallies(pair, terms)],
            _by_chance(pair),
        )
        for pair in comparison.pairs
    ]


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
    if percent.has_interval:
        decimals = decimals_of(row.change, PERCENT)
        return f"{NO_DIFFERENCE} [{_directed(percent.low, decimals)} to {_directed(percent.high, decimals)}]"
    runs = ((first, row.first_runs), (row.study, row.second_runs))
    few = ", ".join(f"{_FEW_RUNS[number]} in {name}" for name, number in runs if number in _FEW_RUNS)
    directed = _directed(percent.value, decimals_at(percent.value, 2))
    return f"{NO_DIFFERENCE}: {directed} as measured, no interval ({few})"


def short(row: ComparedGroupsRow) -> str:
    """The same for a line of a chart, which shows the interval itself where no difference is shown."""
    told = _by_how_much(row) if row.outcome != NO_DIFFERENCE else NO_DIFFERENCE
    return told if row.change.has_interval else f"{told}, no interval"


def _by_how_much(row: ComparedGroupsRow) -> str:
    """`15.2 % slower [14.1, 16.3]`: without a sign, the word has it."""
    change = row.change.map(abs)
    decimals = decimals_of(change, PERCENT)
    value, low, high = (fixed(PERCENT.of(share), decimals) for share in (change.value, *change.interval))
    return f"{value} % {row.outcome} [{low}, {high}]"


def _directed(percent: float, decimals: int) -> str:
    """`0.5 % faster` of −0.5, with one decimal."""
    if not round(percent, decimals):
        return "no change"
    return f"{fixed(abs(percent), decimals)} % {FASTER if percent < 0 else SLOWER}"


def _why_not(row: ComparedGroupsRow, first: str) -> str:
    return {
        ONLY_FIRST: f"{first} alone has them",
        ONLY_SECOND: f"{row.study} alone has them",
        NO_BATCH: "no batch is in both",
        NO_RUN: "no run has an epoch time at every batch",
    }[row.status]


def answers(pair: Pair, terms: Terms) -> list[str]:
    """A verdict for every scope that a group of both was timed in; one that says so where there is none."""
    by_scope: dict[str, list[ComparedGroupsRow]] = {}
    for row in groups_in_order(pair.groups):
        if row.status == "ok":
            by_scope.setdefault(row.scope, []).append(row)
    if not by_scope:
        return [f"{pair.study} and {pair.first} have no epoch time in common"]
    return [f"{pair.name}, {scope(name)}: {_answer(rows, terms)}" for name, rows in by_scope.items()]


def _answer(rows: Sequence[ComparedGroupsRow], terms: Terms) -> str:
    """The verdict of a scope in one sentence: who is slower or faster and by how much, largest changes first."""
    changed = sorted((row for row in rows if row.outcome != NO_DIFFERENCE), key=lambda row: -abs(row.change.value))
    same = [terms.group(row) for row in rows if row.outcome == NO_DIFFERENCE]
    if not any(row.change.has_interval for row in rows):
        return f"{NO_DIFFERENCE}, as no group has two runs in both"
    if not changed:
        return f"{NO_DIFFERENCE} in {plural(len(rows), 'group')}"
    named = listed([f"{terms.group(row)}: {_by_how_much(row)}" for row in changed], _GROUPS_NAMED, "; ")
    return f"{named}; {NO_DIFFERENCE}: {listed(same)}" if same else named


def without_difference(pair: Pair, terms: Terms) -> Iterator[str]:
    """A sentence for every group that shows no difference: between what the change lies, or why that is not known.

    And at which batches a difference is shown.
    """
    for row in groups_in_order(pair.groups):
        if row.outcome == NO_DIFFERENCE:
            apart = ", ".join(_apart(row, pair))
            said = f"{capitalised(scope(row.scope))}, {sentence(row, terms, pair.first)}"
            yield f"{said}, but {apart}." if apart else f"{said}."


def _apart(group: ComparedGroupsRow, pair: Pair) -> Iterator[str]:
    """`slower at batch 32, 128`: the batches of a group that show a difference of their own."""
    for outcome in (SLOWER, FASTER):
        epochs = [row for row in pair.epochs if group_of(row) == group_of(group) and row.outcome == outcome]
        if batches := sorted(row.batch_per_gpu for row in epochs):
            yield f"{outcome} at batch {listed(list(map(whole, batches)))}"


def not_compared(pair: Pair, terms: Terms) -> list[str]:
    """A sentence for every reason why groups are not compared, with these groups."""
    by_reason: dict[str, list[str]] = {}
    for row in groups_in_order(pair.groups):
        if row.status != "ok":
            by_reason.setdefault(_why_not(row, pair.first), []).append(f"{terms.group(row)} ({scope(row.scope)})")
    return [f"Not compared, {reason}: {listed(named)}." for reason, named in by_reason.items()]


def heading(groups: Sequence[ComparedGroupsRow]) -> str:
    """`2 of 5 groups slower, 0 faster`: of the groups that both have."""
    outcomes = [row.outcome for row in groups]
    number = plural(len(outcomes), "group")
    return f"{outcomes.count(SLOWER)} of {number} {SLOWER}, {outcomes.count(FASTER)} {FASTER}"


def guard(pairs: Sequence[Pair], terms: Terms) -> list[str]:
    """Which groups are slower by more than is tolerated, and of which it is undecided; nothing where nobody asked."""
    beyond: list[str] = []
    undecided: dict[str, list[str]] = {}
    for pair in pairs:
        for row in groups_in_order(pair.groups):
            where = f"{row.study}, {scope(row.scope)}" if len(pairs) > 1 else scope(row.scope)
            if row.beyond_tolerance == BEYOND:
                beyond.append(f"{where}, {sentence(row, terms, pair.first)}")
            elif row.beyond_tolerance == UNDECIDED:
                undecided.setdefault(where, []).append(terms.group(row))
    asked = [row.tolerance for pair in pairs for row in pair.groups if row.beyond_tolerance]
    if not asked:
        return []
    limit = f"{PERCENT.of(asked[0]):g} %"
    sentences = [f"Slower by more than {limit}: {'; '.join(beyond) or 'no group'}."]
    if undecided:
        named = "; ".join(f"{where}, {listed(groups)}" for where, groups in undecided.items())
        sentences.append(f"Undecided whether slower by more than {limit}, which is no failure: {named}.")
    return sentences


def operation(row: ComparedCollectivesRow) -> str:
    """`all gather`, `peer copy from 0 to 1`."""
    name = row.operation.replace("_", " ")
    return name if row.source is None else f"{name} from {row.source} to {row.target}"


def tallies(pair: Pair, terms: Terms) -> Iterator[str]:
    """Of every figure that speaks for its table how often it came to which outcome, and the largest changes."""
    for name, (quantity, noun) in _HEADLINES.items():
        rows = [row for row in pair.figures[name] if row.quantity == quantity]
        for counts in pair.outcomes:
            if counts.quantity == quantity and counts.number and (name == "times") != (counts.scope == ALL_SCOPES):
                in_scope = [row for row in rows if counts.scope in (ALL_SCOPES, getattr(row, "scope", ""))]
                said = noun if counts.scope == ALL_SCOPES else f"{noun}, {scope(counts.scope)}"
                yield f"{said}: {_tally(SUBJECTS[name], counts, in_scope, terms)}"


def _tally(subject: Subject, counts: ComparedOutcomesRow, rows: Sequence[ComparedRow], terms: Terms) -> str:
    named = {
        subject.above: counts.above,
        subject.below: counts.below,
        f"{NOT_APART} beyond the intervals": counts.not_apart,
        NO_INTERVAL: counts.no_interval,
    }
    parts = ", ".join(f"{outcome} in {number:,}" for outcome, number in named.items() if number)
    middle = f", median {measured(counts.ratio_median, TIMES)}" if subject.is_ratio else ""
    return f"{parts} of {counts.number:,}{middle}.{''.join(_largest(subject, rows, terms))}"


def _largest(subject: Subject, rows: Sequence[ComparedRow], terms: Terms) -> Iterator[str]:
    """The largest changes to either side, of those beyond their intervals."""
    for word, outcome, most in (("Highest", subject.above, max), ("Lowest", subject.below, min)):
        if changed := [row for row in rows if row.outcome == outcome]:
            row = most(changed, key=lambda row: row.effect.value)
            yield f" {word}: {_place(row, terms)}, {_effect(subject, row)}."


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


def _by_chance(pair: Pair) -> str:
    """`2.5 of 50 epoch times`: how many would lie beyond their intervals if nothing differed."""
    (counts,) = (row for row in pair.outcomes if (row.quantity, row.scope) == ("measured_epoch_s", ALL_SCOPES))
    number = plain(counts.by_chance, 2)
    return f"{number} of {plural(counts.with_interval or 0, 'epoch time')}" if counts.by_chance else ""
