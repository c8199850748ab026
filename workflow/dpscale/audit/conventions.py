"""The space of conventions: every way in which a published figure may have been derived from what is printed beside
it; and the search for the one that gives a column, and how sure that is.

conventions.yaml has them as formulas. A convention is a form, which differs from cell to cell, times a constant, which
all cells share. A formula is worked out as it is shown: as an expression of Python, which is compiled once. It comes
from the package alone, never from a table; what a table has are numbers, and names of clocks, which are not compiled.

A convention gives a cell where the interval of its result, every input known to its last printed digit, meets that of
what was printed. The best one explains the most digits for the least that it has to assume: each cell that it gives
counts as many decades as its digits tell, and every step away from docs/method.md takes some off. Where one that nobody
could object to gives as many cells, that one is taken.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import product
from types import CodeType
from typing import Any

from dpscale.audit.grids import WORDS
from dpscale.audit.published import OF_TWO, POWERS_OF_UNITS, UNITS, Printed, Published, Spot, is_telling
from dpscale.formulas.rounded import Number, Rounded
from dpscale.vocabulary import own_yaml
from dpscale.vocabulary.chips import networks

# What a choice is beside docs/method.md: the same; another definition that is right by itself; or a mistake.
METHOD, OTHER, WRONG = "method", "other", "wrong"
_ALTERNATIVES: Mapping[str, Mapping[str, Mapping[str, Any]]] = own_yaml(__file__, "conventions.yaml")
OTHER_UNIT = "unit is not that of the label"
# Figures as they were printed, by the letter that a formula has for them.
_LETTERS: Mapping[str, str] = WORDS["letters"]
_ONE = Number("1", Rounded(1, 1, 1), Rounded(1, 1, 1))
# What a formula may use beside the numbers and tables of its cell. A quotient may miss the whole number that it is.
_FUNCTIONS = {
    "__builtins__": {},
    "ceil": lambda number: math.ceil(round(number, 9)),
    "floor": lambda number: math.floor(round(number, 9)),
}
# By clock, the numbers and the tables that formulas look into, by the names that these have in formulas.
Inputs = Mapping[str, Mapping[str, Any]]
_RATIOS = ("speedup", "speedup_alternative", "efficiency", OF_TWO, "communication_share")


@dataclass(frozen=True)
class Choice:
    """One way to compute one part: its formula, and its words. `steps` says how far from docs/method.md it is, `number`
    is that of a constant, and `check` names a mistake that has a name of its own."""

    formula: str
    words: str
    steps: int = 0
    kind: str = METHOD
    number: float = 1.0
    check: str = ""


# A column whose figures stand in the rows of other numbers of GPUs.
EXCHANGED = Choice("", "in the rows of other numbers of GPUs", 3, WRONG)


@dataclass(frozen=True, eq=False)
class Convention:
    """The formula of a column, with the clock whose epoch times T is; `constant` is the number of that name in it, as
    it is shown, and `unit` what it is divided by."""

    formula: str
    choices: tuple[Choice, ...] = ()
    clock: str = ""
    constant: str = ""
    unit: str = ""

    @property
    def shown(self) -> str:
        """The formula in full."""
        return re.sub(r"\bT\(", f"T{self.clock}(", self.formula).replace("constant", self.constant) + self.unit

    @cached_property
    def factor(self) -> float:
        """The constant that all cells share."""
        return math.prod(choice.number for choice in self.choices)

    @cached_property
    def steps(self) -> int:
        """How far it is from docs/method.md."""
        return sum(choice.steps for choice in self.choices)

    @property
    def through(self) -> list[str]:
        """The printed columns that it goes through."""
        return [_LETTERS[letter] for letter in re.findall(rf"\b([{''.join(_LETTERS)}])\(", self.formula)]

    def words(self, *kinds: str) -> list[str]:
        """Return the words of the choices that are of these kinds."""
        return [choice.words for choice in self.choices if choice.kind in kinds]

    def value(self, inputs: Inputs) -> Rounded | None:
        """Its value in a cell, but for the constant. None where a number that it needs was not printed, or its divisor
        may be zero."""
        try:
            value = eval(_compiled(self.formula), _FUNCTIONS, inputs[self.clock])
        except (KeyError, ZeroDivisionError):
            return None
        return value if isinstance(value, Rounded) else None


def inputs_of(published: Published, place: Spot, may_be_cut: bool = False) -> Inputs:
    """Return what formulas need in a cell. What b means in a formula is the batch of the cell. Further digits of a time
    `may_be_cut`, and not rounded."""

    def time(table: Printed, gpus: int) -> Rounded:
        number = table[place._replace(gpus=gpus)]
        return (number.either() if may_be_cut else number).interval

    def figure(quantity: str, gpus: int, batch: float) -> Rounded:
        return published.figures(quantity)[place._replace(gpus=gpus)].interval

    gpus = published.gpus_by_batch[place.batch_per_gpu]
    names = {
        "N": place.gpus,
        "b": published.global_batch(place) / (place.gpus or 1),
        "D": published.dataset_images,
        "before": max((number for number in gpus if number < place.gpus), default=place.gpus),
        "constant": 1,
        "Tbase": lambda gpus, batch: time(published.base_s, gpus),
        "Tsweep": lambda batch: time(published.batch_sweep_s, 1),
        "bus": lambda gpus, batch: published.bus_gb_s.get(gpus, _ONE).interval,
        **{letter: partial(figure, quantity) for letter, quantity in _LETTERS.items()},
    }
    clocks = {"": published.epoch_s, **published.other_clocks}
    times = {clock: lambda gpus, batch, table=table: time(table, gpus) for clock, table in clocks.items()}
    return {clock: {**names, "T": times[clock]} for clock in clocks}


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula.strip().replace("2(", "2*("), "conventions.yaml", "eval")


def value_of(formula: str, published: Published, place: Spot) -> Rounded | None:
    """The value of a formula in a cell; None where it has none."""
    return Convention(formula).value(inputs_of(published, place))


@cache
def definition(quantity: str) -> Convention:
    """The formula of docs/method.md."""
    formula = f"{{{quantity}}}"
    while "{" in formula:
        formula = re.sub(r"{(\w+)}", lambda part: next(iter(_ALTERNATIVES[part[1]])), formula)
    return Convention(formula)


def _exchanged(published: Published, place: Spot) -> Spot:
    """The place as far from the most GPUs as this one is from the fewest."""
    gpus = [number for number in published.gpus_by_batch[place.batch_per_gpu] if number > 1]
    return place._replace(gpus=gpus[-1 - gpus.index(place.gpus)]) if place.gpus in gpus else place


def space(quantity: str, published: Published) -> tuple[list[Convention], list[Convention]]:
    """All conventions of a quantity: every form with every constant; that of docs/method.md first."""
    name = "speedup" if quantity == "speedup_alternative" else quantity
    forms = [Convention(formula, choices) for formula, choices in _expanded(name, published)]
    forms.append(replace(forms[0], choices=(*forms[0].choices, EXCHANGED)))
    for clock in published.other_clocks:
        of_clock = Choice(f"T{clock}", f"the clock {clock}", 1)
        forms += [
            replace(form, clock=clock, choices=(*form.choices, of_clock))
            for form in forms
            if "T(" in form.formula and not form.clock
        ]
    if quantity == "bandwidth":
        return forms, list(_bandwidth_constants(published))
    if quantity not in _RATIOS:
        return forms, [Convention("")]
    return forms, [Convention("", choices, unit=unit) for unit, choices in _expanded("percent", published)]


def _expanded(name: str, published: Published) -> Iterator[tuple[str, tuple[Choice, ...]]]:
    """Yield every formula of a part with its choices, every part in it written out."""
    fewest = min((place.gpus for place in published.epoch_s if place.gpus > 1), default=2)
    has_one_gpu = any(place.gpus == 1 for place in published.epoch_s)
    alternatives = {**_ALTERNATIVES[name], **_ALTERNATIVES.get(f"{name}_{published.batch}", {})}
    first = next(iter(alternatives))
    for formula, about in alternatives.items():
        given = {"kind": METHOD, "steps": int(formula != first), **about}
        if "fewest" in formula:
            formula, *texts = (
                text.replace("fewest", str(fewest)) for text in (formula, about["words"], about["check"])
            )
            given |= dict(zip(("words", "check"), texts, strict=True)) | ({} if has_one_gpu else {"kind": OTHER})
        choice = Choice(formula, **given)
        parts = re.findall(r"{(\w+)}", formula)
        for chosen in product(*(list(_expanded(part, published)) for part in parts)):
            written = formula.format(**{part: text for part, (text, _) in zip(parts, chosen, strict=True)})
            yield written, (choice, *(further for _, choices in chosen for further in choices))


def _bandwidth_constants(published: Published) -> Iterable[Convention]:
    """Parameters, their size, and the unit. Of equal products the nearest to docs/method.md."""
    label = published.bandwidth_unit or "GB/s"
    rates = [
        Choice(
            f" / {base}^{power}", f"a unit of {base}^{power}", int(unit != label), METHOD if unit == label else WRONG,
            1 / UNITS[unit], OTHER_UNIT,
        )
        for unit, (base, power) in POWERS_OF_UNITS.items()
    ]  # fmt: skip
    constants: dict[str, Convention] = {}
    for number, (size, choices), rate in product(_parameters(published), _expanded("size", published), rates):
        shown = number.formula if size == "1" else f"{number.formula} * {size}"
        constant = Convention("", (number, *choices, rate), constant=shown, unit=rate.formula)
        nearest = constants.setdefault(f"{constant.factor:.9e}", constant)
        if constant.steps < nearest.steps:
            constants[f"{constant.factor:.9e}"] = constant
    return sorted(constants.values(), key=lambda constant: constant.steps)


def _parameters(published: Published) -> Iterator[Choice]:
    """Every number of parameters once, with the names of all networks that have it: equal ones are one convention."""
    trained, names = published.parameters_trained, defaultdict[int, list[str]](list)
    if trained:
        names[trained].append("trained")
    for network in networks():
        names[network.parameters].append(network.name)
    for network in networks():
        names[network.parameters - network.first].append(f"{network.name} without its first layer")
    kind_of_others = WRONG if trained is not None and "network" not in published.assumed else OTHER
    for number, called in names.items():
        steps = 0 if number == trained else 2 if "without" in called[0] else 1
        kind = METHOD if number == trained else kind_of_others
        yield Choice(f"{number}", f"{number:,} parameters, {', '.join(called)}", steps, kind, number)


# Where unrelated numbers would fit as well with at least this probability, a convention is not called found.
CHANCE_LIMIT = 0.01
# Figures of two runs of the same differ by about this.
OF_ANOTHER_RUN = 0.02

# What a step away from docs/method.md takes off, in decades; and the most that a cell's digits may tell.
_DECADES_PER_STEP, _DECADES_PER_CELL = 0.5, 4.0
# One GPU beside itself proves nothing, but a cell of it may decide between two conventions.
_WEIGHT_OF_ONE_GPU = 0.1
_BLAME = {METHOD: 0, OTHER: 1, WRONG: 2}
_NEARLY = 0.8

Values = Mapping[Spot, Rounded]


def telling(places: Iterable[Spot], quantity: str = "") -> list[Spot]:
    """Return the places where a figure of a quantity tells something."""
    return [place for place in places if is_telling(quantity, place.gpus)]


def about(value: Rounded) -> Rounded:
    """A figure that may be of another run."""
    more = OF_ANOTHER_RUN * abs(value.value)
    return Rounded(value.value, value.low - more, value.high + more)


@dataclass(frozen=True, eq=False)
class Match:
    """A convention's values beside the printed ones. `values` lacks cells whose inputs are missing or cancel out."""

    quantity: str
    convention: Convention
    printed: Values
    values: Values

    @cached_property
    def agreeing(self) -> frozenset[Spot]:
        """The cells that it gives."""
        return frozenset(place for place, value in self.values.items() if value.meets(self.printed[place]))

    @cached_property
    def supporting(self) -> int:
        """How many cells with several GPUs it gives."""
        return len(telling(self.agreeing, self.quantity))

    @cached_property
    def decades(self) -> float:
        """How much the digits of these cells tell: as many as unrelated numbers would seldom share."""
        return sum(
            min(_DECADES_PER_CELL, -math.log10(self.chance_of(place))) * (1 if place.gpus != 1 else _WEIGHT_OF_ONE_GPU)
            for place in self.agreeing
        )

    @property
    def score(self) -> float:
        return self.decades - _DECADES_PER_STEP * self.convention.steps

    @property
    def blame(self) -> int:
        return sum(_BLAME[choice.kind] for choice in self.convention.choices)

    def by_chance(self, conventions: int) -> float:
        """The chance that one of so many conventions agrees with as many cells of unrelated numbers."""
        chances = map(self.chance_of, telling(self.values, self.quantity))
        return min(1.0, conventions * at_least(self.supporting, chances))

    def chance_of(self, place: Spot) -> float:
        """Return the chance that a number of the right decade agrees, whatever its digits.

        Leading digits of unrelated numbers are taken as uniform on a logarithmic scale (Benford 1938)."""
        half, value = self.printed[place].half, self.values[place]
        low, high = sorted((abs(value.low), abs(value.high)))
        return min(1.0, math.log10((high + half) / (low - half)) or 1e-9) if low > half and value.is_not_zero else 1.0

    @cached_property
    def factor(self) -> Rounded | None:
        """What its values have to be multiplied by to give all cells; None where chance might give them too."""
        ratios, chances = [], []
        for place, value in self.values.items():
            if min(self.printed[place].low, value.low) <= 0:
                return None
            ratios.append(self.printed[place] / value)
            chances.append(self.chance_of(place))
        # The roughest cell sets the factor.
        if not ratios or math.prod(chances) / max(chances) >= CHANCE_LIMIT:
            return None
        low, high = max(ratio.low for ratio in ratios), min(ratio.high for ratio in ratios)
        return Rounded((low + high) / 2, low, high) if low <= high else None


