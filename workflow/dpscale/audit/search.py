"""The search: which conventions give what was printed, how sure that is, and which cell would decide between them.

A convention reproduces a cell where the interval of its result, every input known to half a unit of its last printed
digit, meets the interval of what was printed. Figures may have been printed in other ways than rounded: cut, or with
the columns of two numbers of GPUs exchanged. Every convention is tried with every way of printing.

Among conventions, the one is best that explains the most digits for the least that it has to assume: each cell that it
gives counts as many decades as its digits tell, and every step away from docs/method.md takes some off. Where one that
nobody could object to gives as many cells, that one is taken.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, reduce
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from dpscale.audit.conventions import (
    METHOD,
    OTHER,
    SWAPPED_COLUMNS,
    WRONG,
    Choice,
    Convention,
    Part,
    Space,
    of_rounded_bytes,
    round_to,
    space,
    symbols,
    worked_out,
)
from dpscale.audit.reading.published import Printed, Published, Spot
from dpscale.formulas.figure import Floats
from dpscale.formulas.rounded import Rounded, scaled

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
# Bytes that are rounded before use are one more assumption: times and constants further away than this are left out.
_FARTHEST_TIME, _FARTHEST_CONSTANT = 1, 3
# To so many digits, significant ones or decimals.
_ROUNDINGS = ((2, True), (3, True), (0, False), (1, False))
# So many different amounts of bytes are told; more would be a table.
_AMOUNTS_SHOWN = 4

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Printing(Choice):
    """A way in which figures were printed. `reads` gives what the numbers in a table stand for."""

    reads: Callable[[Printed], Mapping[Spot, Rounded]] = field(kw_only=True, compare=False)


def cut(number: Decimal) -> Rounded:
    """What a number stands for whose further digits were left out: 1.40 for 1.40 to 1.41."""
    near = Rounded.of(number)
    unit = near.high - near.low
    low, high = (near.value, near.value + unit) if number >= 0 else (near.value - unit, near.value)
    return Rounded(near.value, low, high)


ROUNDED = Printing(
    "rounded", "", "rounded", reads=lambda printed: {place: Rounded.of(number) for place, number in printed.items()}
)
CUT = Printing(
    "cut", "", "digits cut, not rounded", 3, OTHER,
    reads=lambda printed: {place: cut(number) for place, number in printed.items()},
)  # fmt: skip


def exchanged(first: int, second: int) -> Printing:
    """The columns of two numbers of GPUs stand in each other's place."""
    other = {first: second, second: first}

    def reads(printed: Printed) -> dict[Spot, Rounded]:
        there = {place: place._replace(gpus=other.get(place.gpus, place.gpus)) for place in printed}
        return {place: Rounded.of(printed[at]) for place, at in there.items() if at in printed}

    words = f"the columns of {first} and {second} GPUs exchanged"
    return Printing(f"exchanged {first} {second}", "", words, 3, WRONG, reads=reads)


def rounding(digits: int, is_significant: bool, became: Sequence[float] = ()) -> Choice:
    """The choice to round bytes to so many digits before use, with what they became."""
    short, words = ("digits", "significant digits") if is_significant else ("decimals", "decimals")
    shown = f" ({', '.join(f'{amount:g}' for amount in became)})" if 0 < len(became) <= _AMOUNTS_SHOWN else ""
    name = f"{digits} {short}"
    words = f"bytes rounded to {digits} {words} before use{shown}"
    return Choice(f"rounded to {name}", name, words, 2, OTHER, f"{digits}, {is_significant}")


def several(places: Iterable[Spot]) -> list[Spot]:
    """Those with several GPUs: one GPU compared with itself proves nothing."""
    return [place for place in places if place.gpus > 1]


