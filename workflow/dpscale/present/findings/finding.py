"""What findings share: each is a sentence, or a few, with numbers that a table of the page has; or ""."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from math import isfinite
from typing import Any, TypeVar

from dpscale.analyse.answer.claims import Claim, Outcome
from dpscale.analyse.answer.series import COMPUTE, series_of
from dpscale.present.text.words import Terms, in_order, ok, plural, rank
from dpscale.tables.row import Row, grouped
from dpscale.tables.timing import TimesRow

R = TypeVar("R")
T = TypeVar("T", bound=Row)


def where(claim: Claim[T]) -> Callable[[Callable[[Outcome[T], Terms], str]], Callable[[Sequence[T], Terms], str]]:
    """What is said of a claim is said where it holds for some row of its table."""

    def speaker(say: Callable[[Outcome[T], Terms], str]) -> Callable[[Sequence[T], Terms], str]:
        @wraps(say)
        def said(rows: Sequence[T], terms: Terms) -> str:
            outcome = claim.of(rows)
            return say(outcome, terms) if outcome.holding else ""

        return said

    return speaker


def among(outcome: Outcome[Any], noun: str) -> str:
    """`8 of 40 comparisons`."""
    return f"{outcome.number:,} of {plural(outcome.of, noun)}"


def largest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    """The row with the largest number, of those that have one; of several the first."""
    return max((row for row in rows if isfinite(key(row))), key=key)


def smallest(rows: Iterable[R], key: Callable[[R], float]) -> R:
    return min((row for row in rows if isfinite(key(row))), key=key)


def by_batch(times: Iterable[TimesRow]) -> list[list[TimesRow]]:
    """Series of several batches without loading: of one device, and of the most with the strategy that people read of
    last."""
    rows = in_order(row for row in ok(times) if row.scope == COMPUTE)
    most = max(((row.gpus, rank(row.strategy)) for row in rows), default=None)
    shown = (row for row in rows if row.gpus == 1 or (row.gpus, rank(row.strategy)) == most)
    return [rows for rows in grouped(shown, series_of).values() if len(rows) > 1]
