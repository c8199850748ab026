"""The verdict of every printed figure: explained, of another run, not explained, or not checkable; and what the
definitions of docs/method.md give in its place.

Nobody is accused on an assumption: a figure is not explained only where printed ones contradict it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dpscale.audit.conventions import (
    Choice,
    ColumnSearch,
    Convention,
    Match,
    about,
    at_least,
    definition,
    inputs_of,
    search,
    telling,
)
from dpscale.audit.published import OF_TWO, QUANTITIES, UNITS, Published, Spot
from dpscale.formulas.rounded import Rounded
from dpscale.tables.row import grouped

EXPLAINED, ANOTHER_RUN, UNEXPLAINED, UNKNOWN = "explained", "within another run", "not explained", "not checkable"

# Only these follow from times by their names. All others may have been measured, with another clock or tool.
RATIOS = ("speedup", "speedup_alternative", "efficiency", OF_TWO)
_PARTS = ("compute_s", "communication_s", "communication_share")

OF_OTHER_RUNS = "the table says that it is formed in other runs than its times are of"
MEASURED = "no definition gives the column, so it may have been measured"

# Of a figure, in tables where some are no more than near.
_CHANCE_OF_MISPRINT = 0.16
# What of the interval in which a number lies that was rounded or cut is that of rounding.
_OF_ROUNDING = 2 / 3

Cell = tuple[str, Spot]


@dataclass(frozen=True)
class FigureVerdict:
    """The verdict of a figure: one of these states, what its column's convention gives, and a clause on why."""

    state: str
    given: Rounded | None = None
    why: str = ""


@dataclass(frozen=True)
class Reading:
    """A study, what its columns are, and the verdict of every figure."""

    published: Published
    outcomes: Mapping[str, ColumnSearch]
    verdicts: Mapping[Cell, FigureVerdict]

    def choices(self, quantity: str) -> tuple[Choice, ...]:
        """Return the choices of the convention that a column follows; none where there is no such column."""
        match = self.outcomes[quantity].match if quantity in self.outcomes else None
        return match.convention.choices if match else ()

    def of(self, quantity: str) -> dict[Spot, FigureVerdict]:
        """Return the verdicts of a column."""
        return {place: verdict for (name, place), verdict in self.verdicts.items() if name == quantity}

    def clock(self, quantity: str) -> str:
        """Return the name of the clock that a column follows; nothing for that of the table."""
        outcome = self.outcomes.get(quantity)
        return outcome.match.convention.clock if outcome and outcome.match else ""


def read(published: Published, beside: Iterable[Published] = ()) -> Reading:
    """Find the convention of every column, and the verdict of every figure. `beside` are further studies of its file,
    which say how exact its author is."""
    of_file = [published, *(study for study in beside if study is not published)]
    searches = [{name: search(study, name) for name in QUANTITIES if name in study.quantities} for study in of_file]
    is_exact = _is_exact(outcome for of_study in searches for outcome in of_study.values())
    outcomes, verdicts = searches[0], dict[Cell, FigureVerdict]()
    for name, outcome in outcomes.items():
        miswritten = _miswritten(outcome, is_exact)
        for place in published.quantities[name]:
            verdicts[name, place] = _verdict(published, outcome, place, verdicts, miswritten)
    for name, table in published.of_other_runs.items():
        verdicts |= dict.fromkeys([(name, place) for place in table], FigureVerdict(UNKNOWN, None, OF_OTHER_RUNS))
    return Reading(published, outcomes, verdicts)