@dataclass(frozen=True, eq=False)
class Match:
    """A convention's values beside the printed ones. `values` lacks cells whose inputs are missing or cancel out."""

    convention: Convention
    printed: Mapping[Spot, Rounded]
    values: Mapping[Spot, Rounded]
    printing: Printing = ROUNDED

    @cached_property
    def agreeing(self) -> frozenset[Spot]:
        """The cells it reproduces within rounding."""
        return frozenset(place for place, value in self.values.items() if value.meets(self.printed[place]))

    @property
    def supporting(self) -> int:
        """How many cells with several GPUs it reproduces."""
        return len(several(self.agreeing))

    @property
    def telling(self) -> int:
        """How many of those agree by their digits, and not because what the convention gives is known so roughly."""
        return sum(self._chance(place) < _TELLS_NOTHING for place in several(self.agreeing))

    @property
    def resolvable(self) -> int:
        """How many of those the convention gives a value for that is other than zero for certain."""
        return sum(self.values[place].is_not_zero for place in several(self.agreeing))

    @property
    def exact(self) -> int:
        """How many cells it reproduces in every digit from the inputs just as they were printed."""
        return sum(self.printed[place].contains(self.values[place].value) for place in self.agreeing)

    def error(self, place: Spot) -> float:
        """Difference over the larger of the two, from 0 to 2, in a cell; 2 where the convention gives nothing."""
        if place not in self.values:
            return 2.0
        return _difference(self.printed[place].value, self.values[place].value)

    @property
    def worst(self) -> Spot:
        """The cell it misses by most."""
        return max(sorted(self.printed), key=self.error)

    def by_chance(self, conventions: int) -> float:
        """The chance that one of so many conventions agrees with as many cells of unrelated numbers."""
        chances = map(self._chance, several(self.values))
        return min(1.0, conventions * at_least(self.supporting, chances))

    def _chance(self, place: Spot) -> float:
        """That a number of the right decade agrees, whatever its digits: leading digits of unrelated numbers are taken
        as uniform on a logarithmic scale (Benford 1938)."""
        half, value = self.printed[place].half, self.values[place]
        low, high = sorted((abs(value.low), abs(value.high)))
        return min(1.0, math.log10((high + half) / (low - half))) if low > half and value.is_not_zero else 1.0

    @property
    def differences(self) -> list[str]:
        """What is not as docs/method.md defines it, in words. Digits that were cut are no other definition."""
        choices = (*self.convention.choices, *([self.printing] if self.printing.kind == WRONG else []))
        return [choice.sentence for choice in choices if choice.kind != METHOD]

    @property
    def wrong(self) -> list[Choice]:
        """What of it no definition would call right."""
        return [choice for choice in (*self.convention.choices, self.printing) if choice.kind == WRONG]

    @property
    def mistakes(self) -> list[str]:
        """The same in words."""
        return [choice.sentence for choice in self.wrong]


@dataclass(frozen=True)
class Rival:
    """Another convention that reproduces as many cells, and the cells in which it differs from the best one.

    `unprinted` are cells where times are known, the figure was not printed, and the two certainly differ. Among the
    printed cells they differ most in `place`, by the fraction `difference`, which the rounding hides. `printing` is how
    its figures would have been printed.
    """

    convention: Convention
    unprinted: Sequence[Spot]
    place: Spot
    difference: float
    printing: Printing


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
    best: Match | None = None
    cells: Sequence[Spot] = ()
    tried: int = 0
    chance: float = 1.0
    rivals: Sequence[Rival] = ()
    scale: Scale | None = None
    others: Sequence[Convention] = ()
    factor: Rounded | None = None
    fitting: int = 0
    refined: Match | None = None
    disputed: frozenset[Spot] = frozenset()

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
    def independent(self) -> int:
        """Checkable cells with several GPUs."""
        return len(several(self.cells))

    @property
    def exceptions(self) -> list[Spot]:
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
        if name not in columns:
            continue
        table, found = columns.pop(name), search(published, name)
        if found.best and found.is_found and (unit := found.best.convention.constant.value) != 1:
            table = {place: scaled(number, 1 / unit) for place, number in table.items()}
        meant.setdefault(other if SWAPPED_COLUMNS in found.choices else name, table)
    return replace(published, quantities={**columns, **meant})


