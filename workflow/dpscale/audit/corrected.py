"""The figures that the definitions of docs/method.md give for published times, with their rounding as an interval."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dpscale.audit.conventions import (
    COLUMN_TOTAL,
    DIVIDED,
    SWEEP_ONE,
    TABLE_ONE,
    TABLE_TOTAL,
    Choice,
    Clock,
    clocks,
)
from dpscale.audit.faults import DoubtfulTime
from dpscale.audit.published import AnyPlace, Place, Published, StrongPlace
from dpscale.audit.search import Found
from dpscale.audit.words import listed
from dpscale.formulas import scaling
from dpscale.formulas.ring import ring_allreduce_bytes
from dpscale.formulas.rounded import Rounded

# Quantity and unit, in the order in which a reader wants them.
UNITS = {
    "speedup": "",
    "efficiency": "",
    "images_per_s": "images/s",
    "compute_s": "s",
    "communication_s": "s",
    "bandwidth": "GB/s",
    "speedup_strong": "",
}


class NotRecomputableError(Exception):
    """A figure for which something is missing from what was printed. The message says what."""


@dataclass(frozen=True)
class Corrected:
    """A figure in a cell. `value` is None where it cannot be recomputed; the reason then says why. `caution` says why a
    value may be wrong: it follows from a time that is doubtful."""

    quantity: str
    place: AnyPlace
    value: Rounded | None
    reason: str
    caution: str = ""


@dataclass(frozen=True)
class Basis:
    """The totals and one-GPU times, in seconds, that communication is inferred from."""

    total: Choice
    one_gpu: Choice

    @property
    def formula(self) -> str:
        return f"{self.total.formula} - {self.one_gpu.formula}/N"


TABLE = Basis(TABLE_TOTAL, TABLE_ONE)


def clock_of(published: Published, outcome: Found | None) -> Clock:
    """The set of epoch times that a quantity follows, as its convention says; that of the table otherwise."""
    of_table, *others = clocks(published)
    return next((clock for clock in others if outcome and clock.total in outcome.choices), of_table)


def basis(published: Published, found: Mapping[str, Found]) -> Basis:
    """The times of the table; or, where the authors subtracted from another set of totals, that set.

    Their printed compute column can be such a set: minus a one-GPU time over N it is the formula of docs/method.md, on
    times that belong together. The totals of the table are then of another measurement.
    """
    chosen = found["communication_s"].choices if "communication_s" in found else ()
    if COLUMN_TOTAL in chosen and DIVIDED in chosen:
        return Basis(COLUMN_TOTAL, SWEEP_ONE if SWEEP_ONE in chosen else TABLE_ONE)
    clock = clock_of(published, found.get("communication_s"))
    return Basis(clock.total, clock.one_gpu)


def corrected(
    published: Published, times: Basis, clock: Basis = TABLE, doubtful: Sequence[DoubtfulTime] = ()
) -> Iterator[Corrected]:
    """Every figure of every cell with several GPUs, and strong speedup where its times were printed.

    Speedups are those of `clock`. Figures that follow from `doubtful` times have a caution.
    """
    formulas: dict[str, Callable[[Place], Rounded]] = {
        "speedup": lambda place: speedup(published, place, clock),
        "efficiency": lambda place: scaling.efficiency(speedup(published, place, clock), place.gpus),
        "images_per_s": lambda place: published.dataset_images / _seconds(clock.total, published, place),
        "compute_s": lambda place: scaling.compute_s(_seconds(times.one_gpu, published, place), place.gpus),
        "communication_s": lambda place: communication_s(published, times, place),
        "bandwidth": lambda place: bandwidth_gb_s(published, times, place),
    }
    for quantity, formula in formulas.items():
        for place in published.places:
            if place.gpus > 1:
                yield _attempt(quantity, place, partial(formula, place), _caution(quantity, place, doubtful))
    for strong in published.strong_scaling_epoch_s:
        yield _attempt("speedup_strong", strong, partial(_strong_speedup, published, strong))


def _caution(quantity: str, place: Place, doubtful: Sequence[DoubtfulTime]) -> str:
    """The doubtful times that a figure follows from, in words."""
    followed = [
        time
        for time in doubtful
        if (time.place == place and quantity != "compute_s")
        or (time.place == Place(place.batch_per_gpu, 1) and quantity != "images_per_s")
    ]
    times = listed([f"T({time.place.gpus},b) of {time.printed} s" for time in followed]) if followed else ""
    return f"follows from {times}, which other figures contradict" if times else ""


def speedup(published: Published, place: Place, clock: Basis = TABLE) -> Rounded:
    """T(1,b) / T(N,b). Raises NotRecomputableError."""
    return scaling.speedup(_seconds(clock.one_gpu, published, place), _seconds(clock.total, published, place))


def communication_s(published: Published, times: Basis, place: Place) -> Rounded:
    """The total minus the one-GPU time over N. Raises NotRecomputableError."""
    one_gpu_s, total_s = _seconds(times.one_gpu, published, place), _seconds(times.total, published, place)
    return scaling.communication_s(one_gpu_s, total_s, place.gpus)


def bandwidth_gb_s(published: Published, times: Basis, place: Place) -> Rounded:
    """Bytes of all steps of an epoch over the communication time, in GB/s. Raises NotRecomputableError."""
    if published.parameters_trained is None:
        raise NotRecomputableError("the number of parameters trained is not given")
    seconds = communication_s(published, times, place)
    if seconds.low <= 0:
        raise NotRecomputableError(
            f"not resolvable: a communication time of {seconds.low:.3g} to {seconds.high:.3g} s is not above zero for "
            "certain"
        )
    volume = ring_allreduce_bytes(place.gpus, 4 * published.parameters_trained)
    steps = math.ceil(published.steps(place))
    return scaling.bandwidth_gb_s(volume, steps, seconds)


def _strong_speedup(published: Published, place: StrongPlace) -> Rounded:
    """T(1,B) / T(N,B/N)."""
    one_gpu_s = _seconds(TABLE_ONE, published, Place(place.global_batch, 1))
    return scaling.speedup(one_gpu_s, Rounded.of(published.strong_scaling_epoch_s[place]))


def _attempt(quantity: str, place: AnyPlace, formula: Callable[[], Rounded], caution: str = "") -> Corrected:
    try:
        return Corrected(quantity, place, formula(), "", caution)
    except NotRecomputableError as missing:
        return Corrected(quantity, place, None, str(missing))


def _seconds(time: Choice, published: Published, place: Place) -> Rounded:
    if published.global_batch(place) > published.dataset_images:
        raise NotRecomputableError(f"capped: N*b > {published.dataset_images} images, no full step")
    seconds = time.at(published, place)
    if seconds is None:
        raise NotRecomputableError(f"{time.formula} was not printed")
    return seconds
