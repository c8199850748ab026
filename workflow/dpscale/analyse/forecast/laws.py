"""Scaling laws fitted to the weak speedups of one series, and whether so few points can tell anything.

A law is linear in its parameters once rearranged, so least squares has a closed form, and every bootstrap draw
gets its own fit. S(1) = 1 holds by definition: it is no data point.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np

from dpscale.formulas.figure import UNKNOWN, Figure
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
    """A law fitted to the speedups on some numbers of GPUs. Without `parameters` the points do not identify it."""

    law: Law
    speedups: Mapping[int, Figure]
    parameters: Mapping[str, Figure]

    @property
    def degrees_of_freedom(self) -> int:
        return max(0, len(self.speedups) - len(self.law.parameters))

    @property
    def worst_relative_error(self) -> float:
        """Of S over the points; NaN where no degree of freedom is left."""
        errors = (abs(self._value(n) / measured.value - 1) for n, measured in self.speedups.items())
        return max(errors) if self.degrees_of_freedom else nan

    @property
    def contradicted_at(self) -> tuple[int, ...]:
        """The numbers of GPUs at which the law's speedup lies outside the measured interval."""
        if not self.degrees_of_freedom:
            return ()
        known = {n: measured for n, measured in self.speedups.items() if measured.has_interval}
        return tuple(n for n, measured in known.items() if not measured.holds(self._value(n)))

    def predict(self, gpus: int) -> Figure:
        """The speedup on N GPUs; unknown where the points did not identify the law."""
        if not self.parameters:
            return UNKNOWN
        return derive(lambda *parameters: self.law.speedup(gpus, *parameters), *self.parameters.values())

    def _value(self, gpus: int) -> float:
        return float(self.law.speedup(gpus, *(parameter.value for parameter in self.parameters.values())))

    @property
    def statement(self) -> str:
        """Whether so few points can tell anything, in words."""
        points = f"{_number(len(self.speedups), 'point')} (N = {', '.join(map(str, self.speedups))})"
        if not self.speedups:
            points = "no point"
        count = f"{self.law.name}: {_number(len(self.law.parameters), 'parameter')} from {points}"
        if not self.parameters:
            return f"{count}: not identified."
        if not self.degrees_of_freedom:
            fit = "fits" if len(self.speedups) == 1 else "fit"
            return f"{count} {fit} any data exactly, so the law cannot be tested here.{self._outside}"
        off = float(f"{100 * self.worst_relative_error:.2g}")
        return (
            f"{count}, {_number(self.degrees_of_freedom, 'degree')} of freedom; off by at most {off:g} % of the "
            f"speedup. {self._verdict}{self._outside}"
        )

    @property
    def _verdict(self) -> str:
        if any(measured.draws is None for measured in self.speedups.values()):
            return "Without intervals of the speedups it cannot be tested."
        if not self.contradicted_at:
            return "The speedups do not contradict it: it passes through every measured interval."
        places = (
            f"{self._value(n):.4g} at N = {n}, measured {self.speedups[n].value:.4g} "
            f"[{self.speedups[n].low:.4g}, {self.speedups[n].high:.4g}]"
            for n in self.contradicted_at
        )
        return f"The speedups contradict it: it gives {'; '.join(places)}."

    @property
    def _outside(self) -> str:
        """What is to be said of parameters outside their physical range: they are kept as fitted, never clipped."""
        words = ""
        for name, (smallest, largest) in self.law.parameters.items():
            fitted = self.parameters[name]
            if smallest <= fitted.value <= largest:
                continue
            below = fitted.value < smallest
            within = fitted.high >= smallest if below else fitted.low <= largest
            words += (
                f" {name} = {fitted.value:.3g} is {'below' if below else 'above'} its physical range: "
                f"{BELOW[name] if below else 'slower than one GPU'}"
                f"{', though its interval reaches into the range' if within else ''}."
            )
        return words


def fit_laws(speedups: Mapping[int, Figure]) -> list[LawFit]:
    """Every law, fitted to the weak speedups of one series by number of GPUs, each above 1."""
    ordered = dict(sorted(speedups.items()))
    return [
        LawFit(law, ordered, _least_squares(law, ordered) if len(ordered) >= len(law.parameters) else {})
        for law in LAWS
    ]


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
        (measured,) = speedups.values()
        return replace(found, low=float(formula(measured.high)), high=float(formula(measured.low)))

    return {name: parameter(weights) for name, weights in zip(law.parameters, inverse, strict=True)}


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
