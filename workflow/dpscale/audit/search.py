"""The search: which conventions give what was printed, how sure that is, and which cell would decide between them.

A convention reproduces a cell where the interval of its result, every input known to half a unit of its last printed
digit, meets the interval of what was printed. Figures may have been printed in other ways than rounded: cut, or with
the columns of two numbers of GPUs exchanged. Every convention is tried with every way of printing.

Among conventions, the one is best that explains the most digits for the least that it has to assume: each cell that it
gives counts as many decades as its digits tell, and every step away from docs/method.md takes some off. Where one that
nobody could object to gives as many cells, that one is taken.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, reduce
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpscale.audit import rounded_amounts
from dpscale.audit.conventions import (
    METHOD,
    OTHER,
    SWAPPED_COLUMNS,
    WRONG,
    Amount,
    Choice,
    Convention,
    Form,
    Space,
    space,
)
from dpscale.audit.published import Place, Printed, Published
from dpscale.formulas.interval import Interval

# Where unrelated numbers would fit as well with at least this probability, a convention is not called found.
CHANCE_LIMIT = 0.01

# What a step away from docs/method.md takes off, in decades; and the most that a cell's digits may tell.
_DECADES_PER_STEP, _DECADES_PER_CELL = 0.5, 4.0
# One GPU beside itself proves nothing, but a cell of it may decide between two conventions.
_WEIGHT_OF_ONE_GPU = 0.1
_BLAME = {METHOD: 0, OTHER: 1, WRONG: 2}
_NEARLY = 0.8
# Where chance does as well with this probability, a cell that agrees says nothing.
_TELLS_NOTHING = 0.5
# Conventions further away than this are no candidate for the closest one, where none fits: they come close by chance.
_FARTHEST_CLOSEST = 5
_RIVALS_DESCRIBED = 12
# Rough figures have thousands of conventions that fit as well; no reader wants more of them than this.
_OTHERS_KEPT, _EQUALS_COMPARED = 5_000, 50
# One cell sets an unknown factor; fewer than two others do not test it.
_FEWEST_OF_A_FACTOR = 3

Bands = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Printing(Choice):
    """A way in which figures were printed. `reads` gives what the numbers in a table stand for."""

    reads: Callable[[Mapping[Place, Decimal]], Mapping[Place, Interval]] = field(kw_only=True, compare=False)


def _rounded(printed: Printed) -> dict[Place, Interval]:
    return {place: Interval.of(number) for place, number in printed.items()}


def cut(number: Decimal) -> Interval:
    """What a number stands for whose further digits were left out: 1.40 for 1.40 to 1.41."""
    near = Interval.of(number)
    unit = near.high - near.low
    low, high = (near.value, near.value + unit) if number >= 0 else (near.value - unit, near.value)
    return Interval(near.value, low, high)


ROUNDED = Printing("rounded", "", "rounded", reads=_rounded)
CUT = Printing(
    "cut", "", "digits cut, not rounded", 3, OTHER,
    reads=lambda printed: {place: cut(number) for place, number in printed.items()},
)  # fmt: skip


def exchanged(first: int, second: int) -> Printing:
    """The columns of two numbers of GPUs stand in each other's place."""
    other = {first: second, second: first}

    def reads(printed: Printed) -> dict[Place, Interval]:
        swapped = {place: Place(place.batch_per_gpu, other.get(place.gpus, place.gpus)) for place in printed}
        return {place: Interval.of(printed[there]) for place, there in swapped.items() if there in printed}

    words = f"the columns of {first} and {second} GPUs exchanged"
    return Printing(f"exchanged {first} {second}", "", words, 3, WRONG, reads=reads)


