"""What every printed figure turned out to be, and times that are likely misprinted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dpscale.audit.conventions import Convention
from dpscale.audit.reading.in_words import NAMES, place_words
from dpscale.audit.reading.published import QUANTITIES, Published, Spot
from dpscale.audit.search import OF_ANOTHER_RUN, Found, search
from dpscale.formulas.rounded import Number, Rounded

EXPLAINED, ANOTHER_RUN, UNEXPLAINED, UNKNOWN = "explained", "within another run", "not explained", "not checkable"
STATES = (EXPLAINED, ANOTHER_RUN, UNEXPLAINED, UNKNOWN)

# What a printed time is multiplied by to look for the one that was meant, from a hundredth to a hundred times.
_FACTORS = [10 ** (step / 15) for step in range(-30, 31)]
_HALVINGS = 40
# A number that was taken from elsewhere in its column is told by its digits: rough ones suit much.
_ROUGH = 0.01
# A figure this near to what the times give may be of another run of the same.
_NEAR = 0.02

Cell = tuple[str, Spot]


@dataclass(frozen=True)
class FigureVerdict:
    """Of a figure: one of `STATES`, what its column's convention gives, and a clause on why."""

    state: str
    given: Rounded | None = None
    why: str = ""


@dataclass(frozen=True)
class Misprint:
    """A printed time that several figures contradict, and the one that would suit them all."""

    place: Spot
    printed: Number
    instead: Rounded
    figures: Sequence[Cell]


@dataclass(frozen=True)
class Reading:
    """A study as its digits are best read, what its columns are, the verdict of every figure, and misprinted times."""

    published: Published
    found: Mapping[str, Found]
    verdicts: Mapping[Cell, FigureVerdict]
    misprints: Sequence[Misprint] = ()

    @property
    def explained(self) -> int:
        return sum(verdict.state == EXPLAINED for verdict in self.verdicts.values())


def read(published: Published) -> Reading:
    """A study, its times and each of its columns rounded or cut, whichever explains more."""
    reading = _read(published)
    if any(verdict.state in (ANOTHER_RUN, UNEXPLAINED) for verdict in reading.verdicts.values()):
        cut = _read(published.with_cut_times())
        # A single figure more is chance.
        reading = cut if cut.explained > reading.explained + 1 else reading
    return _with_misprints(reading)


def _read(published: Published) -> Reading:
    found = {name: search(published, name) for name in QUANTITIES if name in published.quantities}
    as_read = {
        name: {at: printed.cut() for at, printed in table.items()} if _is_cut(found[name]) else table
        for name, table in published.quantities.items()
    }
    published = replace(published, quantities=as_read)
    verdicts: dict[Cell, FigureVerdict] = {}
    for name, outcome in found.items():
        for place in published.quantities[name]:
            verdicts[name, place] = _verdict(published, outcome, place, verdicts)
    return Reading(published, found, verdicts)


def _is_cut(found: Found) -> bool:
    return bool(found.match and found.match.is_cut)


def _verdict(published: Published, found: Found, place: Spot, others: Mapping[Cell, FigureVerdict]) -> FigureVerdict:
    if found.quantity == "utilisation_percent":
        return _of_a_link(found, place)
    given, printed = found.reference.values.get(place), published.quantities[found.quantity][place].interval
    match = found.best
    if match and place in match.agreeing:
        return _through(match.convention, place, others) or FigureVerdict(EXPLAINED, given, match.convention.formula)
    if place in found.method.agreeing:
        return FigureVerdict(EXPLAINED, found.method.values[place], "as defined here")
    if found.unsure and place in found.unsure.agreeing:
        why = f"{found.unsure.convention.formula} would give it, and these are too few figures to tell"
        return FigureVerdict(UNKNOWN, given, why)
    if given is None:
        missing = [f"T({at.gpus},b)" for at in sorted({place.alone, place}) if at not in published.epoch_s]
        if missing and place in found.checkable:
            return FigureVerdict(UNEXPLAINED, None, "no other printed figure gives it either")
        zero = "its communication time may be zero within rounding"
        return FigureVerdict(UNKNOWN, None, f"{' and '.join(missing)} not printed" if missing else zero)
    if _is_near(published, found, place, printed):
        return FigureVerdict(ANOTHER_RUN, given, "as where times are of another run")
    return FigureVerdict(UNEXPLAINED, given, _from_elsewhere(found, place))


def _is_near(published: Published, found: Found, place: Spot, printed: Rounded) -> bool:
    """Within two percent of what its column's convention gives; or, where it is not the only one apart, of times that
    near: a single cell is misprinted rather than of another run."""
    given = found.reference.values[place]
    more = _NEAR * abs(given.value)
    if Rounded(given.value, given.low - more, given.high + more).meets(printed):
        return True
    if not found.match or len(found.match.values) - len(found.match.agreeing) == 1:
        return False
    near = found.match.convention.at(published.of_another_run(OF_ANOTHER_RUN), place)
    return bool(near and near.meets(printed))


def _through(convention: Convention, place: Spot, others: Mapping[Cell, FigureVerdict]) -> FigureVerdict | None:
    """A figure that follows from printed ones is explained where these are."""
    for name in convention.form.through:
        verdict = others.get((name, place))
        if verdict and verdict.state != EXPLAINED:
            state = ANOTHER_RUN if verdict.state == ANOTHER_RUN else UNKNOWN
            return FigureVerdict(
                state, None, f"it follows from the {NAMES[name]} printed there, which is {verdict.state}"
            )
    return None


