"""The interval in which a printed number lies, and arithmetic with such intervals (Moore 1966, Interval Analysis).

A `Figure` is a mean with the interval of its statistics; its arithmetic is another.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

# Ends that touch must still touch after a few operations in floating point.
_SLACK = 1e-9


def exponent_of(printed: Decimal) -> int:
    """The power of ten of the last digit of a finite number: -2 of 1.40."""
    exponent = printed.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


@dataclass(frozen=True, slots=True)
class Rounded:
    """All numbers from `low` to `high`. `value` is the result for the numbers exactly as they were printed.

    Division raises ZeroDivisionError where the divisor may be zero: the quotient is then not resolvable.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, printed: Decimal) -> "Rounded":
        """Half a unit of the last printed digit to either side: 1.40 is 1.395 to 1.405."""
        half = Decimal((0, (5,), exponent_of(printed) - 1))
        return cls(float(printed), float(printed - half), float(printed + half))

    def __add__(self, added: "Rounded") -> "Rounded":
        return Rounded(self.value + added.value, self.low + added.low, self.high + added.high)

    def __sub__(self, subtracted: "Rounded") -> "Rounded":
        return Rounded(self.value - subtracted.value, self.low - subtracted.high, self.high - subtracted.low)

    def __mul__(self, factor: float) -> "Rounded":
        low, high = sorted((self.low * factor, self.high * factor))
        return Rounded(self.value * factor, low, high)

    __rmul__ = __mul__

    def __truediv__(self, divisor: "Rounded | float") -> "Rounded":
        if not isinstance(divisor, Rounded):
            return self * (1 / divisor)
        inverse = 1 / divisor
        ends = [end * factor for end in (self.low, self.high) for factor in (inverse.low, inverse.high)]
        return Rounded(self.value / divisor.value, min(ends), max(ends))

    def __rtruediv__(self, dividend: float) -> "Rounded":
        if not self.is_not_zero:
            raise ZeroDivisionError
        low, high = sorted((dividend / self.low, dividend / self.high))
        return Rounded(dividend / self.value, low, high)

    @property
    def is_not_zero(self) -> bool:
        """For certain."""
        return self.low > 0 or self.high < 0

    @property
    def half(self) -> float:
        """How far it is known, to either side."""
        return (self.high - self.low) / 2

    def meets(self, interval: "Rounded") -> bool:
        """Whether some number lies in both."""
        slack = _SLACK * max(abs(self.value), abs(interval.value))
        return self.low <= interval.high + slack and interval.low <= self.high + slack

    def contains(self, value: float) -> bool:
        slack = _SLACK * max(abs(self.value), abs(value))
        return self.low - slack <= value <= self.high + slack


@dataclass(frozen=True)
class Number:
    """A printed number: how it is shown, and what it stands for in the unit of its quantity.

    `if_cut` is that where further digits were left out, not rounded: 1.40 for 1.40 to 1.41; and 40,300, a whole number
    that ends in zeros, for 40,250 to 40,350.
    """

    shown: str
    interval: Rounded
    if_cut: Rounded

    @classmethod
    def of(cls, digits: Decimal, convert: Callable[[Rounded], Rounded] | None = None, shown: str = "") -> "Number":
        """`convert` takes the unit that it was printed in to that of the quantity: its interval, not its digits."""
        near, towards = Rounded.of(digits), 1 if digits >= 0 else -1
        beyond = near.value + towards * 2 * near.half
        readings = near, Rounded(near.value, *sorted((near.value, beyond)))
        # Three digits are significant at least.
        zeros = min(exponent_of(digits.normalize()), digits.adjusted() - 2)
        if zeros > exponent_of(digits) == 0:
            readings = near, Rounded.of(digits.quantize(Decimal((0, (1,), zeros))))
        return cls(shown or str(digits), *(convert(reading) if convert else reading for reading in readings))

    def either(self) -> "Number":
        """Return the number for digits that were either rounded or cut."""
        low, high = min(self.interval.low, self.if_cut.low), max(self.interval.high, self.if_cut.high)
        return replace(self, interval=Rounded(self.interval.value, low, high))

    def like(self, value: float) -> tuple[float, str]:
        """Return a value in the unit that this was printed in, and that unit, with a space before it."""
        digits, space, unit = self.shown.partition(" ")
        factor = float(self) / float(digits) if float(digits) else 1.0
        return value / factor, f"{space}{unit}"

    def __float__(self) -> float:
        return self.interval.value

    def __str__(self) -> str:
        return self.shown
