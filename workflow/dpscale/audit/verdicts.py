"""The verdict of every printed figure: explained, of another run, not explained, or not checkable."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpscale.audit.conventions import Convention
from dpscale.audit.reading.in_words import NAMES
from dpscale.audit.reading.published import QUANTITIES, Published, Spot, changed
from dpscale.audit.search import OF_ANOTHER_RUN, ColumnSearch, common_factor, search
from dpscale.formulas.rounded import Number, Rounded

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

    def of(self, quantity: str) -> dict[Spot, FigureVerdict]:
        """The verdicts of a column."""
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
                state, None, f"it follows from the {NAMES[name]} printed there, which is {verdict.state}"
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
