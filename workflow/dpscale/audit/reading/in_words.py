"""Numbers and cells in words, as sentences and warnings of an audit write them."""

from collections.abc import Sequence

from dpscale.audit.reading.published import Spot
from dpscale.formulas.rounded import Number, Rounded

NAMES = {
    "speedup": "speedup",
    "speedup_alternative": "alternative speedup",
    "efficiency": "efficiency",
    "images_per_s": "throughput",
    "compute_s": "compute time",
    "communication_s": "communication time",
    "bandwidth": "bandwidth",
    "utilisation_percent": "utilisation",
}
_SHOWN = 3


def place_words(place: Spot) -> str:
    """`batch 32 on 2 GPUs`."""
    return f"batch {place.batch_per_gpu:,} on {gpus_words(place.gpus)}"


def gpus_words(gpus: int) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{gpus} GPU{'s' if gpus > 1 else ''}"


def listed(items: Sequence[str], shown: int = _SHOWN) -> str:
    """`a, b and c`, or `a, b, c and 5 more`."""
    more = [f"{len(items) - shown:,} more"] if len(items) > shown else []
    *first, last = [*items[:shown], *more]
    return f"{', '.join(first)} and {last}" if first else last


def number(value: float, digits: int = 3) -> str:
    """So many significant digits, and at least those before the point."""
    return f"{value:#.{digits}g}".rstrip(".") if abs(value) < 10**digits else f"{value:.0f}"


def given_like(printed: Number, given: Rounded) -> str:
    """Return the figure given in place of a printed number, in its unit, with the digits that tell the two apart."""
    value, unit = printed.like(given.value)
    return f"{unlike(printed.like(float(printed))[0], value)[1]}{unit}"


def unlike(first: float, second: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ, and three at least."""
    for digits in range(3, 12):
        shown = number(first, digits), number(second, digits)
        if shown[0] != shown[1]:
            break
    return shown
