"""Numbers as people read them: a figure with its interval, in its unit, with as many digits as make sense."""

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

from dpscale.formulas.figure import Figure
from dpscale.tables.column import MULTIPLES, PERCENT, PLAIN, Unit
from dpscale.vocabulary.states import STATES

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


def binary(number: int) -> str:
    """`4 KiB`, `1 GiB`: bytes that are a power of two, or near one, in the largest binary unit that they fill."""
    units = ("bytes", "KiB", "MiB", "GiB")
    power = min(len(units) - 1, max(0, number.bit_length() - 1) // 10)
    return f"{plain(number / 1024**power, 3).removesuffix('.00').removesuffix('.0')} {units[power]}"


def measured(value: float | None, unit: Unit, digits: int = 3) -> str:
    """`26.3 ms`, `0.39×`; a dash where there is none."""
    shown = in_unit(value, unit, digits)
    return shown if shown == ABSENT else f"{shown}{_symbol(unit, shown)}"


def percent(value: float, digits: int = 3) -> str:
    """`12.5 %` of a share, without its sign."""
    return measured(abs(value), PERCENT, digits)


def estimate(figure: Figure, unit: Unit = PLAIN, with_unit: bool = False, digits: int = 4, mark: str = "") -> str:
    """`2.871 [2.866, 2.874]`: a figure as `unit` shows it, and its 95 % interval; `1.45 (1.31 to 1.60, 2 runs)`: and
    the values of two servers or runs, which are no interval. Otherwise the value alone.

    With the decimals that two significant digits of the width between the ends have, at most `digits` of the value, and
    with the `mark` behind it.
    """
    if not figure.is_known:
        return ABSENT
    return beside(f"{value_of(figure, unit, with_unit, digits)}{mark}", _parts(figure, unit, digits)[1:], figure)


def brief(figure: Figure, unit: Unit = PLAIN, digits: int = 4, mark: str = "") -> str:
    """Return a figure as `estimate` does, without the number of servers or runs, which stands elsewhere: `1.45 (1.31 to
    1.60)`."""
    if not figure.is_known:
        return ABSENT
    value, *ends = _parts(figure, unit, digits)
    return beside(f"{value}{mark}", ends, figure, is_counted=False)


def beside(value: str, ends: Sequence[str], figure: Figure, is_counted: bool = True) -> str:
    """Return a value with the two ends of its figure behind it, if any, in the brackets that say what they are; the
    values of two servers or runs with that number, unless it stands elsewhere."""
    if not ends:
        return value
    low, high = ends
    if not figure.is_of_two:
        return f"{value} [{low}, {high}]"
    count = f", {STATES[figure.kind][0]}" if is_counted else ""
    return f"{value} ({low} to {high}{count})"


def value_of(figure: Figure, unit: Unit = PLAIN, with_unit: bool = False, digits: int = 4) -> str:
    """Return the value of a figure alone, with the decimals of its interval: `2.871`."""
    value = _parts(figure, unit, digits)[0]
    return f"{value}{_symbol(unit, value)}" if with_unit else value


def ends_of(figure: Figure, unit: Unit = PLAIN, digits: int = 4) -> str:
    """Return the ends of a 95 % interval: `2.866, 2.874`; "" where there is none."""
    return "" if figure.is_of_two else ", ".join(_parts(figure, unit, digits)[1:])


def _parts(figure: Figure, unit: Unit, digits: int) -> list[str]:
    """Return the value; and its two ends, where they are known."""
    numbers = (figure.value, figure.low, figure.high)
    if not all(map(math.isfinite, numbers)):
        return [in_unit(figure.value, unit, digits)]
    decimals = decimals_of(figure, unit, digits)
    return [fixed(unit.of(number), decimals) for number in numbers]


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


def _symbol(unit: Unit, number: str) -> str:
    """The unit as it follows a number: `×` at once, others after a space."""
    if unit.shown in ("", "×"):
        return unit.shown
    is_one = number.removeprefix(MINUS) == "1"
    return f" {unit.singular if is_one and unit.singular else unit.shown}"


def decimals_at(value: float, digits: int) -> int:
    """Return the decimals that give a number its significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def fixed(value: float, decimals: int) -> str:
    """`1,024.50`, `−0.5`."""
    return f"{value:z,.{decimals}f}".replace("-", MINUS)  # z: zero has no sign
