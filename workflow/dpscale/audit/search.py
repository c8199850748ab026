"""The search: which conventions give what was printed, how sure that is, and which cell would decide between them.

A convention reproduces a cell where the interval of its result, every input known to half a unit of its last printed
digit, meets the interval of what was printed.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from dpscale.audit.conventions import Convention, conventions
from dpscale.audit.published import Place, Published
from dpscale.formulas.interval import Interval

# Where unrelated numbers would fit as well with at least this probability, a convention is not called found.
CHANCE_LIMIT = 0.01


@dataclass(frozen=True, eq=False)
class Fit:
    """A convention's values beside the printed ones. `values` lacks cells whose inputs are missing or cancel out."""

    convention: Convention
    printed: Mapping[Place, Interval]
    values: Mapping[Place, Interval]

    @cached_property
    def agreeing(self) -> frozenset[Place]:
        """The cells it reproduces within rounding."""
        return frozenset(place for place, value in self.values.items() if value.meets(self.printed[place]))

    @property
    def supporting(self) -> int:
        """How many cells with several GPUs it reproduces. One GPU compared with itself proves nothing."""
        return sum(place.gpus > 1 for place in self.agreeing)

    @property
    def reproduced(self) -> tuple[int, int]:
        """How many cells it reproduces: with several GPUs, and in all."""
        return self.supporting, len(self.agreeing)

    @property
    def exact(self) -> int:
        """How many cells it reproduces in every digit from the inputs just as they were printed."""
        return sum(self.printed[place].contains(self.values[place].value) for place in self.agreeing)

    def error(self, place: Place) -> float:
        """Difference over the larger of the two, from 0 to 2, in a cell; 2 where the convention gives nothing."""
        if place not in self.values:
            return 2.0
        return _difference(self.printed[place].value, self.values[place].value)

    @property
    def worst(self) -> Place:
        """The cell it misses by most."""
        return max(sorted(self.printed), key=self.error)

    @property
    def chances(self) -> list[float]:
        """For every cell with several GPUs: the chance that a number of the right decade agrees, whatever its digits.

        Leading digits of unrelated numbers are taken as uniform on a logarithmic scale (Benford 1938).
        """
        return [_chance(self.printed[place], value) for place, value in self.values.items() if place.gpus > 1]


@dataclass(frozen=True)
class Rival:
    """Another convention that reproduces as many cells, and the cells in which it differs from the best one.

    `unprinted` are cells where times are known, the figure was not printed, and the two certainly differ. Among the
    printed cells they differ most in `place`, by the fraction `difference`, which the rounding hides.
    """

    convention: Convention
    unprinted: Sequence[Place]
    place: Place
    difference: float


@dataclass(frozen=True)
class Scale:
    """How well the constant factor of a convention is known, which all of its cells share and so test only once.

    Any factor from `low` to `high` would give the same cells. The space has `constants` conventions that differ from
    it by a constant (another unit, another number of parameters ...); `chance` is that a factor that is none of them,
    equally likely anywhere on a logarithmic scale over their range, would suit one of them.
    """

    low: float
    high: float
    constants: int
    chance: float


@dataclass(frozen=True)
class Found:
    """The outcome for one quantity. `verdict` is one of

    - `reproduced`: `best` gives every cell, and so do the `rivals`;
    - `reproduced except`: every cell but a few;
    - `too few cells`: as either, but some convention would fit unrelated numbers as well too often to tell;
    - `not reproduced`: none does; `best` is the one whose largest error is smallest;
    - `not checkable`: no convention can be worked out: the times are not printed. There is no `best`.
    """

    quantity: str
    verdict: str
    best: Fit | None
    rivals: Sequence[Rival]
    cells: Sequence[Place]
    tried: int
    chance: float
    scale: Scale | None = None

    @property
    def is_found(self) -> bool:
        return self.verdict in ("reproduced", "reproduced except")

    @property
    def exceptions(self) -> list[Place]:
        """The cells that could be checked and that the best convention does not reproduce."""
        return [place for place in self.cells if self.best and place not in self.best.agreeing]

    @property
    def choices(self) -> tuple[object, ...]:
        """What was chosen in the convention found; nothing where none was."""
        return self.best.convention.choices if self.best and self.is_found else ()


