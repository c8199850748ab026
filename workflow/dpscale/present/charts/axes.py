"""Axes: how far they reach, from values to pixels, and where their ticks stand."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpscale.present.charts.panel import DrawnSeries, Panel

# Pixels. The space around the plot is fixed, so that all panels of a page have one size: that of a phone, where text is
# not made smaller.
WIDTH, HEIGHT = 198, 240
_LANE_HEIGHT = 18
# Bars of intervals are cut where they are so many times as long, or as short, as the values of all lines; on a linear
# axis where they reach so many times as far beyond the values as these are apart.
_REACH = 10
_LINEAR_REACH = 1.5


@dataclass(frozen=True)
class Axis:
    """An axis from `low` at pixel 0 to `high` at pixel `length`, logarithmic unless it is linear. The first of its
    `ticks` matter most."""

    low: float
    high: float
    length: float
    ticks: Sequence[float]
    linear: bool = False

    def pixel(self, value: float) -> float:
        if self.linear:
            return self.length * (value - self.low) / (self.high - self.low)
        return self.length * math.log(value / self.low) / math.log(self.high / self.low)

    def value(self, pixel: float) -> float:
        if self.linear:
            return self.low + (self.high - self.low) * pixel / self.length
        return float(self.low * (self.high / self.low) ** (pixel / self.length))

    def ticks_apart(self, gap: float) -> list[float]:
        """Those of the ticks, ascending, that are at least `gap` pixels apart; of two that are not, the first."""
        kept: list[float] = []
        for tick in self.ticks:
            if all(abs(self.pixel(tick) - self.pixel(other)) >= gap for other in kept):
                kept.append(tick)
        return sorted(kept)


@dataclass(frozen=True)
class Frame:
    """The axes that all panels of a chart share, to be comparable, and the lanes above the lines."""

    x: Axis
    y: Axis
    lanes: Sequence[str]

    @classmethod
    def around(cls, panels: Sequence[Panel]) -> "Frame":
        """Room for every line, interval, guide and lane of the panels, of which there must be one. All have axes of
        one kind."""
        series = [line for panel in panels for line in panel.series]
        lanes = sorted({line.end[1] for line in series if line.end})
        return cls(_x_axis(panels, series), _y_axis(panels, series, len(lanes)), lanes)

    def lane_y(self, word: str) -> float:
        """The y of a lane's middle."""
        return self.y.value(HEIGHT - _LANE_HEIGHT * (self.lanes.index(word) + 0.5))


def _x_axis(panels: Sequence[Panel], series: Sequence[DrawnSeries]) -> Axis:
    at = Counter(marker.x for line in series for marker in line.markers)
    xs = {*at, *(line.end[0] for line in series if line.end)}
    xs |= {guide.start[0] for panel in panels for guide in panel.guides}
    ticks = sorted(sorted(xs), key=lambda x: -at[x])
    if panels[0].linear_x:
        return Axis(*_with_margin(xs), WIDTH, ticks, linear=True)
    low, high = _with_room_beside(*_at_least_doubling(xs), series)
    if panels[0].anywhere:
        powers = _round_numbers(low, high)
        ticks = powers if len(powers) > 2 else _even_numbers(low, high)
    return Axis(low, high, WIDTH, ticks)


def _y_axis(panels: Sequence[Panel], series: Sequence[DrawnSeries], lanes: int) -> Axis:
    """With room for the lanes above all that is drawn."""
    figures = [marker.figure for line in series for marker in line.markers]
    guides = [guide for panel in panels for guide in panel.guides]
    ys = [figure.value for figure in figures] + [y for guide in guides for _, y in (guide.start, guide.end)]
    ys += [end for panel in panels if panel.shaded_below for end in (0.0, panel.shaded_below)]
    ends = [end for figure in figures if figure.has_interval for end in figure.interval]
    above = HEIGHT / (HEIGHT - lanes * _LANE_HEIGHT)
    if panels[0].linear_y:
        reach = _LINEAR_REACH * (max(ys) - min(ys))
        low, high = _with_margin([*ys, *(min(max(end, min(ys) - reach), max(ys) + reach) for end in ends)])
        return Axis(low, low + (high - low) * above, HEIGHT, _even_numbers(low, high), linear=True)
    above_zero = [y for y in ys if y > 0] or [1.0]
    least, most = min(above_zero) / _REACH, max(above_zero) * _REACH
    low, high = _at_least_doubling([*above_zero, *(min(end, most) for end in ends if end >= least)])
    ticks = _doublings(low, high) if guides else _round_numbers(low, high)
    return Axis(low, low * (high / low) ** above, HEIGHT, ticks)


def _at_least_doubling(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the values with a margin; a factor of two apart at least, as an axis has to be."""
    found = list(values)
    low, high = min(found) / 1.15, max(found) * 1.15
    widening = math.sqrt(max(1.0, 2 * low / high))
    return low / widening, high * widening


def _with_room_beside(low: float, high: float, series: Sequence[DrawnSeries]) -> tuple[float, float]:
    """The ends of a logarithmic axis, moved out so far that dots which stand aside of their x are within."""
    beside = max((abs(line.aside) for line in series), default=0.0)
    room = (high / low) ** (beside / (WIDTH - 2 * beside))
    return low / room, high * room


def _with_margin(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the values with a margin, and room between them, as a linear axis has to have."""
    found = list(values)
    low, high = min(found), max(found)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def _even_numbers(low: float, high: float) -> list[float]:
    """1, 2 or 5 times a power of ten apart, at least four of them."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = max(factor * power for factor in (1, 2, 5) if factor * power <= (high - low) / 4)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _doublings(low: float, high: float) -> list[float]:
    """Powers of two, which a reader looks for beside a guide. Of fewer than three, even numbers instead."""
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    return [2.0**power for power in powers] if len(powers) > 2 else _even_numbers(low, high)


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; of many powers these alone."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 4 else (1,)
    numbers = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [number for number in numbers if low <= number <= high]
