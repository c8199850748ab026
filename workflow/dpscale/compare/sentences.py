"""What is said of studies against the first one. A change is claimed only where its 95 % interval carries it.

A group is a strategy on so many devices: slower, faster, or no difference shown.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dpscale.compare.comparison import Pair
from dpscale.compare.figures import NO_DIFFERENCE, NO_INTERVAL, Subject
from dpscale.compare.groups import BEYOND, FASTER, ONLY_FIRST, ONLY_SECOND, SLOWER, UNDECIDED
from dpscale.compare.rows import ComparedFiguresRow, ComparedGroupsRow
from dpscale.present.text.numbers import decimals_of, estimate, fixed, percent
from dpscale.present.text.words import Terms, joined, listed, plural, rank, scope
from dpscale.tables.column import PERCENT, POINTS
from dpscale.tables.row import grouped

# Groups that a sentence names.
_GROUPS_NAMED = 6


def groups_in_order(groups: Iterable[ComparedGroupsRow]) -> list[ComparedGroupsRow]:
    """Return groups as people read them: by scope, then strategy and devices."""
    return sorted(groups, key=lambda row: (row.scope, rank(row.strategy), row.gpus))


def answers(pair: Pair, terms: Terms) -> list[str]:
    """Say, by scope, which groups are faster and which slower, the largest changes first, and which show no difference;
    then which are not compared."""
    sentences: list[str] = []
    for name, rows in grouped(groups_in_order(pair.groups), lambda row: row.scope).items():
        sentences.extend(_outcomes(pair, f"in the {scope(name)}", rows, terms))
    if not sentences:
        sentences = [f"{pair.study} and {pair.first} have no epoch time in common."]
    return [*sentences, *_not_compared(pair, terms)]


def _outcomes(pair: Pair, where: str, rows: Sequence[ComparedGroupsRow], terms: Terms) -> Iterator[str]:
    """Yield a sentence for every outcome that groups of a scope have, with these groups."""
    for outcome, (sentence, how_much) in _SAID.items():
        alike = sorted((row for row in rows if row.outcome == outcome), key=lambda row: -abs(row.change.value))
        named = [f"{terms.group(row)} {how_much(row)}{_at_batches(row)}" for row in alike]
        if named:
            beginning = sentence.format(study=pair.study, first=pair.first, where=where)
            yield f"{beginning}: {listed(named, _GROUPS_NAMED, '; ')}."


def _at_batches(row: ComparedGroupsRow) -> str:
    """` (at batches 512 and 2,048 alone faster)`: where single batches show other than all of them together."""
    by_outcome = ((FASTER, row.faster_at), (SLOWER, row.slower_at))
    departures = [
        f"{_batches(batches)} alone {word}" for word, batches in by_outcome if batches and word != row.outcome
    ]
    return f" ({', '.join(departures)})" if departures else ""


def _batches(batches: str) -> str:
    """`at batch 32`, `at batches 512 and 2,048`, of a table's entry."""
    numbers = [f"{int(batch):,}" for batch in batches.split("; ")]
    return f"at {'batch' if len(numbers) == 1 else 'batches'} {joined(numbers)}"


def _not_compared(pair: Pair, terms: Terms) -> Iterator[str]:
    """A sentence for every reason why groups are not compared, with these groups."""
    reasons = {ONLY_FIRST: f"{pair.first} alone has them", ONLY_SECOND: f"{pair.study} alone has them"}
    absent = [row for row in groups_in_order(pair.groups) if row.status != "ok"]
    for status, rows in grouped(absent, lambda row: row.status).items():
        named = listed([f"{terms.group(row)} ({scope(row.scope)})" for row in rows], _GROUPS_NAMED)
        yield f"Not compared, as {reasons.get(status, status)}: {named}."


def _by_how_much(row: ComparedGroupsRow) -> str:
    """`15.2 % [14.1, 16.3]`: without a sign, the word beside it has it."""
    return estimate(row.change.map(abs), PERCENT, with_unit=True)


