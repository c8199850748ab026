"""What kind of work fills a profiled step of one GPU: its kernels by class, from their names alone.

The profiler is a witness: it explains the step in shares of the profiled step, and makes no headline time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from dpscale.analyse.communication.estimators import DISTORTED_BEYOND
from dpscale.analyse.timing.blocks import run_of
from dpscale.analyse.timing.points import Point, point_fields
from dpscale.analyse.variants.measured import Variant
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import estimate_of_blocks
from dpscale.records.files import Record
from dpscale.tables.variants import KernelsRow
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


def shares(profile: Mapping[str, Any]) -> dict[str, float]:
    """Shares of a profiled step, by class and idle; together 1.

    Where kernels run at the same time, the time in which the GPU is busy is divided among the classes in proportion.
    """
    spent = dict.fromkeys(CLASSES, 0.0)
    for kernel in profile["kernels"]:
        spent[kernel_class(kernel["name"])] += kernel["total_s"]
    busy = min(1.0, profile["busy_s"] / profile["step_s"])
    total_s = sum(spent.values())
    of_step = {kind: busy * seconds / total_s if total_s else 0.0 for kind, seconds in spent.items()}
    return {**of_step, IDLE: max(0.0, 1 - sum(of_step.values()))}


def kernel_rows(variants: Iterable[Variant]) -> Iterator[KernelsRow]:
    """A row for every variant's profiled step on one GPU."""
    for variant in variants:
        # A record stands in the points of every scope, and is profiled once.
        scope = next(iter(variant.study["scopes"]))
        for point in variant.points.values():
            profiled = [record for record in point.records if record.get("profile")]
            if profiled and point.scope == scope:
                yield _row(variant, point, profiled)


def _row(variant: Variant, point: Point, records: Sequence[Record]) -> KernelsRow:
    def mean(values: Iterable[float]) -> Figure:
        found = dict(zip(map(run_of, records), values, strict=True))
        return estimate_of_blocks(found, "linear")

    profiles = [record["profile"] for record in records]
    of_step = list(map(shares, profiles))
    row = KernelsRow(
        variant=variant.name,
        **point_fields(point.configuration, point.environment),
        runs=len(records),
        step_s=mean(profile["step_s"] for profile in profiles),
    )
    columns: dict[str, Any] = {f"{kind}_share": mean(parts[kind] for parts in of_step) for kind in (*CLASSES, IDLE)}
    row = replace(row, **columns)
    slows_by = [slows for record in records if (slows := _slows_by(record)) is not None]
    if not slows_by:
        return row
    slows = median(slows_by)
    return replace(row, profiler_slows_by=slows, profiler=DISTORTED if slows > DISTORTED_BEYOND else "ok")


def _slows_by(record: Record) -> float | None:
    """By what the profiled step is longer than the same step without the profiler, relative to it."""
    timed = record["scopes"].get("compute")
    return None if timed is None else float(record["profile"]["step_s"] / median(timed["step_s_median"]) - 1)
