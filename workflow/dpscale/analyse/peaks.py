"""Peak arithmetic of GPUs, dense, from the data sheets in `vocabulary/chips.yaml`, and what share of it was used."""

from functools import cache
from typing import Any

from dpscale.formulas.scaling import Number
from dpscale.vocabulary.chips import entries

TERA = 1e12

# The unit that does a study's convolutions, the first that the GPU has: float32 lets cuDNN use TF32 tensor cores.
UNITS = {"float32": ("tf32", "float32"), "float32-strict": ("float32",), "bfloat16": ("bfloat16",)}


def peak_flop_s(device_model: str, precision: str) -> float | None:
    """Dense FLOP/s of one GPU, named as torch names it, in a study's precision.

    None where the model is not in the table, several models are named, or the GPU has no such unit.
    """
    peaks = _table().get(device_model, {}).get("peak_tflop_s", {})
    return next((peaks[unit] * TERA for unit in UNITS[precision] if unit in peaks), None)


def peak_source(device_model: str) -> str | None:
    """The data sheet that `peak_flop_s` is from."""
    source: str | None = _table().get(device_model, {}).get("source")
    return source


def mfu(flop_per_image: float, images_per_s: Number, gpus: int, peak: float) -> Number:
    """Model FLOPs utilisation: FLOP per image, forward and backward, * images/s over N * peak FLOP/s."""
    return flop_per_image * images_per_s / (gpus * peak)


@cache
def _table() -> dict[str, dict[str, Any]]:
    """The entries of the table by every device name they stand for."""
    return {model: entry for entry in entries() for model in entry["models"]}
