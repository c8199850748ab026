"""The figures that the definitions of docs/method.md give for published times, with their rounding as an interval."""

import math
from collections.abc import Callable, Mapping

from dpscale.audit.conventions import Clock, clocks
from dpscale.audit.reading.published import Published, Spot
from dpscale.audit.search import ColumnSearch, several
from dpscale.audit.verdicts import OF_OTHER_RUNS, Cell, Reading
from dpscale.formulas import scaling
from dpscale.formulas.ring import ring_allreduce_bytes
from dpscale.formulas.rounded import Rounded


def clock_of(published: Published, outcome: ColumnSearch | None) -> Clock:
    """Return the set of epoch times that a quantity follows, as its convention says; that of the table otherwise."""
    of_table, *further = clocks(published)
    return next((clock for clock in further if outcome and clock.total.choices[0] in outcome.choices), of_table)


def corrected(reading: Reading) -> dict[Cell, Rounded | str]:
    """Return every figure of every cell with several GPUs; or why it cannot be recomputed.

    Speedups follow from other times than communication where authors have several clocks.
    """
    published, figures = reading.published, dict[Cell, Rounded | str]()
    for quantity in _FIGURES:
        of_speedup = quantity in ("speedup", "efficiency", "images_per_s")
        times = clock_of(published, reading.outcomes.get("speedup" if of_speedup else "communication_s"))
        for place in several(published.places):
            figures[quantity, place] = _figure_of_its_runs(quantity, published, times, place)
    return figures


def _figure_of_its_runs(quantity: str, published: Published, times: Clock, place: Spot) -> Rounded | str:
    """A figure under the definitions; or that its table has no times of the runs that it is formed in."""
    if published.is_of_other_runs(place) and quantity != "images_per_s":
        return OF_OTHER_RUNS
    return figure(quantity, published, times, place)


def figure(quantity: str, published: Published, times: Clock, place: Spot) -> Rounded | str:
    """Return a figure under the definitions; or what is missing from what was printed."""
    needs = {"images_per_s": [times.total], "compute_s": [times.one_gpu]}.get(quantity, [times.one_gpu, times.total])
    if published.global_batch(place) > published.dataset_images:
        return f"capped: N*b > {published.dataset_images} images, no full step"
    seconds = {time: time.at(published, place) for time in needs}
    missing = [time.formula for time, printed in seconds.items() if printed is None]
    return f"{missing[0]} was not printed" if missing else _FIGURES[quantity](published, place, *seconds.values())


def _bandwidth_gb_s(published: Published, place: Spot, one_gpu_s: Rounded, total_s: Rounded) -> Rounded | str:
    """Return the bytes of all steps of an epoch over the communication time, in GB/s; or why they have no quotient."""
    if published.parameters_trained is None:
        return "the number of parameters trained is not given"
    communication_s = scaling.communication_s(one_gpu_s, total_s, place.gpus)
    if communication_s.low <= 0:
        return (
            f"not resolvable: a communication time of {communication_s.low:.3g} to {communication_s.high:.3g} s is not "
            "above zero for certain"
        )
    volume = ring_allreduce_bytes(place.gpus, 4 * published.parameters_trained)
    return scaling.bandwidth_gb_s(volume, math.ceil(published.steps(place)), communication_s)


# In the order in which a reader wants them.
_FIGURES: Mapping[str, Callable[..., Rounded | str]] = {
    "speedup": lambda study, at, one_gpu, total: scaling.speedup(one_gpu, total),
    "efficiency": lambda study, at, one_gpu, total: scaling.efficiency(scaling.speedup(one_gpu, total), at.gpus),
    "images_per_s": lambda study, at, total: study.dataset_images / total,
    "compute_s": lambda study, at, one_gpu: scaling.compute_s(one_gpu, at.gpus),
    "communication_s": lambda study, at, one_gpu, total: scaling.communication_s(one_gpu, total, at.gpus),
    "bandwidth": _bandwidth_gb_s,
}
