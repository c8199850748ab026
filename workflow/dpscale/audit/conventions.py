"""The space of conventions: every way in which a published figure may have been derived from what is printed beside it.

conventions.yaml has them as formulas. A convention is a form, which differs from cell to cell, times a constant, which
all cells share. A formula is worked out as it is shown: as an expression of Python, which is compiled once. It comes
from the package alone, never from a table; what a table has are numbers, and names of clocks, which are not compiled.
"""

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from types import CodeType
from typing import Any, NamedTuple

from dpscale.audit.published import POWERS_OF_UNITS, UNITS, Printed, Published, Spot
from dpscale.formulas.rounded import Number, Rounded
from dpscale.vocabulary import own_yaml
from dpscale.vocabulary.chips import networks

# What a choice is beside docs/method.md: the same; another definition that is right by itself; or a mistake.
METHOD, OTHER, WRONG = "method", "other", "wrong"
_ALTERNATIVES: Mapping[str, Mapping[str, Mapping[str, Any]]] = own_yaml(__file__, "conventions.yaml")
OTHER_UNIT = "unit is not that of the label"
# Figures as they were printed, by the letter that a formula has for them.
_LETTERS = {
    "C": "compute_s", "M": "communication_s", "S": "speedup", "W": "bandwidth", "R": "images_per_s",
}  # fmt: skip
_ONE = Number("1", Rounded(1, 1, 1), Rounded(1, 1, 1))
# What a formula may use beside the numbers and tables of its cell. A quotient may miss the whole number that it is.
_FUNCTIONS = {
    "__builtins__": {},
    "ceil": lambda number: math.ceil(round(number, 9)),
    "floor": lambda number: math.floor(round(number, 9)),
}
_RATIOS = ("speedup", "speedup_alternative", "efficiency", "communication_share")


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

    def times(self, constant: "Convention") -> "Convention":
        """Return it with a constant."""
        choices = (*constant.choices, *self.choices)
        return replace(self, choices=choices, constant=constant.constant, unit=constant.unit)

    def value(self, inputs: "Inputs") -> Rounded | None:
        """Its value in a cell, but for the constant. None where a number that it needs was not printed, or its divisor
        may be zero."""
        if EXCHANGED in self.choices:
            inputs = Inputs.of(inputs.published, _exchanged(inputs.published, inputs.place), inputs.may_be_cut)
        try:
            value = eval(_compiled(self.formula), _FUNCTIONS, inputs.by_clock[self.clock])
        except (KeyError, ZeroDivisionError):
            return None
        return value if isinstance(value, Rounded) else None


class Inputs(NamedTuple):
    """What formulas need in a cell: by clock, its numbers and the tables that they look into, by the names that these
    have in formulas. Further digits of a time `may_be_cut`, and not rounded."""

    published: Published
    place: Spot
    may_be_cut: bool
    by_clock: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, published: Published, place: Spot, may_be_cut: bool = False) -> "Inputs":
        """Those of a cell. What b means in a formula is the batch of the cell."""

        def time(table: Printed, gpus: int) -> Rounded:
            number = table[place._replace(gpus=gpus)]
            return (number.either() if may_be_cut else number).interval

        def figure(quantity: str, gpus: int, batch: float) -> Rounded:
            return published.figures(quantity)[place._replace(gpus=gpus)].interval

        gpus = published.gpus_by_batch[place.batch_per_gpu]
        names = {
            "N": place.gpus,
            "b": published.global_batch(place) / place.gpus,
            "D": published.dataset_images,
            "before": gpus[max(0, bisect_left(gpus, place.gpus) - 1)],
            "constant": 1,
            "Tsweep": lambda batch: time(published.batch_sweep_s, 1),
            "bus": lambda gpus, batch: published.bus_gb_s.get(gpus, _ONE).interval,
            **{letter: partial(figure, quantity) for letter, quantity in _LETTERS.items()},
        }
        clocks = {"": published.epoch_s, **published.other_clocks}
        times = {clock: lambda gpus, batch, table=table: time(table, gpus) for clock, table in clocks.items()}
        return cls(published, place, may_be_cut, {clock: {**names, "T": times[clock]} for clock in clocks})


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula.strip().replace("2(", "2*("), "conventions.yaml", "eval")


def value_of(formula: str, published: Published, place: Spot) -> Rounded | None:
    """The value of a formula in a cell; None where it has none."""
    return Convention(formula).value(Inputs.of(published, place))


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
