"""Work of the devices during profiled steps, from the profiler's trace (Chrome's trace format). Pure; times in ns.

Intervals of kernels are united per device: DataParallel drives several devices from one process, and kernels of
different devices are independent of each other.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Rows of the trace that stand for work of a device. User annotations such as `nccl:all_reduce` are copied to the
# device's rows with categories of their own: they are not kernels, and not counted.
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")

# Where several run at once, the time is that of the first of these.
KINDS = COMPUTE, COMMUNICATION, COPY = "compute", "communication", "copy"
_NCCL_KERNEL = re.compile(r"nccl(Dev)?Kernel")
_PEER_COPY = "Memcpy PtoP"
_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH)")


@dataclass(frozen=True)
class Kernel:
    """Work of a device, of one of KINDS."""

    device: int
    kind: str
    start_ns: int
    end_ns: int


def read_kernels(trace: Mapping[str, Any]) -> list[Kernel]:
    """Return the devices' work in a trace. Times become absolute: ns since the epoch, as the host's clock has them."""
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    kernels = []
    for event in trace["traceEvents"]:
        if event.get("cat") in DEVICE_CATEGORIES:
            start_ns, lasts_ns = (round(float(event[name]) * 1e3) for name in ("ts", "dur"))
            kind, start_ns = kind_of(event["cat"], event["name"]), base_ns + start_ns
            kernels += [Kernel(device, kind, start_ns, start_ns + lasts_ns) for device in _devices(event["args"])]
    return kernels


def _devices(arguments: Mapping[str, Any]) -> list[int]:
    """Return the devices whose time a row is. A copy between devices uses the links of both, and names both."""
    if "device" in arguments:
        return [int(arguments["device"])]
    return sorted({int(arguments["fromDevice"]), int(arguments["toDevice"])})


def kind_of(category: str, name: str) -> str:
    """Return the kind of a row: communication for NCCL's kernels and copies between devices, copy for those to and from
    the host, compute for everything else."""
    if category == "kernel":
        return COMMUNICATION if _NCCL_KERNEL.match(name) else COMPUTE
    if name.startswith(_PEER_COPY):
        return COMMUNICATION
    return COPY if _HOST_COPY.match(name) else COMPUTE


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Return for how long at least one of the intervals [start, end) lasts."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            reached = start
        if end > reached:
            total += end - reached
            reached = end
    return total


def device_times(kernels: Sequence[Kernel], device: int, start_ns: int, end_ns: int) -> dict[str, float]:
    """Split a device's time from `start_ns` to `end_ns`, in s. Kernels that reach out of it count with the part inside.

    `communication_s` is all communication. The other four sum to the window: `compute_s`, `exposed_s` (communication
    with no compute at the same time), `copy_s` (to and from the host, with neither) and `idle_s`.
    """

    def busy_ns(*kinds: str) -> int:
        return union_ns(
            (max(kernel.start_ns, start_ns), min(kernel.end_ns, end_ns))
            for kernel in kernels
            if kernel.device == device and kernel.kind in kinds
        )

    computing, with_exchange, busy = busy_ns(COMPUTE), busy_ns(COMPUTE, COMMUNICATION), busy_ns(*KINDS)
    return {
        "communication_s": busy_ns(COMMUNICATION) * 1e-9,
        "compute_s": computing * 1e-9,
        "exposed_s": (with_exchange - computing) * 1e-9,
        "copy_s": (busy - with_exchange) * 1e-9,
        "idle_s": (end_ns - start_ns - busy) * 1e-9,
    }
