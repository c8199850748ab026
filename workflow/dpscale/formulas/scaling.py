"""Speedup, communication by subtraction, bandwidth, MFU and the limit of a GPU. Every formula and its source is in
docs/method.md.

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

# Bytes of an element of an activation, by the setting `precision`.
ELEMENT_BYTES = {"float32": 4, "float32-strict": 4, "bfloat16": 2, "bfloat16-pure": 2}
# Of weights, gradients and momentum.
PARAMETER_BYTES = {**dict.fromkeys(ELEMENT_BYTES, 4), "bfloat16-pure": 2}
# How often a step passes over an array as large as the parameters. The forward pass reads the weights; the backward
# pass reads them again, for the gradients of the layers' inputs, and writes the gradients of the weights (3). SGD with
# momentum reads weights, gradients and momentum, and writes weights and momentum (5). This is the least: casts of the
# weights to bfloat16, and an optimiser that does not do all of this in one kernel, pass more often.
PARAMETER_PASSES = 8

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


def algorithm_bandwidth_gb_s(message_bytes: int, seconds: Number) -> Number:
    """Bytes of a message over the time of its collective, nccl-tests' algbw, in GB/s."""
    return message_bytes / seconds / GB


def bus_bandwidth_gb_s(operation: str, gpus: int, message_bytes: int, seconds: Number) -> Number:
    """nccl-tests' busbw, in GB/s."""
    return algorithm_bandwidth_gb_s(message_bytes, seconds) * (
        BUS_FACTORS[operation](gpus) if operation in BUS_FACTORS else 1
    )


def mfu(flop_per_image: float, images_per_s: Number, gpus: int, peak_flop_s: float) -> Number:
    """Model FLOPs utilisation: FLOP per image, forward and backward, * images/s over N * peak FLOP/s of one GPU."""
    return flop_per_image * images_per_s / (gpus * peak_flop_s)


def compute_s_per_image(flop_per_image: float, matrix_flop_per_s: Number) -> Number:
    """Counted FLOP of an image, forward and backward, over the FLOP/s of a large matrix product, in s."""
    return flop_per_image / matrix_flop_per_s


def traffic_bytes_per_step(elements_per_image: float, batch: int, precision: str, parameters: int) -> float:
    """Bytes that a step reads and writes in the GPU's memory: activations and their gradients, which grow with the
    batch, and `PARAMETER_PASSES` over the parameters, which do not."""
    activations = elements_per_image * batch * ELEMENT_BYTES[precision]
    return activations + PARAMETER_PASSES * PARAMETER_BYTES[precision] * parameters


def memory_s_per_image(bytes_per_step: float, batch: int, copy_bytes_per_s: Number) -> Number:
    """The bytes of a step over the bytes/s of a large copy, for one of its images, in s."""
    return bytes_per_step / batch / copy_bytes_per_s


def limit_images_per_s(compute_s: Number, memory_s: Number) -> Number:
    """Images per second of one GPU that computes, and then reads and writes: 1 / (compute + memory)."""
    return 1 / (compute_s + memory_s)
