"""The verdict of every printed figure: explained, of another run, not explained, or not checkable; and what the
definitions of docs/method.md give in its place."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dpscale.audit.conventions import Choice, Clock, Convention, clocks
from dpscale.audit.published import QUANTITIES, Published, Spot, changed
from dpscale.audit.search import OF_ANOTHER_RUN, ColumnSearch, common_factor, search, several
from dpscale.formulas import scaling
from dpscale.formulas.rounded import Number, Rounded
from dpscale.strategies.strategy import ring_allreduce_bytes

EXPLAINED, ANOTHER_RUN, UNEXPLAINED, UNKNOWN = "explained", "within another run", "not explained", "not checkable"

OF_OTHER_RUNS = "the table says that it is formed in other runs than its times are of"
# A figure this near to what the times give may be of another run of the same.
_NEAR = 0.02

Cell = tuple[str, Spot]


@dataclass(frozen=True)
class FigureVerdict:
    """The verdict of a figure: one of these states, what its column's convention gives, and a clause on why."""

    state: str
    given: Rounded | None = None
    why: str = ""


@dataclass(frozen=True)
class Reading:
    """A study as its digits are best read, what its columns are, and the verdict of every figure."""

    published: Published
    outcomes: Mapping[str, ColumnSearch]
    verdicts: Mapping[Cell, FigureVerdict]

    @property
    def explained(self) -> int:
        return sum(verdict.state == EXPLAINED for verdict in self.verdicts.values())

    def choices(self, quantity: str) -> tuple[Choice, ...]:
        """Return the choices of the convention that a column follows; none where there is no such column."""
        return self.outcomes[quantity].choices if quantity in self.outcomes else ()

    def of(self, quantity: str) -> dict[Spot, FigureVerdict]:
        """Return the verdicts of a column."""
        return {place: verdict for (name, place), verdict in self.verdicts.items() if name == quantity}


def read(published: Published) -> Reading:
    """Return a study, its times and each of its columns rounded or cut, whichever explains more."""
    reading = _read(published)
    if all(verdict.state in (EXPLAINED, UNKNOWN) for verdict in reading.verdicts.values()):
        return reading
    cut = _read(published.with_times(Number.cut))
    # A single figure more is chance.
    return cut if cut.explained > reading.explained + 1 else reading


def _read(published: Published) -> Reading:
    outcomes = {name: search(published, name) for name in QUANTITIES if name in published.quantities}
    verdicts: dict[Cell, FigureVerdict] = {}
    for name, outcome in outcomes.items():
        if outcome.match and outcome.match.is_cut:
            cut = changed(published.quantities[name], Number.cut)
            published = replace(published, quantities={**published.quantities, name: cut})
        for place in published.quantities[name]:
            verdicts[name, place] = _verdict(published, outcome, place, verdicts)
    for name, table in published.of_other_runs.items():
        verdicts |= dict.fromkeys([(name, place) for place in table], FigureVerdict(UNKNOWN, None, OF_OTHER_RUNS))
    return Reading(published, outcomes, verdicts)


def _verdict(
    published: Published, outcome: ColumnSearch, place: Spot, verdicts: Mapping[Cell, FigureVerdict]
) -> FigureVerdict:
    if outcome.quantity == "utilisation_percent" and not published.bus_gb_s:
        return _of_a_link(outcome, place)
    given, printed = outcome.reference.values.get(place), published.quantities[outcome.quantity][place].interval
    match = outcome.best
    if match and place in match.agreeing:
        return _through(match.convention, place, verdicts) or FigureVerdict(EXPLAINED, given, match.convention.formula)
    if place in outcome.method.agreeing:
        return FigureVerdict(EXPLAINED, outcome.method.values[place], "as defined here")
    if outcome.unsure and place in outcome.unsure.agreeing:
        why = f"{outcome.unsure.convention.formula} would give it, and these are too few figures to tell"
        return FigureVerdict(UNKNOWN, given, why)
    if given is None:
        missing = [f"T({at.gpus},b)" for at in sorted({place.alone, place}) if at not in published.epoch_s]
        if missing and place in outcome.checkable:
            return FigureVerdict(UNEXPLAINED, None, "no other printed figure gives it either")
        zero = "its communication time may be zero within rounding"
        return FigureVerdict(UNKNOWN, None, f"{' and '.join(missing)} not printed" if missing else zero)
    if not outcome.near and published.quantities[outcome.quantity][place].if_cut.meets(given):
        return FigureVerdict(ANOTHER_RUN, given, "as where its digits are cut, not rounded")
    if _is_near(published, outcome, place, printed):
        return FigureVerdict(ANOTHER_RUN, given, "as where times are of another run")
    return FigureVerdict(UNEXPLAINED, given)


