"""The search: which convention gives what was printed, and how sure that is.

A convention gives a cell where the interval of its result, every input known to half a unit of its last printed digit,
meets that of what was printed, its digits rounded or cut. The best one explains the most digits for the least that it
has to assume: each cell that it gives counts as many decades as its digits tell, and every step away from
docs/method.md takes some off. Where one that nobody could object to gives as many cells, that one is taken.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from dpscale.audit.conventions import METHOD, OTHER, WRONG, Choice, Constant, Convention, Form, space, steps_of
from dpscale.audit.published import Published, Spot
from dpscale.formulas.rounded import Rounded

# Where unrelated numbers would fit as well with at least this probability, a convention is not called found.
CHANCE_LIMIT = 0.01
# Times of two runs of the same differ by about this, to either side.
OF_ANOTHER_RUN = 0.01

# What a step away from docs/method.md takes off, in decades; and the most that a cell's digits may tell.
_DECADES_PER_STEP, _DECADES_PER_CELL = 0.5, 4.0
# One GPU beside itself proves nothing, but a cell of it may decide between two conventions.
_WEIGHT_OF_ONE_GPU = 0.1
_BLAME = {METHOD: 0, OTHER: 1, WRONG: 2}
_NEARLY = 0.8
_STEPS_OF_CUTTING = 3
# With times known so roughly, conventions further away than this come close by chance.
_FARTHEST_OF_ANOTHER_RUN = 3
# One cell sets a common factor; fewer than two others do not test it.
_FEWEST_OF_A_FACTOR = 3
_SLACK = 1e-9
_VALUE = attrgetter("value")

Values = Mapping[Spot, Rounded]


def several(places: Iterable[Spot]) -> list[Spot]:
    """Return the places with several GPUs: one GPU compared with itself proves nothing."""
    return [place for place in places if place.gpus > 1]


@dataclass(frozen=True, eq=False)
class Match:
    """A convention's values beside the printed ones, which are `is_cut` or rounded. `values` lacks cells whose inputs
    are missing or cancel out."""

    convention: Convention
    printed: Values
    values: Values
    is_cut: bool = False

    @cached_property
    def agreeing(self) -> frozenset[Spot]:
        """The cells that it gives."""
        return frozenset(place for place, value in self.values.items() if value.meets(self.printed[place]))

    @cached_property
    def supporting(self) -> int:
        """How many cells with several GPUs it gives."""
        return len(several(self.agreeing))

    @cached_property
    def decades(self) -> float:
        """How much the digits of these cells tell: as many as unrelated numbers would seldom share."""
        return sum(
            min(_DECADES_PER_CELL, -math.log10(self._chance(place))) * (1 if place.gpus > 1 else _WEIGHT_OF_ONE_GPU)
            for place in self.agreeing
        )

    @property
    def steps(self) -> int:
        return self.convention.steps + _STEPS_OF_CUTTING * self.is_cut

    @property
    def score(self) -> float:
        return self.decades - _DECADES_PER_STEP * self.steps

    @property
    def blame(self) -> int:
        return sum(_BLAME[choice.kind] for choice in self.convention.choices) + self.is_cut

    def is_most(self, checkable: Sequence[Spot]) -> bool:
        """Whether it gives most of these cells with several GPUs, and more than zeros: what may be zero agrees with
        much. The method's own convention needs no more."""
        resolvable = sum(self.values[place].is_not_zero for place in several(self.agreeing))
        most = len(several(checkable)) / 2
        return self.supporting > most and (not self.convention.steps or resolvable > most)

    def by_chance(self, conventions: int) -> float:
        """The chance that one of so many conventions agrees with as many cells of unrelated numbers."""
        return min(1.0, conventions * _at_least(self.supporting, map(self._chance, several(self.values))))

    def _chance(self, place: Spot) -> float:
        """Return the chance that a number of the right decade agrees, whatever its digits.

        Leading digits of unrelated numbers are taken as uniform on a logarithmic scale (Benford 1938)."""
        half, value = self.printed[place].half, self.values[place]
        low, high = sorted((abs(value.low), abs(value.high)))
        return min(1.0, math.log10((high + half) / (low - half)) or 1e-9) if low > half and value.is_not_zero else 1.0


@dataclass(frozen=True)
class ColumnSearch:
    """Outcome of the search for a column.

    `method` is the convention of docs/method.md; `best` one that gives all cells or most, beyond chance; `near` one
    that does where its inputs may be of another run; `unsure` one without a mistake that gives all, as chance might.
    `factor` is what `method` has to be multiplied by to give all cells, if anything.
    """

    quantity: str
    method: Match
    checkable: Sequence[Spot]
    tried: int
    best: Match | None = None
    near: Match | None = None
    unsure: Match | None = None
    chance: float = 1.0
    factor: Rounded | None = None

    @property
    def match(self) -> Match | None:
        """The convention that the column follows."""
        return self.best or self.near

    @property
    def reference(self) -> Match:
        """Return the convention that single cells are compared with."""
        return self.match or self.method

    @property
    def choices(self) -> tuple[Choice, ...]:
        return self.match.convention.choices if self.match else ()


