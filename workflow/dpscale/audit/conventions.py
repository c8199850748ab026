"""The declared space of conventions: every way in which a published figure may have been derived from the times.

A convention is one choice of every kind that its quantity needs. The tables below are the whole space, each with the
choice of docs/method.md first. A new convention is one entry. Symbols as in docs/method.md: N GPUs, b images per GPU
and step, D images per epoch, K parameters, T(N,b) seconds per epoch. Tsweep(b) is the one-GPU batch sweep, C(N,b) the
compute time, M(N,b) the communication time, S(N,b) the speedup and W(N,b) the bandwidth as they were printed. T of
another clock has its name: Tloading(N,b).

A convention is a form, which differs from cell to cell, times a constant, which all cells share. So the search works
out every form once, and compares it with every constant.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import product

from dpscale.audit.published import GLOBAL, UNSTATED, Place, Published
from dpscale.formulas.interval import Interval
from dpscale.formulas.ring import ring_allreduce_bytes
from dpscale.formulas.scaling import compute_s, efficiency, speedup
from dpscale.vocabulary.networks import networks

Value = Callable[[Published, Place], Interval | None]

# What a choice is beside docs/method.md: the same; another definition that is right by itself; or a mistake.
METHOD, OTHER, WRONG = "method", "other", "wrong"


@dataclass(frozen=True)
class Choice:
    """One way to compute one part: its name, its formula, and its words in a sentence.

    `cost` says how far-fetched it is, 0 for what docs/method.md does. Of conventions that fit equally well, the one of
    the least cost is taken.
    """

    name: str
    formula: str
    sentence: str
    cost: int = 0
    kind: str = METHOD


@dataclass(frozen=True, kw_only=True)
class Time(Choice):
    """Where seconds come from. `value` is None in cells for which they were not printed."""

    value: Value


@dataclass(frozen=True, kw_only=True)
class Ratio(Choice):
    """A ratio of the one-GPU time, the total and N."""

    of: Callable[[Interval, Interval, int], Interval]


@dataclass(frozen=True, kw_only=True)
class Share(Choice):
    """What part of a time counts as compute, with N GPUs."""

    of: Callable[[Interval, int], Interval]


@dataclass(frozen=True, kw_only=True)
class Factor(Choice):
    """A plain number of a cell that a figure is multiplied by."""

    value: Callable[[Published, Place], float]


@dataclass(frozen=True, kw_only=True)
class Number(Choice):
    """A plain number, the same in all cells, that a figure is multiplied by."""

    value: float


@dataclass(frozen=True)
class Form:
    """What differs from cell to cell: its choices, its formula, and its value in a cell.

    The formula has the place `{}` where a constant is written, and none where a constant stands behind it.
    """

    choices: tuple[Choice, ...]
    formula: str
    value: Value

    @property
    def cost(self) -> int:
        return sum(choice.cost for choice in self.choices)


@dataclass(frozen=True)
class Constant:
    """What all cells share: its choices, their product, and how a formula writes it: what it multiplies by first, and
    the unit that it divides by last."""

    choices: tuple[Choice, ...]
    value: float
    factors: str = ""
    unit: str = ""

    @property
    def cost(self) -> int:
        return sum(choice.cost for choice in self.choices)


@dataclass(frozen=True)
class Convention:
    """A choice of every kind, and the value they give together. None where a number they need was not printed."""

    form: Form
    constant: Constant
    value: Value = field(compare=False)

    @classmethod
    def of(cls, form: Form, constant: Constant) -> "Convention":
        def value(published: Published, place: Place) -> Interval | None:
            found = form.value(published, place)
            return None if found is None else found * constant.value

        return cls(form, constant, value)

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

    @property
    def differences(self) -> list[str]:
        """What differs from the definitions of docs/method.md, in words."""
        return [choice.sentence for choice in self.choices if choice.kind != METHOD]

    @property
    def mistakes(self) -> list[str]:
        """What of it no definition would call right, in words."""
        return [choice.sentence for choice in self.choices if choice.kind == WRONG]


@dataclass(frozen=True)
class Space:
    """All conventions of a quantity: every form with every constant.

    Bandwidths are amounts over times: forms are then `amounts` times `times`, in that order, each worked out once.
    `circular` are forms that go through a printed column which may itself have been derived from this one: with compute
    the rest of communication, and communication the rest of compute, both would always fit. They count only where no
    other form does.
    """

    forms: Sequence[Form]
    constants: Sequence[Constant]
    amounts: Sequence["Amount"] = ()
    times: Sequence[Form] = ()
    circular: Sequence[Form] = ()

    def conventions(self) -> Iterator[Convention]:
        forms = (*self.forms, *self.circular)
        return (Convention.of(form, constant) for form, constant in product(forms, self.constants))


@dataclass(frozen=True)
class Amount:
    """What a bandwidth divides by time, but for its constant: its choices, their formulas, and their product."""

    choices: tuple[Factor, ...]
    first: str
    last: str
    value: Callable[[Published, Place], float]


def _printed(table: Mapping[Place, Decimal], place: Place) -> Interval | None:
    return Interval.of(table[place]) if place in table else None


def _column(quantity: str) -> Value:
    return lambda published, place: _printed(published.quantities.get(quantity, {}), place)


def _table_one(published: Published, place: Place) -> Interval | None:
    return _printed(published.epoch_s, Place(place.batch_per_gpu, 1))


def _sweep(published: Published, place: Place) -> Interval | None:
    time = published.batch_sweep_s.get(place.batch_per_gpu)
    return None if time is None else Interval.of(time)


def rebuilt_total(published: Published, place: Place) -> Interval | None:
    """T(1,b) over the printed speedup, only where T(N,b) itself was not printed. Seconds."""
    one_gpu, ratio = _table_one(published, place), _column("speedup")(published, place)
    return None if place in published.epoch_s or not one_gpu or not ratio else one_gpu / ratio


TABLE_ONE = Time("table", "T(1,b)", "T(1,b) of the same table", value=_table_one)
SWEEP_ONE = Time("sweep", "Tsweep(b)", "the one-GPU batch sweep", 1, OTHER, value=_sweep)
ONE_GPU_TIMES = (TABLE_ONE, SWEEP_ONE)


@cache
def base_of(gpus: int) -> Time:
    """Several GPUs as the base of a speedup of more."""

    def value(published: Published, place: Place) -> Interval | None:
        return _printed(published.epoch_s, Place(place.batch_per_gpu, gpus)) if place.gpus > gpus else None

    return Time(f"base of {gpus}", f"T({gpus},b)", f"speedup over {gpus} GPUs, not over one", 1, WRONG, value=value)


def fewest_gpus(published: Published) -> int:
    """The fewest GPUs that are several of its times."""
    return min((place.gpus for place in published.epoch_s if place.gpus > 1), default=2)


TABLE_TOTAL = Time(
    "total", "T(N,b)", "the total T(N,b)", value=lambda published, place: _printed(published.epoch_s, place)
)
COLUMN_TOTAL = Time(
    "compute column", "C(N,b)", "the printed compute column as the total", 1, OTHER, value=_column("compute_s")
)
REBUILT_TOTAL = Time(
    "rebuilt", "T(1,b)/S(N,b)", "a total rebuilt from the printed speedup", 1, OTHER, value=rebuilt_total
)
TOTALS = (TABLE_TOTAL, COLUMN_TOTAL, REBUILT_TOTAL)

# A column that was printed is right or not by itself; what follows from it is not blamed for it.
COMPUTE_COLUMN = Time("compute as printed", "C(N,b)", "the compute time as printed", 1, value=_column("compute_s"))
COMMUNICATION_COLUMN = Time(
    "printed", "M(N,b)", "the communication time as printed", 1, value=_column("communication_s")
)
BANDWIDTH_COLUMN = Time("bandwidth as printed", "W(N,b)", "the bandwidth as printed", 1, value=_column("bandwidth"))
# The choices that go through a printed column, by its quantity.
PRINTED_COLUMNS = {
    "compute_s": (COMPUTE_COLUMN, COLUMN_TOTAL),
    "communication_s": (COMMUNICATION_COLUMN,),
    "bandwidth": (BANDWIDTH_COLUMN,),
    "speedup": (REBUILT_TOTAL,),
}


@dataclass(frozen=True)
class Clock:
    """A set of epoch times: those on one GPU and in total."""

    one_gpu: Time
    total: Time


TABLE_CLOCK = Clock(TABLE_ONE, TABLE_TOTAL)


@cache
def other_clock(name: str) -> Clock:
    """Another set of epoch times of the same study. Which of its clocks a study follows is its own choice."""

    def one_gpu(published: Published, place: Place) -> Interval | None:
        return _printed(published.other_clocks[name], Place(place.batch_per_gpu, 1))

    def total(published: Published, place: Place) -> Interval | None:
        return _printed(published.other_clocks[name], place)

    return Clock(
        Time(f"{name}, one GPU", f"T{name}(1,b)", f"T(1,b) of the clock {name}", 0, value=one_gpu),
        Time(f"{name}, total", f"T{name}(N,b)", f"the clock {name}", 1, value=total),
    )


MIXED = Choice("mixed clocks", "", "one time of each clock", 2, WRONG)

TIMES_N = Ratio(
    "times N", "N * {one_gpu} / {total}", "N times the ratio of epoch times counts N twice", 1, WRONG,
    of=lambda one_gpu, total, gpus: gpus * speedup(one_gpu, total),
)  # fmt: skip
RATIOS = (
    Ratio(
        "ratio", "{one_gpu} / {total}", "the ratio of epoch times",
        of=lambda one_gpu, total, gpus: speedup(one_gpu, total),
    ),
    TIMES_N,
    Ratio(
        "efficiency", "{one_gpu} / (N * {total})", "the ratio of epoch times over N, an efficiency", 1, WRONG,
        of=lambda one_gpu, total, gpus: efficiency(speedup(one_gpu, total), gpus),
    ),
    Ratio(
        "inverse", "{total} / {one_gpu}", "the ratio upside down", 1, WRONG,
        of=lambda one_gpu, total, gpus: speedup(total, one_gpu),
    ),
)  # fmt: skip
PERCENT = Number("percent", "100", "in percent", 2, OTHER, value=100)
SECONDS_AS = (
    Number("seconds", "", "in seconds", value=1),
    Number("milliseconds", " in ms", "in milliseconds", 2, WRONG, value=1e3),
    Number("minutes", " in min", "in minutes", 2, WRONG, value=1 / 60),
)

DIVIDED = Share("divided", "{time}/N", "divided by N", of=compute_s)
WHOLE = Share("whole", "{time}", "not divided by N", 1, OTHER, of=lambda time, gpus: time)
SHARES = (DIVIDED, WHOLE)
SWAPPED_COLUMNS = Choice("swapped columns", "", "compute and communication in each other's column", 3, WRONG)

ELEMENTS = Number("elements", "1", "elements, not bytes", 1, WRONG, value=1)
# Half of the bytes is what (N-1)/N gives in place of 2(N-1)/N too: no printed figure can tell the two apart.
ELEMENT_SIZES = (
    Number("bytes", "4 bytes", "bytes", value=4),
    ELEMENTS,
    Number("2 bytes", "2 bytes", "half of the bytes: half precision, or a factor 2 left out", 2, OTHER, value=2),
    Number("bits", "32 bits", "bits, not bytes", 2, WRONG, value=32),
)
ALL_STEPS = Factor(
    "all steps", "ceil(D/(N*b))", "all ceil(D/(N*b)) steps",
    value=lambda published, place: math.ceil(published.steps(place)),
)  # fmt: skip
ONE_STEP = Factor(
    "one step", "1", "the bytes of one step over the time of an epoch", 1, WRONG, value=lambda published, place: 1
)
STEPS = (
    ALL_STEPS,
    ONE_STEP,
    Factor(
        "fractions of steps", "D/(N*b)", "D/(N*b) steps with their fraction", 1, OTHER,
        value=lambda published, place: published.steps(place),
    ),
    Factor(
        "full steps", "floor(D/(N*b))", "full steps only", 2, OTHER,
        value=lambda published, place: math.floor(published.steps(place)),
    ),
)  # fmt: skip
# With the batch of one GPU these are N times too many. Where nobody says what the batch is, they say that it is global.
_GLOBAL_STEPS: tuple[tuple[str, str, str, Callable[[float], float], int], ...] = (
    ("all steps", "ceil(D/b)", "ceil(D/b) steps", math.ceil, 1),
    ("fractions", "D/b", "D/b steps with their fraction", float, 2),
    ("full steps", "floor(D/b)", "floor(D/b) steps", math.floor, 3),
)


def _steps_of_one_batch(kind: str, words: str) -> tuple[Factor, ...]:
    """Steps of an epoch in which each has the batch of the table."""
    return tuple(
        Factor(
            f"{name} of the batch", formula, f"{sentence}{words}", cost, kind,
            value=lambda published, place, of=of: of(published.dataset_images / place.batch_per_gpu),  # type: ignore[misc]
        )
        for name, formula, sentence, of, cost in _GLOBAL_STEPS
    )  # fmt: skip


ONE_GPU_STEPS = _steps_of_one_batch(WRONG, "")
GLOBAL_STEPS = _steps_of_one_batch(METHOD, ", the batch being that of all GPUs")
RING = Factor(
    "ring", "2(N-1)/N", "what a GPU of a ring sends", value=lambda published, place: ring_allreduce_bytes(place.gpus, 1)
)
RING_TOTAL = Factor(
    "total", "2(N-1)", "what all GPUs of a ring send together", 1, OTHER,
    value=lambda published, place: 2 * (place.gpus - 1),
)  # fmt: skip
VOLUMES = (
    RING,
    RING_TOTAL,
    Factor("once", "1", "the gradients once", 1, OTHER, value=lambda published, place: 1),
    Factor(
        "half of N", "N/2", "a factor of N/2, not 2(N-1)/N", 2, OTHER, value=lambda published, place: place.gpus / 2
    ),
    Factor(
        "log of N",
        "log2(N)",
        "a factor of log2 N, not 2(N-1)/N",
        2,
        OTHER,
        value=lambda published, place: math.log2(place.gpus),
    ),
)
UNITS = {"GB/s": 1e9, "MB/s": 1e6, "GiB/s": 2.0**30, "MiB/s": 2.0**20}
_POWERS = {"GB/s": "10^9", "MB/s": "10^6", "GiB/s": "2^30", "MiB/s": "2^20"}


@cache
def rates(label: str) -> list[Number]:
    """Units of a rate, that of the label first. Seconds may have been milliseconds, or minutes."""
    names = sorted(UNITS, key=lambda unit: unit != label)
    seconds = [
        Number(
            unit, f" / {_POWERS[unit]}", f"a unit of {_POWERS[unit]}", int(unit != label),
            METHOD if unit == label else WRONG, value=1 / UNITS[unit],
        )
        for unit in names
    ]  # fmt: skip
    others = [
        Number(
            f"{unit} of {word}", f" / {_POWERS[unit]} in {short}", f"a unit of {_POWERS[unit]} with times in {word}",
            int(unit != label) + 2, WRONG, value=factor / UNITS[unit],
        )
        for word, short, factor in (("milliseconds", "ms", 1e-3), ("minutes", "min", 60))
        for unit in names
    ]  # fmt: skip
    return seconds + others


def is_rate(choice: Choice) -> bool:
    """Whether a choice is the unit of a rate."""
    return choice.name in UNITS


def space(quantity: str, published: Published) -> Space:
    """All conventions of a quantity. The study gives its own clocks, numbers of parameters, and unit."""
    if quantity == "bandwidth":
        return _bandwidths(published)
    if quantity == "compute_s":
        rest = [_difference(clock.total, _as_it_is(COMMUNICATION_COLUMN)) for clock in _clocks(published)]
        return Space(_computes(published), _as_constants(SECONDS_AS), circular=rest)
    if quantity == "communication_s":
        rest = [_difference(clock.total, _as_it_is(COMPUTE_COLUMN)) for clock in _clocks(published)]
        return Space(_with_swapped(published), _as_constants(SECONDS_AS), circular=rest)
    if quantity == "images_per_s":
        return Space(_throughputs(published), _as_constants([]))
    if quantity == "utilisation_percent":
        return Space([_as_it_is(BANDWIDTH_COLUMN)], _as_constants([]))
    return Space(_speedups(published), _as_constants([PERCENT]))


def conventions(quantity: str, published: Published) -> list[Convention]:
    """All conventions of a quantity, one by one."""
    return list(space(quantity, published).conventions())


def _as_constants(numbers: Iterable[Number]) -> list[Constant]:
    """1 and these numbers; seconds are 1."""
    found = [Constant((), 1.0)]
    for number in numbers:
        suffix = f" * {number.formula}" if number is PERCENT else number.formula
        if number.value != 1:
            found.append(Constant((number,), number.value, unit=suffix))
    return found


def _clocks(published: Published) -> list[Clock]:
    return [TABLE_CLOCK, *(other_clock(name) for name in published.other_clocks)]


def _pairs(published: Published, one_gpu_times: Sequence[Time]) -> Iterator[tuple[tuple[Choice, ...], Time, Time]]:
    """One-GPU time and total, from one clock or from two, with the choices they are."""
    clocks = _clocks(published)
    for one_gpu in one_gpu_times:
        yield (one_gpu,), one_gpu, TABLE_TOTAL
    for clock, other in product(clocks, clocks):
        if clock is other and clock is not TABLE_CLOCK:
            yield (clock.total,), clock.one_gpu, clock.total
        elif clock is not other:
            yield (MIXED, clock.one_gpu, other.total), clock.one_gpu, other.total


def _speedups(published: Published) -> list[Form]:
    bases = (*ONE_GPU_TIMES, base_of(fewest_gpus(published)))
    return [_speedup(ratio, *pair) for pair in _pairs(published, bases) for ratio in RATIOS]


def _speedup(ratio: Ratio, choices: tuple[Choice, ...], one_gpu: Time, total: Time) -> Form:
    def value(published: Published, place: Place) -> Interval | None:
        time, whole = one_gpu.value(published, place), total.value(published, place)
        return ratio.of(time, whole, place.gpus) if time and whole else None

    return Form((ratio, *choices), ratio.formula.format(one_gpu=one_gpu.formula, total=total.formula), value)


def _throughputs(published: Published) -> list[Form]:
    """Images of an epoch over its time; that times N; and that over N, of one GPU."""
    clocks = [(clock.total, (clock.total,) if clock is not TABLE_CLOCK else ()) for clock in _clocks(published)]
    return [_throughput(choice, factor, *clock) for choice, factor in _THROUGHPUTS for clock in clocks]


_THROUGHPUTS: tuple[tuple[Choice, Callable[[int], float]], ...] = (
    (Choice("images over time", "D / {}", "images of an epoch over its time"), lambda gpus: 1),
    (
        Choice("times N", "N * D / {}", "multiplied by the number of GPUs, which count twice then", 1, WRONG),
        lambda gpus: gpus,
    ),
    (Choice("per GPU", "D / (N * {})", "that of one GPU", 1, OTHER), lambda gpus: 1 / gpus),
)


def _throughput(choice: Choice, factor: Callable[[int], float], total: Time, choices: tuple[Choice, ...]) -> Form:
    def value(published: Published, place: Place) -> Interval | None:
        seconds = total.value(published, place)
        return published.dataset_images * factor(place.gpus) / seconds if seconds else None

    return Form((choice, *choices), choice.formula.format(total.formula), value)


def _computes(published: Published) -> list[Form]:
    """A time, over N or not; or the communication time, in the wrong column."""
    clocks = _clocks(published)
    times = [*ONE_GPU_TIMES, *(clock.total for clock in clocks)]
    found = [_compute(time, share) for time, share in product(times, SHARES)]
    found += [_compute(clock.one_gpu, share, clock.total) for clock, share in product(clocks[1:], SHARES)]
    swapped = (_difference(TABLE_TOTAL, _compute(one_gpu, DIVIDED)) for one_gpu in ONE_GPU_TIMES)
    return found + [_with(SWAPPED_COLUMNS, form) for form in swapped]


def _compute(time: Time, share: Share, clock: Time | None = None) -> Form:
    def value(published: Published, place: Place) -> Interval | None:
        seconds = time.value(published, place)
        return share.of(seconds, place.gpus) if seconds else None

    return Form((time, share, *([clock] if clock else [])), share.formula.format(time=time.formula), value)


def _communications(published: Published) -> list[Form]:
    """A total minus what counts as compute, both of one clock, or of two."""
    inferred = [_compute(one_gpu, share) for one_gpu, share in product(ONE_GPU_TIMES, SHARES)]
    found = [_difference(total, compute) for total, compute in product(TOTALS, inferred)]
    found.append(_difference(REBUILT_TOTAL, _as_it_is(COMPUTE_COLUMN)))
    clocks = _clocks(published)
    for clock, other in product(clocks, clocks):
        if clock is other and clock is not TABLE_CLOCK:
            found += [_difference(clock.total, _compute(clock.one_gpu, share)) for share in SHARES]
        elif clock is not other:
            found.append(_with(MIXED, _difference(other.total, _compute(clock.one_gpu, DIVIDED))))
    return found


def _with_swapped(published: Published) -> list[Form]:
    """Communication times, and compute times in their column."""
    swapped = (_compute(one_gpu, DIVIDED) for one_gpu in ONE_GPU_TIMES)
    return _communications(published) + [_with(SWAPPED_COLUMNS, form) for form in swapped]


def _difference(total: Time, compute: Form) -> Form:
    def value(published: Published, place: Place) -> Interval | None:
        whole, part = total.value(published, place), compute.value(published, place)
        return whole - part if whole and part else None

    return Form((total, *compute.choices), f"{total.formula} - {compute.formula}", value)


def _with(choice: Choice, form: Form) -> Form:
    return Form((choice, *form.choices), form.formula, form.value)


def _as_it_is(time: Time) -> Form:
    return Form((time,), time.formula, time.value)


def _bandwidths(published: Published) -> Space:
    whole = [_as_it_is(time) for time in (COMMUNICATION_COLUMN, *(clock.total for clock in _clocks(published)))]
    rest = [_difference(clock.total, _as_it_is(COMPUTE_COLUMN)) for clock in _clocks(published)]
    times = [*_communications(published), *rest, *whole, _as_it_is(COLUMN_TOTAL)]
    amounts = _distinct(_amount(chosen) for chosen in product(VOLUMES, steps_of(published)))
    forms = [_bandwidth(amount, time) for amount, time in product(amounts, times)]
    label = published.bandwidth_unit or "GB/s"
    numbers = product(_parameters(published), ELEMENT_SIZES, rates(label))
    return Space(forms, _apart(_constant(*chosen) for chosen in numbers), amounts, times)


def steps_of(published: Published) -> tuple[Factor, ...]:
    """The numbers of steps in question. A batch of all GPUs together has but one number."""
    if published.batch == GLOBAL:
        return STEPS
    if published.batch == UNSTATED:
        return (*STEPS, *GLOBAL_STEPS)
    return (*STEPS, ONE_GPU_STEPS[0])


def _amount(chosen: tuple[Factor, ...]) -> Amount:
    volume, steps = chosen
    return Amount(
        chosen, volume.formula, steps.formula,
        lambda published, place: volume.value(published, place) * steps.value(published, place),
    )  # fmt: skip


# A study without figures, and cells in which amounts that are not the same differ.
_PROBE = Published(
    id="probe", title="", sha256="", year=None, dataset_images=50_000, parameters_trained=None, parameters_quoted=None,
    batch_sweep_s={}, epoch_s={}, strong_scaling_epoch_s={}, quantities={}, bandwidth_unit=None, unmeasured=[],
    training=[],
)  # fmt: skip
_PROBES = [Place(batch, gpus) for batch in (32, 129, 2048) for gpus in (2, 3, 8)]


def _distinct(amounts: Iterable[Amount]) -> list[Amount]:
    """Those that differ by more than a factor of 2, which half of the bytes is too. Of equal ones, the one that costs
    least.

    2(N-1) times D/(N*b) is 2(N-1)/N times D/b: where nobody says what b is, these are one.
    """
    found: dict[tuple[str, ...], Amount] = {}
    for amount in sorted(amounts, key=lambda amount: sum(choice.cost for choice in amount.choices)):
        values = [amount.value(_PROBE, place) for place in _PROBES]
        same = [tuple(f"{value * factor:.9e}" for value in values) for factor in (1, 2, 0.5)]
        if not any(key in found for key in same):
            found[same[0]] = amount
    return list(found.values())


def _bandwidth(amount: Amount, time: Form) -> Form:
    def value(published: Published, place: Place) -> Interval | None:
        seconds = time.value(published, place)
        return None if seconds is None else amount.value(published, place) / seconds

    product_of = " * ".join(part for part in (amount.first, "{}", amount.last) if part != "1")
    seconds = f"({time.formula})" if len(time.choices) > 1 else time.formula
    return Form((*amount.choices, *time.choices), f"{product_of} / {seconds}", value)


def _constant(parameters: Number, size: Number, rate: Number) -> Constant:
    factors = " * ".join(part.formula for part in (parameters, size) if part.formula != "1")
    return Constant((parameters, size, rate), parameters.value * size.value * rate.value, factors, rate.formula)


def _apart(constants: Iterable[Constant]) -> list[Constant]:
    """Those that differ: of equal ones, such as MB per millisecond and GB per second, the one of the least cost."""
    found: dict[str, Constant] = {}
    for constant in sorted(constants, key=lambda constant: constant.cost):
        found.setdefault(f"{constant.value:.9e}", constant)
    return list(found.values())


@cache
def _numbers_of_parameters(trained: int | None, quoted: int | None) -> list[Number]:
    """Every number of parameters once, with the names of all networks that have it: equal ones are one convention."""
    names: dict[int, list[str]] = {}
    whole = [(network.parameters, network.name) for network in networks()]
    parts = [
        (network.weights, f"{network.name}, weights of convolutions and classifier alone") for network in networks()
    ]
    parts += [(network.parameters - network.first, f"{network.name} without its first layer") for network in networks()]
    for number, name in ((trained, "trained"), (quoted, "as quoted"), *whole, *parts):
        if number:
            names.setdefault(number, []).append(name)
    in_part = {number for number, _ in parts}
    known = trained is not None
    return [
        Number(
            f"{number} parameters", f"{number}", f"{number:,} parameters, {', '.join(names[number])}",
            0 if number == trained else 2 if number in in_part else 1,
            METHOD if number == trained else WRONG if known else OTHER, value=number,
        )
        for number in names
    ]  # fmt: skip


def _parameters(published: Published) -> list[Number]:
    return _numbers_of_parameters(published.parameters_trained, published.parameters_quoted)
