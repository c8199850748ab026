"""Whether a figure rises or falls over a series: said only where 95 % intervals are apart."""

from dpscale.formulas.figure import Figure


def direction(first: Figure, last: Figure) -> str:
    """From the one to the other: `rises`, `falls` or `level`; `untold` without intervals to compare. Their intervals
    are counted by claims."""
    if not (first.has_interval and last.has_interval):
        return "untold"
    if last.exceeds(first):
        return "rises"
    return "falls" if first.exceeds(last) else "level"
