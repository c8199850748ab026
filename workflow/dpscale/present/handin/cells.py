"""A figure of the assignment's tables as it is printed, and the word that says what it is or why there is none."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.text.numbers import ABSENT, MINUS, beside, decimals_at, decimals_of, fixed, in_unit
from dpscale.present.text.words import state
from dpscale.tables.column import Unit
from dpscale.vocabulary.states import AT_LEAST, MARK, OTHER_RUNS, STATES

_DIGITS = 4


@dataclass(frozen=True)
class PrintedCell:
    """Value and ends of a figure as they are printed; "" where there is none. A lower bound has `low` alone.

    `states` are statuses and kinds.
    """

    value: str = ""
    low: str = ""
    high: str = ""
    states: tuple[str, ...] = ()
    figure: Figure = UNKNOWN

    @property
    def text(self) -> str:
        """`3.86 [3.71, 4.02]`, `1.45 (1.31 to 1.60, 2 runs)`, `≥ 13.2`, or a dash; with a mark where
        the printed times are of other runs."""
        return self._printed(is_counted=True)

    @property
    def brief(self) -> str:
        """Its text without the number of machines or runs, which caption or state has: `1.45 (1.31 to 1.60)`."""
        return self._printed(is_counted=False)

    def _printed(self, is_counted: bool) -> str:
        mark = MARK if OTHER_RUNS in self.states else ""
        if not self.value:
            return f"{AT_LEAST} {self.low}{mark}" if self.low else ABSENT
        return beside(f"{self.value}{mark}", [self.low, self.high] if self.low else [], self.figure, is_counted)

    @property
    def plain(self) -> list[str]:
        """Value, low, high and state for a program to read."""
        numbers = [number.replace(",", "").replace(MINUS, "-") for number in (self.value, self.low, self.high)]
        return [*numbers, words(self.states)]


def cell(figure: Figure, unit: Unit, *states: str) -> PrintedCell:
    """With as many digits as divisions and differences need that are done again with what is printed."""
    if not figure.is_known:
        return PrintedCell(states=states)
    known = (*([figure.kind] if figure.kind in STATES else []), *states)
    if not (isfinite(figure.low) and isfinite(figure.high)):
        return PrintedCell(in_unit(figure.value, unit, _DIGITS), states=known, figure=figure)
    of_unit = unit.decimals is not None
    decimals = decimals_of(figure, unit) if of_unit else decimals_at(unit.of(figure.value), _DIGITS)
    value, low, high = (fixed(unit.of(number), decimals) for number in (figure.value, figure.low, figure.high))
    return PrintedCell(value, low, high, known, figure)


def words(states: Iterable[str]) -> str:
    """The words of these statuses and kinds: `one machine, drift`."""
    return ", ".join(dict.fromkeys(map(state, states)))
