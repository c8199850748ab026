"""How often 95 % intervals hold the truth: simulated studies whose truth is known. Prints the tables of
docs/method/statistics.md.

The first table is of three servers and more. A study times one GPU and two on so many servers, two runs on each. A
server multiplies both times by the same effect, and their ratio by an effect as large as that of a run.

The other two tables are of two servers with one run each, whose speedups borrow spread from each other. A study has
five uneven configurations. The true speedup is 1 in all of them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from dpscale.formulas import OnServer, figure
from dpscale.formulas.figure import Figure, estimate_of_blocks, interval_of_two

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


def heavy(generator: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Effects of this deviation that are sometimes far away on either side: Student's t, three degrees of freedom."""
    drawn: NDArray[np.float64] = generator.standard_t(3, shape)
    return deviation * drawn / math.sqrt(3)


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


@dataclass(frozen=True)
class TwoServers:
    """What two servers differ by, as standard deviations of the logarithm of a speedup at batch 128 and above.

    `shared` is the effect of a server and its hour, `own` that of a single configuration. The odd configuration has
    `odd` times the effects of the others. Of a share of all servers, `slow`, all speedups are lower by the share
    `slower`.
    """

    shared: float = math.hypot(0.05, 0.06)
    own: float = 0.08
    effects: Effects = normal
    odd: float = 1.0
    slow: float = 0.0
    slower: float = 0.0
    in_all: bool = False
    """Whether the effect of a server is the same at all batches. Otherwise it is one at batch 32, where all effects are
    half as large, and another at larger batches."""


# The batches of the uneven configurations of `ddp` and `dp` on two GPUs.
BATCHES = (32, 32, 128, 128, 512)
SMALL, LARGER = (32,), (128, 512)
ODD = 2
# Servers, hours and the rest differ by 5, 6 and 8 % in the recorded studies.
USUAL: Mapping[str, TwoServers] = {
    "as recorded": TwoServers(),
    "the same, heavy tails": TwoServers(effects=heavy),
    "the same, skewed": TwoServers(effects=skewed),
    "four fifths of the variance are the server's": TwoServers(shared=0.10, own=0.05),
}
BAD: Mapping[str, TwoServers] = {
    "as recorded, one configuration with three times the spread": TwoServers(odd=3),
    "as recorded, one server in ten slow by 20 % in everything": TwoServers(slow=0.1, slower=0.20),
    "as recorded, one server in ten slow by 25 % in everything": TwoServers(slow=0.1, slower=0.25),
    "a third of the spread, one server in ten slow by 25 %": TwoServers(0.026, 0.027, slow=0.1, slower=0.25),
    "a third of the spread, three servers in ten slow by 20 %": TwoServers(0.026, 0.027, slow=0.3, slower=0.20),
    "servers differ by the same in every configuration": TwoServers(0.11, 0.0, in_all=True),
}
TWO_SERVERS: Mapping[str, TwoServers] = {**USUAL, **BAD}
# How many servers all others together could count as.
OTHERS_AS = {"own spread alone": 0, "others as one server": 1, "others as two": 2, "each other as a server": 4}


