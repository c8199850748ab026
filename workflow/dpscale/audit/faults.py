"""Single faults: why a cell is not what the convention of its column gives, and times that are likely misprinted."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise

from dpscale.audit.conventions import PRINTED_COLUMNS, Convention
from dpscale.audit.published import Place, Published
from dpscale.audit.search import Fit, Found, cut
from dpscale.audit.words import NAMES, place_words
from dpscale.formulas.rounded import Rounded

# An explanation is only offered where an unrelated number would suit it less often than this.
_BY_CHANCE = 0.1
# Kinds of reasons that are no fault of the cell itself.
CUT, ROUNDED_BEFORE, DISPUTED, FOLLOWS = "cut", "rounded before use", "disputed", "follows"
HARMLESS = (CUT, ROUNDED_BEFORE, DISPUTED, FOLLOWS)

# What a printed time is multiplied by to look for the one that was meant, from a hundredth to a hundred times.
_FACTORS = [10 ** (step / 15) for step in range(-30, 31)]


@dataclass(frozen=True)
class Fault:
    """What a cell's number may be in place of what its convention gives: a word for the kind, and a clause."""

    kind: str
    clause: str


def explain(published: Published, quantity: str, found: Mapping[str, Found]) -> dict[Place, Fault]:
    """A likely reason for cells that the convention of their column does not give; others have none."""
    outcome = found[quantity]
    if not outcome.best or not outcome.is_found:
        return {}
    reasons = {place: _reason(published, quantity, found, place) for place in outcome.exceptions}
    return {place: reason for place, reason in reasons.items() if reason}


def _reason(published: Published, quantity: str, all_found: Mapping[str, Found], place: Place) -> Fault | None:
    found = all_found[quantity]
    fit = found.best
    assert fit
    if source := _spoilt_source(fit, all_found, place):
        return source
    if place not in fit.values:
        return None
    table, value = published.quantities[quantity], fit.values[place]
    number = table[place]
    for reason in (
        _rounded_before(found, place),
        _cut(number, value),
        _clipped(number, value),
        _copied(table, place),
        _with_times_of_another_cell(published, fit, place),
        _misprinted(number, value),
    ):
        if reason:
            return reason
    return Fault(DISPUTED, "another convention that fits as well gives it") if place in found.disputed else None


def _spoilt_source(fit: Fit, found: Mapping[str, Found], place: Place) -> Fault | None:
    """A printed column that the convention goes through has in this cell not what its own convention gives."""
    for quantity, columns in PRINTED_COLUMNS.items():
        through = any(column in fit.convention.choices for column in columns)
        if through and quantity in found and found[quantity].is_found and place in found[quantity].exceptions:
            return Fault(FOLLOWS, f"it follows from the {NAMES[quantity]} printed there, which is apart itself")
    return None


def _rounded_before(found: Found, place: Place) -> Fault | None:
    refined = found.refined
    if not refined or place not in refined.agreeing:
        return None
    words = next(choice.sentence for choice in refined.convention.choices if choice.name.startswith("rounded to"))
    return Fault(ROUNDED_BEFORE, f"{words} give it")


def _cut(number: Decimal, value: Rounded) -> Fault | None:
    """1.87 for 1.878."""
    return Fault(CUT, "cut, not rounded") if cut(number).meets(value) and number else None


def _clipped(number: Decimal, value: Rounded) -> Fault | None:
    if value.high < 0 and number == 0:
        return Fault("clipped", "a value below zero printed as zero")
    if value.high < 0 < number and Rounded.of(-number).meets(value):
        return Fault("sign", "the sign is left out")
    return None


def _copied(table: Mapping[Place, Decimal], place: Place) -> Fault | None:
    """The same digits as a neighbour's in row or column."""
    same = [
        other
        for other, number in table.items()
        if other != place and str(number) == str(table[place]) and (other[0] == place[0] or other[1] == place[1])
    ]
    return Fault("copied", f"the same number as at {place_words(same[0])}") if same else None


def _with_times_of_another_cell(published: Published, fit: Fit, place: Place) -> Fault | None:
    """The convention with its times taken from another row or column."""
    others = [other for other in published.places if other != place and (other[0] == place[0] or other[1] == place[1])]
    printed = fit.printed[place]
    chance = len(others) * 2 * (printed.high - printed.low) / max(abs(printed.value), 1e-300)
    if chance >= _BY_CHANCE:
        return None
    for other in others:
        if other.gpus == 1:
            continue
        value = fit.convention.at(_with_times_of(published, place, other), place)
        if value and value.meets(printed):
            return Fault("other cell's times", f"the times of {place_words(other)} give it")
    return None


def _with_times_of(published: Published, place: Place, other: Place) -> Published:
    """The study with the times of one cell in the place of another's; its printed columns of times, too."""
    ones = {place: other, Place(place[0], 1): Place(other[0], 1)}

    def moved(table: Mapping[Place, Decimal]) -> dict[Place, Decimal]:
        return {**table, **{at: table[there] for at, there in ones.items() if there in table}}

    columns = {name: moved(table) if name.endswith("_s") else table for name, table in published.quantities.items()}
    sweep = dict(published.batch_sweep_s)
    if other[0] in sweep:
        sweep[place[0]] = sweep[other[0]]
    clocks = {name: moved(table) for name, table in published.other_clocks.items()}
    return replace(
        published, epoch_s=moved(published.epoch_s), quantities=columns, batch_sweep_s=sweep, other_clocks=clocks
    )


