"""The interval in which a rounded number lies, and arithmetic with such intervals (Moore 1966, Interval Analysis)."""

from dataclasses import dataclass
from decimal import Decimal

# Ends that touch must still touch after a few operations in floating point.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `low` to `high`. `value` is the result for the numbers exactly as they were printed.

    Division raises ZeroDivisionError where the divisor may be zero: the quotient is then not resolvable.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, printed: Decimal) -> "Interval":
        """Half a unit of the last printed digit to either side: 1.40 is 1.395 to 1.405."""
        exponent = printed.as_tuple().exponent
        assert isinstance(exponent, int)  # of a finite number
        half = Decimal((0, (5,), exponent - 1))
        return cls(float(printed), float(printed - half), float(printed + half))

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.value - other.value, self.low - other.high, self.high - other.low)

    def __mul__(self, factor: float) -> "Interval":
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.value * factor, low, high)

    __rmul__ = __mul__

    def __truediv__(self, divisor: "Interval | float") -> "Interval":
        if not isinstance(divisor, Interval):
            return self * (1 / divisor)
        inverse = 1 / divisor
        ends = [end * factor for end in (self.low, self.high) for factor in (inverse.low, inverse.high)]
        return Interval(self.value / divisor.value, min(ends), max(ends))

    def __rtruediv__(self, dividend: float) -> "Interval":
        if self.low <= 0 <= self.high:
            raise ZeroDivisionError
        low, high = sorted((dividend / self.low, dividend / self.high))
        return Interval(dividend / self.value, low, high)

    def meets(self, other: "Interval") -> bool:
        """Whether some number lies in both."""
        slack = _SLACK * max(abs(self.value), abs(other.value))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def contains(self, value: float) -> bool:
        slack = _SLACK * max(abs(self.value), abs(value))
        return self.low - slack <= value <= self.high + slack
