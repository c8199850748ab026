"""Speedup, communication by subtraction, bandwidth and MFU. Every formula and its source is in docs/method.md.

All work on single numbers and on intervals of rounded numbers alike. Times are seconds,
GB is 10^9 bytes.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpscale.formulas.rounded import Rounded

GB = 1e9
# A batch is as fast as the best one where its throughput is less by no more than this part.
SLOWER_BY = 0.02
AS_FAST = 1 - SLOWER_BY

# What nccl-tests multiplies bytes over seconds with, to make the bandwidth of the slowest link comparable between
# operations and numbers of GPUs (doc/PERFORMANCE.md); 1 for broadcast, reduce and copies.
BUS_FACTORS = {
    "allreduce": lambda gpus: 2 * (gpus - 1) / gpus,
    "reduce_scatter": lambda gpus: (gpus - 1) / gpus,
    "all_gather": lambda gpus: (gpus - 1) / gpus,
}

Number = TypeVar("Number", float, NDArray[np.float64], Rounded)


def steps_per_epoch(epoch_images: int, gpus: int, batch_per_gpu: int) -> int:
    """ceil(D / (N*b)) steps, the last one perhaps partial."""
    return -(-epoch_images // (gpus * batch_per_gpu))


def speedup(baseline_s: Number, epoch_s: Number) -> Number:
    """T(1) / T(N). Weak where the batch per GPU is the same in both, strong where the global batch is.

    Both are whole epochs of the same images: a factor N would count the GPUs twice.
    """
    return baseline_s / epoch_s


def speedup_from_steps(gpus: int, baseline_step_s: Number, step_s: Number) -> Number:
    """N * t(1,b) / t(N,b): weak speedup from step times, where N GPUs take N times fewer steps."""
    return gpus * baseline_step_s / step_s


def efficiency(speedup: Number, gpus: int) -> Number:
    """S / N."""
    return speedup / gpus


def throughput(epoch_images: int, epoch_s: Number) -> Number:
    """D / T, images per second."""
    return epoch_images / epoch_s


def compute_s(baseline_s: Number, gpus: int) -> Number:
    """T(1,b) / N."""
    return baseline_s / gpus


def communication_s(baseline_s: Number, epoch_s: Number, gpus: int) -> Number:
    """T(N,b) - T(1,b)/N, per epoch."""
    return epoch_s - baseline_s / gpus


def communication_step_s(baseline_step_s: Number, step_s: Number) -> Number:
    """t(N,b) - t(1,b), per full step."""
    return step_s - baseline_step_s


def bandwidth_gb_s(bytes_per_step: float, steps: int, communication_s: Number) -> Number:
    """Bytes of all steps of an epoch over the epoch's communication time, in GB/s."""
    return bytes_per_step * steps / communication_s / GB


def bus_bandwidth_gb_s(operation: str, gpus: int, message_bytes: int, seconds: Number) -> Number:
    """nccl-tests' busbw, in GB/s: bytes of a message over the time of its collective (algbw), times the bus factor."""
    factor = BUS_FACTORS[operation](gpus) if operation in BUS_FACTORS else 1
    return message_bytes / seconds / GB * factor


def mfu(flop_per_image: float, images_per_s: Number, gpus: int, peak_flop_s: float) -> Number:
    """Model FLOPs utilisation: FLOP per image, forward and backward, * images/s over N * peak FLOP/s of one GPU."""
    return flop_per_image * images_per_s / (gpus * peak_flop_s)