def search(published: Published, quantity: str) -> ColumnSearch:
    """Try every convention on the printed figures of one quantity."""
    outcome = _searched(published, quantity)
    if outcome.best or not outcome.checkable:
        return outcome
    near = _searched(published.of_another_run(OF_ANOTHER_RUN), quantity, prefers_method=True)
    if near.best and near.best.steps > _FARTHEST_OF_ANOTHER_RUN:
        near = outcome
    factor = common_factor([(outcome.method.printed[place], value) for place, value in outcome.method.values.items()])
    return replace(outcome, near=near.best, chance=near.chance, factor=factor)


def _searched(published: Published, quantity: str, prefers_method: bool = False) -> ColumnSearch:
    forms, constants = space(quantity, published)
    table = published.quantities[quantity]
    values = {
        form: by_place
        for form in forms
        if (by_place := {place: value for place in table if (value := form.at(published, place))})
    }
    checkable = sorted({place for by_place in values.values() for place in by_place})
    rounded = {place: number.interval for place, number in table.items()}
    cut = {place: number.if_cut for place, number in table.items()}
    method = _match(forms[0], constants[0], rounded, values.get(forms[0], {}))
    outcome = ColumnSearch(quantity, method, checkable, len(values) * len(constants))
    ascending = sorted(constants, key=_VALUE)
    matches = [
        _match(form, constant, printed, of_form, printed is cut)
        for printed in (rounded, cut)
        for form, of_form in values.items()
        for constant in {
            fit for place in several(of_form) for fit in _suiting(ascending, of_form[place], printed[place])
        }
    ]
    if not matches or not several(checkable):
        return outcome
    best = method if prefers_method and method.is_most(checkable) else _best(matches)
    of_forms, of_constants = ([steps_of(term.choices) for term in terms] for terms in (values, constants))
    as_simple = sum(of_form + of_constant <= best.steps for of_form in of_forms for of_constant in of_constants)
    chance = best.by_chance(as_simple)
    if best.is_most(checkable) and (chance < CHANCE_LIMIT or not best.convention.steps):
        return replace(outcome, best=best, chance=chance)
    unsure = best if best.is_most(checkable) and not best.convention.words(WRONG) else None
    return replace(outcome, unsure=unsure, chance=chance)


def _match(form: Form, constant: Constant, printed: Values, values: Values, is_cut: bool = False) -> Match:
    """Return the values of a form times a constant beside the printed ones."""
    times_constant = {place: value * constant.value for place, value in values.items()}
    return Match(Convention(form, constant), printed, times_constant, is_cut)


def _suiting(ascending: Sequence[Constant], value: Rounded, printed: Rounded) -> Sequence[Constant]:
    """Return the constants with which a value gives a printed figure."""
    if value.low <= 0 or printed.low <= 0:
        return [constant for constant in ascending if (value * constant.value).meets(printed)]
    low, high = printed.low / value.high * (1 - _SLACK), printed.high / value.low * (1 + _SLACK)
    return ascending[bisect_left(ascending, low, key=_VALUE) : bisect_right(ascending, high, key=_VALUE)]


def _best(matches: Sequence[Match]) -> Match:
    """Return the best match.

    What follows from the times is preferred to what goes through printed columns; and nobody is blamed where
    something blameless gives as many cells and tells nearly as much."""
    first = max(matches, key=lambda match: match.score)
    telling = [
        match
        for match in matches
        if match.supporting >= first.supporting
        and len(match.agreeing) >= len(first.agreeing)
        and match.decades >= _NEARLY * first.decades
    ]
    return max(telling, key=lambda match: (-len(match.convention.form.through), -match.blame, match.score))


def common_factor(pairs: Sequence[tuple[Rounded, Rounded]], fewest: int = _FEWEST_OF_A_FACTOR) -> Rounded | None:
    """Return the factor from every second number to the first; None where they share none."""
    if len(pairs) < fewest or not all(min(first.low, second.low) > 0 for first, second in pairs):
        return None
    ratios = [first / second for first, second in pairs]
    low, high = max(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
    return Rounded((low + high) / 2, low, high) if low <= high else None


def _at_least(wanted: int, chances: Iterable[float]) -> float:
    """The chance that `wanted` or more of independent events happen (Poisson binomial distribution)."""
    exactly = [1.0]
    for chance in chances:
        happens = [0.0, *(chance * before for before in exactly)]
        exactly = [with_it + (1 - chance) * without for with_it, without in zip(happens, [*exactly, 0.0], strict=True)]
    return sum(exactly[wanted:])
