"""Whether more devices are worth it, how sure that is, and what would decide it: of one speedup and one limit."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import scipy

from dpscale.formulas.figure import INTERVAL, Figure, units_of
from dpscale.formulas.statistics import FEWEST_UNITS, units_to_decide
from dpscale.vocabulary.states import (
    MACHINE,
    NOT_CONFIRMED,
    NOT_WORTH_IT,
    PROBABLY,
    PROBABLY_NOT,
    RUN,
    UNDECIDED,
    WORTH_IT,
)

DECIDED = (WORTH_IT, NOT_WORTH_IT)


@dataclass(frozen=True)
class Units:
    """The machines, or the runs of one machine (`kind`), that a figure is the mean of, and the figure of each."""

    kind: str
    values: tuple[float, ...]

    @classmethod
    def of(cls, figure: Figure) -> "Units":
        """Return the units of a figure: without values where it does not know its blocks, and is not that of two or of
        one run."""
        servers = {block.server for block in figure.blocks}
        if figure.blocks:
            return cls(MACHINE if len(servers) > 1 else RUN, tuple(units_of(figure.blocks)))
        if figure.is_of_two:
            return cls(MACHINE if figure.kind == "two machines" else RUN, figure.interval)
        return cls(RUN, (figure.value,) if figure.kind == "one run" else ())

    @property
    def spread(self) -> float | None:
        """Standard deviation of the units' logarithms; None of fewer than two."""
        return float(np.log(self.values).std(ddof=1)) if len(self.values) > 1 else None

    def are_above(self, limit: float) -> bool:
        """Whether there are several units, and all are above the limit."""
        return len(self.values) > 1 and min(self.values) > limit

    def are_below(self, limit: float) -> bool:
        """Whether there are several units, and all are below the limit."""
        return len(self.values) > 1 and max(self.values) < limit


def verdict(speedup: Figure, units: Units, limit: float) -> str:
    """Return the state that says on which side of the limit the interval lies; otherwise on which side all machines, or
    runs, lie. "" where there is no speedup."""
    if not speedup.is_known:
        return ""
    if speedup.is_above(limit):
        return WORTH_IT
    if speedup.is_below(limit):
        return NOT_WORTH_IT
    if units.are_above(limit):
        return PROBABLY
    if units.are_below(limit):
        return PROBABLY_NOT
    return UNDECIDED if speedup.has_interval or len(units.values) > 1 else NOT_CONFIRMED


def more_units(speedup: Figure, units: Units, limit: float) -> int | None:
    """How many more machines, or runs, would decide what is not decided, if value and spread stay as they were seen;
    None where 20 in all would not. Of a single one the spread is not known: then so many that there is an interval."""
    number, spread = len(units.values), _spread(speedup, units)
    if spread is None:
        return max(1, FEWEST_UNITS - number)
    in_all = units_to_decide(log(speedup.value), log(limit), spread, number)
    return None if in_all is None else in_all - number


def _spread(speedup: Figure, units: Units) -> float | None:
    """Return the standard deviation of the logarithms between units; None where it is not known.

    The interval of two units that borrowed has its ends at exp(+-t(2) * spread / sqrt(2)) times the value: their spread
    is taken from it.
    """
    if not speedup.borrowed_from:
        return units.spread
    return log(speedup.high / speedup.value) * sqrt(2) / float(scipy.special.stdtrit(2, INTERVAL[1]))
