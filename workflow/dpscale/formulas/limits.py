"""The limit of a training step on one GPU: its work at the rates that the GPU reached in a large matrix product and in
a large copy. docs/method.md, "Limit of a GPU", says what is counted.

All work on single numbers and on intervals alike.
"""

from dpscale.formulas.scaling import Number

# Bytes of an element of an activation, by the setting `precision`.
ELEMENT_BYTES = {"float32": 4, "float32-strict": 4, "bfloat16": 2, "bfloat16-pure": 2}
# Of weights, gradients and momentum.
PARAMETER_BYTES = {**dict.fromkeys(ELEMENT_BYTES, 4), "bfloat16-pure": 2}
# How often a step passes over an array as large as the parameters. The forward pass reads the weights; the backward
# pass reads them again, for the gradients of the layers' inputs, and writes the gradients of the weights (3). SGD with
# momentum reads weights, gradients and momentum, and writes weights and momentum (5). This is the least: casts of the
# weights to bfloat16, and an optimiser that does not do all of this in one kernel, pass more often.
PARAMETER_PASSES = 8


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
