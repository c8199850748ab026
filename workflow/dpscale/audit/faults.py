"""Single faults: why a cell is not what the convention of its column gives, and times that are likely misprinted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise

from dpscale.audit.conventions import PRINTED_COLUMNS
from dpscale.audit.reading.published import Printed, Published, Spot
from dpscale.audit.search import Found, Match, cut
from dpscale.audit.words import NAMES, place_words
from dpscale.formulas.rounded import Rounded, exponent_of, printed_to

# An explanation is only offered where an unrelated number would suit it less often than this.
_BY_CHANCE = 0.1
# Kinds of reasons that are no fault of the cell itself.
CUT, ROUNDED_BEFORE, DISPUTED, FOLLOWS = "cut", "rounded before use", "disputed", "follows"
HARMLESS = (CUT, ROUNDED_BEFORE, DISPUTED, FOLLOWS)

# What a printed time is multiplied by to look for the one that was meant, from a hundredth to a hundred times.
_FACTORS = [10 ** (step / 15) for step in range(-30, 31)]
_HALVINGS = 40


@dataclass(frozen=True)
class Fault:
    """What a cell's number may be in place of what its convention gives: a word for the kind, and a clause."""

    kind: str
    clause: str


def explain(published: Published, quantity: str, found: Mapping[str, Found]) -> dict[Spot, Fault]:
    """A likely reason for cells that the convention of their column does not give; others have none."""
    outcome = found[quantity]
    if not outcome.best or not outcome.is_found:
        return {}
    fit, table = outcome.best, published.quantities[quantity]
    reasons: dict[Spot, Fault | None] = {}
    for place in outcome.exceptions:
        reasons[place] = _spoilt_source(fit, found, place)
        if not reasons[place] and place in fit.values:
            reasons[place] = (
                _rounded_before(outcome, place)
                or _misprinted(table[place], fit.values[place], table, place)
                or _with_times_of_another_cell(published, fit, place)
                or _mistyped(table[place], fit.values[place])
                or _disputed(outcome, place)
            )
    return {place: reason for place, reason in reasons.items() if reason}


def _spoilt_source(fit: Match, found: Mapping[str, Found], place: Spot) -> Fault | None:
    """A printed column that the convention goes through has in this cell not what its own convention gives."""
    for quantity, columns in PRINTED_COLUMNS.items():
        through = quantity in found and found[quantity].is_found and set(columns) & set(fit.convention.choices)
        if through and place in found[quantity].exceptions:
            return Fault(FOLLOWS, f"it follows from the {NAMES[quantity]} printed there, which is apart itself")
    return None


def _rounded_before(found: Found, place: Spot) -> Fault | None:
    if not found.refined or place not in found.refined.agreeing:
        return None
    choices = found.refined.convention.choices
    words = next(choice.sentence for choice in choices if choice.name.startswith("rounded to"))
    return Fault(ROUNDED_BEFORE, f"{words} give it")


def _disputed(found: Found, place: Spot) -> Fault | None:
    return Fault(DISPUTED, "another convention that fits as well gives it") if place in found.disputed else None


def _misprinted(number: Decimal, value: Rounded, table: Printed, place: Spot) -> Fault | None:
    """Cut, 1.87 for 1.878; clipped; or the same digits as a neighbour's in row or column."""
    if number and cut(number).meets(value):
        return Fault(CUT, "cut, not rounded")
    if value.high < 0 and number == 0:
        return Fault("clipped", "a value below zero printed as zero")
    if value.high < 0 < number and Rounded.of(-number).meets(value):
        return Fault("sign", "the sign is left out")
    same = (other for other in _beside(place, table) if str(table[other]) == str(number))
    copied = next(same, None)
    return Fault("copied", f"the same number as at {place_words(copied)}") if copied else None


def _beside(place: Spot, places: Sequence[Spot] | Printed) -> list[Spot]:
    """Other cells of the same row or column."""
    return [other for other in places if other != place and (other[0] == place[0] or other[1] == place[1])]


def _with_times_of_another_cell(published: Published, fit: Match, place: Spot) -> Fault | None:
    """The convention with its times taken from another row or column."""
    others, printed = _beside(place, published.places), fit.printed[place]
    if len(others) * 4 * printed.half >= _BY_CHANCE * max(abs(printed.value), 1e-300):
        return None
    for other in others:
        value = fit.convention.at(_with_times_of(published, place, other), place) if other.gpus > 1 else None
        if value and value.meets(printed):
            return Fault("other cell's times", f"the times of {place_words(other)} give it")
    return None


def _with_times_of(published: Published, place: Spot, other: Spot) -> Published:
    """The study with the times of one cell in the place of another's; its printed columns of times, too."""
    ones = {place: other, place._replace(gpus=1): other._replace(gpus=1)}

    def moved(table: Printed) -> Printed:
        return {**table, **{at: table[there] for at, there in ones.items() if there in table}}

    sweep = published.batch_sweep_s
    return replace(
        published,
        epoch_s=moved(published.epoch_s),
        quantities={
            name: moved(table) if name.endswith("_s") else table for name, table in published.quantities.items()
        },
        batch_sweep_s={**sweep, place[0]: sweep[other[0]]} if other[0] in sweep else sweep,
        other_clocks={name: moved(table) for name, table in published.other_clocks.items()},
    )


