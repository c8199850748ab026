"""What findings share: their form, and how a figure, its place and the count of a claim are written."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from math import isfinite
from typing import Any, Protocol, TypeVar

from dpscale.analyse.answer.claims import Claim, Outcome
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import AtBatch, Terms, listed, plural, scope
from dpscale.tables.column import MULTIPLES
from dpscale.tables.row import Row
from dpscale.tables.tables import Tables

_CELLS_NAMED = 6
R = TypeVar("R")
T = TypeVar("T", bound=Row)


class InScope(AtBatch, Protocol):
    """A row of a configuration in a scope."""

    @property
    def scope(self) -> str: ...


@dataclass(frozen=True)
class Finding:
    """A sentence with its numbers, and the cells it rests on: `rows` rows of the page's table `view`."""

    sentence: str
    view: str
    rows: int
    cells: Sequence[str]

    @property
    def rests_on(self) -> str:
        """The cells, and how many more where there are too many for a line or two."""
        return listed(self.cells, _CELLS_NAMED, "; ")


def finding(sentence: str, view: str, rows: Sequence[Any], terms: Terms) -> Finding:
    """A finding that rests on these rows of configurations."""
    return Finding(sentence, view, len(rows), _places(rows, terms))


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
    """Makes a finding of a sentence on configurations: it rests on those for which the claim holds, or `of_all`."""

    def finder(sentence: Said[T, str]) -> Finder:
        @where(claim, of_all)
        @wraps(sentence)
        def found(outcome: Outcome[T], terms: Terms) -> Finding:
            rows = outcome.asked if of_all else outcome.holding
            return finding(sentence(outcome, terms), view or claim.table, rows, terms)

        return found

    return finder


def all_of(*finders: Finder) -> Callable[[Tables, Terms], list[Finding | None]]:
    """What each of them finds."""
    return lambda tables, terms: [find(tables, terms) for find in finders]


def among(outcome: Outcome[Any], noun: str, several: str = "") -> str:
    """`8 of 40 comparisons`."""
    return f"{outcome.number:,} of {plural(outcome.of, noun, several)}"


def counted(outcome: Outcome[Any]) -> str:
    """`8 of 40`."""
    return f"{outcome.number:,} of {outcome.of:,}"


def _places(rows: Sequence[Any], terms: Terms) -> list[str]:
    """`ddp × 4 at 32, 128 (compute scope)`: batches stand together. Tables of ddp alone have no column for it."""
    batches: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        where = f" ({scope(row.scope)})" if hasattr(row, "scope") else ""
        place = f"{getattr(row, 'strategy', 'ddp')} × {row.gpus}", f"{where}{terms.environment(row)}"
        batches.setdefault(place, {})[f"{row.batch_per_gpu:,}"] = None
    return [f"{who} at {listed(list(found))}{where}" for (who, where), found in batches.items()]


def largest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    """The row with the largest number, of those that have one; of several the first."""
    return max((row for row in rows if isfinite(key(row))), key=key)


def smallest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    return min((row for row in rows if isfinite(key(row))), key=key)


def place(row: InScope, terms: Terms) -> str:
    """`ddp on 4 GPUs at batch 512 per GPU (compute scope)`."""
    return f"{terms.point(row)} ({scope(row.scope)})"


def multiple(figure: Figure) -> str:
    """`2.31× [2.30, 2.32]`."""
    return estimate(figure, MULTIPLES, with_unit=True)
