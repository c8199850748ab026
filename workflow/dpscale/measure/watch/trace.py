"""Communication of the devices, from the profiler's trace (Chrome's trace format). Pure.

Intervals of kernels are united per device: DataParallel drives several devices from one process, and kernels of
different devices are independent of each other.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Trace = Mapping[str, Any]  # or a part of one, as its file holds it
# Rows of the trace that stand for work of a device. User annotations such as `nccl:all_reduce` are copied to the
# device's rows with categories of their own: they are not kernels, and not counted.
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
_COMMUNICATION = re.compile(r"nccl(Dev)?Kernel|Memcpy PtoP")
_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH)")


@dataclass(frozen=True)
class Kernel:
    """Work of a device: communication for NCCL's kernels and copies between devices, compute for everything else."""

    device: int
    is_communication: bool
    start_ns: int
    end_ns: int
    name: str = ""


def read_kernels(trace: Trace) -> list[Kernel]:
    """Return the devices' work in a trace, without copies from and to the host."""
    kernels = []
    for event in trace["traceEvents"]:
        name = event["name"]
        if event.get("cat") in DEVICE_CATEGORIES and not _HOST_COPY.match(name):
            start_ns, lasts_ns = (round(event[microseconds] * 1e3) for microseconds in ("ts", "dur"))
            work = bool(_COMMUNICATION.match(name)), start_ns, start_ns + lasts_ns, name
            kernels += [Kernel(device, *work) for device in _devices(event["args"])]
    return kernels


def _devices(arguments: Trace) -> list[int]:
    """Return the devices whose time a row is. A copy between devices uses the links of both, and names both."""
    if "device" in arguments:
        return [int(arguments["device"])]
    return sorted({int(arguments["fromDevice"]), int(arguments["toDevice"])})


def communication_s(kernels: Sequence[Kernel], device: int) -> tuple[float, float]:
    """Return for how long a device communicates, and for how long of that nothing computes on it (exposed), in s."""
    on_device = [kernel for kernel in kernels if kernel.device == device]
    communicating_ns = union_ns(kernel for kernel in on_device if kernel.is_communication)
    computing_ns = union_ns(kernel for kernel in on_device if not kernel.is_communication)
    return communicating_ns * 1e-9, (union_ns(on_device) - computing_ns) * 1e-9


def computing_s(kernels: Sequence[Kernel], silent: Sequence[Kernel], device: int) -> tuple[float, float] | None:
    """Return for how long the same kernels compute on a device in two traces, in s: those whose name is in both equally
    often. What one trace computes beyond the other, such as sums of gradients, is in neither time. None where there are
    no such kernels. Kernels that run at the same time are added up."""
    lasting, silently = (_computing_ns(trace, device) for trace in (kernels, silent))
    same = [name for name, lasts_ns in lasting.items() if len(lasts_ns) == len(silently.get(name, ()))]
    if not same:
        return None
    first, second = (1e-9 * sum(sum(of_trace[name]) for name in same) for of_trace in (lasting, silently))
    return first, second


def _computing_ns(kernels: Sequence[Kernel], device: int) -> dict[str, list[int]]:
    """Return how long each kernel that computes on a device takes, by its name."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for kernel in kernels:
        if kernel.device == device and not kernel.is_communication:
            by_name[kernel.name].append(kernel.end_ns - kernel.start_ns)
    return by_name


def union_ns(kernels: Iterable[Kernel]) -> int:
    """Return for how long at least one of the kernels runs."""
    total_ns = reached_ns = 0
    for kernel in sorted(kernels, key=lambda kernel: kernel.start_ns):
        total_ns += max(0, kernel.end_ns - max(kernel.start_ns, reached_ns))
        reached_ns = max(reached_ns, kernel.end_ns)
    return total_ns
