"""What a GPU reaches at best: in a large matrix product, and in a large copy within its memory."""

import time
from collections.abc import Callable

import torch

from dpscale.vocabulary.chips import UNITS

# As large as it needs to be for all of the chip to work, and for launches to cost nothing.
MATRIX = 8192
COPIED_BYTES = 2**30
# Long enough for clocks and power to settle where a training has them.
SECONDS = 0.3
BLOCK = 5
TYPES = {"bfloat16": torch.bfloat16, "tf32": torch.float32, "float32": torch.float32}


def chip_rates(device: torch.device, precision: str) -> dict[str, str | float]:
    """Floating point operations per second of a matrix product in what `precision` (the setting) computes in, and bytes
    read and written per second of a copy. The second half of the time counts."""
    kind = UNITS[precision][0]  # what convolutions may compute in
    left, right, out = (torch.randn(MATRIX, MATRIX, device=device, dtype=TYPES[kind]) for _ in range(3))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    try:
        product_s = _seconds(lambda: torch.matmul(left, right, out=out), device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    source, target = (torch.empty(COPIED_BYTES, device=device, dtype=torch.uint8) for _ in range(2))
    copy_s = _seconds(lambda: target.copy_(source), device)
    return {
        "precision": kind,
        "matrix_flop_per_s": 2 * MATRIX**3 / product_s,
        "copy_bytes_per_s": 2 * COPIED_BYTES / copy_s,
    }


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of one call, on average over the second half of SECONDS."""
    start, first, last = time.perf_counter(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    while time.perf_counter() - start < SECONDS / 2:
        _block(work, device)
    calls = 0
    first.record()
    while time.perf_counter() - start < SECONDS:
        _block(work, device)
        calls += BLOCK
    last.record()
    last.synchronize()
    elapsed_ms: float = first.elapsed_time(last)
    return elapsed_ms / 1e3 / calls


def _block(work: Callable[[], object], device: torch.device) -> None:
    for _ in range(BLOCK):
        work()
    torch.cuda.synchronize(device)