@dataclass(frozen=True)
class ColumnSearch:
    """Outcome of the search for a column.

    `method` is the convention of docs/method.md; `best` one that gives all cells or most, beyond chance; `near` one
    that does where its figures may be of another run; `unsure` one without a mistake that gives all, as chance might.
    """

    quantity: str
    method: Match
    checkable: Sequence[Spot]
    best: Match | None = None
    near: Match | None = None
    unsure: Match | None = None
    chance: float = 1.0
    tried: int = 0

    @property
    def match(self) -> Match | None:
        """The convention that the column follows."""
        return self.best or self.near

    @property
    def reference(self) -> Match:
        """The convention that single cells are compared with."""
        return self.match or self.method

    @cached_property
    def may_be_measured(self) -> bool:
        """Whether figures may have been measured: most of them follow from nothing that was printed."""
        is_beyond_chance = self.best and self.chance < CHANCE_LIMIT
        # Other bytes and images are another factor; parts of a time may be that share of it.
        is_multiple = self.quantity in ("bandwidth", "images_per_s") and self.method.factor
        # A second speedup may be of times that are not printed; the first one is of those that are.
        is_of_these_times = self.quantity in ("speedup", "efficiency", OF_TWO)
        return not (is_of_these_times or is_beyond_chance or self.near or is_multiple)

    def has_another_base(self, place: Spot) -> bool:
        """Whether a ratio is over something else than one GPU at its batch: that on one GPU is not 1, or all are."""
        printed, method = self.method.printed, self.method
        is_one_everywhere = len(printed) > 1 and all(value.contains(1) for value in printed.values())
        is_one_alone = place.alone in method.agreeing or place.alone not in method.values
        return not is_one_alone or (is_one_everywhere and not self.best)

    def has(self, kind: str) -> bool:
        """Whether its convention has a choice of a kind."""
        return bool(self.match and self.match.convention.words(kind))


