"""A figure with its uncertainty: the one type of every quantity that has one."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpscale.formulas.on_server import OnServer

Floats = NDArray[np.float64]
INTERVAL = (0.025, 0.975)

# What `low` and `high` are: a 95 % interval over servers; the same over the runs of one server, which says nothing of
# another one; the lower and the higher value of two servers, or of two runs of one; or nothing, of one run or for
# another reason.
Kind = Literal["interval", "one machine", "two machines", "two runs", "one run", "none"]


@dataclass(frozen=True)
class Figure:
    """A value between `low` and `high`; what is not known is NaN. An infinite number is not known either.

    Predicates that need a 95 % interval are false where there is none.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    kind: Kind = "none"
    blocks: Mapping[OnServer, float] = field(default_factory=dict, repr=False, compare=False)
    """The figure of every block that it is the mean of, if it is one."""
    borrowed_from: int = 0
    """Other configurations whose spread is part of its interval, where it rests on two servers or runs."""

    @classmethod
    def of(cls, value: float, low: float = math.nan, high: float = math.nan) -> "Figure":
        """Return a figure with a 95 % interval, where both ends are known."""
        return cls(value, low, high, "interval" if math.isfinite(low) and math.isfinite(high) else "none")

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends, (nan, nan) where there are none; `kind` says what they are."""
        return self.low, self.high

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether it has a 95 % interval: over servers, or over the runs of one machine."""
        return self.kind in ("interval", "one machine") and all(map(math.isfinite, (self.value, self.low, self.high)))

    @property
    def is_one_machine(self) -> bool:
        """Whether it rests on several runs of one server alone."""
        return self.kind in ("one machine", "two runs")

    @property
    def is_of_two(self) -> bool:
        """Whether its ends are the values of two servers or runs, and no interval."""
        return self.kind in ("two machines", "two runs")

    @property
    def sure(self) -> "Figure":
        """The figure of no block, with its 95 % interval, or the values of two, if it has them."""
        has_ends = self.has_interval or self.is_of_two
        return Figure(self.value, self.low, self.high, self.kind) if has_ends else Figure(self.value)

    def is_above(self, limit: float) -> bool:
        """Whether its whole interval lies above the limit."""
        return self.has_interval and self.low > limit

    def is_below(self, limit: float) -> bool:
        """Whether its whole interval lies below the limit."""
        return self.has_interval and self.high < limit

    def holds(self, limit: float) -> bool:
        """Whether the limit lies in its interval: on neither side surely."""
        return self.has_interval and self.low <= limit <= self.high

    def exceeds(self, lower: "Figure") -> bool:
        """Whether its whole interval lies above the whole interval of `lower`."""
        return self.has_interval and lower.has_interval and self.low > lower.high

    def map(self, function: Callable[[float], float]) -> "Figure":
        """Return a monotone function of all that is known of it, block by block too."""
        low, high = function(self.low), function(self.high)
        low, high = (high, low) if low > high else (low, high)
        blocks = {block: function(value) for block, value in self.blocks.items()}
        return replace(self, value=function(self.value), low=low, high=high, blocks=blocks)


UNKNOWN = Figure()


def less(figure: Figure, subtracted: Figure) -> Figure:
    """Return `figure` minus `subtracted`, of which it is independent, from the intervals alone (Zou and Donner 2008).

    Each side's distance from figure to limit stands for its error there, so that intervals need not be symmetric.
    Without both intervals there is none, and over the runs of one machine it is where either is.
    """
    value = figure.value - subtracted.value
    if not (figure.has_interval and subtracted.has_interval):
        return Figure(value)
    down = np.hypot(figure.value - figure.low, subtracted.high - subtracted.value)
    up = np.hypot(figure.high - figure.value, subtracted.value - subtracted.low)
    kind: Kind = "one machine" if figure.is_one_machine or subtracted.is_one_machine else "interval"
    return Figure(value, float(value - down), float(value + up), kind)


def ratio(figure: Figure, divisor: Figure) -> Figure:
    """Return `figure` over `divisor`: the difference of their logarithms. NaN where a figure or limit is not above
    zero."""
    return less(figure.map(_logarithm), divisor.map(_logarithm)).map(_exponential)


def _logarithm(value: float) -> float:
    return float(np.log(value)) if value > 0 else math.nan


def _exponential(value: float) -> float:
    return float(np.exp(value))


def plus(figure: Figure, addend: Figure) -> Figure:
    """Return the sum of two independent figures."""
    return less(figure, addend.map(lambda value: -value))


def multiplied(figure: Figure, factor: float) -> Figure:
    """Return a figure times `factor`, which is above zero."""
    return figure.map(lambda value: value * factor)


def share_of(cost: Figure, total: Figure) -> Figure:
    """Return the share that a cost has of a total, both independent. A cost that may be nothing has no logarithm: the
    total then counts as exact."""
    if cost.value <= 0 or cost.low <= 0:
        return multiplied(cost, 1 / total.value)
    return ratio(cost, total)