def _is_near(published: Published, outcome: ColumnSearch, place: Spot, printed: Rounded) -> bool:
    """Whether a figure is near enough to be of another run.

    It lies within two percent of what its column's convention gives; or, where it is not the only one apart, of times
    that near: a single cell is misprinted rather than of another run.
    """
    given = outcome.reference.values[place]
    more = _NEAR * abs(given.value)
    if Rounded(given.value, given.low - more, given.high + more).meets(printed):
        return True
    if not outcome.match or len(outcome.match.values) - len(outcome.match.agreeing) == 1:
        return False
    near = outcome.match.convention.at(published.of_another_run(OF_ANOTHER_RUN), place)
    return bool(near and near.meets(printed))


def _through(convention: Convention, place: Spot, verdicts: Mapping[Cell, FigureVerdict]) -> FigureVerdict | None:
    """Return the verdict of a figure that follows from printed ones which are not explained; None where they are."""
    for name in convention.form.through:
        verdict = verdicts.get((name, place))
        if verdict and verdict.state != EXPLAINED:
            state = ANOTHER_RUN if verdict.state == ANOTHER_RUN else UNKNOWN
            return FigureVerdict(
                state, None, f"it follows from the {QUANTITIES[name]} printed there, which is {verdict.state}"
            )
    return None


def _of_a_link(outcome: ColumnSearch, place: Spot) -> FigureVerdict:
    """Return the verdict of a utilisation: percent over bandwidth is 100 over the bandwidth of a link, in all cells or
    in those of as many GPUs."""
    values = outcome.method.values
    alike = [(outcome.method.printed[at], values[at]) for at in values if at.gpus == place.gpus]
    factor = outcome.factor or common_factor(alike, fewest=2)
    if place not in values or (not factor and len(alike) < 2):
        return FigureVerdict(UNKNOWN, None, "the bandwidth that it is a share of is not given")
    if not factor:
        return FigureVerdict(UNEXPLAINED, None, "no bandwidth of a link gives all of the column")
    return FigureVerdict(EXPLAINED, values[place] * factor.value, "the bandwidth over that of a link")


def clock_of(published: Published, outcome: ColumnSearch | None) -> Clock:
    """Return the set of epoch times that a quantity follows, as its convention says; that of the table otherwise."""
    of_table, *further = clocks(published)
    return next((clock for clock in further if outcome and clock.total.choices[0] in outcome.choices), of_table)


def corrected(reading: Reading) -> dict[Cell, Rounded | str]:
    """Return every figure of every cell with several GPUs; or why it cannot be recomputed.

    Speedups follow from other times than communication where authors have several clocks.
    """
    published, figures = reading.published, dict[Cell, Rounded | str]()
    for quantity in _DEFINITIONS:
        of_speedup = quantity in ("speedup", "efficiency", "images_per_s")
        times = clock_of(published, reading.outcomes.get("speedup" if of_speedup else "communication_s"))
        for place in several(published.places):
            is_of_its_runs = quantity == "images_per_s" or not published.is_of_other_runs(place)
            figures[quantity, place] = defined(quantity, published, times, place) if is_of_its_runs else OF_OTHER_RUNS
    return figures


def defined(quantity: str, published: Published, times: Clock, place: Spot) -> Rounded | str:
    """Return a figure under the definitions; or what is missing from what was printed."""
    needs = {"images_per_s": [times.total], "compute_s": [times.one_gpu]}.get(quantity, [times.one_gpu, times.total])
    if published.global_batch(place) > published.dataset_images:
        return f"capped: N*b > {published.dataset_images} images, no full step"
    seconds = {time: time.at(published, place) for time in needs}
    missing = [time.formula for time, printed in seconds.items() if printed is None]
    return f"{missing[0]} was not printed" if missing else _DEFINITIONS[quantity](published, place, *seconds.values())


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
_DEFINITIONS: Mapping[str, Callable[..., Rounded | str]] = {
    "speedup": lambda study, at, one_gpu, total: scaling.speedup(one_gpu, total),
    "efficiency": lambda study, at, one_gpu, total: scaling.efficiency(scaling.speedup(one_gpu, total), at.gpus),
    "images_per_s": lambda study, at, total: study.dataset_images / total,
    "compute_s": lambda study, at, one_gpu: scaling.compute_s(one_gpu, at.gpus),
    "communication_s": lambda study, at, one_gpu, total: scaling.communication_s(one_gpu, total, at.gpus),
    "bandwidth": _bandwidth_gb_s,
}