def _searched(published: Published, quantity: str, conventions: Space) -> Found:
    tried = _Search(published, quantity, conventions)
    if not tried.cells or (not tried.independent and several(tried.places)):
        return Found(quantity, "not checkable")
    top = tried.best(tried.workable)
    refined = tried.with_rounded_bytes(top)
    # Where the two are one convention but for the rounding, it only explains single cells.
    if refined and not (
        tried.is_most(top.fit) and set(top.fit.convention.choices) < set(refined.fit.convention.choices)
    ):
        top, refined = refined, None
    is_most = tried.is_most(top.fit)
    if not (is_most and tried.is_evident(top)) and tried.gives_all.any():
        top, refined = tried.best(tried.gives_all), None
    elif not is_most:
        return tried.up_to_a_constant() or tried.not_reproduced()
    return tried.found(top, refined.fit if refined else None)


def at_least(wanted: int, chances: Iterable[float]) -> float:
    """The chance that `wanted` or more of independent events happen (Poisson binomial distribution)."""
    exactly = reduce(np.convolve, [(1 - chance, chance) for chance in chances], np.ones(1))
    return math.fsum(exactly[wanted:])


def grid(forms: Sequence[Part], published: Published, places: Sequence[Spot]) -> Floats:
    """Value, low end and high end (first axis) of forms (second) in cells; NaN where a form gives nothing."""
    known = [symbols(published, place) for place in places]
    return _ends([[worked_out(form.worked_out_as, cell) for cell in known] for form in forms], len(places))


def _ends(rows: Sequence[Sequence[Rounded | None]], columns: int) -> Floats:
    nothing = [math.nan] * 3
    ends = [[[value.value, value.low, value.high] if value else nothing for value in row] for row in rows]
    return np.moveaxis(np.array(ends).reshape(len(rows), columns, 3), 2, 0).copy()


# A candidate: which printing, constant and form.
_NONE: Counts = np.zeros((0, 3), int)


@dataclass(frozen=True)
class _Best:
    """The best fit, its chance and score, and the other candidates that reproduce as many cells, one per row."""

    fit: Match
    chance: float
    score: float
    others: Counts = field(default_factory=_NONE.copy)