@dataclass(frozen=True, eq=False)
class Fit:
    """A convention's values beside the printed ones. `values` lacks cells whose inputs are missing or cancel out."""

    convention: Convention
    printed: Mapping[Place, Interval]
    values: Mapping[Place, Interval]
    printing: Printing = ROUNDED

    @cached_property
    def agreeing(self) -> frozenset[Place]:
        """The cells it reproduces within rounding."""
        return frozenset(place for place, value in self.values.items() if value.meets(self.printed[place]))

    @property
    def supporting(self) -> int:
        """How many cells with several GPUs it reproduces. One GPU compared with itself proves nothing."""
        return sum(place.gpus > 1 for place in self.agreeing)

    @property
    def telling(self) -> int:
        """How many of those agree by their digits, and not because what the convention gives is known so roughly."""
        return sum(
            place.gpus > 1 and _chance(self.printed[place], self.values[place]) < _TELLS_NOTHING
            for place in self.agreeing
        )

    @property
    def resolvable(self) -> int:
        """How many of those the convention gives a value for that is other than zero for certain."""
        return sum(place.gpus > 1 and self.values[place].low * self.values[place].high > 0 for place in self.agreeing)

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

    @property
    def differences(self) -> list[str]:
        """What is not as docs/method.md defines it, in words. Digits that were cut are no other definition."""
        return [*self.convention.differences, *([self.printing.sentence] if self.printing.kind == WRONG else [])]

    @property
    def mistakes(self) -> list[str]:
        """What of it no definition would call right, in words."""
        return [*self.convention.mistakes, *([self.printing.sentence] if self.printing.kind == WRONG else [])]


@dataclass(frozen=True)
class Rival:
    """Another convention that reproduces as many cells, and the cells in which it differs from the best one.

    `unprinted` are cells where times are known, the figure was not printed, and the two certainly differ. Among the
    printed cells they differ most in `place`, by the fraction `difference`, which the rounding hides. `printing` is how
    its figures would have been printed.
    """

    convention: Convention
    unprinted: Sequence[Place]
    place: Place
    difference: float
    printing: Printing = ROUNDED


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

    - `reproduced`: `best` gives every cell, and so do the `others`;
    - `reproduced except`: every cell but a few;
    - `too few cells`: as either, but some convention would fit unrelated numbers as well too often to tell, or most
      cells agree only because what it gives is known so roughly;
    - `up to a constant`: a form gives all cells but for one factor, `factor`, that no convention of the space has;
    - `not reproduced`: none does; `best` is the one whose largest error is smallest, and `chance` that unrelated
      numbers would come as close;
    - `not checkable`: no convention can be worked out: the times are not printed. There is no `best`.

    `fitting` counts the best and all others, of which `others` holds the simplest. `disputed` are exceptions of the
    best that one of the others gives; `rivals` describes the first of the others.
    `refined` gives more cells than the best, with bytes that were rounded before use.
    """

    quantity: str
    verdict: str
    best: Fit | None
    rivals: Sequence[Rival]
    cells: Sequence[Place]
    tried: int
    chance: float
    scale: Scale | None = None
    others: Sequence[Convention] = ()
    factor: Interval | None = None
    fitting: int = 0
    refined: Fit | None = None
    disputed: frozenset[Place] = frozenset()

    @property
    def is_found(self) -> bool:
        """Whether the convention is known, for all cells or for most."""
        return self.verdict.startswith("reproduced")

    @property
    def fits(self) -> bool:
        """Whether some convention gives all cells or most, be they enough to tell or not."""
        return self.is_found or self.verdict == "too few cells"

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Those of the convention, where it is known."""
        return self.best.convention.choices if self.best and self.is_found else ()

    @property
    def exceptions(self) -> list[Place]:
        """Checkable cells that the convention does not reproduce."""
        return [place for place in self.cells if place not in self.best.agreeing] if self.best else []


def search(published: Published, quantity: str) -> Found:
    """Try every convention on the printed figures of one quantity."""
    if quantity == "bandwidth":
        published = _as_meant(published)
    conventions = space(quantity, published)
    found = _searched(published, quantity, conventions)
    if found.fits or not conventions.circular:
        return found
    through = _searched(published, quantity, Space(conventions.circular, conventions.constants))
    return through if through.fits else found


