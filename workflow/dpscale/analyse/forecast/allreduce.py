"""A latency and a bandwidth of allreduce for every number of GPUs, fitted to measured ones. Seconds and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpscale.formulas.ring import ring_allreduce_bytes


@dataclass(frozen=True)
class Allreduce:
    """A ring allreduce on `gpus` GPUs: a latency, and the time in which every GPU sends its bytes (Hockney 1994)."""

    gpus: int
    latency_s: float
    seconds_per_byte: float

    def seconds(self, message_bytes: int) -> float:
        return self.latency_s + ring_allreduce_bytes(self.gpus, message_bytes) * self.seconds_per_byte

    def on(self, gpus: int) -> "Allreduce":
        """The same links under another number of GPUs, more than one.

        NCCL's latency grows with the 2(N-1) rounds of a ring, but not all of it does (NCCL's src/graph/tuning.cc has a
        base latency). It is taken to lie half way between one that stays and one that grows with the rounds.
        """
        rounds = (gpus - 1) / (self.gpus - 1)
        return Allreduce(gpus, self.latency_s * (1 + rounds) / 2, self.seconds_per_byte)


def fit(gpus: int, seconds: Mapping[int, float]) -> Allreduce:
    """Latency and bandwidth that minimise the relative errors of times by message size, neither below zero.

    Relative, because absolute ones would let the largest messages alone decide. Raises ValueError for fewer than two
    sizes: latency and bandwidth cannot then be told apart.
    """
    if len(seconds) < 2:
        raise ValueError(f"two sizes of messages are needed, not {len(seconds)}")
    sent = [ring_allreduce_bytes(gpus, size) for size in seconds]
    # Divided by its time, a perfect point reads latency/t + bytes/t * seconds_per_byte = 1.
    factors = np.array([np.ones(len(sent)), sent]) / np.array(list(seconds.values()))
    scale = np.linalg.norm(factors, axis=1)
    found = np.linalg.lstsq((factors.T / scale), np.ones(len(sent)), rcond=None)[0] / scale
    if found.min() < 0:  # The least on the edge where this parameter is zero: the function is convex.
        other = int(found.argmax())
        found = np.zeros(2)
        found[other] = factors[other].sum() / scale[other] ** 2
    return Allreduce(gpus, float(found[0]), float(found[1]))
