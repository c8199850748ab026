"""Axes: how far they reach, and from values to pixels and back."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpscale.present.charts.panel import Panel

# Pixels. The space around the plot is fixed, so that all panels of a page have one size: that of a phone, where text is
# not made smaller.
WIDTH, HEIGHT = 198, 240
# Ends of intervals count where they lie at most so many times as far beyond the values as these are apart; on a
# logarithmic axis within a power of ten of the values.
_REACH = 1.5
_MARGIN = 0.06
_POWERS_OF_TEN_FROM = 32


@dataclass(frozen=True)
class Axis:
    """An axis from `low` at pixel 0 to `high` at pixel `length`, logarithmic unless it is linear. Vega chooses the
    ticks where there are none."""

    low: float
    high: float
    length: float
    linear: bool
    ticks: Sequence[float] = ()

    def pixel(self, value: float) -> float:
        low, high, at = (_straight(number, self.linear) for number in (self.low, self.high, value))
        return self.length * (at - low) / (high - low)

    def value(self, pixel: float) -> float:
        share = pixel / self.length
        if self.linear:
            return self.low + (self.high - self.low) * share
        return float(self.low * (self.high / self.low) ** share)


@dataclass(frozen=True)
class Frame:
    """The axes that all panels of a chart share, to be comparable."""

    x: Axis
    y: Axis

    @classmethod
    def around(cls, panels: Sequence[Panel]) -> "Frame":
        """Room for every line, interval, run and guide of the panels. All have axes of one kind."""
        linear_x, linear_y = any(panel.linear_x for panel in panels), any(panel.linear_y for panel in panels)
        guides = [guide for panel in panels for guide in panel.guides]
        found = [marker for panel in panels for line in panel.series for marker in line.markers]
        ticks = sorted({marker.x for marker in found})
        xs = [*ticks, *(guide.start[0] for guide in guides)]
        ys = [marker.y for marker in found] + [y for guide in guides for _, y in (guide.start, guide.end)]
        ys += [end for panel in panels if panel.shaded_below for end in (0.0, panel.shaded_below)]
        ys += [run for marker in found for run in marker.dots]
        ends = [end for marker in found if marker.has_bar for end in marker.figure.interval]
        low, high = reach(ys, ends, linear_y)
        return cls(
            Axis(*reach(xs, (), linear_x), WIDTH, linear_x, ticks),
            Axis(low, high, HEIGHT, linear_y, () if linear_y else _powers(low, high)),
        )


def _straight(value: float, linear: bool) -> float:
    return value if linear else math.log(value)


def reach(values: Iterable[float], ends: Iterable[float], linear: bool) -> tuple[float, float]:
    """From the least to the most of the values with a margin, and of the ends of intervals that lie within reach."""
    found, others = ([_straight(value, linear) for value in some if linear or value > 0] for some in (values, ends))
    low, high = min(found, default=0.0), max(found, default=0.0)
    room = _REACH * (high - low) if linear else math.log(10)
    found += [end for end in others if low - room <= end <= high + room]
    low, high = min([low, *found]), max([high, *found])
    # An axis of one value has to have room as well.
    least = (0.2 * abs(high) or 2.0) if linear and low == high else 0.0 if linear else math.log(2)
    margin = max(_MARGIN * (high - low), (least - (high - low)) / 2)
    ends_of_axis = low - margin, high + margin
    return ends_of_axis if linear else (math.exp(ends_of_axis[0]), math.exp(ends_of_axis[1]))


def _powers(low: float, high: float) -> list[float]:
    """Powers of two, as devices double, or where these are many, of ten."""
    base = 10.0 if high / low > _POWERS_OF_TEN_FROM else 2.0
    return [base**power for power in range(math.ceil(math.log(low, base)), math.floor(math.log(high, base)) + 1)]