def _as_meant(published: Published) -> Published:
    """The study with its printed times in seconds, where they were found to be milliseconds or minutes, and each in its
    own column."""
    columns = dict(published.quantities)
    meant: dict[str, Printed] = {}
    for name, other in (("compute_s", "communication_s"), ("communication_s", "compute_s")):
        table = columns.pop(name, None)
        best = found.best if table and (found := search(published, name)).is_found else None
        if table and best and best.convention.constant.value != 1:
            factor = 1 / best.convention.constant.value
            table = {place: _scaled(number, factor) for place, number in table.items()}
        if table:
            meant.setdefault(other if best and SWAPPED_COLUMNS in best.convention.choices else name, table)
    return replace(published, quantities={**columns, **meant})


def _scaled(number: Decimal, factor: float) -> Decimal:
    """A printed number times a factor, known no better than it was."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    coarse = exponent + math.ceil(math.log10(factor) - 1e-9)
    return (number * Decimal(factor)).quantize(Decimal((0, (1,), coarse)))


def _searched(published: Published, quantity: str, conventions: Space) -> Found:
    table = published.quantities[quantity]
    places = sorted(table)
    grid = Grid.of(conventions, published, places)
    cells = grid.checkable
    if not cells or (not _independent(cells) and any(place.gpus > 1 for place in places)):
        return Found(quantity, "not checkable", None, (), [], 0, 1.0)
    search_of = _Search(published, quantity, table, conventions, grid)
    top = search_of.best(search_of.workable)
    fit, chance, others = top.fit, top.chance, top.others
    refined = search_of.with_rounded_bytes(top)
    if refined and not (_is_most(fit, cells) and _same_but_rounded(fit, refined[0])):
        (fit, chance), others, refined = refined, _NONE, None
    most = _is_most(fit, cells)
    if not (most and _is_evident(fit, chance, cells)) and search_of.gives_all.any():
        top, refined = search_of.best(search_of.gives_all), None
        fit, chance, others = top.fit, top.chance, top.others
    elif not most:
        return search_of.up_to_a_constant() or search_of.not_reproduced()
    complete = len(fit.agreeing) == len(cells)
    verdict = "reproduced" if complete else "reproduced except"
    if not _is_evident(fit, chance, cells):
        verdict = "too few cells"
    rivals = [_rival(fit, search_of.fit(*at), published) for at in others[:_RIVALS_DESCRIBED]]
    return Found(
        quantity, verdict, fit, rivals, cells, search_of.tried, chance, search_of.scale(fit),
        others=[search_of.convention(constant, form) for _, constant, form in others[:_OTHERS_KEPT]],
        fitting=1 + len(others),
        refined=refined[0] if refined else None,
        disputed=frozenset() if complete or not len(others) else search_of.given_by(others) - fit.agreeing,
    )  # fmt: skip


def _same_but_rounded(fit: Fit, refined: Fit) -> bool:
    """Whether the two are one convention, but for bytes that were rounded before use."""
    return set(fit.convention.choices) < set(refined.convention.choices)


def _is_most(fit: Fit, cells: Sequence[Place]) -> bool:
    """Whether a fit gives all cells, or most of those with several GPUs, and what it gives for most of those is not
    zero within rounding, unless it is the method's: what may be zero agrees with much."""
    independent = _independent(cells)
    if fit.convention.cost > 0 and independent and 2 * fit.resolvable <= independent:
        return False
    return len(fit.agreeing) == len(cells) or 2 * fit.supporting > independent


def _is_evident(fit: Fit, chance: float, cells: Sequence[Place]) -> bool:
    """Whether chance hardly does as well, and most cells with several GPUs agree by their digits, not because what the
    convention gives is known so roughly. The method's own convention needs no such digits."""
    independent = _independent(cells)
    by_digits = fit.convention.cost == 0 or not independent or 2 * fit.telling > independent
    return by_digits and chance < CHANCE_LIMIT


def _independent(cells: Sequence[Place]) -> int:
    return sum(place.gpus > 1 for place in cells)


