"""What is said of a group, a strategy on so many devices: slower, faster, or no difference shown."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.analyse.comparison_groups import (
    BEYOND,
    FASTER,
    GROUP,
    NO_BATCH,
    NO_DIFFERENCE,
    NO_RUN,
    ONLY_FIRST,
    ONLY_SECOND,
    SLOWER,
    UNDECIDED,
)
from dpscale.formulas.statistics import BLOCKS_FOR_INTERVAL
from dpscale.present import words
from dpscale.present.words import MINUS, Row, Terms
from dpscale.vocabulary.quantities import PERCENT

# Groups that the verdict names.
_GROUPS_NAMED = 6
_FEW_RUNS = {1: "one run", 2: "two runs"}


@dataclass(frozen=True)
class Pair:
    """The names of two studies, of which the second is held against the first."""

    first: str
    second: str


def sentence(row: Row, terms: Terms, pair: Pair) -> str:
    """`ddp on 4 GPUs: 15.2 % slower [14.1, 16.3]`, `... no difference shown [0.5 % faster to 1.1 % slower]`."""
    return f"{terms.group(row)}: {told(row, pair)}"


def told(row: Row, pair: Pair) -> str:
    """What became of the epoch time: slower or faster by so much of it, no difference shown, or why none is known."""
    if row["status"] != "ok":
        return f"not compared, {_why_not(row['status'], pair)}"
    if row["outcome"] != NO_DIFFERENCE:
        return _by_how_much(row)
    if not _has_interval(row):
        return f"{NO_DIFFERENCE}: {_directed(_numbers(row)[0])} as measured, no interval ({_few_runs(row, pair)})"
    _, *ends = _numbers(row)
    return f"{NO_DIFFERENCE} [{' to '.join(map(_directed, ends))}]"


def short(row: Row, terms: Terms) -> str:
    """The same for a line of a chart, which shows the interval itself where no difference is shown."""
    told_shortly = _by_how_much(row) if row["outcome"] != NO_DIFFERENCE else NO_DIFFERENCE
    return f"{terms.group(row)}: {told_shortly}{'' if _has_interval(row) else ', no interval'}"


def answers(groups: pd.DataFrame, terms: Terms, pair: Pair) -> list[str]:
    """A verdict for every scope that a group of both was timed in; one that says so where there is none."""
    compared = groups[groups["status"] == "ok"]
    if compared.empty:
        return [f"{pair.second} and {pair.first} have no epoch time in common"]
    return [_answer(part, str(scope), terms, pair) for scope, part in compared.groupby("scope")]


def _answer(groups: pd.DataFrame, scope: str, terms: Terms, pair: Pair) -> str:
    """The verdict of a scope in one sentence: who is slower or faster and by how much, largest changes first."""
    rows = words.rows(words.in_order(groups))
    against = f"{pair.second} against {pair.first}, {words.scope(scope)}"
    changed = sorted(
        (row for row in rows if row["outcome"] != NO_DIFFERENCE), key=lambda row: abs(row["change"]), reverse=True
    )
    same = [terms.group(row) for row in rows if row["outcome"] == NO_DIFFERENCE]
    if not any(map(_has_interval, rows)):
        return f"{against}: {NO_DIFFERENCE}, as no group has {BLOCKS_FOR_INTERVAL} runs in both"
    if not changed:
        return f"{against}: {NO_DIFFERENCE} in {words.plural(len(rows), 'group')}"
    named = words.listed([sentence(row, terms, pair) for row in changed], _GROUPS_NAMED, "; ")
    rest = f"; {NO_DIFFERENCE}: {words.listed(same)}" if same else ""
    return f"{against}: {named}{rest}"


def tally(groups: pd.DataFrame) -> str:
    """`2 of 5 groups slower, 0 faster`: of the groups that both have."""
    outcomes = list(groups["outcome"])
    number = words.plural(len(outcomes), "group")
    return f"{outcomes.count(SLOWER)} of {number} {SLOWER}, {outcomes.count(FASTER)} {FASTER}"


def without_difference(groups: pd.DataFrame, terms: Terms, pair: Pair, epochs: pd.DataFrame | None = None) -> list[str]:
    """A sentence for every group that shows no difference: between what the change lies, or why that is not known.

    And at which batches, of the epoch times `epochs`, a difference is shown.
    """
    found = []
    for row in words.rows(words.in_order(groups[groups["outcome"] == NO_DIFFERENCE])):
        apart = [] if epochs is None else _apart(row, epochs)
        but = f", but {', '.join(apart)}" if apart else ""
        found.append(f"{words.capitalised(words.scope(row['scope']))}, {sentence(row, terms, pair)}{but}.")
    return found


def _apart(row: Row, epochs: pd.DataFrame) -> list[str]:
    """`slower at batch 32, 128`: the batches of a group that show a difference of their own."""
    of_group = epochs[(epochs[list(GROUP)] == pd.Series({name: row[name] for name in GROUP})).all(axis="columns")]
    return [
        f"{outcome} at batch {words.listed([words.whole(batch) for batch in sorted(batches)])}"
        for outcome in (SLOWER, FASTER)
        if len(batches := of_group[of_group["outcome"] == outcome]["batch_per_gpu"])
    ]


def not_compared(groups: pd.DataFrame, terms: Terms, pair: Pair) -> list[str]:
    """A sentence for every reason why groups are not compared, with these groups."""
    by_reason: dict[str, list[str]] = {}
    for row in words.rows(words.in_order(groups[groups["status"] != "ok"])):
        named = f"{terms.group(row)} ({words.scope(row['scope'])})"
        by_reason.setdefault(_why_not(row["status"], pair), []).append(named)
    return [f"Not compared, {reason}: {words.listed(named)}." for reason, named in by_reason.items()]


def guard(groups: pd.DataFrame, terms: Terms, first: str) -> list[str]:
    """Which groups are slower by more than is tolerated, and of which it is undecided; nothing where nobody asked."""
    ordered = (part for _, part in words.in_order(groups).groupby("study", sort=False))
    asked = [row for part in ordered for row in words.rows(part) if words.is_known(row["tolerance"])]
    if not asked:
        return []
    limit = f"{PERCENT.of(asked[0]['tolerance']):g} %"
    several = len({row["study"] for row in asked}) > 1
    beyond, undecided = (
        [(row, _where(row, several)) for row in asked if row["beyond_tolerance"] == judged]
        for judged in (BEYOND, UNDECIDED)
    )
    told_of = [f"{where}, {sentence(row, terms, Pair(first, row['study']))}" for row, where in beyond]
    sentences = [f"Slower by more than {limit}: {'; '.join(told_of) or 'no group'}."]
    if undecided:
        by_place: dict[str, list[str]] = {}
        for row, where in undecided:
            by_place.setdefault(where, []).append(terms.group(row))
        named = "; ".join(f"{where}, {words.listed(groups_there)}" for where, groups_there in by_place.items())
        sentences.append(f"Undecided whether slower by more than {limit}, which is no failure: {named}.")
    return sentences


def is_beyond(groups: pd.DataFrame) -> bool:
    """Whether a group is slower by more than is tolerated."""
    return BEYOND in set(groups["beyond_tolerance"])


def _where(row: Row, several: bool) -> str:
    """`compute scope`, and the study where there are several."""
    study = f"{row['study']}, " if several else ""
    return f"{study}{words.scope(row['scope'])}"


def _has_interval(row: Row) -> bool:
    return words.is_known(row["change_low"]) and words.is_known(row["change_high"])


def _by_how_much(row: Row) -> str:
    """`15.2 % slower [14.1, 16.3]`: without a sign, the word has it."""
    shown = row
    if row["outcome"] == FASTER:
        shown = {"change": -row["change"], "change_low": -row["change_high"], "change_high": -row["change_low"]}
    value, ends = words.estimate(shown, "change", PERCENT).split(" ", 1)
    return f"{value} % {row['outcome']} {ends}"


def _numbers(row: Row) -> Sequence[str]:
    """Change, low and high in percent, as they are written; the change alone where there is no interval."""
    if not _has_interval(row):
        return [words.in_unit(row["change"], PERCENT, 2)]
    value, ends = words.estimate(row, "change", PERCENT).split(" [", 1)
    return [value, *ends.removesuffix("]").split(", ")]


def _directed(percent: str) -> str:
    """`0.5 % faster` of `−0.5`."""
    if not percent.strip("0."):
        return "no change"
    return f"{percent.removeprefix(MINUS)} % {FASTER if percent.startswith(MINUS) else SLOWER}"


def _few_runs(row: Row, pair: Pair) -> str:
    """`one run in before, two runs in after`."""
    few = [
        f"{_FEW_RUNS[int(number)]} in {name}"
        for name, number in ((pair.first, row["first_runs"]), (pair.second, row["second_runs"]))
        if number < BLOCKS_FOR_INTERVAL
    ]
    return ", ".join(few)


def _why_not(status: str, pair: Pair) -> str:
    return {
        ONLY_FIRST: f"{pair.first} alone has them",
        ONLY_SECOND: f"{pair.second} alone has them",
        NO_BATCH: "no batch is in both",
        NO_RUN: "no run has an epoch time at every batch",
    }[status]
