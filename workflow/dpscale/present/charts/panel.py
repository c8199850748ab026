"""What a picture shows: of itself in words, and a panel of lines. What is drawn is the business of the topics."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import plain
from dpscale.tables.column import PLAIN, Unit


@dataclass(frozen=True, kw_only=True)
class Plot(ABC):
    """The words of a picture: `heading` is what to take away from it, `place` what it is of, `quantity` what it
    draws."""

    heading: str
    place: str
    quantity: str
    x_title: str

    @property
    def subtitle(self) -> str:
        return f"{self.place}. {self.quantity}"

    @property
    @abstractmethod
    def description(self) -> str:
        """The drawing in words."""


# An interval that reaches over a larger factor is not drawn where the runs can be: one doubling of devices is a step of
# the axis, so such a bar does not even tell N devices from 2N.
WIDEST_BAR = 2.0


@dataclass(frozen=True)
class Marker:
    """A figure at an x, in the unit that people read, and the `runs` that it is the mean of, where they are known."""

    x: float
    figure: Figure
    runs: Sequence[float] = ()

    @property
    def y(self) -> float:
        return self.figure.value

    @property
    def has_bar(self) -> bool:
        """Whether its interval is drawn: it has one, and that says more than its runs."""
        is_wide = self.figure.high > WIDEST_BAR * self.figure.low
        return self.figure.has_interval and not (is_wide and self.dots_without_bar)

    @property
    def dots(self) -> Sequence[float]:
        """The runs that are drawn in place of a bar."""
        return () if self.has_bar else self.dots_without_bar

    @property
    def dots_without_bar(self) -> Sequence[float]:
        """The runs, of several; the figure's ends, of two machines or runs whose values they are."""
        if len(self.runs) > 1:
            return self.runs
        return self.figure.interval if self.figure.is_of_two else ()


# An x, the figure there, and its runs where they are drawn.
Measured = tuple[float, Figure] | tuple[float, Figure, Sequence[float]]


def markers(measured: Iterable[Measured], unit: Unit = PLAIN) -> list[Marker]:
    """Return a marker for every figure that is known, by x, each with its runs if they are, as `unit` shows them."""
    in_unit = (
        Marker(x, figure.map(unit.of), [unit.of(run) for runs in runs_if_known for run in runs])
        for x, figure, *runs_if_known in measured
    )
    return sorted((marker for marker in in_unit if marker.figure.is_known), key=lambda marker: marker.x)


@dataclass(frozen=True)
class DrawnSeries:
    """A line of at least one marker. `style` numbers shape and dashes."""

    label: str
    colour: str
    style: int
    markers: Sequence[Marker]

    def described(self, unit: str) -> str:
        """Return the line in words: its two ends."""
        first, last = self.markers[0], self.markers[-1]
        ends = [first] if first is last else [first, last]
        words = [f"{f'{plain(marker.y, 3)} {unit}'.rstrip()} at {marker.x:,.0f}" for marker in ends]
        return f"{self.label}: {', '.join(words)}."


@dataclass(frozen=True)
class Guide:
    """A straight line to compare with, between two places (x, y)."""

    label: str
    start: tuple[float, float]
    end: tuple[float, float]


def level(label: str, y: float, along: Iterable[float]) -> Guide:
    """Return a guide at one y, over all of the x."""
    xs = list(along)
    return Guide(label, (min(xs), y), (max(xs), y))


@dataclass(frozen=True, kw_only=True)
class Panel(Plot):
    """Lines over axes that are logarithmic unless said to be linear; `unit` is that of y.

    Intervals are bars, and bands where both axes are linear; dots are the runs of a figure without a bar. Ticks of x
    are at the markers. From zero up to `shaded_below` the plot is grey.
    """

    y_title: str
    unit: str
    series: Sequence[DrawnSeries]
    guides: Sequence[Guide] = ()
    linear_x: bool = False
    linear_y: bool = False
    shaded_below: float | None = None

    @property
    def subtitle(self) -> str:
        has_dots = any(marker.dots for line in self.series for marker in line.markers)
        return f"{super().subtitle}{'; small circles are runs' if has_dots else ''}"

    @property
    def description(self) -> str:
        return " ".join(line.described(self.unit) for line in self.series)