def _between(row: ComparedGroupsRow) -> str:
    """`from 0.5 % faster to 1.1 % slower`."""
    decimals = decimals_of(row.change, PERCENT)
    ends = [round(PERCENT.of(end), decimals) for end in row.change.interval]
    low, high = (f"{fixed(abs(end), decimals)} % {_direction(end)}" if end else "no change" for end in ends)
    return f"from {low} to {high}"


def _direction(change: float) -> str:
    return FASTER if change < 0 else SLOWER


_SAID: Mapping[str, tuple[str, Callable[[ComparedGroupsRow], str]]] = {
    FASTER: ("{study} is faster than {first} {where}", lambda row: f"by {_by_how_much(row)}"),
    SLOWER: ("{study} is slower than {first} {where}", lambda row: f"by {_by_how_much(row)}"),
    NO_DIFFERENCE: ("Between {study} and {first} no difference is shown {where}", _between),
    NO_INTERVAL: (
        "One run has no interval, so no difference of {study} against {first} is shown {where}",
        lambda row: f"{percent(row.change.value, 2)} {_direction(row.change.value)}",
    ),
}


def short(row: ComparedGroupsRow) -> str:
    """Return the words that a line of a chart says of its group."""
    return f"{_by_how_much(row)} {row.outcome}" if row.outcome in (FASTER, SLOWER) else row.outcome


def heading(groups: Sequence[ComparedGroupsRow]) -> str:
    """Return `2 of 5 groups slower, 0 faster`: of the groups that both have."""
    counts = Counter(row.outcome for row in groups)
    return f"{counts[SLOWER]} of {plural(len(groups), 'group')} {SLOWER}, {counts[FASTER]} {FASTER}"


def guard(groups: Iterable[ComparedGroupsRow], terms: Terms) -> Iterator[str]:
    """Say which groups are slower by more than is tolerated, and of which it is undecided; nothing where nobody
    asked."""
    asked = [row for row in groups_in_order(groups) if row.beyond_tolerance]
    if not asked:
        return
    limit = f"{PERCENT.of(asked[0].tolerance):g} %"
    beyond = [_beyond(row, terms) for row in asked if row.beyond_tolerance == BEYOND]
    yield f"Slower by more than {limit}: {'; '.join(beyond) or 'no group'}."
    if undecided := [_place(row, terms) for row in asked if row.beyond_tolerance == UNDECIDED]:
        named = listed(undecided, _GROUPS_NAMED, "; ")
        yield f"Undecided whether slower by more than {limit}, which is no failure: {named}."


def _beyond(row: ComparedGroupsRow, terms: Terms) -> str:
    """Say by how much a group is slower over all batches; at which batches where these alone show it."""
    is_over_all = row.change.is_above(row.tolerance)
    return f"{_place(row, terms)} {f'by {_by_how_much(row)}' if is_over_all else _batches(row.beyond_at)}"


def _place(row: ComparedGroupsRow, terms: Terms) -> str:
    return f"{row.study}, {terms.group(row)} ({scope(row.scope)})"


def operation(row: ComparedFiguresRow) -> str:
    """`all gather`, `peer copy from 0 to 1`."""
    name = row.operation.replace("_", " ")
    return name if row.source is None else f"{name} from {row.source} to {row.target}"


def tally(subject: Subject, rows: Sequence[ComparedFiguresRow]) -> str:
    """Say how often the figure that speaks for a table came to which outcome: `Speedup: higher in 2 of 8.`"""
    compared = [row for row in rows if row.quantity == subject.quantities[0] and row.outcome]
    if not compared:
        return f"{subject.noun}: nothing that both have."
    counts = Counter(row.outcome for row in compared)
    words = (subject.above, subject.below, NO_DIFFERENCE, NO_INTERVAL)
    parts = ", ".join(f"{word} in {counts[word]:,}" for word in words if counts[word])
    return f"{subject.noun}: {parts} of {len(compared):,}."


def effect(row: ComparedFiguresRow) -> str:
    """`25 % [20, 30]`, `2.1 ms [1.9, 2.3]`."""
    if row.change.is_known:
        return estimate(row.change, PERCENT, with_unit=True)
    unit = row.described.unit
    return estimate(row.difference, POINTS if unit is PERCENT else unit, with_unit=True)