def _verdict(
    study: Published,
    outcome: ColumnSearch,
    place: Spot,
    verdicts: Mapping[Cell, FigureVerdict],
    miswritten: Mapping[Spot, str],
) -> FigureVerdict:
    match, given = outcome.best, outcome.reference.values.get(place)
    if match and place in match.agreeing:
        as_defined = outcome.method.values.get(place)
        return _through(match.convention, place, verdicts, as_defined) or FigureVerdict(
            EXPLAINED, given, match.convention.shown
        )
    if place in outcome.method.agreeing:
        return FigureVerdict(EXPLAINED, outcome.method.values[place], "as defined here")
    if outcome.near and given and given.meets(outcome.method.printed[place]):
        return FigureVerdict(EXPLAINED, given, outcome.near.convention.shown)
    if reason := _missing(study, outcome, place):
        return FigureVerdict(UNKNOWN, None, reason)
    if outcome.unsure and place in outcome.unsure.agreeing:
        why = f"{outcome.unsure.convention.shown} would give it, and these are too few figures to tell"
        return FigureVerdict(UNKNOWN, given, why)
    if given is None:
        name = "R" if any(time.shown.endswith("/s") for time in study.epoch_s.values()) else "T"
        missing = [f"{name}({at.gpus},b)" for at in sorted({place.alone, place}) if at not in study.epoch_s]
        zero = "its communication time may be zero within rounding"
        return FigureVerdict(UNKNOWN, None, f"{' and '.join(missing)} not read" if missing else zero)
    if outcome.may_be_measured:
        return FigureVerdict(UNKNOWN, None, MEASURED)
    if not about(given).meets(outcome.method.printed[place]):
        return FigureVerdict(UNEXPLAINED, given)
    if place in miswritten:
        return FigureVerdict(UNEXPLAINED, given, miswritten[place])
    return FigureVerdict(ANOTHER_RUN, given, "as where times are of another run")


def _missing(study: Published, outcome: ColumnSearch, place: Spot) -> str:
    """Return what was not printed of what a figure follows from, where no convention gives the figure; nothing where
    the printed figures contradict it."""
    quantity = outcome.quantity
    if missing := study.missing(quantity):
        return f"{' and '.join(missing)} not given"
    if quantity in RATIOS and not study.base_s:
        base = "its column is not relative to one GPU at the same batch: on one GPU it is not 1, or it is 1 everywhere"
        return base if outcome.has_another_base(place) else ""
    if quantity == "utilisation_percent" and not study.bus_gb_s:
        return "the bandwidth that it is a share of is not given"
    if outcome.method.printed[place].high < 0:
        return ""
    if quantity in _PARTS and place.gpus and is_superlinear(study, place):
        return f"{place.gpus} GPUs are more than {place.gpus} times as fast as one, so its parts were measured"
    return ""


def is_superlinear(study: Published, place: Spot) -> bool:
    """Whether N GPUs are more than N times as fast as one, for certain."""
    epoch_s, one_gpu_s = study.epoch_s.get(place), study.epoch_s.get(place.alone)
    return bool(epoch_s and one_gpu_s and (one_gpu_s.interval / place.gpus).low > epoch_s.interval.high)


def _compared(outcome: ColumnSearch) -> tuple[Match, list[Spot], list[Spot], list[Spot]]:
    """Return what single figures are compared with; and which figures it gives, does not give, and nearly gives."""
    match = outcome.best or outcome.method
    inexact = [at for at in telling(match.values, match.quantity) if at not in match.agreeing]
    near = [at for at in inexact if about(match.values[at]).meets(match.printed[at])]
    return match, telling(match.agreeing, match.quantity), inexact, near


def _is_exact(outcomes: Iterable[ColumnSearch]) -> bool:
    """Whether what is near is misprinted: if all figures were off by as much as the worst of these, so many would be
    exact more seldom than as many are misprinted."""
    widths, off = list[float](), list[float]()
    for outcome in outcomes:
        match, exact, _, near = _compared(outcome)
        # What follows from printed figures, and not from times, is exact whatever they are.
        if not match.convention.through or not outcome.method.values:
            for at in (*exact, *near):
                width = _OF_ROUNDING * match.printed[at].half + match.values[at].half
                widths.append(width / (abs(match.values[at].value) or 1.0))
            off += [abs(match.printed[at].value / match.values[at].value - 1) for at in near]
    chances = [min(1.0, width / max(off)) for width in widths if off]
    return at_least(len(chances) - len(off), chances) < _CHANCE_OF_MISPRINT ** len(off)


