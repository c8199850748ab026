"""The figures that the definitions of docs/method.md give for published times, with their rounding as an interval."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpscale.audit.conventions import COLUMN_TOTAL, DIVIDED, SWEEP_ONE, TABLE_ONE, TABLE_TOTAL, Choice, Clock, clocks
from dpscale.audit.faults import DoubtfulTime
from dpscale.audit.reading.published import AnyPlace, Published, Spot, StrongPlace
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
    reason: str = ""
    caution: str = ""


@dataclass(frozen=True)
class Grounds:
    """The totals and one-GPU times, in seconds, that figures follow from."""

    total: Choice
    one_gpu: Choice

    @property
    def formula(self) -> str:
        """That of communication."""
        return f"{self.total.formula} - {self.one_gpu.formula}/N"


TABLE = Grounds(TABLE_TOTAL, TABLE_ONE)


def clock_of(published: Published, outcome: Found | None) -> Clock:
    """The set of epoch times that a quantity follows, as its convention says; that of the table otherwise."""
    of_table, *others = clocks(published)
    return next((clock for clock in others if outcome and clock.total in outcome.choices), of_table)


def basis(published: Published, found: Mapping[str, Found], quantity: str = "communication_s") -> Grounds:
    """The times of the clock that a quantity follows; or, where the authors subtracted from another set of totals, that
    set.

    Their printed compute column can be such a set: minus a one-GPU time over N it is the formula of docs/method.md, on
    times that belong together. The totals of the table are then of another measurement.
    """
    chosen = found[quantity].choices if quantity in found else ()
    if COLUMN_TOTAL in chosen and DIVIDED in chosen:
        return Grounds(COLUMN_TOTAL, SWEEP_ONE if SWEEP_ONE in chosen else TABLE_ONE)
    clock = clock_of(published, found.get(quantity))
    return Grounds(clock.total, clock.one_gpu)


def corrected(
    published: Published,
    times: Grounds,
    of_speedup: Grounds = TABLE,
    doubtful: Sequence[DoubtfulTime] = (),
) -> Iterator[Corrected]:
    """Every figure of every cell with several GPUs, and strong speedup where its times were printed.

    Speedups follow from other times than communication where authors have several clocks. Figures that follow from
    `doubtful` times have a caution.
    """
    places: list[AnyPlace] = [place for place in published.places if place.gpus > 1]
    for quantity in UNITS:
        is_strong = quantity == "speedup_strong"
        for place in published.strong_scaling_epoch_s if is_strong else places:
            caution = "" if is_strong else _caution(quantity, place, doubtful)
            try:
                value = _corrected(quantity, published, times, of_speedup, place)
                yield Corrected(quantity, place, value, caution=caution)
            except NotRecomputableError as missing:
                yield Corrected(quantity, place, None, str(missing), caution)


def _corrected(quantity: str, published: Published, times: Grounds, of_speedup: Grounds, place: AnyPlace) -> Rounded:
    if isinstance(place, StrongPlace):  # T(1,B) / T(N,B/N)
        one_gpu_s = _seconds(TABLE_ONE, published, Spot(place.global_batch, 1))
        return scaling.speedup(one_gpu_s, Rounded.of(published.strong_scaling_epoch_s[place]))
    if quantity == "images_per_s":
        return published.dataset_images / _seconds(of_speedup.total, published, place)
    if quantity == "compute_s":
        return scaling.compute_s(_seconds(times.one_gpu, published, place), place.gpus)
    if quantity == "communication_s":
        return communication_s(published, times, place)
    if quantity == "bandwidth":
        return bandwidth_gb_s(published, times, place)
    ratio = speedup(published, place, of_speedup)
    return scaling.efficiency(ratio, place.gpus) if quantity == "efficiency" else ratio


def _caution(quantity: str, place: AnyPlace, doubtful: Sequence[DoubtfulTime]) -> str:
    """The doubtful times that a figure follows from, in words."""
    followed = [
        f"T({time.place.gpus},b) of {time.printed} s"
        for time in doubtful
        if (time.place == place and quantity != "compute_s")
        or (time.place == place._replace(gpus=1) and quantity != "images_per_s")
    ]
    return f"follows from {listed(followed)}, which other figures contradict" if followed else ""


def speedup(published: Published, place: Spot, times: Grounds = TABLE) -> Rounded:
    """T(1,b) / T(N,b). Raises NotRecomputableError."""
    return scaling.speedup(_seconds(times.one_gpu, published, place), _seconds(times.total, published, place))


def communication_s(published: Published, times: Grounds, place: Spot) -> Rounded:
    """The total minus the one-GPU time over N. Raises NotRecomputableError."""
    one_gpu_s, total_s = _seconds(times.one_gpu, published, place), _seconds(times.total, published, place)
    return scaling.communication_s(one_gpu_s, total_s, place.gpus)


def bandwidth_gb_s(published: Published, times: Grounds, place: Spot) -> Rounded:
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
    return scaling.bandwidth_gb_s(volume, math.ceil(published.steps(place)), seconds)


def _seconds(time: Choice, published: Published, place: Spot) -> Rounded:
    if published.global_batch(place) > published.dataset_images:
        raise NotRecomputableError(f"capped: N*b > {published.dataset_images} images, no full step")
    seconds = time.at(published, place)
    if seconds is None:
        raise NotRecomputableError(f"{time.formula} was not printed")
    return seconds
