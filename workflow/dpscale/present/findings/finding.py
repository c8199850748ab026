"""What findings share: their form, and how a figure, its place and the count of a claim are written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from math import isfinite
from typing import Any, Protocol, TypeVar

from dpscale.analyse.answer.claims import Claim, Outcome
from dpscale.analyse.answer.series import END_TO_END, Scoped
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import AtBatch, Terms, plural
from dpscale.tables.column import MULTIPLES
from dpscale.tables.row import Row
from dpscale.tables.tables import Tables

R = TypeVar("R")
T = TypeVar("T", bound=Row)


class InScope(AtBatch, Protocol):
    """A row of a configuration in a scope."""

    @property
    def scope(self) -> str: ...


@dataclass(frozen=True)
class Finding:
    """A sentence, or a few, with numbers that the page's table `view` has."""

    sentence: str
    view: str


Finder = Callable[[Tables, Terms], Finding | None]
Said = Callable[[Outcome[T], Terms], R]


def where(claim: Claim[T], of_all: bool = False) -> Callable[[Said[T, R]], Callable[[Tables, Terms], R | None]]:
    """What is said of a claim is said where it holds for some row; `of_all`: where it asks one."""

    def speaker(say: Said[T, R]) -> Callable[[Tables, Terms], R | None]:
        @wraps(say)
        def said(tables: Tables, terms: Terms) -> R | None:
            outcome = claim.of(getattr(tables, claim.table))
            return say(outcome, terms) if (outcome.asked if of_all else outcome.holding) else None

        return said

    return speaker


def says(claim: Claim[T], view: str = "", of_all: bool = False) -> Callable[[Said[T, str]], Finder]:
    """Makes a finding of a sentence on rows for which the claim holds, or `of_all`."""

    def finder(sentence: Said[T, str]) -> Finder:
        @where(claim, of_all)
        @wraps(sentence)
        def found(outcome: Outcome[T], terms: Terms) -> Finding:
            return Finding(sentence(outcome, terms), view or claim.table)

        return found

    return finder


def all_of(*finders: Finder) -> Callable[[Tables, Terms], list[Finding | None]]:
    """What each of them finds."""
    return lambda tables, terms: [find(tables, terms) for find in finders]


def among(outcome: Outcome[Any], noun: str, several: str = "") -> str:
    """`8 of 40 comparisons`."""
    return f"{outcome.number:,} of {plural(outcome.of, noun, several)}"


def verb(outcome: Outcome[Any]) -> str:
    return "was" if outcome.number == 1 else "were"


def largest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    """The row with the largest number, of those that have one; of several the first."""
    return max((row for row in rows if isfinite(key(row))), key=key)


def smallest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    return min((row for row in rows if isfinite(key(row))), key=key)


def place(row: InScope, terms: Terms) -> str:
    """`ddp on 4 GPUs at batch 512 per GPU`, and `, with data loading` where that is in the clock."""
    return f"{terms.point(row)}{with_loading(row)}"


def with_loading(row: Scoped) -> str:
    return ", with data loading" if row.scope == END_TO_END else ""


def multiple(figure: Figure) -> str:
    """`2.31× [2.30, 2.32]`."""
    return estimate(figure, MULTIPLES, with_unit=True)
