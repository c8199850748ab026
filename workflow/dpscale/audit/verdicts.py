"""What every printed figure turned out to be, and times that are likely misprinted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dpscale.audit.conventions import Convention
from dpscale.audit.reading.in_words import NAMES, place_words
from dpscale.audit.reading.published import QUANTITIES, Published, Spot, changed
from dpscale.audit.search import OF_ANOTHER_RUN, Found, common_factor, search
from dpscale.formulas.rounded import Number, Rounded

EXPLAINED, ANOTHER_RUN, UNEXPLAINED, UNKNOWN = "explained", "within another run", "not explained", "not checkable"

# A number that was taken from elsewhere in its column is told by its digits: rough ones suit much.
_ROUGH = 0.01
# A figure this near to what the times give may be of another run of the same.
_NEAR = 0.02

Cell = tuple[str, Spot]
_Inverse = Callable[[Rounded, Rounded, int], Rounded]

# What the one-GPU time has to be for a figure, the total and N GPUs; and the total, for a figure and the one-GPU time.
_ONE_OF: Mapping[str, _Inverse] = {
    "speedup": lambda of, total, gpus: of / (1 / total),
    "efficiency": lambda of, total, gpus: of * gpus / (1 / total),
    "compute_s": lambda of, total, gpus: of * gpus,
    "communication_s": lambda of, total, gpus: (total - of) * gpus,
}
_TOTAL_OF: Mapping[str, _Inverse] = {
    "speedup": lambda of, one, gpus: one / of,
    "efficiency": lambda of, one, gpus: one / of / gpus,
    "communication_s": lambda of, one, gpus: of + one / gpus,
}


@dataclass(frozen=True)
class FigureVerdict:
    """Of a figure: one of these states, what its column's convention gives, and a clause on why."""

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

    @property
    def apart(self) -> list[Cell]:
        """Figures that are not what the times give."""
        return [cell for cell, verdict in self.verdicts.items() if verdict.state in (ANOTHER_RUN, UNEXPLAINED)]

    def of(self, quantity: str) -> dict[Spot, FigureVerdict]:
        """The verdicts of a column."""
        return {place: verdict for (name, place), verdict in self.verdicts.items() if name == quantity}


def read(published: Published) -> Reading:
    """A study, its times and each of its columns rounded or cut, whichever explains more."""
    reading = _read(published)
    if reading.apart:
        cut = _read(published.with_times(Number.cut))
        # A single figure more is chance.
        reading = cut if cut.explained > reading.explained + 1 else reading
    return _with_misprints(reading)


def _read(published: Published) -> Reading:
    found = {name: search(published, name) for name in QUANTITIES if name in published.quantities}
    verdicts: dict[Cell, FigureVerdict] = {}
    for name, outcome in found.items():
        if outcome.match and outcome.match.is_cut:
            cut = changed(published.quantities[name], Number.cut)
            published = replace(published, quantities={**published.quantities, name: cut})
        for place in published.quantities[name]:
            verdicts[name, place] = _verdict(published, outcome, place, verdicts)
    return Reading(published, found, verdicts)


def _verdict(published: Published, found: Found, place: Spot, others: Mapping[Cell, FigureVerdict]) -> FigureVerdict:
    if found.quantity == "utilisation_percent" and not published.bus_gb_s:
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
    if not found.near and published.quantities[found.quantity][place].if_cut.meets(given):
        return FigureVerdict(ANOTHER_RUN, given, "as where its digits are cut, not rounded")
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
    """Percent over bandwidth is 100 over the bandwidth of a link, in all cells or in those of as many GPUs."""
    values = found.method.values
    alike = [(found.method.printed[at], values[at]) for at in values if at.gpus == place.gpus]
    factor = found.factor or common_factor(alike, fewest=2)
    if place not in values or (not factor and len(alike) < 2):
        return FigureVerdict(UNKNOWN, None, "the bandwidth that it is a share of is not given")
    if not factor:
        return FigureVerdict(UNEXPLAINED, None, "no bandwidth of a link gives all of the column")
    return FigureVerdict(EXPLAINED, values[place] * factor.value, "the bandwidth over that of a link")


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
    apart = reading.apart
    for time, printed in reading.published.epoch_s.items() if len(apart) > 1 else ():
        of_time = [cell for cell in apart if cell[1].batch_per_gpu == time.batch_per_gpu]
        wanted = {cell: value for cell in of_time if (value := _wanted(reading.published, cell, time))}
        low = max((value.low for value in wanted.values()), default=0.0)
        high = min((value.high for value in wanted.values()), default=0.0)
        instead = Rounded((low + high) / 2, low, high)
        if low > high or len({name for name, _ in wanted}) < 2 or abs(instead.value / float(printed) - 1) <= _NEAR:
            continue
        times = {**reading.published.epoch_s, time: replace(printed, interval=instead)}
        study = replace(reading.published, epoch_s=times)
        if all(_is_given(reading, study, cell) for cell, of in reading.verdicts.items() if of.state == EXPLAINED):
            yield Misprint(time, printed, instead, [cell for cell in of_time if _is_given(reading, study, cell)])


def _wanted(published: Published, cell: Cell, time: Spot) -> Rounded | None:
    """The time with which a figure would come out as printed, under the definitions here; None where it does not follow
    from that time alone."""
    name, place = cell
    figure = published.quantities[name][place].interval
    inverses, other = (_ONE_OF, place) if time.gpus == 1 else (_TOTAL_OF, place.alone)
    known = published.epoch_s.get(other)
    if place.gpus == 1 or time not in (place, place.alone) or not known or not figure.is_not_zero:
        return None
    return inverses[name](figure, known.interval, place.gpus) if name in inverses else None


def _is_given(reading: Reading, study: Published, cell: Cell) -> bool:
    """Whether the convention of its column gives a figure with other times, as far as it can be worked out."""
    name, place = cell
    reference = reading.found[name].reference
    value = reference.convention.at(study, place)
    return value is None or name == "utilisation_percent" or value.meets(reference.printed[place])
