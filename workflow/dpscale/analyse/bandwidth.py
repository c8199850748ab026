"""Bytes that an allreduce moves, and the bandwidth that a communication time implies. GB = 10^9 bytes."""

from dpscale.analyse.scaling import Number
from dpscale.analyse.statistics import Estimate

GB = 1e9


def ring_allreduce_bytes(gpus: int, gradient_bytes: int) -> float:
    """Bytes a GPU sends per step, 2 * (N-1)/N * K*s: reduce-scatter then all-gather (Patarasuk and Yuan 2009)."""
    return 2 * (gpus - 1) / gpus * gradient_bytes


def bandwidth_gb_s(bytes_per_step: float, steps: int, communication_s: Number) -> Number:
    """Bytes of all steps of an epoch over the epoch's communication time, in GB/s."""
    return bytes_per_step * steps / communication_s / GB


def resolvable(communication: Estimate) -> bool:
    """Whether a bandwidth can be told: the communication time is positive and its interval excludes zero."""
    return communication.value > 0 and communication.interval[0] > 0  # no interval is not above zero either