def _misprinted(number: Decimal, value: Rounded) -> Fault | None:
    """One digit other, two exchanged, or the point moved."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    wanted = Decimal(value.value).quantize(Decimal((0, (1,), exponent)), rounding=ROUND_HALF_UP)
    for power in (-3, -2, -1, 1, 2, 3):
        if number and Rounded.of(number.scaleb(power)).meets(value):
            return Fault("misprint", f"the decimal point is {abs(power)} place{'s' if abs(power) > 1 else ''} off")
    printed, right = (str(abs(digits)) for digits in (number, wanted))
    if len(printed) != len(right):
        return None
    apart = [at for at, (one, other) in enumerate(zip(printed, right, strict=True)) if one != other]
    if len(apart) == 1:
        return Fault("misprint", f"one digit of {right} is another")
    if (
        len(apart) == 2
        and apart[1] - apart[0] == 1
        and printed[apart[0]] + printed[apart[1]] == (right[apart[1]] + right[apart[0]])
    ):
        return Fault("misprint", f"two digits of {right} are exchanged")
    return None


@dataclass(frozen=True)
class DoubtfulTime:
    """A printed time that figures of several quantities contradict, and the one that would suit them all.

    `figures` are the quantity and the cell of each.
    """

    table: str
    place: Place
    printed: Decimal
    instead: Rounded
    figures: tuple[tuple[str, Place], ...]


def doubtful_times(published: Published, found: Mapping[str, Found]) -> Iterator[DoubtfulTime]:
    """Times whose misprint would explain two exceptions or more, in as many figures as follow from it."""
    known = {name: outcome.best for name, outcome in found.items() if outcome.is_found and outcome.best}
    exceptions = {(name, place) for name in known for place in found[name].exceptions}
    if len(exceptions) < 2:
        return
    for place, printed in published.epoch_s.items():
        bad = [(name, cell) for name, cell in exceptions if _follows(published, known[name].convention, cell, place)]
        if len(bad) < 2:
            continue
        instead = _suits_all(published, place, known, bad)
        if instead and _all_that_follow(published, known, place, instead):
            yield DoubtfulTime("epoch_s", place, printed, instead, tuple(sorted(bad)))


def _follows(published: Published, convention: Convention, cell: Place, time: Place) -> bool:
    """Whether a figure changes with a time."""
    if cell.batch_per_gpu != time.batch_per_gpu:
        return False
    before, after = (convention.at(study, cell) for study in (published, _with_time(published, time, 1.37)))
    return bool(before and after and abs(after.value - before.value) > 1e-12 * abs(before.value))


def _with_time(published: Published, place: Place, factor: float) -> Published:
    """The study with a time multiplied, and known as well as before."""
    time = published.epoch_s[place]
    exponent = time.as_tuple().exponent
    assert isinstance(exponent, int)
    changed = Decimal(float(time) * factor).quantize(Decimal((0, (1,), exponent - 3)))
    return replace(published, epoch_s={**published.epoch_s, place: changed})


def _suits_all(
    published: Published, place: Place, known: Mapping[str, Fit], figures: list[tuple[str, Place]]
) -> Rounded | None:
    """The times with which all these figures come out as printed: where the bands of each overlap."""
    time = float(published.epoch_s[place])
    bands = [_band(published, place, known[name], cell) for name, cell in figures]
    whole = [band for band in bands if band]
    if len(whole) < len(bands):
        return None
    low, high = max(band[0] for band in whole), min(band[1] for band in whole)
    return Rounded((low + high) / 2 * time, low * time, high * time) if low <= high else None


def _band(published: Published, place: Place, fit: Fit, cell: Place) -> tuple[float, float] | None:
    """Factors on a time between which a figure comes out as printed. A figure rises or falls with a time throughout."""
    printed = fit.printed[cell]

    def apart(factor: float) -> float:
        value = fit.convention.at(_with_time(published, place, factor), cell)
        return math.nan if value is None else value.value - printed.value

    found = _zero(apart)
    if found is None:
        return None
    slope = abs(apart(found * 1.001) - apart(found * 0.999)) / (0.002 * found)
    value = fit.convention.at(published, cell)
    known_to = (value.high - value.low) / 2 if value else 0.0
    half = ((printed.high - printed.low) / 2 + known_to) / slope if slope else 0.0
    return found - half, found + half


def _zero(function: Callable[[float], float]) -> float | None:
    """A factor at which a function of it changes its sign. None where there is none within reach."""
    for low, high in pairwise(_FACTORS):
        if function(low) * function(high) <= 0:
            return _bisected(function, low, high)
    return None


def _bisected(function: Callable[[float], float], low: float, high: float) -> float:
    sign = function(low)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sign * function(middle) > 0 else (low, middle)
    return (low + high) / 2


def _all_that_follow(published: Published, known: Mapping[str, Fit], place: Place, instead: Rounded) -> bool:
    """Whether no figure that agrees with the printed time disagrees with the other one."""
    changed = _with_time(published, place, instead.value / float(published.epoch_s[place]))
    for fit in known.values():
        for cell in fit.agreeing:
            if cell.batch_per_gpu == place.batch_per_gpu and cell.gpus > 1:
                value = fit.convention.at(changed, cell)
                slack = max(instead.high - instead.low, 1e-9) / instead.value
                if value and not _near(value, fit.printed[cell], slack):
                    return False
    return True


def _near(value: Rounded, printed: Rounded, slack: float) -> bool:
    wide = Rounded(value.value, value.low - slack * abs(value.value), value.high + slack * abs(value.value))
    return wide.meets(printed)
