"""Scaling laws fitted to the weak speedups of one series, and whether so few points can tell anything.

A law is linear in its parameters once rearranged, so least squares has a closed form, and every bootstrap draw
gets its own fit. S(1) = 1 holds by definition: it is no data point.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive


@dataclass(frozen=True)
class Law:
    """S(N) with its `parameters`, each with its physical range, and the rearrangement that is linear in them.

    `columns(N)` are the factors of the parameters in `response(N, S)`.
    """

    name: str
    parameters: Mapping[str, tuple[float, float]]
    columns: Callable[[int], tuple[float, ...]]
    response: Callable[[int, Any], Any]
    speedup: Callable[..., Any]


LAWS = (
    # Amdahl 1967: 1/S = s + (1-s)/N, s the share of one GPU's time that more GPUs do not shorten.
    Law(
        "Amdahl",
        {"serial_fraction": (0, 1)},
        columns=lambda n: (1 - 1 / n,),
        response=lambda n, s: 1 / s - 1 / n,
        speedup=lambda n, serial: 1 / (serial + (1 - serial) / n),
    ),
    # Gustafson 1988: S = N - s*(N-1), s the share of N GPUs' time that is serial.
    Law(
        "Gustafson",
        {"serial_fraction": (0, 1)},
        columns=lambda n: (n - 1,),
        response=lambda n, s: n - s,
        speedup=lambda n, serial: n - serial * (n - 1),
    ),
    # Gunther 2008, universal scalability law: S = N / (1 + sigma*(N-1) + kappa*N*(N-1)).
    Law(
        "USL",
        {"contention": (0, 1), "coherency": (0, inf)},
        columns=lambda n: (n - 1, n * (n - 1)),
        response=lambda n, s: n / s - 1,
        speedup=lambda n, sigma, kappa: n / (1 + sigma * (n - 1) + kappa * n * (n - 1)),
    ),
)


# What a parameter below zero says of the speedup. Above one, it says that more GPUs are slower than one.
BELOW = {
    "serial_fraction": "superlinear speedup",
    "contention": "superlinear speedup on few GPUs",
    "coherency": "efficiency that falls less with every further GPU than contention alone explains",
}


@dataclass(frozen=True)
class LawFit:
    """A law fitted to the speedups on some numbers of GPUs.

    `parameters` is empty where the points do not identify the law. `worst_relative_error` is that of S over the
    points, None where no degree of freedom is left. `contradicted_at` holds the numbers of GPUs at which the law's
    speedup lies outside the measured interval. `statement` says all this in words.
    """

    law: str
    parameters: Mapping[str, Figure]
    points: int
    degrees_of_freedom: int
    worst_relative_error: float | None
    contradicted_at: tuple[int, ...]
    statement: str


def fit_laws(speedups: Mapping[int, Figure]) -> list[LawFit]:
    """Every law, fitted to the weak speedups of one series by number of GPUs, each above 1."""
    return [_fit(law, dict(sorted(speedups.items()))) for law in LAWS]


def predict(fit: LawFit, gpus: int) -> Figure | None:
    """The speedup on N GPUs by a fitted law; None where the points did not identify it."""
    if not fit.parameters:
        return None
    law = next(law for law in LAWS if law.name == fit.law)
    return derive(lambda *parameters: law.speedup(gpus, *parameters), *fit.parameters.values())


def _fit(law: Law, speedups: Mapping[int, Figure]) -> LawFit:
    points, free = len(speedups), len(speedups) - len(law.parameters)
    if free < 0:
        return LawFit(law.name, {}, points, 0, None, (), f"{_count(law, speedups)}: not identified.")
    parameters = _least_squares(law, speedups)
    if free == 0:
        fit = "fits" if points == 1 else "fit"
        words = f"{_count(law, speedups)} {fit} any data exactly, so the law cannot be tested here."
        return LawFit(law.name, parameters, points, 0, None, (), words + _outside(law, parameters))
    predicted = {n: law.speedup(n, *(parameter.value for parameter in parameters.values())) for n in speedups}
    worst = max(abs(predicted[n] / measured.value - 1) for n, measured in speedups.items())
    contradicted = tuple(n for n, measured in speedups.items() if _lies_outside(predicted[n], measured))
    off = float(f"{100 * worst:.2g}")
    words = (
        f"{_count(law, speedups)}, {_number(free, 'degree')} of freedom; off by at most {off:g} % of the speedup. "
        f"{_verdict(predicted, speedups, contradicted)}{_outside(law, parameters)}"
    )
    return LawFit(law.name, parameters, points, free, worst, contradicted, words)


def _least_squares(law: Law, speedups: Mapping[int, Figure]) -> dict[str, Figure]:
    """Least squares on the rearranged law: the pseudo-inverse depends on N alone, so it serves all draws.

    Of one point a parameter falls with the speedup: its interval has the ends of that of the speedup, not of draws.
    """
    inverse = np.linalg.pinv(np.array([law.columns(n) for n in speedups], dtype=float))

    def parameter(weights: Any) -> Figure:
        def formula(*drawn: Any) -> Any:
            return sum(w * law.response(n, s) for w, n, s in zip(weights, speedups, drawn, strict=True))

        found = derive(formula, *speedups.values())
        if len(speedups) > 1 or not found.has_interval:
            return found
        (low, high) = next(iter(speedups.values())).interval
        return replace(found, low=float(formula(high)), high=float(formula(low)))

    return {name: parameter(weights) for name, weights in zip(law.parameters, inverse, strict=True)}


def _lies_outside(value: float, measured: Figure) -> bool:
    low, high = measured.interval
    return value < low or value > high  # an unknown interval, (nan, nan), contradicts nothing


def _verdict(predicted: Mapping[int, float], speedups: Mapping[int, Figure], contradicted: tuple[int, ...]) -> str:
    if any(measured.draws is None for measured in speedups.values()):
        return "Without intervals of the speedups it cannot be tested."
    if not contradicted:
        return "The speedups do not contradict it: it passes through every measured interval."
    places = (
        f"{predicted[n]:.4g} at N = {n}, measured {speedups[n].value:.4g} "
        f"[{speedups[n].interval[0]:.4g}, {speedups[n].interval[1]:.4g}]"
        for n in contradicted
    )
    return f"The speedups contradict it: it gives {'; '.join(places)}."


def _outside(law: Law, parameters: Mapping[str, Figure]) -> str:
    """What is to be said of parameters outside their physical range: they are kept as fitted, never clipped."""
    words = ""
    for name, (smallest, largest) in law.parameters.items():
        estimate = parameters[name]
        if smallest <= estimate.value <= largest:
            continue
        below = estimate.value < smallest
        low, high = estimate.interval
        within = high >= smallest if below else low <= largest
        words += (
            f" {name} = {estimate.value:.3g} is {'below' if below else 'above'} its physical range: "
            f"{BELOW[name] if below else 'slower than one GPU'}"
            f"{', though its interval reaches into the range' if within else ''}."
        )
    return words


def _count(law: Law, speedups: Mapping[int, Figure]) -> str:
    places = ", ".join(map(str, speedups))
    points = f"{_number(len(speedups), 'point')} (N = {places})" if speedups else "no point"
    return f"{law.name}: {_number(len(law.parameters), 'parameter')} from {points}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
