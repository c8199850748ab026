"""What a picture shows: of itself in words, and a panel of lines. What is drawn is the business of the topics."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import plain
from dpscale.tables.column import PLAIN, Unit


@dataclass(frozen=True, kw_only=True)
class Plot(ABC):
    """What a picture shows: `heading` is what to take away from it, `place` what it is of, `quantity` what it draws."""

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
        """What is drawn, in words."""


@dataclass(frozen=True)
class Marker:
    """A figure at an x, in the unit that people read; it has a bar where it has an interval."""

    x: float
    figure: Figure

    @property
    def y(self) -> float:
        return self.figure.value


def markers(found: Iterable[tuple[float, Figure]], unit: Unit = PLAIN) -> list[Marker]:
    """Those of the figures by x that are known, as `unit` shows them."""
    known = [(x, figure) for x, figure in found if figure.is_known]
    return [Marker(x, figure.map(unit.of)) for x, figure in sorted(known, key=lambda at: at[0])]


@dataclass(frozen=True)
class DrawnSeries:
    """A line of at least one marker. `style` numbers shape and dashes."""

    label: str
    colour: str
    style: int
    markers: Sequence[Marker]

    def described(self, unit: str) -> str:
        """In words: the two ends of the line."""
        first, last = self.markers[0], self.markers[-1]
        told = [
            f"{f'{plain(marker.y, 3)} {unit}'.rstrip()} at {marker.x:,.0f}"
            for marker in ([first] if first is last else [first, last])
        ]
        return f"{self.label}: {', '.join(told)}."


@dataclass(frozen=True)
class Guide:
    """A straight line to compare with, between two places (x, y)."""

    label: str
    start: tuple[float, float]
    end: tuple[float, float]


def level(label: str, y: float, along: Iterable[float]) -> Guide:
    """At one y, over all of the x."""
    xs = list(along)
    return Guide(label, (min(xs), y), (max(xs), y))


@dataclass(frozen=True, kw_only=True)
class Panel(Plot):
    """Lines over axes that are logarithmic unless said to be linear; `unit` is that of y.

    Intervals are bars, and bands where both axes are linear. Ticks of x are at the markers.
    From zero up to `shaded_below` the plot is grey.
    """

    y_title: str
    unit: str
    series: Sequence[DrawnSeries]
    guides: Sequence[Guide] = ()
    linear_x: bool = False
    linear_y: bool = False
    shaded_below: float | None = None

    @property
    def description(self) -> str:
        return " ".join(line.described(self.unit) for line in self.series)
