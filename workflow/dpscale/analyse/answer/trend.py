"""Whether a figure rises or falls over a series: said only where 95 % intervals are apart."""

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
