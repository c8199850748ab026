"""Latency-bandwidth models of allreduce, fitted to measured collectives. Seconds and bytes; GB = 10^9 bytes.

An allreduce of n bytes takes a base latency, which does not depend on the number of GPUs (NCCL's own tuning model has
one too, src/graph/tuning.cc), a latency for each of its rounds (Hockney 1994), and the time in which its busiest GPU
sends its bytes at the link's bandwidth. So an allreduce has a latency of its own on every number of GPUs.

Arithmetic is neglected, and so is that NCCL changes its protocol with the size. What the model misses of the measured
points, its misfit, is therefore part of every interval: a time that the model gives is off as its points are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import combinations
from typing import Any
from zlib import crc32

import numpy as np

from dpscale.errors import DpscaleError
from dpscale.formulas.figure import Figure, Floats
from dpscale.formulas.ring import ring_allreduce_bytes
from dpscale.formulas.scaling import GB
from dpscale.formulas.statistics import RESAMPLES, derive


@dataclass(frozen=True)
class Algorithm:
    """Rounds of an allreduce over N GPUs, and the bytes that the busiest of them sends of n."""

    rounds: Callable[[int], int]
    bytes_sent: Callable[[int, int], float]


ALGORITHMS = {
    # Reduce-scatter then all-gather, N-1 rounds each (Thakur, Rabenseifner and Gropp 2005; Patarasuk and Yuan 2009).
    "ring": Algorithm(rounds=lambda gpus: 2 * (gpus - 1), bytes_sent=ring_allreduce_bytes),
    # Two binary trees, half of the message each, a GPU an inner node in at most one of them (Sanders, Speck and Traeff
    # 2009; NCCL's trees.cc), reduced up and broadcast down in a pipeline whose chunks are small enough that filling
    # it costs latency alone. An inner node with two children sends n/2 up, n/2 down to each, and n/2 up as a leaf of
    # the other tree: 2n, which NCCL's own tuning model also takes (half the bus bandwidth). Two GPUs share one
    # edge in each tree and send n each, as in a ring.
    "tree": Algorithm(
        rounds=lambda gpus: 2 * (gpus - 1).bit_length(),
        bytes_sent=lambda gpus, message_bytes: min(gpus - 1, 2) * message_bytes,
    ),
}

# What is left of an allreduce for the links between nodes, at least, where its part inside them was slower alone.
LEAST_SHARE = 0.01

EXACT = Figure.of_draws(1.0, np.ones(RESAMPLES))


@dataclass(frozen=True)
class LinkModel:
    """What one GPU's link does: base latency of an allreduce, latency of a round, and seconds per byte.

    `misfit` is measured over modelled time: 1, with what the model misses as its spread. Intervals are not known where
    there are as many parameters as measured points.
    """

    base_s: Figure
    alpha_s: Figure
    seconds_per_byte: Figure
    misfit: Figure = field(default=EXACT)

    @property
    def beta_gb_s(self) -> Figure:
        """Bandwidth in GB/s, infinite where the fit found no time that grows with the size."""
        with np.errstate(divide="ignore"):
            return derive(lambda seconds_per_byte: 1 / np.float64(GB) / seconds_per_byte, self.seconds_per_byte)


@dataclass(frozen=True)
class Measured:
    """An allreduce of `message_bytes` that took `seconds` on `gpus` GPUs, which fill `nodes`."""

    gpus: int
    message_bytes: int
    seconds: Figure
    nodes: int = 1


@dataclass(frozen=True)
class Fit:
    """A model of `algorithm` fitted to allreduces on `gpus`, and its signed relative error at each of them."""

    algorithm: str
    link: LinkModel
    gpus: tuple[int, ...]
    relative_errors: tuple[float, ...]
    statement: str

    @property
    def median_relative_error(self) -> float:
        return float(np.median(np.abs(self.relative_errors)))

    def errors_on(self, gpus: int) -> tuple[float, ...]:
        """The signed relative errors at the allreduces on this number of GPUs."""
        return tuple(error for n, error in zip(self.gpus, self.relative_errors, strict=True) if n == gpus)

    def latency_s(self, gpus: int) -> Figure:
        """The latency of an allreduce on so many GPUs: what one of no bytes would take."""
        return allreduce_s(self.algorithm, gpus, 0, self.link)

    def seconds(self, gpus: int, message_bytes: int) -> Figure:
        return allreduce_s(self.algorithm, gpus, message_bytes, self.link)


def exact_link(alpha_s: float, beta_gb_s: float, base_s: float = 0.0) -> LinkModel:
    """A link that is configured, not measured: no spread of its own, so all draws are equal."""
    return LinkModel(
        *(Figure.of_draws(value, np.full(RESAMPLES, value)) for value in (base_s, alpha_s, 1 / (beta_gb_s * GB)))
    )


def slowest_link(link: LinkModel, other: LinkModel) -> LinkModel:
    """The worst latencies, bandwidth and misfit of both."""
    return LinkModel(
        *(derive(np.maximum, *(getattr(one, part.name) for one in (link, other))) for part in fields(LinkModel))
    )


def allreduce_s(algorithm: str, gpus: int, message_bytes: int, link: LinkModel) -> Figure:
    """Seconds of an allreduce of n bytes in which every GPU has one such link.

    ring: base + 2(N-1) alpha + 2(N-1)/N n/beta. tree: base + 2 ceil(log2 N) alpha + 2n/beta, or n/beta on two GPUs.
    """
    rounds = ALGORITHMS[algorithm].rounds(gpus)
    bytes_sent = ALGORITHMS[algorithm].bytes_sent(gpus, message_bytes)
    starts = 1 if rounds else 0  # one GPU alone starts no allreduce
    return derive(
        lambda misfit, base, alpha, inverse: misfit * (starts * base + rounds * alpha + bytes_sent * inverse),
        link.misfit,
        link.base_s,
        link.alpha_s,
        link.seconds_per_byte,
    )


def hierarchical_s(
    across: str, gpus: int, gpus_per_node: int, message_bytes: int, inside: LinkModel, network: LinkModel
) -> Figure:
    """Seconds of an allreduce over nodes of g GPUs, each with its own share of the node's network.

    Reduce-scatter inside the node, allreduce of every GPU's n/g bytes across nodes by the algorithm `across`,
    all-gather inside the node: the first and the last are a ring allreduce over g GPUs. The three do not overlap.
    Raises DpscaleError where the GPUs do not fill whole nodes.
    """
    if gpus % gpus_per_node:
        raise DpscaleError(f"{gpus} GPUs do not fill nodes of {gpus_per_node}: forecast whole nodes only")
    inside_s = allreduce_s("ring", gpus_per_node, message_bytes, inside)
    share_bytes = -(-message_bytes // gpus_per_node)
    across_s = allreduce_s(across, gpus // gpus_per_node, share_bytes, network)
    return derive(lambda *parts: sum(parts), inside_s, across_s)


def fit(algorithm: str, measured: Sequence[Measured], noun: str = "GPUs") -> Fit:
    """Latencies and bandwidth of the link that minimise the relative errors, none negative.

    Relative, because absolute ones would let the largest messages alone decide. Intervals are a bootstrap of the
    residuals (Davison and Hinkley 1997, section 6.2), widened for the parameters, and hold the spread of the timings
    where that is known. Raises DpscaleError where no number of GPUs has two sizes: latency and bandwidth cannot then
    be told apart.
    """
    places = {(timing.gpus, timing.message_bytes) for timing in measured}
    if len(places) == len({gpus for gpus, _ in places}):
        raise DpscaleError("allreduce was not measured at two sizes on the same number of GPUs: no model can be fitted")
    model = ALGORITHMS[algorithm]
    rounds = np.array([model.rounds(timing.gpus) for timing in measured], dtype=float)
    bytes_sent = np.array([model.bytes_sent(timing.gpus, timing.message_bytes) for timing in measured], dtype=float)
    seconds = np.array([timing.seconds.value for timing in measured])
    # All with as many rounds: what of the latency is base and what grows with the rounds cannot be told.
    rounds_differ = len(set(rounds)) > 1
    factors = np.stack([np.ones_like(rounds), *([rounds] if rounds_differ else []), bytes_sent], axis=1)

    def parameters(times: Floats, base_share: Floats) -> Floats:
        """Base latency, latency of a round and seconds per byte of times (draws, points), shape (3, draws)."""
        found = _relative_least_squares(factors, times).T
        if rounds_differ:
            return found
        latency, inverse = found
        return np.stack([base_share * latency, (1 - base_share) * latency / rounds[0], inverse])

    values = parameters(seconds[None], np.array([0.5]))[:, 0]
    modelled: Floats = np.stack([np.ones_like(rounds), rounds, bytes_sent], axis=1) @ values
    free = len(measured) - factors.shape[1]
    drawn: Sequence[Floats | None] = (None, None, None, None)
    if free:
        label = f"{algorithm} {[(timing.gpus, timing.message_bytes) for timing in measured]}"
        random = np.random.default_rng(crc32(label.encode()))
        missed = (seconds / modelled) ** np.sqrt(len(measured) / free)
        centred = missed / np.exp(np.log(missed).mean())
        resampled = modelled * centred[random.integers(0, len(missed), (RESAMPLES, len(missed)))]
        found = parameters(resampled * _relative_spread(measured), random.random(RESAMPLES))
        drawn = [*found, missed[random.integers(0, len(missed), RESAMPLES)]]
    link = LinkModel(
        *(Figure.of_draws(float(value), draws) for value, draws in zip((*values, 1.0), drawn, strict=True))
    )
    errors = tuple(float(error) for error in modelled / seconds - 1)
    gpus = tuple(timing.gpus for timing in measured)
    return Fit(algorithm, link, gpus, errors, _statement(algorithm, measured, rounds_differ, free, noun))


def fits_between(measured: Sequence[Measured], inside: LinkModel | None) -> dict[str, Fit]:
    """Every algorithm fitted to what allreduces over several nodes take beyond their part `inside` the nodes, by name:
    the links between nodes. Its numbers of GPUs are numbers of nodes, its bytes those of one GPU of every node.

    Raises DpscaleError as `fit` does, and where nodes have several GPUs and nothing was measured inside one.
    """
    across = []
    for timing in measured:
        per_node = timing.gpus // timing.nodes
        seconds = timing.seconds
        if per_node > 1:
            if inside is None:
                raise DpscaleError("allreduce was measured between nodes, but not inside one: its parts cannot be told")
            inside_s = allreduce_s("ring", per_node, timing.message_bytes, inside)
            seconds = derive(lambda whole, part: np.maximum(whole - part, LEAST_SHARE * whole), seconds, inside_s)
        across.append(Measured(timing.nodes, -(-timing.message_bytes // per_node), seconds))
    return fits(across, "nodes")


def fits(measured: Sequence[Measured], noun: str = "GPUs") -> dict[str, Fit]:
    """Every algorithm fitted to the same measurements, by name. Raises as `fit` does."""
    return {algorithm: fit(algorithm, measured, noun) for algorithm in ALGORITHMS}


class Fitted:
    """Every algorithm, by name, fitted to allreduces inside a node and to those between nodes."""

    def __init__(self, measured: Sequence[Measured]):
        self._inside = [timing for timing in measured if timing.nodes == 1]
        self._between = [timing for timing in measured if timing.nodes > 1]

    @property
    def network_is_measured(self) -> bool:
        """Whether anything was measured between nodes."""
        return bool(self._between)

    @cached_property
    def inside(self) -> dict[str, Fit]:
        """Raises DpscaleError where too little was measured inside a node."""
        if self._between and not self._inside:
            raise DpscaleError("allreduce was measured between nodes, but not inside one")
        return fits(self._inside)

    @cached_property
    def between(self) -> dict[str, Fit]:
        """Empty where nothing was measured between nodes. Raises DpscaleError where it was too little."""
        if not self._between:
            return {}
        return fits_between(self._between, self.inside["ring"].link if self._inside else None)


def _relative_spread(measured: Sequence[Measured]) -> Any:
    """The draws of every timing over its value, (draws, points); 1 where one has no draws."""
    drawn = [timing.seconds.draws / timing.seconds.value for timing in measured if timing.seconds.draws is not None]
    return np.stack(drawn, axis=1) if len(drawn) == len(measured) else 1.0


def _relative_least_squares(factors: Floats, seconds: Floats) -> Floats:
    """Parameters (draws, parameters) of seconds (draws, points), none below zero.

    Divided by its seconds, a perfect point reads factors*parameters = 1. The constrained minimum of this convex
    function is a free minimum over some of the parameters, the others being zero: of those minima that are nowhere
    negative, it is the lowest one.
    """
    scale = np.linalg.norm(factors, axis=0)
    x = factors / scale / seconds[:, :, None]
    gram, right = np.einsum("dpi,dpj->dij", x, x), x.sum(axis=1)
    best = np.zeros_like(right)
    gained = np.zeros(len(right))
    for number in range(1, factors.shape[1] + 1):
        for kept in map(list, combinations(range(factors.shape[1]), number)):
            found = np.zeros_like(right)
            found[:, kept] = np.linalg.solve(gram[:, kept][:, :, kept], right[:, kept, None])[..., 0]
            gain = (found * right).sum(axis=1)
            better = (found >= 0).all(axis=1) & (gain > gained)
            best[better], gained[better] = found[better], gain[better]
    parameters: Floats = best / scale
    return parameters


def _statement(algorithm: str, measured: Sequence[Measured], rounds_differ: bool, free: int, noun: str) -> str:
    """What was fitted, and what cannot be told from it. `noun` is what the numbers of GPUs count."""
    gpus = sorted({timing.gpus for timing in measured})
    sizes = sorted({timing.message_bytes for timing in measured})
    words = (
        f"{algorithm} fitted to {len(sizes)} sizes from {sizes[0]:,} to {sizes[-1]:,} bytes "
        f"on {' and '.join(map(str, gpus))} {noun}."
    )
    if gpus == [2]:
        words += f" On 2 {noun} ring and tree are one model: which of them holds on more cannot be told from these."
    if not rounds_differ:
        words += (
            f" How the latency grows with the number of {noun} cannot be told either: intervals go from a latency that "
            "stays to one that grows with the rounds."
        )
    if not free:
        words += " There are as many parameters as points, so what the model misses is not known."
    return words
