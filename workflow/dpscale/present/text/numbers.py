"""Numbers as people read them: a figure with its interval, in its unit, with as many digits as make sense."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Self

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.tables.column import MULTIPLES, PERCENT, PLAIN, Unit
from dpscale.vocabulary.states import AT_LEAST, MARK, OTHER_RUNS, STATES

ABSENT = "–"
MINUS = "−"


def plain(value: float | None, digits: int = 4) -> str:
    """A number with `digits` significant digits and thousands separated, or a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    decimals = decimals_at(value, digits)
    if decimals > digits + 3:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    return fixed(value, decimals)


def at_least(value: float, digits: int = 3) -> str:
    """A lower bound with `digits` significant digits, rounded down: what is at least 9.745 is not at least 9.75. A dash
    where there is none."""
    if not math.isfinite(value):
        return ABSENT
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals_at(value, digits)), ROUND_FLOOR):,}"


def whole(value: float | None) -> str:
    """A count with thousands separated, or a dash where there is none."""
    return ABSENT if value is None or not math.isfinite(value) else fixed(int(value), 0)


def in_unit(value: float | None, unit: Unit, digits: int = 4) -> str:
    """`26.3`: a table's number in its unit, for where a heading says the unit."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if unit.decimals is not None:
        return fixed(unit.of(value), unit.decimals)
    return plain(unit.of(value), digits)


def measured(value: float | None, unit: Unit, digits: int = 3) -> str:
    """`26.3 ms`, `0.39×`; a dash where there is none."""
    shown = in_unit(value, unit, digits)
    return shown if shown == ABSENT else _with_unit(shown, unit)


def percent(value: float, digits: int = 3) -> str:
    """`12.5 %` of a share, without its sign."""
    return measured(abs(value), PERCENT, digits)


@dataclass(frozen=True)
class Printed:
    """A figure as it is printed: value and ends with the same decimals, in its unit, and the states that explain it.

    "" where there is none. A lower bound has `low` alone. States are statuses and kinds of figures.
    """

    value: str = ""
    low: str = ""
    high: str = ""
    figure: Figure = UNKNOWN
    states: tuple[str, ...] = ()

    @classmethod
    def with_decimals(cls, figure: Figure, unit: Unit, digits: int, decimals: int, states: Sequence[str] = ()) -> Self:
        """Return a figure with so many decimals, if it has both ends; without them, its value with so many digits."""
        if not figure.is_known:
            return cls(states=tuple(states))
        if not (math.isfinite(figure.low) and math.isfinite(figure.high)):
            return cls(in_unit(figure.value, unit, digits), figure=figure, states=tuple(states))
        value, low, high = (fixed(unit.of(number), decimals) for number in (figure.value, figure.low, figure.high))
        return cls(value, low, high, figure, tuple(states))

    @property
    def text(self) -> str:
        """`3.86 [3.71, 4.02]`, `1.45 (1.31 to 1.60, 2 runs)`, `≥ 13.2`, or a dash."""
        return self.beside(self.value)

    @property
    def brief(self) -> str:
        """Its text without the number of machines or runs, which caption or state has: `1.45 (1.31 to 1.60)`."""
        return self.beside(self.value, is_counted=False)

    @property
    def plain(self) -> list[str]:
        """Value, low and high for a program to read."""
        return [number.replace(",", "").replace(MINUS, "-") for number in (self.value, self.low, self.high)]

    def beside(self, value: str, is_counted: bool = True) -> str:
        """Return a value, perhaps with its unit, and the two ends behind it, if any, in the brackets that say
        what they are; the values of two servers or runs with that number, unless it stands elsewhere."""
        mark = MARK if OTHER_RUNS in self.states else ""
        if not self.value:
            return f"{AT_LEAST} {self.low}{mark}" if self.low else ABSENT
        if not self.low:
            return f"{value}{mark}"
        if not self.figure.is_of_two:
            return f"{value}{mark} [{self.low}, {self.high}]"
        count = f", {STATES[self.figure.kind][0]}" if is_counted else ""
        return f"{value}{mark} ({self.low} to {self.high}{count})"


def printed(figure: Figure, unit: Unit = PLAIN, digits: int = 4, states: Sequence[str] = ()) -> Printed:
    """Return a figure with the decimals that two significant digits of the width between its ends have, at most
    `digits` of the value."""
    has_ends = math.isfinite(figure.low) and math.isfinite(figure.high)
    decimals = decimals_of(figure, unit, digits) if figure.is_known and has_ends else 0
    return Printed.with_decimals(figure, unit, digits, decimals, states)


def recomputable(figure: Figure, unit: Unit, *states: str) -> Printed:
    """Return a figure with four digits, whatever its interval: enough for divisions and differences that are done again
    with what is printed. Its kind is one of its states."""
    if not figure.is_known:
        return Printed(states=states)
    digits = 4
    decimals = decimals_at(unit.of(figure.value), digits) if unit.decimals is None else decimals_of(figure, unit)
    kinds = [figure.kind] if figure.kind in STATES else []
    return Printed.with_decimals(figure, unit, digits, decimals, (*kinds, *states))


def estimate(figure: Figure, unit: Unit = PLAIN, with_unit: bool = False, digits: int = 4) -> str:
    """Return a figure with what its ends are: `2.871 [2.866, 2.874]`, a 95 % interval; `1.45 (1.31 to 1.60, 2 runs)`,
    the values of two servers or runs; otherwise the value alone."""
    shown = printed(figure, unit, digits)
    return shown.beside(_with_unit(shown.value, unit) if with_unit else shown.value)


def value_of(figure: Figure, unit: Unit = PLAIN, with_unit: bool = False, digits: int = 4) -> str:
    """Return the value of a figure alone, with the decimals of its interval: `2.871`."""
    value = printed(figure, unit, digits).value or ABSENT
    return _with_unit(value, unit) if with_unit else value


def ends_of(figure: Figure, unit: Unit = PLAIN, digits: int = 4) -> str:
    """Return the ends of a 95 % interval: `2.866, 2.874`; "" where there is none."""
    shown = printed(figure, unit, digits)
    return f"{shown.low}, {shown.high}" if shown.low and not figure.is_of_two else ""


def decimals_of(figure: Figure, unit: Unit, digits: int = 4) -> int:
    """Return the decimals of a figure that has both ends, and of these; the value has so many digits at most."""
    if unit is MULTIPLES:
        return _beside_one(figure)
    if unit.decimals is not None:
        return unit.decimals
    value, low, high = (unit.of(number) for number in (figure.value, figure.low, figure.high))
    if high <= low:
        return decimals_at(value, digits)
    by_width = decimals_at(high - low, 2)
    if not value:
        return by_width
    least = decimals_at(low, 1) if low > 0 else 0  # what is above zero is not shown as zero
    return min(decimals_at(value, digits), max(by_width, decimals_at(value, 1), least))


def _beside_one(figure: Figure) -> int:
    """Return the decimals (2 to 4) that show on which side of 1 an end of a multiple lies: 1.00 would say that two may
    be alike."""
    nearest = figure.low - 1 if figure.low > 1 else 1 - figure.high if figure.high < 1 else 1.0
    return min(4, max(2, decimals_at(nearest, 1)))


def _with_unit(number: str, unit: Unit) -> str:
    """Return a printed number with its unit behind it: `×` at once, others after a space."""
    if unit.shown in ("", "×"):
        return f"{number}{unit.shown}"
    is_one = number.removeprefix(MINUS) == "1"
    return f"{number} {unit.singular if is_one and unit.singular else unit.shown}"


def decimals_at(value: float, digits: int) -> int:
    """Return the decimals that give a number its significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def fixed(value: float, decimals: int) -> str:
    """`1,024.50`, `−0.5`."""
    return f"{value:z,.{decimals}f}".replace("-", MINUS)  # z: zero has no sign
