"""The declared space of conventions: every way in which a published figure may have been derived from the times.

A convention is one choice of every kind that its quantity needs. The tuples below are the whole space, each with the
choice of docs/method.md first. A new convention is one entry. Symbols as in docs/method.md: N GPUs, b images per GPU
and step, D images per epoch, K parameters, T(N,b) seconds per epoch. Tsweep(b) is the one-GPU batch sweep, C(N,b) the
compute time, M(N,b) the communication time and S(N,b) the speedup as they were printed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import product
from typing import TypeVar

from dpscale.audit.published import Place, Published
from dpscale.formulas.interval import Interval
from dpscale.formulas.scaling import compute_s, efficiency, ring_allreduce_bytes, speedup, steps_per_epoch

Value = Callable[[Published, Place], Interval | None]
T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """One way to compute one part: its name, its formula, and its words in a sentence."""

    name: str
    formula: str
    sentence: str
    is_method: bool = False


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
    """A plain number that a bandwidth is multiplied by."""

    value: Callable[[Published, Place], float]


@dataclass(frozen=True)
class Convention:
    """A choice of every kind, and the value they give together. None where a number they need was not printed."""

    choices: tuple[Choice, ...]
    formula: str
    value: Value

    @property
    def name(self) -> str:
        return " | ".join(choice.name for choice in self.choices)

    @property
    def sentence(self) -> str:
        return ", ".join(choice.sentence for choice in self.choices)

    @property
    def differences(self) -> list[str]:
        """What differs from the definitions of docs/method.md, in words."""
        return [choice.sentence for choice in self.choices if not choice.is_method]


def _printed(table: Mapping[Place, Decimal], place: Place) -> Interval | None:
    return Interval.of(table[place]) if place in table else None


def _column(quantity: str) -> Value:
    return lambda published, place: _printed(published.quantities.get(quantity, {}), place)


def _table_one(published: Published, place: Place) -> Interval | None:
    return _printed(published.epoch_s, Place(place.batch_per_gpu, 1))


def _sweep(published: Published, place: Place) -> Interval | None:
    time = published.batch_sweep_s.get(place.batch_per_gpu)
    return None if time is None else Interval.of(time)


@cache
def _constant(number: float) -> Callable[[Published, Place], float]:
    return lambda published, place: number


def rebuilt_total(published: Published, place: Place) -> Interval | None:
    """T(1,b) over the printed speedup, only where T(N,b) itself was not printed. Seconds."""
    one_gpu, ratio = _table_one(published, place), _column("speedup")(published, place)
    return None if place in published.epoch_s or not one_gpu or not ratio else one_gpu / ratio


TABLE_ONE = Time("table", "T(1,b)", "T(1,b) of the same table", True, value=_table_one)
SWEEP_ONE = Time("sweep", "Tsweep(b)", "the one-GPU batch sweep", value=_sweep)
ONE_GPU_TIMES = (TABLE_ONE, SWEEP_ONE)

TABLE_TOTAL = Time(
    "total", "T(N,b)", "the total T(N,b)", True, value=lambda published, place: _printed(published.epoch_s, place)
)
COLUMN_TOTAL = Time("compute column", "C(N,b)", "the printed compute column as the total", value=_column("compute_s"))
REBUILT_TOTAL = Time("rebuilt", "T(1,b)/S(N,b)", "a total rebuilt from the printed speedup", value=rebuilt_total)
TOTALS = (TABLE_TOTAL, COLUMN_TOTAL, REBUILT_TOTAL)

COMPUTE_COLUMN = Time("compute as printed", "C(N,b)", "the compute time as printed", value=_column("compute_s"))
COMMUNICATION_COLUMN = Time("printed", "M(N,b)", "the communication time as printed", value=_column("communication_s"))

TIMES_N = Ratio(
    "times N", "N * {one_gpu} / {total}", "N times the ratio of epoch times counts N twice",
    of=lambda one_gpu, total, gpus: gpus * speedup(one_gpu, total),
)  # fmt: skip
RATIOS = (
    Ratio(
        "ratio", "{one_gpu} / {total}", "the ratio of epoch times", True,
        of=lambda one_gpu, total, gpus: speedup(one_gpu, total),
    ),
    TIMES_N,
    Ratio(
        "efficiency", "{one_gpu} / (N * {total})", "the ratio of epoch times over N, an efficiency",
        of=lambda one_gpu, total, gpus: efficiency(speedup(one_gpu, total), gpus),
    ),
    Ratio(
        "inverse", "{total} / {one_gpu}", "the ratio upside down",
        of=lambda one_gpu, total, gpus: speedup(total, one_gpu),
    ),
)  # fmt: skip

DIVIDED = Share("divided", "{time}/N", "divided by N", True, of=compute_s)
SHARES = (DIVIDED, Share("whole", "{time}", "not divided by N", of=lambda time, gpus: time))

PARAMETERS = {
    11_173_962: "ResNet-18 for 32x32 images",
    11_181_642: "torchvision's ResNet-18 with 10 classes",
    11_689_512: "torchvision's ResNet-18 with 1000 classes",
}
ELEMENTS = Factor("elements", "1", "elements, not bytes", value=_constant(1))
ELEMENT_SIZES = (Factor("bytes", "4 bytes", "bytes", True, value=_constant(4)), ELEMENTS)
STEPS = (
    Factor(
        "all steps", "ceil(D/(N*b))", "all ceil(D/(N*b)) steps", True,
        value=lambda published, place: steps_per_epoch(published.dataset_images, place.gpus, place.batch_per_gpu),
    ),
    Factor(
        "one-GPU steps", "ceil(D/b)", "ceil(D/b) steps",
        value=lambda published, place: steps_per_epoch(published.dataset_images, 1, place.batch_per_gpu),
    ),
    Factor("one step", "1", "one step", value=_constant(1)),
)  # fmt: skip
VOLUMES = (
    Factor(
        "ring", "2(N-1)/N", "what a GPU of a ring sends", True,
        value=lambda published, place: ring_allreduce_bytes(place.gpus, 1),
    ),
    Factor(
        "total", "2(N-1)", "what all GPUs of a ring send together",
        value=lambda published, place: 2 * (place.gpus - 1),
    ),
    Factor("once", "1", "the gradients once", value=_constant(1)),
)  # fmt: skip
UNITS = {"GB/s": 1e9, "MB/s": 1e6, "GiB/s": 2.0**30, "MiB/s": 2.0**20}
_POWERS = {"GB/s": "10^9", "MB/s": "10^6", "GiB/s": "2^30", "MiB/s": "2^20"}
RATES = tuple(
    Factor(unit, _POWERS[unit], f"a unit of {_POWERS[unit]}", unit == "GB/s", value=_constant(1 / size))
    for unit, size in UNITS.items()
)


def conventions(quantity: str, published: Published) -> list[Convention]:
    """All conventions for a quantity. Only the numbers of parameters depend on the study: it may quote its own."""
    if quantity == "bandwidth":
        return _bandwidths(published)
    return {"compute_s": _computes, "communication_s": _communications}.get(quantity, _speedups)()


def _speedups() -> list[Convention]:
    return [_speedup(ratio, one_gpu) for one_gpu, ratio in product(ONE_GPU_TIMES, RATIOS)]


def _speedup(ratio: Ratio, one_gpu: Time) -> Convention:
    def value(published: Published, place: Place) -> Interval | None:
        time, total = one_gpu.value(published, place), TABLE_TOTAL.value(published, place)
        return ratio.of(time, total, place.gpus) if time and total else None

    formula = ratio.formula.format(one_gpu=one_gpu.formula, total=TABLE_TOTAL.formula)
    return Convention((ratio, one_gpu), formula, value)


def _computes() -> list[Convention]:
    return [_compute(time, share) for time, share in product((*ONE_GPU_TIMES, TABLE_TOTAL), SHARES)]


def _compute(time: Time, share: Share) -> Convention:
    def value(published: Published, place: Place) -> Interval | None:
        seconds = time.value(published, place)
        return share.of(seconds, place.gpus) if seconds else None

    formula = share.formula.format(time=time.formula)
    return Convention((time, share), formula, value)


def _communications() -> list[Convention]:
    inferred = [_compute(one_gpu, share) for one_gpu, share in product(ONE_GPU_TIMES, SHARES)]
    printed = _as_it_is(COMPUTE_COLUMN)
    return [
        _communication(total, compute)
        for total, compute in product(TOTALS, (*inferred, printed))
        if total.formula != compute.formula
    ]


def _communication(total: Time, compute: Convention) -> Convention:
    def value(published: Published, place: Place) -> Interval | None:
        whole, part = total.value(published, place), compute.value(published, place)
        return whole - part if whole and part else None

    return Convention((total, *compute.choices), f"{total.formula} - {compute.formula}", value)


def _as_it_is(time: Time) -> Convention:
    return Convention((time,), time.formula, time.value)


def _bandwidths(published: Published) -> list[Convention]:
    whole = [_as_it_is(time) for time in (COMMUNICATION_COLUMN, TABLE_TOTAL, COLUMN_TOTAL)]
    times = [_remembered(time) for time in (*_communications(), *whole)]
    factors = product(VOLUMES, _parameters(published), ELEMENT_SIZES, STEPS, RATES)
    return [_bandwidth(chosen, amount, time) for chosen in factors for amount in [_amount(chosen)] for time in times]


def _bandwidth(
    factors: tuple[Factor, ...], amount_of: Callable[[Published, Place], float], time: Convention
) -> Convention:
    def value(published: Published, place: Place) -> Interval | None:
        seconds = time.value(published, place)
        return None if seconds is None else amount_of(published, place) / seconds

    *amounts, rate = (factor.formula for factor in factors)
    amount = " * ".join(formula for formula in amounts if formula != "1")
    return Convention((*factors, *time.choices), f"{amount} / ({time.formula}) / {rate}", value)


def _amount(factors: tuple[Factor, ...]) -> Callable[[Published, Place], float]:
    """Their product. Every time divides the same ones."""
    return _once_per_cell(
        lambda published, place: math.prod((factor.value(published, place) for factor in factors), start=1.0)
    )


def _remembered(time: Convention) -> Convention:
    """The same times. Hundreds of bandwidths use each."""
    return Convention(time.choices, time.formula, _once_per_cell(time.value))


def _once_per_cell(value: Callable[[Published, Place], T]) -> Callable[[Published, Place], T]:
    """`value`, computed once per cell of the one study whose conventions these are."""
    known: dict[Place, T] = {}

    def remembered(published: Published, place: Place) -> T:
        if place not in known:
            known[place] = value(published, place)
        return known[place]

    return remembered


def _parameters(published: Published) -> list[Factor]:
    """Every number of parameters once, with the names of all networks that have it: equal ones are one convention."""
    names: dict[int, list[str]] = {}
    for number, name in (
        (published.parameters_trained, "trained"),
        (published.parameters_quoted, "as quoted"),
        *PARAMETERS.items(),
    ):
        if number:
            names.setdefault(number, []).append(name)
    return [
        Factor(
            f"{number} parameters", f"{number}", f"{number:,} parameters, {', '.join(names[number])}",
            number == published.parameters_trained, value=_constant(number),
        )
        for number in names
    ]  # fmt: skip