class _Search:
    """All conventions beside the printed figures of one quantity, as arrays of printing, constant and form."""

    def __init__(self, published: Published, quantity: str, conventions: Space) -> None:
        self.published, self.quantity, self.space = published, quantity, conventions
        self.forms, self.constants = conventions.forms, conventions.constants
        self.table = published.quantities[quantity]
        self.places = sorted(self.table)
        self.value, self.low, self.high = grid(self.forms, published, self.places)
        self.workable: Flags = ~np.isnan(self.value).all(axis=1)
        self.is_checkable: Flags = ~np.isnan(self.value).all(axis=0)
        self.is_several = np.array([place.gpus > 1 for place in self.places])
        self.cells = [self.places[number] for number in np.flatnonzero(self.is_checkable)]
        self.independent = len(several(self.cells))
        self.tried = int(self.workable.sum()) * len(self.constants)
        gpus = sorted({place.gpus for place in several(self.places)})
        self.printings = [ROUNDED, CUT, *(exchanged(*pair) for pair in combinations(gpus, 2))]
        self.readings = [printing.reads(self.table) for printing in self.printings]
        self.printed = _ends([[*map(reading.get, self.places)] for reading in self.readings], len(self.places))[
            1:
        ].swapaxes(0, 1)
        self.costs = self._sums(lambda choice: choice.cost)
        self.blames = self._sums(lambda choice: _BLAME[choice.kind])

    def _sums(self, of: Callable[[Choice], int]) -> Counts:
        """What the choices of every candidate add up to, by printing, constant and form as all arrays of candidates."""
        printings = np.array([of(printing) for printing in self.printings])
        constants, forms = (
            np.array([sum(map(of, part.choices)) for part in parts]) for parts in (self.constants, self.forms)
        )
        found: Counts = printings[:, None, None] + constants[:, None] + forms
        return found

    def agrees(self, printing: int, constant: float) -> Flags:
        """Whether forms (rows) times a constant and what was printed in cells (columns) have a number in common."""
        low, high = self.printed[printing]
        slack = 1e-9 * np.maximum(np.abs(self.value) * constant, np.abs(low))
        agrees: Flags = (self.low * constant <= high + slack) & (low <= self.high * constant + slack)
        return agrees

    @cached_property
    def agreement(self) -> tuple[Floats, Counts, Counts]:
        """By candidate: decades explained, and cells that agree, with several GPUs and in all."""
        decades = np.zeros(self.costs.shape)
        counts = np.zeros((2, *self.costs.shape), int)
        weights = np.where(self.is_several, 1, _WEIGHT_OF_ONE_GPU)
        for p, printed in enumerate(self.printed):
            explains = _explained(self.low, self.high, printed) * weights
            for c, constant in enumerate(self.constants):
                agrees = self.agrees(p, constant.value)
                decades[p, c] = (agrees * explains).sum(axis=1)
                counts[:, p, c] = (agrees & self.is_several).sum(axis=1), agrees.sum(axis=1)
        return decades, *counts

    @property
    def gives_all(self) -> Flags:
        """Which candidates give every cell that can be checked, however far-fetched, and no zeros for most of them."""
        resolvable = ((self.low * self.high > 0) & self.is_several).sum(axis=1)
        is_known = (2 * resolvable > self.independent) | (self.independent == 0)
        every: Flags = self.workable & is_known & (self.agreement[2] == len(self.cells))
        return every

    def is_most(self, fit: Match) -> bool:
        """Whether a fit gives all cells, or most of those with several GPUs, and what it gives for most of those is not
        zero within rounding, unless it is the method's: what may be zero agrees with much."""
        if fit.convention.cost > 0 and self.independent and 2 * fit.resolvable <= self.independent:
            return False
        return len(fit.agreeing) == len(self.cells) or 2 * fit.supporting > self.independent

    def is_evident(self, top: _Best) -> bool:
        """Whether chance hardly does as well, and most cells with several GPUs agree by their digits, not because what
        the convention gives is known so roughly. The method's own convention needs no such digits."""
        needs_no_digits = top.fit.convention.cost == 0 or not self.independent
        return (needs_no_digits or 2 * top.fit.telling > self.independent) and top.chance < CHANCE_LIMIT

    def best(self, among: Flags) -> _Best:
        """The best of one candidate or more, and others of all that reproduce as many cells, the simplest first."""
        decades, several_agree, every = self.agreement
        score = np.where(among, decades - _DECADES_PER_STEP * self.costs, -math.inf)
        first = np.unravel_index(int(score.argmax()), score.shape)
        as_many = (several_agree >= several_agree[first]) & (every >= every[first]) & self.workable
        # Nobody is blamed where something blameless gives as many cells, and tells nearly as much.
        telling = as_many & (decades >= _NEARLY * decades[first])
        least = telling & (self.blames == self.blames[telling].min())
        equal = np.argwhere(least & (score >= score[least].max() - 1e-9))[:_EQUALS_COMPARED].tolist()
        best = tuple(max(equal, key=lambda at: self.fit(*at).exact))
        # Of a convention that fits in several ways of printing, the first is enough.
        as_many[1:] &= ~as_many[:-1].cumsum(axis=0).astype(bool)
        as_many[:, best[1], best[2]] = False
        others = np.argwhere(as_many)[np.argsort(self.costs[as_many], kind="stable")]
        fit = self.fit(*best)
        chance = fit.by_chance(int(((self.costs <= self.costs[best]) & self.workable).sum()))
        return _Best(fit, chance, float(score[best]), others)

    def fit(self, printing: int, constant: int, form: int) -> Match:
        """A candidate, worked out."""
        return self._fit_of(Convention(self.forms[form], self.constants[constant]), printing)

    def _fit_of(self, convention: Convention, printing: int) -> Match:
        reading = self.readings[printing]
        values = {place: value for place in reading if (value := convention.at(self.published, place))}
        return Match(convention, reading, values, self.printings[printing])

    def with_rounded_bytes(self, top: _Best) -> _Best | None:
        """A bandwidth that explains more, whose bytes were rounded before use: 0.044 GiB over 48.45 s.

        Such a figure is no form times a constant, so these are a space of their own: every amount of data with every
        constant, rounded in a few ways, over those times that authors are likely to divide by.
        """
        if not self.space.times or len(top.fit.agreeing) == len(self.cells):
            return None
        times = [time for time in self.space.times if time.cost <= _FARTHEST_TIME]
        constants = [constant for constant in self.constants if constant.cost <= _FARTHEST_CONSTANT]
        known = [symbols(self.published, place) for place in self.places]
        amounts = [[worked_out(amount.worked_out_as, cell) for cell in known] for amount in self.space.amounts]
        factors = np.array([constant.value for constant in constants])
        whole = (np.array(amounts, float)[:, None, :] * factors[None, :, None]).reshape(-1, len(self.places))
        chosen = list(product(self.space.amounts, constants))
        costs = np.array([amount.cost + constant.cost for amount, constant in chosen])
        _, lows, highs = grid(times, self.published, self.places)
        worth = _explained(lows, highs, self.printed[0]) * self.is_several
        score, at, how, number = -math.inf, 0, _ROUNDINGS[0], 0
        for tried, n in product(_ROUNDINGS, range(len(times))):
            agrees = self._rounded_agree(round_to(whole, *tried), lows[n], highs[n])
            scores = (agrees * worth[n]).sum(axis=1) - _DECADES_PER_STEP * (
                costs + rounding(*tried).cost + times[n].cost
            )
            if scores.max() > score:
                score, at, how, number = float(scores.max()), int(scores.argmax()), tried, n
        if score <= top.score:
            return None
        became = sorted(set(round_to(whole[at], *how).tolist()))
        fit = self._fit_of(of_rounded_bytes(*chosen[at], rounding(*how, became), times[number]), 0)
        cost = costs[at] + times[number].cost
        as_simple = len(_ROUNDINGS) * sum(int((costs + time.cost <= cost).sum()) for time in times)
        refined = _Best(fit, fit.by_chance(as_simple), score)
        return refined if fit.supporting > top.fit.supporting and refined.chance < CHANCE_LIMIT else None

    def _rounded_agree(self, amounts: Floats, low: Floats, high: Floats) -> Flags:
        """Whether amounts (rows) over a time and what was printed in cells (columns) have a number in common."""
        least, most = self.printed[0]
        slack = 1e-9 * np.abs(least)
        with np.errstate(divide="ignore", invalid="ignore"):
            agrees: Flags = (low > 0) & (amounts / high <= most + slack) & (least <= amounts / low + slack)
        return agrees

    def found(self, top: _Best, refined: Match | None) -> Found:
        """The outcome where a convention gives all cells or most."""
        fit, others = top.fit, top.others.tolist()
        is_complete = len(fit.agreeing) == len(self.cells)
        verdict = "reproduced" if is_complete else "reproduced except"
        return Found(
            self.quantity,
            verdict if self.is_evident(top) else "too few cells",
            fit,
            self.cells,
            self.tried,
            top.chance,
            [self._rival(fit, self.fit(*at)) for at in others[:_RIVALS_DESCRIBED]],
            self._scale(fit),
            others=[
                Convention(self.forms[form], self.constants[constant]) for _, constant, form in others[:_OTHERS_KEPT]
            ],
            fitting=1 + len(others),
            refined=refined,
            disputed=frozenset() if is_complete else self._given_by(top.others) - fit.agreeing,
        )

    def _given_by(self, candidates: Counts) -> frozenset[Spot]:
        """The cells that one candidate or more reproduces."""
        given = np.zeros(len(self.places), bool)
        for printing, constant in set(map(tuple, candidates[:, :2].tolist())):
            forms = candidates[(candidates[:, :2] == (printing, constant)).all(axis=1), 2]
            given |= self.agrees(printing, self.constants[constant].value)[forms].any(axis=0)
        return frozenset(self.places[number] for number in np.flatnonzero(given))

    def _rival(self, best: Match, other: Match) -> Rival:
        unprinted = [place for place in self.published.places if place not in best.printed]
        both = {place: [fit.convention.at(self.published, place) for fit in (best, other)] for place in unprinted}
        apart = [place for place, (one, another) in both.items() if one and another and not one.meets(another)]
        differences = {
            place: _difference(best.values[place].value, other.values[place].value)
            for place in sorted(best.values.keys() & other.values.keys())
        }
        place = max(differences, key=lambda place: differences[place])
        return Rival(other.convention, apart, place, differences[place], other.printing)

    def _scale(self, best: Match) -> Scale | None:
        """Of the best convention: None where none of its cells with several GPUs is other than zero for certain."""
        pairs = [(best.printed[place], best.values[place]) for place in several(best.agreeing)]
        ratios = [printed / value for printed, value in pairs if printed.is_not_zero and value.is_not_zero]
        own = best.convention.constant
        # As near docs/method.md as its own constant, or nearer.
        beside = [constant.value / own.value for constant in self.constants if constant.cost <= own.cost]
        if not ratios or not beside:
            return None
        low, high = max(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
        decades = max(1.0, math.log10(max(beside) / min(beside)))
        chance = len(beside) * math.log10(max(high / low, 1.0)) / decades
        return Scale(low, high, len(beside), min(1.0, chance))

    def not_reproduced(self) -> Found:
        """The closest: the one whose largest error is smallest, of those that are not far-fetched.

        Its chance is that unrelated numbers would come as close in all cells.
        """
        printed = np.array([float(self.table[place]) for place in self.places])
        error = np.full(self.costs.shape[1:], math.inf)
        for c, constant in enumerate(self.constants):
            value = self.value * constant.value
            with np.errstate(invalid="ignore", divide="ignore"):
                apart = np.abs(value - printed) / np.maximum(np.abs(value), np.abs(printed))
            error[c] = np.where(np.isnan(apart), 2.0, apart)[:, self.is_checkable].max(axis=1)
        error[(self.costs[0] > _FARTHEST_CLOSEST) | ~self.workable] = math.inf
        closest = self.fit(0, *map(int, np.unravel_index(int(error.argmin()), error.shape)))
        simpler = int(((self.costs[0] <= closest.convention.cost) & self.workable).sum())
        of_a_cell = min(1.0, 2 * math.log10(1 + closest.error(closest.worst)))
        chance = min(1.0, simpler * of_a_cell ** len(several(closest.values)))
        return Found(self.quantity, "not reproduced", closest, self.cells, self.tried, chance)

    def up_to_a_constant(self) -> Found | None:
        """The form that gives all cells but for one factor that they share, where chance would not do that.

        One cell sets the factor, the others test it: the one whose digits tell least sets it.
        """
        at = self.is_several & self.is_checkable
        low, high = (end[at] for end in self.printed[0])
        if at.sum() < _FEWEST_OF_A_FACTOR or (low <= 0).any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            lows, highs = low / self.high[:, at], high / self.low[:, at]
            least, most = lows.max(axis=1), highs.min(axis=1)
            decades = np.sort(np.log10(highs / lows), axis=1)[:, :-1]
        suits = (least <= most) & (self.low[:, at] > 0).all(axis=1)
        if not suits.any():
            return None
        costs = np.array([form.cost for form in self.forms])
        chances = np.minimum(1, 2 * decades).prod(axis=1)
        number = min(np.flatnonzero(suits).tolist(), key=lambda form: (costs[form], chances[form]))
        chance = float(chances[number]) * int((costs <= costs[number]).sum())
        if chance >= CHANCE_LIMIT:
            return None
        ends = float(least[number]), float(most[number])
        factor = Rounded(sum(ends) / 2, *ends)
        fit = self.fit(0, 0, number)
        return Found(self.quantity, "up to a constant", fit, self.cells, self.tried, chance, factor=factor)


def _explained(low: Floats, high: Floats, printed: Floats) -> Floats:
    """Decades that a cell (columns) tells where it agrees with a form (rows) known from `low` to `high`: as many as the
    digits of both, together, leave. Zeros tell nothing, and so does what may be zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.abs(np.log10(np.abs(high / low))) + np.abs(np.log10(np.abs(printed[1] / printed[0])))
        found = -np.log10(np.clip(width, 10**-_DECADES_PER_CELL, 1))
    known: Floats = np.nan_to_num(found, nan=0, posinf=0, neginf=0)
    return known


def _difference(value: float, other: float) -> float:
    """As a fraction of the larger of the two."""
    larger = max(abs(value), abs(other))
    return abs(value - other) / larger if larger else 0.0