@lru_cache(1_000)
def search(published: Published, quantity: str) -> ColumnSearch:
    """Try every convention on the printed figures of one quantity."""
    forms, constants = space(quantity, published)
    printed = {place: number.either().interval for place, number in published.quantities[quantity].items()}
    inputs = {place: inputs_of(published, place, may_be_cut=True) for place in printed}
    exchanged = {place: inputs_of(published, _exchanged(published, place), may_be_cut=True) for place in printed}
    values = {}
    for form in forms:
        cells = (exchanged if EXCHANGED in form.choices else inputs).items()
        if by_place := {place: value for place, cell in cells if (value := form.value(cell))}:
            values[form] = by_place
    exact = _searched(quantity, forms[0], constants, values, printed)
    best = exact.best
    gives_all = best and best.supporting == len(telling(exact.checkable, quantity))
    if not exact.checkable or (best and not exact.has(WRONG) and (gives_all or not best.convention.steps)):
        return exact
    roughly = {place: about(figure) for place, figure in printed.items()}
    near = _searched(quantity, forms[0], constants, values, roughly)
    # A mistake is none where something without one is near in as many cells; nor is a detour where that is in more.
    least = best.supporting + (not exact.has(WRONG)) if best else 0
    if not near.best or near.best.supporting < least or (best and near.has(WRONG)):
        return exact
    if best and best.convention.shown == near.best.convention.shown:
        return exact
    return replace(exact, best=None, near=near.best, chance=near.chance)