def search(published: Published, quantity: str) -> Found:
    """Try every convention of the space on what was printed of a quantity."""
    printed = {place: Interval.of(number) for place, number in published.quantities[quantity].items()}
    evaluated = [_fit(convention, published, printed) for convention in conventions(quantity, published)]
    fits = [fit for fit in evaluated if fit.values]
    if not fits:
        return Found(quantity, "not checkable", None, (), (), 0, 1.0)
    cells = sorted({place for fit in fits for place in fit.values})
    independent = sum(place.gpus > 1 for place in cells)
    best, *others = sorted(fits, key=lambda fit: (*fit.reproduced, fit.exact), reverse=True)
    chance = min(1.0, len(fits) * at_least(best.supporting, best.chances))
    complete = len(best.agreeing) == len(cells)
    if not complete and 2 * best.supporting <= independent:
        closest = min(fits, key=lambda fit: max(fit.error(place) for place in cells))
        return Found(quantity, "not reproduced", closest, (), cells, len(fits), chance)
    rivals = [_rival(best, fit, published) for fit in others if fit.reproduced == best.reproduced]
    verdict = "reproduced" if complete else "reproduced except"
    if chance >= CHANCE_LIMIT:
        verdict = "too few cells"
    return Found(quantity, verdict, best, rivals, cells, len(fits), chance, _scale(best, fits))


def at_least(wanted: int, chances: Iterable[float]) -> float:
    """The chance that `wanted` or more of independent events happen (Poisson binomial distribution)."""
    exactly = reduce(np.convolve, [(1 - chance, chance) for chance in chances], np.ones(1))
    return math.fsum(exactly[wanted:])


def _fit(convention: Convention, published: Published, printed: Mapping[Place, Interval]) -> Fit:
    return Fit(convention, printed, _values(convention.value, published, printed))


def _values(
    value: Callable[[Published, Place], Interval | None], published: Published, places: Iterable[Place]
) -> dict[Place, Interval]:
    found = {}
    for place in places:
        try:
            worked_out = value(published, place)
        except ZeroDivisionError:
            continue
        if worked_out:
            found[place] = worked_out
    return found


def _chance(printed: Interval, value: Interval) -> float:
    half = (printed.high - printed.low) / 2
    low, high = sorted((abs(value.low), abs(value.high)))
    if low <= half or value.low * value.high <= 0:
        return 1.0
    return min(1.0, math.log10((high + half) / (low - half)))


def _rival(best: Fit, other: Fit, published: Published) -> Rival:
    unprinted = [place for place in published.places if place not in best.printed]
    values, others = (_values(fit.convention.value, published, unprinted) for fit in (best, other))
    apart = [place for place in values if place in others and not values[place].meets(others[place])]
    shared = sorted(best.values.keys() & other.values.keys())
    differences = {place: _difference(best.values[place].value, other.values[place].value) for place in shared}
    place = max(shared, key=lambda place: differences[place])
    return Rival(other.convention, apart, place, differences[place])


def _scale(best: Fit, fits: Iterable[Fit]) -> Scale | None:
    """Of the best convention: None where none of its cells with several GPUs is other than zero for certain."""
    ratios = []
    for place in best.agreeing:
        printed, value = best.printed[place], best.values[place]
        if place.gpus > 1 and value.low * value.high > 0 and printed.low * printed.high > 0:
            ratios.append(printed / value)
    constants = [constant for fit in fits if (constant := _constant_between(best, fit))]
    if not ratios or not constants:
        return None
    low, high = max(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
    decades = max(1.0, math.log10(max(constants) / min(constants)))
    chance = len(constants) * math.log10(max(high / low, 1.0)) / decades
    return Scale(low, high, len(constants), min(1.0, chance))


def _constant_between(best: Fit, other: Fit) -> float | None:
    """The ratio of two conventions where it is positive and the same in every cell with several GPUs."""
    places = [place for place in best.values if place.gpus > 1]
    if best.values.keys() != other.values.keys() or not all(best.values[place].value for place in places):
        return None
    ratios = [other.values[place].value / best.values[place].value for place in places]
    is_constant = bool(ratios) and ratios[0] > 0 and max(ratios) - min(ratios) <= 1e-9 * ratios[0]
    return ratios[0] if is_constant else None


def _difference(value: float, other: float) -> float:
    """As a fraction of the larger of the two."""
    larger = max(abs(value), abs(other))
    return abs(value - other) / larger if larger else 0.0
