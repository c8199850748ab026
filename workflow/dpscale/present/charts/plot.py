"""What all pictures say of themselves, and how much of them is drawn."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


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
    def size(self) -> int:
        """How many points or bars there are to draw."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What is drawn, in words."""


def evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]