def _of_a_link(found: Found, place: Spot) -> FigureVerdict:
    """Percent over bandwidth is 100 over the bandwidth of a link, in all cells."""
    if not found.factor:
        return FigureVerdict(UNEXPLAINED, None, "no link gives all of the column")
    return FigureVerdict(
        EXPLAINED, found.method.values[place] * found.factor.value, "the bandwidth over that of a link"
    )


def _from_elsewhere(found: Found, place: Spot) -> str:
    """Where else in the column this number would be right; nothing where it is so rough that it may be anywhere."""
    printed = found.reference.printed[place]
    if printed.half > _ROUGH * abs(printed.value):
        return ""
    same = (at for at, value in found.reference.values.items() if at != place and value.meets(printed))
    other = next(same, None)
    return f"that is {place_words(other)}" if other else ""


def _with_misprints(reading: Reading) -> Reading:
    """The same, figures that contradict a misprinted time no longer held against it."""
    misprints = list(_misprints(reading))
    verdicts = dict(reading.verdicts)
    for misprint in misprints:
        why = f"T({misprint.place.gpus},b) of {misprint.printed} s, which it follows from, is contradicted by others"
        verdicts |= {cell: FigureVerdict(UNKNOWN, verdicts[cell].given, why) for cell in misprint.figures}
    return replace(reading, verdicts=verdicts, misprints=misprints)


def _misprints(reading: Reading) -> Iterator[Misprint]:
    """Times with another value of which figures of two columns would be explained, and none that is would not."""
    published = reading.published
    apart = [cell for cell, verdict in reading.verdicts.items() if verdict.state in (ANOTHER_RUN, UNEXPLAINED)]
    for place, printed in published.epoch_s.items() if len(apart) > 1 else ():
        figures = [cell for cell in apart if _follows(reading, cell, place)]
        if len(dict(figures)) < 2 or all(reading.verdicts[cell].state == ANOTHER_RUN for cell in figures):
            continue
        instead = _suits_all(reading, place, figures)
        is_far = instead and abs(instead.value / float(printed) - 1) > _NEAR
        if instead and is_far and _breaks_none(reading, place, instead):
            yield Misprint(place, printed, instead, figures)


def _given(reading: Reading, cell: Cell, time: Spot, value: Rounded) -> Rounded | None:
    """What a figure would be with another value of a time."""
    published, (name, place) = reading.published, cell
    changed = replace(published.epoch_s[time], interval=value)
    study = replace(published, epoch_s={**published.epoch_s, time: changed})
    return reading.found[name].reference.convention.at(study, place)


def _times(reading: Reading, time: Spot, factor: float) -> Rounded:
    value = float(reading.published.epoch_s[time]) * factor
    return Rounded(value, value, value)


def _follows(reading: Reading, cell: Cell, time: Spot) -> bool:
    """Whether a figure changes with a time."""
    if cell[1].batch_per_gpu != time.batch_per_gpu:
        return False
    one, other = (_given(reading, cell, time, _times(reading, time, factor)) for factor in (1, 1.37))
    return bool(one and other and abs(other.value - one.value) > 1e-12 * abs(one.value))


def _suits_all(reading: Reading, time: Spot, figures: Sequence[Cell]) -> Rounded | None:
    """The times with which all these figures come out as printed: where the bands of each overlap."""
    bands = [_band(reading, time, cell) for cell in figures]
    if not all(bands):
        return None
    low, high = (of(ends) for of, ends in zip((max, min), zip(*filter(None, bands), strict=True), strict=True))
    value = float(reading.published.epoch_s[time])
    return Rounded((low + high) / 2 * value, low * value, high * value) if low <= high else None


def _band(reading: Reading, time: Spot, cell: Cell) -> tuple[float, float] | None:
    """Factors on a time between which a figure comes out as printed. A figure rises or falls with a time throughout."""
    printed = reading.found[cell[0]].reference.printed[cell[1]]

    def apart(factor: float) -> float:
        value = _given(reading, cell, time, _times(reading, time, factor))
        return value.value - printed.value if value else float("nan")

    found = _zero(apart)
    if found is None:
        return None
    slope = abs(apart(found * 1.001) - apart(found * 0.999)) / (0.002 * found)
    given = reading.verdicts[cell].given
    half = (printed.half + (given.half if given else 0.0)) / slope if slope else 0.0
    return found - half, found + half


def _zero(function: Callable[[float], float]) -> float | None:
    """A factor at which a function of it changes its sign. None where there is none within reach."""
    for low, high in pairwise(_FACTORS):
        sign = function(low)
        if sign * function(high) <= 0:
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if sign * function(middle) > 0 else (low, middle)
            return (low + high) / 2
    return None


def _breaks_none(reading: Reading, time: Spot, instead: Rounded) -> bool:
    """Whether every figure that is explained with the printed time is with the other one."""
    for (name, place), verdict in reading.verdicts.items():
        is_here = verdict.state == EXPLAINED and place.batch_per_gpu == time.batch_per_gpu and place.gpus > 1
        value = _given(reading, (name, place), time, instead) if is_here and name != "utilisation_percent" else None
        if value and not value.meets(reading.found[name].reference.printed[place]):
            return False
    return True