def at_least(wanted: int, chances: Iterable[float]) -> float:
    """The chance that `wanted` or more of independent events happen (Poisson binomial distribution)."""
    exactly = reduce(np.convolve, [(1 - chance, chance) for chance in chances], np.ones(1))
    return math.fsum(exactly[wanted:])


@dataclass(frozen=True)
class Grid:
    """The value of every form in every cell, with its ends; NaN where a form gives nothing. `times` are those of the
    times that a bandwidth divides by."""

    places: Sequence[Place]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    times: Sequence[NDArray[np.float64]] = ()

    @classmethod
    def of(cls, conventions: Space, published: Published, places: Sequence[Place]) -> "Grid":
        """Every form in every cell."""
        if not conventions.amounts:
            value, low, high = _table_of(conventions.forms, published, places)
            return cls(places, value, low, high)
        amounts = _amounts(conventions.amounts, published, places)
        times = _table_of(conventions.times, published, places)
        value, low, high = _over(amounts, times)
        return cls(places, value, low, high, times)

    @property
    def checkable(self) -> list[Place]:
        """Cells in which some form can be worked out."""
        known = np.flatnonzero(~np.isnan(self.value).all(axis=0))
        return [self.places[int(number)] for number in known]


def _table_of(forms: Sequence[Form], published: Published, places: Sequence[Place]) -> list[NDArray[np.float64]]:
    """Value, low end and high end of forms (rows) in cells (columns)."""
    values = [_value(form.value, published, place) for form in forms for place in places]
    found = [[math.nan] * 3 if value is None else [value.value, value.low, value.high] for value in values]
    array = np.array(found).reshape(len(forms), len(places), 3)
    return [array[:, :, end] for end in range(3)]


def _amounts(amounts: Sequence[Amount], published: Published, places: Sequence[Place]) -> NDArray[np.float64]:
    return np.array([[amount.value(published, place) for place in places] for amount in amounts], float)