def _mistyped(number: Decimal, value: Rounded) -> Fault | None:
    """The point moved, one digit other, or two exchanged."""
    for power in (-3, -2, -1, 1, 2, 3):
        if number and Rounded.of(number.scaleb(power)).meets(value):
            return Fault("misprint", f"the decimal point is {abs(power)} place{'s' if abs(power) > 1 else ''} off")
    printed, right = str(abs(number)), str(abs(printed_to(value.value, exponent_of(number), ROUND_HALF_UP)))
    if len(printed) != len(right):
        return None
    apart = [at for at, (one, other) in enumerate(zip(printed, right, strict=True)) if one != other]
    if len(apart) == 1:
        return Fault("misprint", f"one digit of {right} is another")
    first, last = min(apart, default=0), max(apart, default=0)
    is_exchanged = len(apart) == 2 and last == first + 1 and printed[first : last + 1] == right[last] + right[first]
    return Fault("misprint", f"two digits of {right} are exchanged") if is_exchanged else None


@dataclass(frozen=True)
class DoubtfulTime:
    """A printed time that figures of several quantities contradict, and the one that would suit them all.

    `figures` are the quantity and the cell of each.
    """

    place: Spot
    printed: Decimal
    instead: Rounded
    figures: tuple[tuple[str, Spot], ...]


def doubtful_times(published: Published, found: Mapping[str, Found]) -> Iterator[DoubtfulTime]:
    """Times whose misprint would explain two exceptions or more, in as many figures as follow from it."""
    fits = {name: outcome.best for name, outcome in found.items() if outcome.is_found and outcome.best}
    exceptions = sorted((name, place) for name in fits for place in found[name].exceptions)
    if len(exceptions) < 2:
        return
    for place, printed in published.epoch_s.items():
        figures = tuple((name, cell) for name, cell in exceptions if _follows(published, fits[name], cell, place))
        if len(figures) < 2:
            continue
        instead = _suits_all(published, place, [(fits[name], cell) for name, cell in figures])
        if instead and _all_that_follow(published, fits, place, instead):
            yield DoubtfulTime(place, printed, instead, figures)


def _follows(published: Published, fit: Match, cell: Spot, time: Spot) -> bool:
    """Whether a figure changes with a time."""
    if cell.batch_per_gpu != time.batch_per_gpu:
        return False
    before, after = (fit.convention.at(study, cell) for study in (published, _with_time(published, time, 1.37)))
    return bool(before and after and abs(after.value - before.value) > 1e-12 * abs(before.value))


def _with_time(published: Published, place: Spot, factor: float) -> Published:
    """The study with a time multiplied, and known a thousand times better than before."""
    time = published.epoch_s[place]
    changed = printed_to(float(time) * factor, exponent_of(time) - 3)
    return replace(published, epoch_s={**published.epoch_s, place: changed})


def _suits_all(published: Published, place: Spot, figures: Sequence[tuple[Match, Spot]]) -> Rounded | None:
    """The times with which all these figures come out as printed: where the bands of each overlap."""
    bands = list(filter(None, (_band(published, place, fit, cell) for fit, cell in figures)))
    if len(bands) < len(figures):
        return None
    time, low, high = float(published.epoch_s[place]), max(low for low, _ in bands), min(high for _, high in bands)
    return Rounded((low + high) / 2 * time, low * time, high * time) if low <= high else None


def _band(published: Published, place: Spot, fit: Match, cell: Spot) -> tuple[float, float] | None:
    """Factors on a time between which a figure comes out as printed. A figure rises or falls with a time throughout."""
    printed = fit.printed[cell]

    def apart(factor: float) -> float:
        value = fit.convention.at(_with_time(published, place, factor), cell)
        return value.value - printed.value if value else float("nan")

    found = _zero(apart)
    if found is None:
        return None
    slope = abs(apart(found * 1.001) - apart(found * 0.999)) / (0.002 * found)
    value = fit.convention.at(published, cell)
    known_to = printed.half + (value.half if value else 0.0)
    half = known_to / slope if slope else 0.0
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


def _all_that_follow(published: Published, fits: Mapping[str, Match], place: Spot, instead: Rounded) -> bool:
    """Whether no figure that agrees with the printed time disagrees with the other one."""
    changed = _with_time(published, place, instead.value / float(published.epoch_s[place]))
    slack = max(instead.high - instead.low, 1e-9) / instead.value
    for fit in fits.values():
        for cell in fit.agreeing:
            value = fit.convention.at(changed, cell) if cell.gpus > 1 else None
            if value and cell.batch_per_gpu == place.batch_per_gpu and not _near(value, fit.printed[cell], slack):
                return False
    return True


def _near(value: Rounded, printed: Rounded, slack: float) -> bool:
    wider = slack * abs(value.value)
    return Rounded(value.value, value.low - wider, value.high + wider).meets(printed)
