"""What kind of work fills a profiled step of one GPU: its kernels by class, from their names alone.

The profiler is a witness: it explains the step in shares of the profiled step, and makes no headline time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from dpscale.analyse.blocks import run_name
from dpscale.analyse.estimators import DISTORTED as DISTORTED_BEYOND
from dpscale.analyse.points import Row, figures
from dpscale.analyse.variants.rows import Variant
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import estimate_of_blocks
from dpscale.records.files import Record
from dpscale.vocabulary.states import DISTORTED

CONVOLUTION, BATCH_NORM, ELEMENT_WISE, COPY, OTHER = "convolution", "batch_norm", "element_wise", "copy", "other"
CLASSES = (CONVOLUTION, BATCH_NORM, ELEMENT_WISE, COPY, OTHER)
IDLE = "idle"

# The first that a name matches decides. Names are those that torch on CUDA has for its own kernels and for those of
# cuDNN, cuBLAS and Inductor (`triton_`). Inductor names a kernel after all that it fused: one of points (`poi`) is
# element-wise whatever else its name says, one that reduces (`red`, `per`) is batch-norm where it holds any of it.
_PATTERNS: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        # Copies, casts, and cuDNN's changes of layout between NCHW and NHWC, with padding or without.
        (COPY, r"^mem(cpy|set)|nchwtonhwc|nhwctonchw|addpadding|copy_kernel|CatArrayBatchedCopy"),
        (ELEMENT_WISE, r"^triton_(poi|for)_"),
        (BATCH_NORM, r"batch_?norm|\bbn_(fw|bw)"),
        (OTHER, r"^triton_(?!tem_)"),
        # The last layer's matrix product too: cuDNN does convolutions of 1x1 as such, and the names do not tell.
        (
            CONVOLUTION,
            r"fprop|dgrad|wgrad|implicit_|winograd|im2col|gemm|gemv|cutlass|nvjet|splitkreduce|conv(?!ert)"
            r"|^triton_tem_",
        ),
        (ELEMENT_WISE, r"elementwise|multi_tensor_apply"),
    )
)


def kernel_class(name: str) -> str:
    """The class of a kernel or copy by its name, one of `CLASSES`."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), OTHER)


def seconds_by_class(kernels: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds per step in the kernels of every class."""
    spent = dict.fromkeys(CLASSES, 0.0)
    for kernel in kernels:
        spent[kernel_class(kernel["name"])] += kernel["total_s"]
    return spent


def shares(profile: Mapping[str, Any]) -> dict[str, float]:
    """Shares of a profiled step, by class and idle; together 1.

    Where kernels run at the same time, the time in which the GPU is busy is divided among the classes in proportion.
    """
    spent = seconds_by_class(profile["kernels"])
    busy = min(1.0, profile["busy_s"] / profile["step_s"])
    total_s = sum(spent.values())
    of_step = {kind: busy * seconds / total_s if total_s else 0.0 for kind, seconds in spent.items()}
    return {**of_step, IDLE: max(0.0, 1 - sum(of_step.values()))}


def kernel_rows(variants: Iterable[Variant]) -> Iterator[Row]:
    """A row for every variant's profiled step on one GPU."""
    for variant in variants:
        # A record stands in the points of every scope, and is profiled once.
        scope = next(iter(variant.study["scopes"]))
        for point in variant.points.values():
            profiled = [record for record in point.records if record.get("profile")]
            if profiled and point.scope == scope:
                place = {name: value for name, value in point.keys.items() if name != "scope"}
                yield {"variant": variant.name, **place, **_figures(profiled, f"{variant.name} {point.configuration}")}


def _figures(records: Sequence[Record], label: str) -> Row:
    by_run = {run_name(record): record["profile"] for record in records}
    of_step = {run: shares(profile) for run, profile in by_run.items()}
    slows = {run_name(record): slows_by for record in records if (slows_by := _slows_by(record)) is not None}
    found: dict[str, Figure] = {
        name: estimate_of_blocks({run: profile[name] for run, profile in by_run.items()}, f"{name} {label}", "linear")
        for name in ("step_s", "busy_s")
    }
    for kind in (*CLASSES, IDLE):
        values = {run: parts[kind] for run, parts in of_step.items()}
        found[f"{kind}_share"] = estimate_of_blocks(values, f"{kind} {label}", "linear")
    row = {"runs": len(records), **figures(found)}
    if not slows:
        return row
    slows_by = median(slows.values())
    return {
        **row,
        "profiler_slows_by": slows_by,
        "profiler": DISTORTED if slows_by > DISTORTED_BEYOND else "ok",
    }


def _slows_by(record: Record) -> float | None:
    """By what the profiled step is longer than the same step without the profiler, relative to it."""
    timed = record["scopes"].get("compute")
    return None if timed is None else float(record["profile"]["step_s"] / median(timed["step_s_median"]) - 1)