def _over(amounts: NDArray[np.float64], times: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Every amount (first axis) over every time: rows in the order of both. NaN where a time may be zero."""
    value, low, high = times
    resolvable = (low > 0) | (high < 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [
            np.where(resolvable, amounts[:, None, :] / end, math.nan).reshape(-1, amounts.shape[1])
            for end in (value, high, low)
        ]
    return [found[0], *found[1:]]


def _value(value: Callable[[Published, Place], Interval | None], published: Published, place: Place) -> Interval | None:
    try:
        return value(published, place)
    except ZeroDivisionError:
        return None


# A candidate: which printing, constant and form.
Candidate = tuple[int, int, int]
_NONE: NDArray[np.int64] = np.zeros((0, 3), int)


def _candidate(at: NDArray[np.int64]) -> Candidate:
    return int(at[0]), int(at[1]), int(at[2])


@dataclass(frozen=True)
class _Best:
    """The best fit, its chance and score, and the other candidates that reproduce as many cells, one per row."""

    fit: Fit
    chance: float
    score: float
    others: NDArray[np.int64]


class _Search:
    """All conventions beside the printed figures of one quantity, as arrays of printing, constant and form."""

    def __init__(self, published: Published, quantity: str, table: Printed, conventions: Space, grid: Grid) -> None:
        self.published, self.quantity, self.table = published, quantity, table
        self.space, self.forms, self.constants = conventions, conventions.forms, conventions.constants
        self.grid = grid
        gpus = sorted({place.gpus for place in grid.places if place.gpus > 1})
        self.printings = [ROUNDED, CUT, *(exchanged(*pair) for pair in combinations(gpus, 2))]
        self.readings = [printing.reads(table) for printing in self.printings]
        self.is_several = np.array([place.gpus > 1 for place in grid.places])
        self.workable = np.asarray(~np.isnan(grid.value).all(axis=1))
        self.costs = self._sums(lambda choices: sum(choice.cost for choice in choices))
        self.blames = self._sums(lambda choices: sum(_BLAME[choice.kind] for choice in choices))

    def _sums(self, of: Callable[[tuple[Choice, ...]], int]) -> NDArray[np.int64]:
        """What the choices of every candidate add up to, by printing, constant and form as all arrays of candidates."""
        found: NDArray[np.int64] = (
            np.array([of((printing,)) for printing in self.printings])[:, None, None]
            + np.array([of(constant.choices) for constant in self.constants])[None, :, None]
            + np.array([of(form.choices) for form in self.forms])[None, None, :]
        )
        return found

    @property
    def tried(self) -> int:
        """Conventions that can be worked out in one cell at least."""
        return int(self.workable.sum()) * len(self.constants)

    @cached_property
    def printed(self) -> list[Bands]:
        """Ends of what the printed numbers stand for, by way of printing; NaN where a cell is not there."""
        return [_ends(reading, self.grid.places) for reading in self.readings]

    @cached_property
    def agreement(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """By printing, constant and form: decades explained, and cells that agree, with several GPUs and in all."""
        shape = (len(self.printings), len(self.constants), len(self.forms))
        decades, several, every = np.zeros(shape), np.zeros(shape, int), np.zeros(shape, int)
        weights = np.where(self.is_several, 1, _WEIGHT_OF_ONE_GPU)
        for p, (low, high) in enumerate(self.printed):
            explains = _explained(self.grid.low, self.grid.high, (low, high)) * weights
            for c, constant in enumerate(self.constants):
                agrees = _meet(self.grid, constant.value, low, high)
                decades[p, c] = (agrees * explains).sum(axis=1)
                several[p, c] = (agrees & self.is_several).sum(axis=1)
                every[p, c] = agrees.sum(axis=1)
        return decades, several, every

    @property
    def gives_all(self) -> NDArray[np.bool_]:
        """Which candidates give every cell that can be checked, however far-fetched, and no zeros for most of them."""
        independent = _independent(self.grid.checkable)
        resolvable = ((self.grid.low * self.grid.high > 0) & self.is_several).sum(axis=1)
        is_known = (2 * resolvable > independent) | (independent == 0)
        every: NDArray[np.bool_] = self.workable & is_known & (self.agreement[2] == len(self.grid.checkable))
        return every

    def best(self, among: NDArray[np.bool_]) -> "_Best":
        """The best of one candidate or more, and others of all that reproduce as many cells, the simplest first."""
        decades, several, every = self.agreement
        score = np.where(among, decades - _DECADES_PER_STEP * self.costs, -math.inf)
        first = np.unravel_index(int(score.argmax()), score.shape)
        as_many = (several >= several[first]) & (every >= every[first]) & self.workable
        # Nobody is blamed where something blameless gives as many cells, and tells nearly as much.
        telling = as_many & (decades >= _NEARLY * decades[first])
        least = telling & (self.blames == self.blames[telling].min())
        equal = np.argwhere(least & (score >= score[least].max() - 1e-9))[:_EQUALS_COMPARED]
        best = max((_candidate(at) for at in equal), key=lambda at: self.fit(*at).exact)
        fit = self.fit(*best)
        # Of a convention that fits in several ways of printing, the first is enough.
        as_many[1:] &= ~as_many[:-1].cumsum(axis=0).astype(bool)
        as_many[:, best[1], best[2]] = False
        found = np.argwhere(as_many)
        others = found[np.argsort(self.costs[as_many], kind="stable")]
        simpler = int(((self.costs <= self.costs[best]) & self.workable).sum())
        chance = min(1.0, simpler * at_least(fit.supporting, fit.chances))
        return _Best(fit, chance, float(score[best]), others)

    def given_by(self, candidates: NDArray[np.int64]) -> frozenset[Place]:
        """The cells that one candidate or more reproduces."""
        given = np.zeros(len(self.grid.places), bool)
        for printing, constant in {(int(at[0]), int(at[1])) for at in candidates}:
            forms = candidates[(candidates[:, 0] == printing) & (candidates[:, 1] == constant), 2]
            agrees = _meet(self.grid, self.constants[constant].value, *self.printed[printing])
            given |= agrees[forms].any(axis=0)
        return frozenset(self.grid.places[int(number)] for number in np.flatnonzero(given))

    def with_rounded_bytes(self, best: "_Best") -> tuple[Fit, float] | None:
        """A bandwidth whose bytes were rounded before use that explains more than the best, and its chance."""
        if not self.space.times or len(best.fit.agreeing) == len(self.grid.checkable):
            return None
        worth = _explained(self.grid.times[1], self.grid.times[2], self.printed[0]) * self.is_several
        rounded = rounded_amounts.best(
            self.space, self.published, self.grid.places, self.grid.times, self.printed[0], worth, _DECADES_PER_STEP
        )
        if rounded is None or rounded.score <= best.score:
            return None
        fit = self._fit_of(rounded.convention, 0)
        chance = min(1.0, rounded.as_simple * at_least(fit.supporting, fit.chances))
        return (fit, chance) if fit.supporting > best.fit.supporting and chance < CHANCE_LIMIT else None

    def convention(self, constant: int, form: int) -> Convention:
        """The convention of a candidate."""
        return Convention.of(self.forms[form], self.constants[constant])

    def fit(self, printing: int, constant: int, form: int) -> Fit:
        """A candidate, worked out."""
        return self._fit_of(self.convention(constant, form), printing)

    def _fit_of(self, convention: Convention, printing: int) -> Fit:
        reading = self.readings[printing]
        values = {place: value for place in reading if (value := _value(convention.value, self.published, place))}
        return Fit(convention, reading, values, self.printings[printing])

    def not_reproduced(self) -> Found:
        """The closest: the one whose largest error is smallest, of those that are not far-fetched.

        Its chance is that unrelated numbers would come as close in all cells.
        """
        printed = np.array([float(self.table[place]) for place in self.grid.places])
        error = np.full((len(self.constants), len(self.forms)), math.inf)
        cells = [place in self.grid.checkable for place in self.grid.places]
        for c, constant in enumerate(self.constants):
            value = self.grid.value * constant.value
            with np.errstate(invalid="ignore", divide="ignore"):
                apart = np.abs(value - printed) / np.maximum(np.abs(value), np.abs(printed))
            error[c] = np.where(np.isnan(apart), 2.0, apart)[:, cells].max(axis=1)
        error[(self.costs[0] > _FARTHEST_CLOSEST) | ~self.workable] = math.inf
        constant_at, form_at = np.unravel_index(int(error.argmin()), error.shape)
        closest = self.fit(0, int(constant_at), int(form_at))
        simpler = int(((self.costs[0] <= closest.convention.cost) & self.workable).sum())
        several = sum(place.gpus > 1 for place in closest.values)
        chance = min(1.0, simpler * min(1.0, 2 * math.log10(1 + closest.error(closest.worst))) ** several)
        return Found(self.quantity, "not reproduced", closest, (), self.grid.checkable, self.tried, chance)

    def up_to_a_constant(self) -> Found | None:
        """The form that gives all cells but for one factor that they share, where chance would not do that.

        One cell sets the factor, the others test it: the one whose digits tell least sets it.
        """
        several = np.array([place.gpus > 1 and place in self.grid.checkable for place in self.grid.places])
        low, high = (end[several] for end in self.printed[0])
        if several.sum() < _FEWEST_OF_A_FACTOR or (low <= 0).any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            lows, highs = low / self.grid.high[:, several], high / self.grid.low[:, several]
            least, most = lows.max(axis=1), highs.min(axis=1)
            decades = np.sort(np.log10(highs / lows), axis=1)[:, :-1]
        suits = (least <= most) & (self.grid.low[:, several] > 0).all(axis=1)
        if not suits.any():
            return None
        costs = np.array([form.cost for form in self.forms])
        chances = np.minimum(1, 2 * decades).prod(axis=1)
        number = min(np.flatnonzero(suits), key=lambda form: (costs[form], chances[form]))
        chance = float(chances[number]) * int((costs <= costs[number]).sum())
        if chance >= CHANCE_LIMIT:
            return None
        ends = float(least[number]), float(most[number])
        factor = Interval(sum(ends) / 2, *ends)
        fit = self.fit(0, 0, int(number))
        return Found(self.quantity, "up to a constant", fit, (), self.grid.checkable, self.tried, chance, factor=factor)

    def scale(self, best: Fit) -> Scale | None:
        """Of the best convention: None where none of its cells with several GPUs is other than zero for certain."""
        ratios = []
        for place in best.agreeing:
            printed, value = best.printed[place], best.values[place]
            if place.gpus > 1 and value.low * value.high > 0 and printed.low * printed.high > 0:
                ratios.append(printed / value)
        constants = [constant / best.convention.constant.value for constant in self._constants_beside(best)]
        if not ratios or not constants:
            return None
        low, high = max(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
        decades = max(1.0, math.log10(max(constants) / min(constants)))
        chance = len(constants) * math.log10(max(high / low, 1.0)) / decades
        return Scale(low, high, len(constants), min(1.0, chance))

    def _constants_beside(self, best: Fit) -> list[float]:
        """Constants as near docs/method.md as that of the best convention, or nearer."""
        return [constant.value for constant in self.constants if constant.cost <= best.convention.constant.cost]


def _ends(reading: Mapping[Place, Interval], places: Sequence[Place]) -> Bands:
    nothing = Interval(math.nan, math.nan, math.nan)
    found = [reading.get(place, nothing) for place in places]
    return np.array([interval.low for interval in found]), np.array([interval.high for interval in found])


def _explained(low: NDArray[np.float64], high: NDArray[np.float64], printed: Bands) -> NDArray[np.float64]:
    """Decades that a cell (columns) tells where it agrees with a form (rows) known from `low` to `high`: as many as the
    digits of both, together, leave. Zeros tell nothing, and so does what may be zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.abs(np.log10(np.abs(high / low))) + np.abs(np.log10(np.abs(printed[1] / printed[0])))
        found = -np.log10(np.clip(width, 10**-_DECADES_PER_CELL, 1))
    known: NDArray[np.float64] = np.nan_to_num(found, nan=0, posinf=0, neginf=0)
    return known


def _meet(grid: Grid, constant: float, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the interval of a form times a constant and that of the printed number have a number in common."""
    slack = 1e-9 * np.maximum(np.abs(grid.value) * constant, np.abs(low))
    return (grid.low * constant <= high + slack) & (low <= grid.high * constant + slack)


def _chance(printed: Interval, value: Interval) -> float:
    half = (printed.high - printed.low) / 2
    low, high = sorted((abs(value.low), abs(value.high)))
    if low <= half or value.low * value.high <= 0:
        return 1.0
    return min(1.0, math.log10((high + half) / (low - half)))


def _rival(best: Fit, other: Fit, published: Published) -> Rival:
    unprinted = [place for place in published.places if place not in best.printed]
    values, others = (dict(_values(fit.convention.value, published, unprinted)) for fit in (best, other))
    apart = [place for place in values if place in others and not values[place].meets(others[place])]
    shared = sorted(best.values.keys() & other.values.keys())
    differences = {place: _difference(best.values[place].value, other.values[place].value) for place in shared}
    place = max(shared, key=lambda place: differences[place])
    return Rival(other.convention, apart, place, differences[place], other.printing)


def _values(
    value: Callable[[Published, Place], Interval | None], published: Published, places: Iterable[Place]
) -> Iterator[tuple[Place, Interval]]:
    for place in places:
        if found := _value(value, published, place):
            yield place, found


def _difference(value: float, other: float) -> float:
    """As a fraction of the larger of the two."""
    larger = max(abs(value), abs(other))
    return abs(value - other) / larger if larger else 0.0
