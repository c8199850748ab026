"""The figures that the definitions of docs/method.md give for published times, with their rounding as an interval."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpscale.audit.conventions import COLUMN_TOTAL, DIVIDED, SWEEP_ONE, TABLE_ONE, TABLE_TOTAL, Clock, Form, clocks
from dpscale.audit.reading.in_words import listed
from dpscale.audit.reading.published import AnyPlace, Published, Spot, StrongPlace
from dpscale.audit.search import Found
from dpscale.audit.verdicts import Misprint, Reading
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
    reason: str = ""
    caution: str = ""


@dataclass(frozen=True)
class Grounds:
    """The totals and one-GPU times, in seconds, that figures follow from."""

    total: Form
    one_gpu: Form

    @property
    def formula(self) -> str:
        """That of communication."""
        return f"{self.total.formula} - {self.one_gpu.formula}/N"


TABLE = Grounds(TABLE_TOTAL, TABLE_ONE)


def clock_of(published: Published, outcome: Found | None) -> Clock:
    """The set of epoch times that a quantity follows, as its convention says; that of the table otherwise."""
    of_table, *others = clocks(published)
    return next((clock for clock in others if outcome and clock.total.choices[0] in outcome.choices), of_table)


def basis(published: Published, found: Mapping[str, Found], quantity: str = "communication_s") -> Grounds:
    """The times of the clock that a quantity follows; or, where the authors subtracted from another set of totals, that
    set.

    Their printed compute column can be such a set: minus a one-GPU time over N it is the formula of docs/method.md, on
    times that belong together. The totals of the table are then of another measurement.
    """
    chosen = found[quantity].choices if quantity in found else ()
    if {COLUMN_TOTAL.choices[0], DIVIDED} <= {*chosen}:
        return Grounds(COLUMN_TOTAL, SWEEP_ONE if SWEEP_ONE.choices[0] in chosen else TABLE_ONE)
    clock = clock_of(published, found.get(quantity))
    return Grounds(clock.total, clock.one_gpu)


def corrected(reading: Reading) -> Iterator[Corrected]:
    """Every figure of every cell with several GPUs, and strong speedup where its times were printed.

    Speedups follow from other times than communication where authors have several clocks. Figures that follow from
    misprinted times have a caution.
    """
    published, found = reading.published, reading.found
    places: list[AnyPlace] = [place for place in published.places if place.gpus > 1]
    for quantity in UNITS:
        is_strong = quantity == "speedup_strong"
        of_speedup = quantity in ("speedup", "efficiency", "images_per_s")
        times = basis(published, found, "speedup" if of_speedup else "communication_s")
        for place in published.strong_scaling_epoch_s if is_strong else places:
            caution = "" if is_strong else _caution(quantity, place, reading.misprints)
            try:
                yield Corrected(quantity, place, figure(quantity, published, times, place), caution=caution)
            except NotRecomputableError as missing:
                yield Corrected(quantity, place, None, str(missing), caution)


def figure(quantity: str, published: Published, times: Grounds, place: AnyPlace) -> Rounded:
    """A figure under the definitions. Raises NotRecomputableError."""
    if isinstance(place, StrongPlace):  # T(1,B) / T(N,B/N)
        one_gpu_s = _seconds(TABLE_ONE, published, Spot(place.global_batch, 1))
        return scaling.speedup(one_gpu_s, published.strong_scaling_epoch_s[place].interval)
    if quantity == "images_per_s":
        return published.dataset_images / _seconds(times.total, published, place)
    if quantity == "bandwidth" and published.parameters_trained is None:
        raise NotRecomputableError("the number of parameters trained is not given")
    one_gpu_s = _seconds(times.one_gpu, published, place)
    if quantity == "compute_s":
        return scaling.compute_s(one_gpu_s, place.gpus)
    total_s = _seconds(times.total, published, place)
    if quantity == "bandwidth":
        return _bandwidth_gb_s(published, scaling.communication_s(one_gpu_s, total_s, place.gpus), place)
    if quantity == "communication_s":
        return scaling.communication_s(one_gpu_s, total_s, place.gpus)
    speedup = scaling.speedup(one_gpu_s, total_s)
    return scaling.efficiency(speedup, place.gpus) if quantity == "efficiency" else speedup


def _bandwidth_gb_s(published: Published, communication_s: Rounded, place: Spot) -> Rounded:
    """Bytes of all steps of an epoch over the communication time."""
    assert published.parameters_trained is not None
    if communication_s.low <= 0:
        raise NotRecomputableError(
            f"not resolvable: a communication time of {communication_s.low:.3g} to {communication_s.high:.3g} s is not "
            "above zero for certain"
        )
    volume = ring_allreduce_bytes(place.gpus, 4 * published.parameters_trained)
    return scaling.bandwidth_gb_s(volume, math.ceil(published.steps(place)), communication_s)


def _caution(quantity: str, place: AnyPlace, misprints: Sequence[Misprint]) -> str:
    """The misprinted times that a figure follows from, in words."""
    followed = [
        f"T({time.place.gpus},b) of {time.printed} s"
        for time in misprints
        if (time.place == place and quantity != "compute_s")
        or (time.place == place._replace(gpus=1) and quantity != "images_per_s")
    ]
    return f"follows from {listed(followed)}, which other figures contradict" if followed else ""


def _seconds(time: Form, published: Published, place: Spot) -> Rounded:
    if published.global_batch(place) > published.dataset_images:
        raise NotRecomputableError(f"capped: N*b > {published.dataset_images} images, no full step")
    seconds = time.at(published, place)
    if seconds is None:
        raise NotRecomputableError(f"{time.formula} was not printed")
    return seconds