def _miswritten(outcome: ColumnSearch, is_exact: bool) -> dict[Spot, str]:
    """Return which figures were misprinted or copied, where they may be near as if of another run, and why. Where this
    and more figures of a batch are what those of another batch give, they were copied."""
    match, exact, inexact, near = _compared(outcome)
    off = {at: abs(match.printed[at].value - match.values[at].value) - match.values[at].half for at in match.values}
    beyond = [at for at in telling(off, match.quantity) if off[at] > 2 * _OF_ROUNDING * match.printed[at].half]
    if is_exact and len(near) == 1 <= len(exact):
        return dict.fromkeys(beyond, "the others are exact")
    copied = dict[Spot, str]()
    batches = {at.batch_per_gpu for at in match.values}
    for of_batch, places in grouped(inexact, lambda at: at.batch_per_gpu).items():
        for batch in batches - {of_batch} if len(places) > 1 else ():
            given = {at: match.values.get(at._replace(batch_per_gpu=batch)) for at in places}
            if all(value and value.meets(match.printed[at]) for at, value in given.items()):
                copied |= dict.fromkeys({*places} & {*beyond}, f"it repeats what batch {batch:,} gives")
    return copied


def _through(
    convention: Convention, place: Spot, verdicts: Mapping[Cell, FigureVerdict], as_defined: Rounded | None
) -> FigureVerdict | None:
    """Return the verdict of a figure that follows from printed ones which something contradicts; None where nothing
    does. A ratio that follows from a wrong one is wrong `as_defined`."""
    for name in convention.through:
        verdict = verdicts.get((name, place))
        if verdict and verdict.state in (ANOTHER_RUN, UNEXPLAINED):
            is_wrong = verdict.state == UNEXPLAINED and name in RATIOS and as_defined
            state = verdict.state if verdict.state == ANOTHER_RUN or is_wrong else UNKNOWN
            why = f"it follows from the {QUANTITIES[name]} printed there, which is {verdict.state}"
            return FigureVerdict(state, as_defined if is_wrong else None, why)
    return None


# In the order in which a reader wants them.
_DEFINED = ("speedup", "efficiency", "images_per_s", "compute_s", "communication_s", "bandwidth")


def corrected(reading: Reading) -> dict[Cell, Rounded | str]:
    """Return every figure of every cell with several GPUs; or why it cannot be recomputed.

    Speedups follow from other times than communication where authors have several clocks.
    """
    published, figures = reading.published, dict[Cell, Rounded | str]()
    for quantity in filter(published.defines, _DEFINED):
        of_speedup = quantity in ("speedup", "efficiency", "images_per_s")
        clock = reading.clock("speedup" if of_speedup else "communication_s")
        for place in telling(published.places):
            is_of_its_runs = quantity == "images_per_s" or not published.is_of_other_runs(place)
            figures[quantity, place] = defined(quantity, published, place, clock) if is_of_its_runs else OF_OTHER_RUNS
    return figures


def defined(quantity: str, published: Published, place: Spot, clock: str = "") -> Rounded | str:
    """Return a figure under the definitions, a bandwidth in the unit of its label; or what was not
    printed of what it follows from."""
    if published.global_batch(place) > published.dataset_images:
        return f"capped: N*b > {published.dataset_images} images, no full step"
    if not place.gpus:
        return "the number of GPUs was not printed"
    formula, times = replace(definition(quantity), clock=clock), published.other_clocks.get(clock, published.epoch_s)
    for time, at in (("T(1,b)", place.alone), ("T(N,b)", place)):
        if time in formula.formula and at not in times:
            return f"{Convention(time, clock=clock).shown} was not printed"
    if quantity in (*_PARTS, "bandwidth") and is_superlinear(published, place):
        return f"{place.gpus} GPUs are more than {place.gpus} times as fast as one"
    if quantity == "bandwidth" and not place.batch_per_gpu:
        return "no batch was printed"
    parameters = published.parameters_trained
    if quantity == "bandwidth" and parameters is None:
        return "the number of parameters trained is not given"
    value = formula.value(inputs_of(published, place))
    if value is None:
        return "not resolvable: its communication time may be zero within rounding"
    per_unit = 4 * (parameters or 0) / UNITS[published.bandwidth_unit or "GB/s"]
    return value * per_unit if quantity == "bandwidth" else value