@dataclass(frozen=True)
class Intervals:
    """95 % intervals of the logarithms of simulated speedups: arrays of (studies, configurations)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    apart: NDArray[np.float64]
    """How far the two servers are apart, in multiples of the usual at this batch."""

    @property
    def hold(self) -> NDArray[np.bool_]:
        """Whether they hold the truth."""
        return (self.low <= 0) & (self.high >= 0)

    @property
    def coverage(self) -> float:
        return float(self.hold.mean())

    def coverage_at(self, batches: Sequence[int]) -> float:
        """Of the configurations at these batches."""
        return float(self.hold[:, np.isin(BATCHES, batches)].mean())

    @property
    def worst_coverage(self) -> float:
        """Of the configuration that has the least."""
        return float(self.hold.mean(axis=0).min())

    @property
    def coverage_of_alike(self) -> float:
        """Of the fifth whose two servers are closest together."""
        return float(self.hold[self.apart <= np.quantile(self.apart, 0.2)].mean())

    @property
    def falsely_above(self) -> float:
        """The share that lies wholly above the truth: a false *worth it* where the truth is the limit."""
        return float((self.low > 0).mean())

    @property
    def half_width(self) -> float:
        """In the median, as a share of the speedup."""
        return math.expm1(float(np.median(self.high - self.low)) / 2)


@cache
def of_two_servers(
    case: TwoServers, others_as: int = figure.COUNTS_AS, studies: int = STUDIES, seed: int = 1
) -> Intervals:
    """The package's intervals of simulated studies; all others together count as so many servers (0: nothing is
    borrowed)."""
    speedups = _speedups(case, studies, np.random.default_rng(seed))
    with patch.object(figure, "COUNTS_AS", others_as):
        figures = [_with_intervals(study, borrow=others_as > 0) for study in speedups]
    low = np.log([[figure.low for figure in study] for study in figures])
    high = np.log([[figure.high for figure in study] for study in figures])
    return Intervals(low, high, np.abs(np.diff(np.log(speedups))[:, :, 0]) / _sizes(case))


def _sizes(case: TwoServers) -> NDArray[np.float64]:
    """How large effects are, by configuration."""
    return np.where(np.isin(BATCHES, SMALL) & (not case.in_all), 0.5, 1.0)


def _speedups(case: TwoServers, studies: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Shape (studies, configurations, servers)."""
    groups = np.isin(BATCHES, LARGER).astype(int) * (not case.in_all)
    shared = case.effects(generator, case.shared, (studies, 2, 2))[:, groups]
    own = case.effects(generator, case.own, (studies, len(BATCHES), 2))
    logarithms = _sizes(case)[:, None] * (shared + own)
    logarithms[:, ODD] *= case.odd
    is_slow = generator.random((studies, 1, 2)) < case.slow
    speedups: NDArray[np.float64] = np.exp(logarithms + math.log1p(-case.slower) * (is_slow - case.slow))
    return speedups


def _with_intervals(study: NDArray[np.float64], borrow: bool) -> list[Figure]:
    """The speedups of a study of the shape (configurations, servers)."""
    figures = [estimate_of_blocks({OnServer("run", server): s for server, s in enumerate(row)}) for row in study]
    return [
        interval_of_two(figure, uneven=borrow, lent=[*figures[:number], *figures[number + 1 :]])
        for number, figure in enumerate(figures)
    ]


def table() -> str:
    """Of three servers and more, as Markdown."""
    lines = ["| effects | servers | T(1,b) | speedup | E1 |", "|---|---|---|---|---|"]
    for case in CASES:
        for servers in SERVERS:
            lines.append(f"| {case} | {servers} | {_in_percent(covered(case, servers).values())} |")
    return "\n".join(lines)


def line_of_method(name: str) -> str:
    """Of the table of what others could count as, with effects as recorded."""
    found = of_two_servers(USUAL["as recorded"], OTHERS_AS[name])
    shares = (
        found.coverage,
        found.coverage_at(SMALL),
        found.coverage_at(LARGER),
        found.coverage_of_alike,
        found.falsely_above,
    )
    return f"| {name} | {_in_percent(shares)} | {100 * found.half_width:.0f} % |"


def line_of_case(name: str) -> str:
    """Of the table of effects: with borrowed spread, and after a slash with that of the two servers alone."""
    borrowed, own = (of_two_servers(TWO_SERVERS[name], others_as) for others_as in (figure.COUNTS_AS, 0))
    pairs = [
        (borrowed.coverage_at(SMALL), own.coverage_at(SMALL)),
        (borrowed.coverage_at(LARGER), own.coverage_at(LARGER)),
        (borrowed.worst_coverage, own.worst_coverage),
        (borrowed.falsely_above, own.falsely_above),
    ]
    shares = " | ".join(f"{100 * first:.1f} / {100 * second:.1f} %" for first, second in pairs)
    return f"| {name} | {shares} | {100 * borrowed.half_width:.0f} / {100 * own.half_width:.0f} % |"


def _in_percent(shares: Iterable[float]) -> str:
    return " | ".join(f"{100 * share:.1f} %" for share in shares)


def tables_of_two_servers() -> Iterator[str]:
    """As Markdown, line by line."""
    yield "| method | all | batch 32 | batch 128 and 512 | closest fifth | falsely above | half width |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(line_of_method, OTHERS_AS)
    yield ""
    yield "| effects | batch 32 | batch 128 and 512 | worst configuration | falsely above | half width |"
    yield "|---|---|---|---|---|---|"
    yield from map(line_of_case, TWO_SERVERS)


if __name__ == "__main__":
    print(table(), "", *tables_of_two_servers(), sep="\n")
