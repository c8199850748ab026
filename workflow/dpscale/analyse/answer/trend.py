"""Whether a figure rises or falls over a series: said only where 95 % intervals are apart."""

from collections.abc import Sequence
from typing import Literal

from dpscale.formulas.figure import Figure

Direction = Literal["rises", "falls", "level", "untold"]


def direction(first: Figure, last: Figure) -> Direction:
    """From the one to the other; `untold` without intervals to compare. Their intervals are counted by claims."""
    if not (first.has_interval and last.has_interval):
        return "untold"
    if last.exceeds(first):
        return "rises"
    return "falls" if first.exceeds(last) else "level"


def beyond(series: Sequence[Figure], way: Direction) -> int | None:
    """The place of the figure between the ends that is the furthest above both (`rises`) or below both (`falls`); None
    where there is none."""
    first, *between, last = series
    found = [
        at for at, figure in enumerate(between, start=1)
        if direction(first, figure) == way == direction(last, figure)
    ]  # fmt: skip
    furthest = max if way == "rises" else min
    return furthest(found, key=lambda at: series[at].value, default=None)
