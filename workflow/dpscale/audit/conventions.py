"""The declared space of conventions: every way in which a published figure may have been derived from the times.

A convention is one choice of every kind that its quantity needs. `conventions.yaml` has them: a new convention is one
entry there. Units, clocks and numbers of parameters are choices too. Symbols are as in docs/method.md: N GPUs, b images
per GPU and step, D images per epoch, K parameters, T(N,b) seconds per epoch. Tsweep(b) is the one-GPU batch sweep,
C(N,b) the compute time, M(N,b) the communication time, S(N,b) the speedup and W(N,b) the bandwidth as they were
printed. T of another clock has its name: Tloading(N,b).

A formula is what is shown and what is worked out: in `code`, which is only given where the two are not alike, the same
symbols are Python's. A convention is a form, which differs from cell to cell, times a constant, which all cells share.
So the search works out every form once, and compares it with every constant.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import yaml

from dpscale.audit.reading.published import GLOBAL, UNSTATED, Printed, Published, Spot
from dpscale.formulas.figure import Floats
from dpscale.formulas.rounded import Rounded
from dpscale.schemas.validation import SCHEMA_LOADER
from dpscale.vocabulary.networks import networks

# What a choice is beside docs/method.md: the same; another definition that is right by itself; or a mistake.
METHOD, OTHER, WRONG = "method", "other", "wrong"
Symbols = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """One way to compute one part: its name, its formula, and its words in a sentence.

    `cost` says how far-fetched it is, 0 for what docs/method.md does. Of conventions that fit equally well, the one of
    the least cost is taken. `value` is that of a plain number, the same in all cells.
    """

    name: str
    formula: str
    sentence: str
    cost: int = 0
    kind: str = METHOD
    code: str = ""
    value: float = 1

    @property
    def worked_out_as(self) -> str:
        return self.code or self.formula

    @property
    def choices(self) -> tuple["Choice", ...]:
        """Itself: a choice alone can be a form."""
        return (self,)

    def at(self, published: Published, place: Spot) -> Rounded | None:
        """Its value in a cell. None where a number that it needs was not printed, or where its divisor may be zero."""
        return worked_out(self.worked_out_as, symbols(published, place))


@dataclass(frozen=True)
class Form:
    """What differs from cell to cell: its choices, its formula, and what that is in Python.

    The formula has the place `{}` where a constant is written, and none where a constant stands behind it.
    """

    choices: tuple[Choice, ...]
    formula: str
    worked_out_as: str

    @property
    def cost(self) -> int:
        return sum(choice.cost for choice in self.choices)


Part = Choice | Form


@dataclass(frozen=True)
class Constant:
    """What all cells share: its choices, their product, and how a formula writes it: what it multiplies by first, and
    the unit that it divides by last."""

    choices: tuple[Choice, ...] = ()
    value: float = 1.0
    factors: str = ""
    unit: str = ""

    @property
    def cost(self) -> int:
        return sum(choice.cost for choice in self.choices)


@dataclass(frozen=True)
class Convention:
    """A choice of every kind, and the value they give together."""

    form: Part
    constant: Constant

    def at(self, published: Published, place: Spot) -> Rounded | None:
        """Its value in a cell. None where a number that it needs was not printed, or where its divisor may be zero."""
        found = worked_out(self.form.worked_out_as, symbols(published, place))
        return found * self.constant.value if found else None

    @property
    def choices(self) -> tuple[Choice, ...]:
        return (*self.constant.choices, *self.form.choices)

    @property
    def cost(self) -> int:
        return self.form.cost + self.constant.cost

    @property
    def formula(self) -> str:
        return self.form.formula.replace("{}", self.constant.factors) + self.constant.unit

    @property
    def name(self) -> str:
        return " | ".join(choice.name for choice in self.choices)

    @property
    def sentence(self) -> str:
        return ", ".join(choice.sentence for choice in self.choices)


@dataclass(frozen=True)
class Space:
    """All conventions of a quantity: every form with every constant.

    Bandwidths are amounts over times: forms are then `amounts` times `times`, in that order. `circular` are forms that
    go through a printed column which may itself have been derived from this one: with compute the rest of
    communication, and communication the rest of compute, both would always fit. They count only where no other form
    does.
    """

    forms: Sequence[Part]
    constants: Sequence[Constant] = (Constant(),)
    circular: Sequence[Part] = ()
    amounts: Sequence[Form] = ()
    times: Sequence[Part] = ()


def worked_out(code: str, known: Symbols) -> Rounded | None:
    """What a formula gives. None where a number that it needs was not printed, or where its divisor may be zero."""
    try:
        return evaluated(code, known)
    except (KeyError, ZeroDivisionError):
        return None


def evaluated(code: str, known: Symbols) -> Rounded:
    """The same. Raises KeyError and ZeroDivisionError."""
    found: Rounded = eval(_compiled(code), {"__builtins__": {}}, known)
    return found


@cache
def _compiled(code: str) -> CodeType:
    return compile(code, "a convention", "eval")


def round_to(numbers: Floats, digits: int, is_significant: bool) -> Floats:
    """Numbers above zero, rounded to significant digits or to decimals."""
    if not is_significant:
        return np.round(numbers, digits)
    unit = 10.0 ** (np.floor(np.log10(numbers)) - digits + 1)
    return np.round(numbers / unit) * unit


_FUNCTIONS: Symbols = {
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "round": lambda number, *how: float(round_to(np.array([number]), *how)[0]),
}


def symbols(published: Published, place: Spot) -> Symbols:
    """What the symbols of a formula stand for in a cell."""

    def column(table: Printed) -> Callable[[int, int], Rounded]:
        return cache(lambda gpus, batch: Rounded.of(table[Spot(batch, gpus)]))

    def rebuilt() -> Rounded:
        """Only where T(N,b) itself was not printed."""
        if place in published.epoch_s:
            raise KeyError(place)
        return times(1, place.batch_per_gpu) / printed["S"](place.gpus, place.batch_per_gpu)

    names = {"C": "compute_s", "M": "communication_s", "S": "speedup", "W": "bandwidth"}
    printed = {symbol: column(published.quantities.get(name, {})) for symbol, name in names.items()}
    times = column(published.epoch_s)
    return {
        **_FUNCTIONS,
        **printed,
        **{f"T{number}": column(table) for number, table in enumerate(published.other_clocks.values())},
        "N": place.gpus,
        "b": place.batch_per_gpu,
        "D": published.dataset_images,
        "steps": published.steps(place),
        "T": times,
        "Tsweep": lambda batch: Rounded.of(published.batch_sweep_s[batch]),
        "rebuilt": rebuilt,
    }


_TABLE = yaml.load(Path(__file__).with_suffix(".yaml").read_text(), SCHEMA_LOADER)
_CHOICES = {kind: tuple(Choice(**entry) for entry in entries) for kind, entries in _TABLE.items()}
TABLE_ONE, SWEEP_ONE = ONE_GPU_TIMES = _CHOICES["one_gpu_times"]
TABLE_TOTAL, COLUMN_TOTAL, REBUILT_TOTAL = TOTALS = _CHOICES["totals"]
COMPUTE_COLUMN, COMMUNICATION_COLUMN, BANDWIDTH_COLUMN = _CHOICES["columns"]
# The choices that go through a printed column, by its quantity.
PRINTED_COLUMNS = {
    "compute_s": (COMPUTE_COLUMN, COLUMN_TOTAL),
    "communication_s": (COMMUNICATION_COLUMN,),
    "bandwidth": (BANDWIDTH_COLUMN,),
    "speedup": (REBUILT_TOTAL,),
}
MIXED, SWAPPED_COLUMNS = _CHOICES["mistaken"]
RATIO, TIMES_N, *_ = RATIOS = _CHOICES["ratios"]
DIVIDED, WHOLE = SHARES = _CHOICES["shares"]
ELEMENTS, RING_TOTAL = _CHOICES["element_sizes"][1], _CHOICES["volumes"][1]
STEPS, GLOBAL_STEPS = _CHOICES["steps"], _CHOICES["global_steps"]


def base_of(gpus: int) -> Choice:
    """Several GPUs as the base of a speedup of more: nobody has times of no GPUs."""
    words = f"speedup over {gpus} GPUs, not over one"
    return Choice(f"base of {gpus}", f"T({gpus},b)", words, 1, WRONG, f"T({gpus} * (N > {gpus}), b)")


def fewest_gpus(published: Published) -> int:
    """The fewest GPUs that are several of its times."""
    return min((place.gpus for place in published.epoch_s if place.gpus > 1), default=2)


@dataclass(frozen=True)
class Clock:
    """A set of epoch times: its name, those on one GPU and in total."""

    name: str
    one_gpu: Choice
    total: Choice


def clocks(published: Published) -> list[Clock]:
    """That of the table, and others of the same study. Which of its clocks a study follows is its own choice.

    What is worked out has their numbers: names come from files, and only what stands in this folder is ever run.
    """
    others = [
        Clock(
            name,
            Choice(f"{name}, one GPU", f"T{name}(1,b)", f"T(1,b) of the clock {name}", code=f"T{number}(1,b)"),
            Choice(f"{name}, total", f"T{name}(N,b)", f"the clock {name}", 1, code=f"T{number}(N,b)"),
        )
        for number, name in enumerate(published.other_clocks)
    ]
    return [Clock(published.clock or "of the table", TABLE_ONE, TABLE_TOTAL), *others]


UNITS = {"GB/s": 1e9, "MB/s": 1e6, "GiB/s": 2.0**30, "MiB/s": 2.0**20}
_POWERS = {"GB/s": "10^9", "MB/s": "10^6", "GiB/s": "2^30", "MiB/s": "2^20"}
# Seconds may have been milliseconds, or minutes.
_SECONDS_OF_RATES = (("", "", 1, 0), (" of milliseconds", " in ms", 1e-3, 2), (" of minutes", " in min", 60, 2))


def rates(label: str) -> list[Choice]:
    """Units of a rate, that of the label first."""
    return [
        Choice(
            f"{unit}{of}",
            f" / {_POWERS[unit]}{short}",
            f"a unit of {_POWERS[unit]}{of.replace(' of', ' with times in')}",
            int(unit != label) + cost,
            METHOD if unit == label and not cost else WRONG,
            value=seconds / UNITS[unit],
        )
        for of, short, seconds, cost in _SECONDS_OF_RATES
        for unit in sorted(UNITS, key=lambda unit: unit != label)
    ]


def is_rate(choice: Choice) -> bool:
    """Whether a choice is the unit of a rate."""
    return choice.name in UNITS


def space(quantity: str, published: Published) -> Space:
    """All conventions of a quantity. The study gives its own clocks, numbers of parameters, and unit."""
    if quantity == "bandwidth":
        return _bandwidths(published)
    if quantity == "compute_s":
        rest = _rest(published, COMMUNICATION_COLUMN)
        return Space(list(_computes(published)), _as_constants("seconds"), rest)
    if quantity == "communication_s":
        swapped = (_with(SWAPPED_COLUMNS, _compute(one_gpu, DIVIDED)) for one_gpu in ONE_GPU_TIMES)
        forms = [*_communications(published), *swapped]
        return Space(forms, _as_constants("seconds"), _rest(published, COMPUTE_COLUMN))
    if quantity == "images_per_s":
        totals = product(_CHOICES["throughputs"], (clock.total for clock in clocks(published)))
        return Space([_form((of, *([] if time is TABLE_TOTAL else [time])), of, time) for of, time in totals])
    if quantity == "utilisation_percent":
        return Space([BANDWIDTH_COLUMN])
    return Space(list(_speedups(published)), _as_constants("percent"))


def _as_constants(kind: str) -> list[Constant]:
    """1 and the numbers of a kind."""
    return [Constant(), *(Constant((number,), number.value, unit=number.formula) for number in _CHOICES[kind])]


def _form(choices: tuple[Choice, ...], of: Choice, *parts: Part) -> Form:
    """A choice whose formula has places for others."""
    formula = of.formula.format(*(part.formula for part in parts))
    return Form(choices, formula, of.worked_out_as.format(*(part.worked_out_as for part in parts)))


def _with(choice: Choice, form: Form) -> Form:
    return Form((choice, *form.choices), form.formula, form.worked_out_as)


def _compute(time: Choice, share: Choice, *clock: Choice) -> Form:
    return _form((time, share, *clock), share, time)


_DIFFERENCE = Choice("", "{0} - {1}", "")


def _difference(total: Choice, compute: Part) -> Form:
    return _form((total, *compute.choices), _DIFFERENCE, total, compute)


def _rest(published: Published, column: Choice) -> list[Form]:
    """What a printed column leaves of the total of every clock."""
    return [_difference(clock.total, column) for clock in clocks(published)]


def _speedups(published: Published) -> Iterator[Form]:
    """One-GPU time and total, from one clock or from two."""
    pairs: list[tuple[tuple[Choice, ...], Choice, Choice]] = [
        ((one_gpu,), one_gpu, TABLE_TOTAL) for one_gpu in (*ONE_GPU_TIMES, base_of(fewest_gpus(published)))
    ]
    for clock, other in product(clocks(published), repeat=2):
        if clock != other:
            pairs.append(((MIXED, clock.one_gpu, other.total), clock.one_gpu, other.total))
        elif clock.total is not TABLE_TOTAL:
            pairs.append(((clock.total,), clock.one_gpu, clock.total))
    return (_form((ratio, *choices), ratio, *times) for (choices, *times), ratio in product(pairs, RATIOS))


def _computes(published: Published) -> Iterator[Form]:
    """A time, over N or not; or the communication time, in the wrong column."""
    totals = [clock.total for clock in clocks(published)]
    for time, share in product((*ONE_GPU_TIMES, *totals), SHARES):
        yield _compute(time, share)
    for clock, share in product(clocks(published)[1:], SHARES):
        yield _compute(clock.one_gpu, share, clock.total)
    for one_gpu in ONE_GPU_TIMES:
        yield _with(SWAPPED_COLUMNS, _difference(TABLE_TOTAL, _compute(one_gpu, DIVIDED)))


def _communications(published: Published) -> Iterator[Form]:
    """A total minus what counts as compute, both of one clock, or of two."""
    for total, one_gpu, share in product(TOTALS, ONE_GPU_TIMES, SHARES):
        yield _difference(total, _compute(one_gpu, share))
    yield _difference(REBUILT_TOTAL, COMPUTE_COLUMN)
    for clock, other in product(clocks(published), repeat=2):
        if clock != other:
            yield _with(MIXED, _difference(other.total, _compute(clock.one_gpu, DIVIDED)))
        elif clock.total is not TABLE_TOTAL:
            yield from (_difference(clock.total, _compute(clock.one_gpu, share)) for share in SHARES)


def _bandwidths(published: Published) -> Space:
    whole = (COMMUNICATION_COLUMN, *(clock.total for clock in clocks(published)))
    rest = _rest(published, COMPUTE_COLUMN)
    times: list[Part] = [*_communications(published), *rest, *whole, COLUMN_TOTAL]
    amounts = _distinct(
        Form(chosen, "", "({}) * ({})".format(*(choice.worked_out_as for choice in chosen)))
        for chosen in product(_CHOICES["volumes"], steps_of(published))
    )
    numbers = product(
        _parameters(published.parameters_trained, published.parameters_quoted),
        _CHOICES["element_sizes"],
        rates(published.bandwidth_unit or "GB/s"),
    )
    forms = [_bandwidth(amount, time) for amount, time in product(amounts, times)]
    return Space(forms, _apart(_constant(*chosen) for chosen in numbers), (), amounts, times)


def steps_of(published: Published) -> tuple[Choice, ...]:
    """The numbers of steps in question. A batch of all GPUs together has but one number."""
    if published.batch == GLOBAL:
        return STEPS
    return (*STEPS, *_CHOICES["global_steps" if published.batch == UNSTATED else "steps_of_one_gpu"])


# Cells in which amounts that are not the same differ.
_PROBES: Sequence[Symbols] = [
    {**_FUNCTIONS, "N": gpus, "b": batch, "D": 50_000, "steps": 50_000 / (batch * gpus)}
    for batch in (32, 129, 2048)
    for gpus in (2, 3, 8)
]


def _distinct(amounts: Iterable[Form]) -> list[Form]:
    """Those that differ by more than a factor of 2, which half of the bytes is too. Of equal ones, the one that costs
    least.

    2(N-1) times D/(N*b) is 2(N-1)/N times D/b: where nobody says what b is, these are one.
    """
    found: dict[tuple[str, ...], Form] = {}
    for amount in sorted(amounts, key=lambda amount: amount.cost):
        values: list[Any] = [worked_out(amount.worked_out_as, probe) for probe in _PROBES]
        same = [tuple(f"{value * factor:.9e}" for value in values) for factor in (1, 2, 0.5)]
        if not any(key in found for key in same):
            found[same[0]] = amount
    return list(found.values())


def _bandwidth(amount: Form, time: Part) -> Form:
    volume, steps = amount.choices
    formula = f"{_product(volume.formula, '{}', steps.formula)} / {_in_brackets(time)}"
    return Form((*amount.choices, *time.choices), formula, f"{amount.worked_out_as} / ({time.worked_out_as})")


def of_rounded_bytes(amount: Form, constant: Constant, rounded: Choice, time: Part) -> Convention:
    """A bandwidth whose amount is rounded before it is divided by a time: `rounded.code` says how."""
    volume, steps = amount.choices
    factors = _product(volume.formula, constant.factors, steps.formula)
    formula = f"round({factors}{constant.unit}, {rounded.formula}) / {_in_brackets(time)}"
    code = f"round({amount.worked_out_as} * {constant.value!r}, {rounded.code}) / ({time.worked_out_as})"
    choices = (*amount.choices, *constant.choices, rounded, *time.choices)
    return Convention(Form(choices, formula, code), Constant())


def _product(*factors: str) -> str:
    return " * ".join(factor for factor in factors if factor != "1")


def _in_brackets(time: Part) -> str:
    return f"({time.formula})" if len(time.choices) > 1 else time.formula


def _constant(parameters: Choice, size: Choice, rate: Choice) -> Constant:
    factors = _product(parameters.formula, size.formula)
    return Constant((parameters, size, rate), parameters.value * size.value * rate.value, factors, rate.formula)


def _apart(constants: Iterable[Constant]) -> list[Constant]:
    """Those that differ: of equal ones, such as MB per millisecond and GB per second, the one of the least cost."""
    found: dict[str, Constant] = {}
    for constant in sorted(constants, key=lambda constant: constant.cost):
        found.setdefault(f"{constant.value:.9e}", constant)
    return list(found.values())


@cache
def _parameters(trained: int | None, quoted: int | None) -> list[Choice]:
    """Every number of parameters once, with the names of all networks that have it: equal ones are one convention."""
    whole = [(network.parameters, network.name) for network in networks()]
    parts = [
        *((network.weights, f"{network.name}, weights of convolutions and classifier alone") for network in networks()),
        *((network.parameters - network.first, f"{network.name} without its first layer") for network in networks()),
    ]
    names: dict[int, list[str]] = {}
    for number, name in ((trained, "trained"), (quoted, "as quoted"), *whole, *parts):
        if number:
            names.setdefault(number, []).append(name)
    in_part = {number for number, _ in parts}
    return [
        Choice(
            f"{number} parameters",
            f"{number}",
            f"{number:,} parameters, {', '.join(names[number])}",
            0 if number == trained else 2 if number in in_part else 1,
            METHOD if number == trained else OTHER if trained is None else WRONG,
            value=number,
        )
        for number in names
    ]