def _searched(
    quantity: str, first: Convention, constants: Sequence[Convention], values: Mapping[Convention, Values],
    printed: Values,
) -> ColumnSearch:  # fmt: skip
    checkable = sorted({place for by_place in values.values() for place in by_place})
    method = _match(quantity, first, constants[0], printed, values.get(first, {}))
    outcome = ColumnSearch(quantity, method, checkable, tried=len(values) * len(constants))
    matches = [
        _match(quantity, form, constant, printed, of_form)
        for form, of_form in values.items()
        for constant in constants
        if any((of_form[place] * constant.factor).meets(printed[place]) for place in telling(of_form, quantity))
    ]
    if not matches:
        return outcome
    best = _best(matches)
    of_constants = [constant.steps for constant in constants]
    as_simple = sum(form.steps + steps <= best.convention.steps for form in values for steps in of_constants)
    chance = best.by_chance(as_simple)
    if best.supporting <= len(telling(checkable, quantity)) / 2:
        return replace(outcome, chance=chance)
    if chance < CHANCE_LIMIT or not best.convention.steps:
        return replace(outcome, best=best, chance=chance)
    return replace(outcome, unsure=None if best.convention.words(WRONG) else best, chance=chance)


def _match(quantity: str, form: Convention, constant: Convention, printed: Values, values: Values) -> Match:
    """Return the values of a form times a constant beside the printed ones."""
    choices = (*constant.choices, *form.choices)
    convention = replace(form, choices=choices, constant=constant.constant, unit=constant.unit)
    return Match(quantity, convention, printed, {place: value * constant.factor for place, value in values.items()})


def _best(matches: Sequence[Match]) -> Match:
    """Return the best match.

    Nobody is blamed where something blameless gives as many cells and tells nearly as much; and what follows from the
    times is preferred to what goes through printed columns."""
    first = max(matches, key=lambda match: match.score)
    telling = [
        match for match in matches if match.supporting >= first.supporting and match.decades >= _NEARLY * first.decades
    ]
    return max(telling, key=lambda match: (-match.blame, -len(match.convention.through), match.score))


def at_least(wanted: int, chances: Iterable[float]) -> float:
    """The chance that `wanted` or more of independent events happen (Poisson binomial distribution)."""
    exactly = [1.0]
    for chance in chances:
        happens = [0.0, *(chance * before for before in exactly)]
        exactly = [with_it + (1 - chance) * without for with_it, without in zip(happens, [*exactly, 0.0], strict=True)]
    return sum(exactly[wanted:])
