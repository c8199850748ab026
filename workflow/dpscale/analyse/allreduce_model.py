"""Latency-bandwidth models of allreduce, fitted to measured collectives. Seconds and bytes; GB = 10^9 bytes.

A message of m bytes over one link takes alpha + m/beta (Hockney 1994). An allreduce of n bytes takes as many
latencies as it has rounds, and the bytes that its busiest GPU sends at the link's bandwidth. Arithmetic is
neglected, and so is that NCCL changes its protocol with the size: the relative errors of a fit show what that costs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpscale.errors import DpscaleError
from dpscale.formulas.scaling import GB, ring_allreduce_bytes
from dpscale.formulas.statistics import RESAMPLES, Estimate, derive


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


@dataclass(frozen=True)
class Link:
    """What one GPU's link does: latency of a round, and seconds a byte, the inverse of its bandwidth."""

    alpha_s: Estimate
    seconds_per_byte: Estimate

    @property
    def beta_gb_s(self) -> Estimate:
        """Bandwidth in GB/s, infinite where the fit found no time that grows with the size."""
        with np.errstate(divide="ignore"):
            return derive(lambda one: 1 / np.float64(GB) / one, self.seconds_per_byte)


@dataclass(frozen=True)
class Measured:
    """An allreduce of `message_bytes` that took `seconds` on `gpus` GPUs."""

    gpus: int
    message_bytes: int
    seconds: Estimate


@dataclass(frozen=True)
class Fit:
    """A model of `algorithm` fitted to measured allreduces, and its relative error at each of them, signed."""

    algorithm: str
    link: Link
    relative_errors: tuple[float, ...]
    statement: str

    @property
    def worst_relative_error(self) -> float:
        return float(np.max(np.abs(self.relative_errors)))

    @property
    def median_relative_error(self) -> float:
        return float(np.median(np.abs(self.relative_errors)))

    def seconds(self, gpus: int, message_bytes: int) -> Estimate:
        return allreduce_s(self.algorithm, gpus, message_bytes, self.link)


def exact_link(alpha_s: float, beta_gb_s: float) -> Link:
    """A link that is configured, not measured: no spread of its own, so all draws are equal."""
    return Link(*(Estimate(value, np.full(RESAMPLES, value)) for value in (alpha_s, 1 / (beta_gb_s * GB))))


def slowest_link(*links: Link) -> Link:
    """The worse latency and the worse bandwidth of all."""
    return Link(
        derive(lambda *alphas: np.maximum.reduce(alphas), *(link.alpha_s for link in links)),
        derive(lambda *inverse: np.maximum.reduce(inverse), *(link.seconds_per_byte for link in links)),
    )


def allreduce_s(algorithm: str, gpus: int, message_bytes: int, link: Link) -> Estimate:
    """Seconds of an allreduce of n bytes in which every GPU has one such link.

    ring: 2(N-1) alpha + 2(N-1)/N n/beta. tree: 2 ceil(log2 N) alpha + 2n/beta, or n/beta on two GPUs.
    """
    rounds = ALGORITHMS[algorithm].rounds(gpus)
    bytes_sent = ALGORITHMS[algorithm].bytes_sent(gpus, message_bytes)
    return derive(lambda alpha, inverse: rounds * alpha + bytes_sent * inverse, link.alpha_s, link.seconds_per_byte)


def hierarchical_s(
    across: str, gpus: int, gpus_per_node: int, message_bytes: int, inside: Link, network: Link
) -> Estimate:
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


def fit(algorithm: str, measured: Sequence[Measured]) -> Fit:
    """Latency and bandwidth of the link that minimise the relative errors, neither negative.

    Relative, because absolute ones would let the largest messages alone decide. Raises DpscaleError where no number
    of GPUs has two sizes: latency and bandwidth cannot then be told apart.
    """
    if not any(
        one.gpus == other.gpus and one.message_bytes < other.message_bytes for one in measured for other in measured
    ):
        raise DpscaleError("allreduce was not measured at two sizes on the same number of GPUs: no model can be fitted")
    model = ALGORITHMS[algorithm]
    rounds = np.array([model.rounds(one.gpus) for one in measured], dtype=float)
    bytes_sent = np.array([model.bytes_sent(one.gpus, one.message_bytes) for one in measured], dtype=float)
    seconds = [one.seconds for one in measured]
    link = Link(
        derive(lambda *drawn: _relative_least_squares(rounds, bytes_sent, np.array(drawn))[0], *seconds),
        derive(lambda *drawn: _relative_least_squares(rounds, bytes_sent, np.array(drawn))[1], *seconds),
    )
    modelled = rounds * link.alpha_s.value + bytes_sent * link.seconds_per_byte.value
    errors = tuple(float(m / one.value - 1) for m, one in zip(modelled, seconds, strict=True))
    return Fit(algorithm, link, errors, _statement(algorithm, measured))


def fits(measured: Sequence[Measured]) -> dict[str, Fit]:
    """Every algorithm fitted to the same measurements, by name. Raises as `fit` does."""
    return {algorithm: fit(algorithm, measured) for algorithm in ALGORITHMS}


def _relative_least_squares(
    rounds: NDArray[np.float64], bytes_sent: NDArray[np.float64], seconds: NDArray[np.float64]
) -> tuple[Any, Any]:
    """alpha and 1/beta of seconds (points,) or (points, draws), both at least zero, in closed form.

    Divided by its seconds, a perfect point reads alpha*x + y/beta = 1. Where the free minimum of this convex
    function has one parameter below zero, the constrained one lies where that parameter is zero. Both cannot be.
    """
    x, y = rounds / seconds.T, bytes_sent / seconds.T
    xx, xy, yy, x1, y1 = ((a * b).sum(axis=-1) for a, b in ((x, x), (x, y), (y, y), (x, 1), (y, 1)))
    determinant = xx * yy - xy**2
    alpha, inverse = (yy * x1 - xy * y1) / determinant, (xx * y1 - xy * x1) / determinant
    return (
        np.where(inverse < 0, x1 / xx, np.maximum(alpha, 0)),
        np.where(alpha < 0, y1 / yy, np.maximum(inverse, 0)),
    )


def _statement(algorithm: str, measured: Sequence[Measured]) -> str:
    gpus = sorted({one.gpus for one in measured})
    sizes = sorted({one.message_bytes for one in measured})
    words = (
        f"{algorithm} fitted to {len(sizes)} sizes from {sizes[0]:,} to {sizes[-1]:,} bytes "
        f"on {' and '.join(map(str, gpus))} GPUs"
    )
    if gpus == [2]:
        return f"{words}. On 2 GPUs ring and tree are one model: which of them holds on more cannot be told from these."
    return f"{words}."
