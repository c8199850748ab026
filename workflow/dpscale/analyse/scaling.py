"""Speedup, efficiency, throughput and steps: the formulas of METHOD, "Derived figures".

All work on single numbers, on arrays of bootstrap draws and on intervals of rounded numbers alike. Times are seconds.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpscale.analyse.interval import Interval

Number = TypeVar("Number", float, NDArray[np.float64], Interval)


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
