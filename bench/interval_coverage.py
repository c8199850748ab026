"""How often 95 % intervals hold the truth: simulated studies whose truth is known. Prints the table of docs/method.md.

A study times one GPU and two on so many servers, two runs on each. A server multiplies both times by the same effect,
and their ratio by an effect as large as that of a run. `skewed` effects are lognormal with the same spread.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpscale.formulas.figure import Figure, OnServer
from dpscale.formulas.statistics import estimate_of_blocks

STUDIES = 2000
SERVERS, RUNS = (3, 4, 6), 2
EFFECT, SHARED = 0.005, 0.013
SINGLE_S, SPEEDUP, GPUS = 2.0, 1.9, 2

Effects = Callable[[np.random.Generator, float, tuple[int, ...]], NDArray[np.float64]]


def normal(generator: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Effects on a logarithm."""
    return generator.normal(0, deviation, shape)


def skewed(generator: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Effects of mean zero and this deviation that are rarely far above it: lognormal, skew 6.2."""
    drawn: NDArray[np.float64] = generator.lognormal(0, 1, shape)
    return deviation * (drawn - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


# Name, distribution of effects, and whether servers change the ratio too.
CASES: Mapping[str, tuple[Effects, bool]] = {
    "runs differ": (normal, False),
    "servers differ as runs do": (normal, True),
    "the same, skewed": (skewed, True),
}


def covered(case: str, servers: int, seed: int = 1) -> dict[str, float]:
    """The share of studies whose interval holds the truth, by figure: T(1,b), the speedup, and E1 at the printed
    T(1,b), whose truth is T(1,b)(1/S - 1/N)."""
    effects, servers_differ = CASES[case]
    generator = np.random.default_rng(seed)
    shape = (STUDIES, servers, RUNS)
    shared = effects(generator, SHARED, (STUDIES, servers, 1))
    of_ratio = effects(generator, EFFECT if servers_differ else 0.0, (STUDIES, servers, 1))
    single = SINGLE_S * np.exp(shared + effects(generator, EFFECT, shape))
    speedup = SPEEDUP * np.exp(of_ratio + effects(generator, EFFECT, shape))
    held = {"T(1,b)": 0, "speedup": 0, "E1": 0}
    for scales, speedups in zip(single, speedup, strict=True):
        scale, found = _estimate(scales), _estimate(speedups)
        e1 = found.map(lambda value, scale=scale: scale.value * (1 / value - 1 / GPUS))  # type: ignore[misc]
        held["T(1,b)"] += _holds(scale, SINGLE_S)
        held["speedup"] += _holds(found, SPEEDUP)
        held["E1"] += _holds(e1, scale.value * (1 / SPEEDUP - 1 / GPUS))
    return {name: count / STUDIES for name, count in held.items()}


def _estimate(values: NDArray[np.float64]) -> Figure:
    """Of the runs of every server."""
    return estimate_of_blocks(
        {OnServer(str(run), server): float(values[server, run]) for server, run in np.ndindex(values.shape)}
    )


def _holds(figure: Figure, truth: float) -> bool:
    return figure.low <= truth <= figure.high


def table() -> str:
    """As Markdown."""
    lines = ["| effects | servers | T(1,b) | speedup | E1 |", "|---|---|---|---|---|"]
    for case in CASES:
        for servers in SERVERS:
            shares = " | ".join(f"{100 * share:.1f} %" for share in covered(case, servers).values())
            lines.append(f"| {case} | {servers} | {shares} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
