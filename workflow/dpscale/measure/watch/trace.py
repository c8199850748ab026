"""What the devices did during profiled steps, from the profiler's trace (Chrome's trace format). Pure; times in ns.

Intervals of kernels are united per device: DataParallel drives several devices from one process, and kernels of
different devices are independent of each other.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Rows of the trace that stand for work of a device. User annotations such as `nccl:all_reduce` are copied to the
# device's rows with categories of their own: they are not kernels, and not counted.
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCH_CATEGORIES = ("cuda_runtime", "cuda_driver")

# Where several run at once, the time is that of the first of these.
KINDS = COMPUTE, COMMUNICATION, COPY = "compute", "communication", "copy"
_NCCL_KERNEL = re.compile(r"nccl(Dev)?Kernel")
_PEER_COPY = "Memcpy PtoP"
_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH)")
# The phase of the host before its first mark.
NO_PHASE = "other"


@dataclass(frozen=True)
class Kernel:
    """Work of a device from `start_ns` to `end_ns`. `phase` is the phase of the host when it launched that work."""

    device: int
    kind: str
    phase: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Mark:
    """From `at_ns` on the host is in `phase`."""

    phase: str
    at_ns: int


Seconds = dict[str, float]


@dataclass(frozen=True)
class DeviceTime:
    """Where the time of one device went, in s. `phases` holds, for every phase, seconds of `compute`,
    `communication` (exposed: no compute at the same time), `copy` (to and from the host) and `idle`, which sum to the
    window. Busy time belongs to the phase that launched it, idle time to the phase the host was in meanwhile."""

    device: int
    communication_s: float
    exposed_s: float
    phases: dict[str, Seconds]


def read_kernels(trace: Mapping[str, Any], marks: Sequence[Mark]) -> list[Kernel]:
    """The devices' work in a trace. Times become absolute: ns since the epoch, as the marks'."""
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    launched_ns = {
        event["args"]["correlation"]: base_ns + _ns(event["ts"])
        for event in events
        if event.get("cat") in LAUNCH_CATEGORIES and "correlation" in event.get("args", {})
    }
    ordered = sorted(marks, key=lambda mark: mark.at_ns)
    kernels = []
    for event in events:
        if event.get("cat") not in DEVICE_CATEGORIES:
            continue
        start_ns = base_ns + _ns(event["ts"])
        asked_ns = launched_ns.get(event["args"].get("correlation"), start_ns)
        kernels += [
            Kernel(
                device=device,
                kind=kind_of(event["cat"], event["name"]),
                phase=phase_at(ordered, asked_ns),
                start_ns=start_ns,
                end_ns=start_ns + _ns(event["dur"]),
            )
            for device in _devices(event["args"])
        ]
    return kernels


def _devices(arguments: Mapping[str, Any]) -> list[int]:
    """The devices whose time a row is. A copy between devices uses the links of both, and names both."""
    if "device" in arguments:
        return [int(arguments["device"])]
    return sorted({int(arguments["fromDevice"]), int(arguments["toDevice"])})


def kind_of(category: str, name: str) -> str:
    """Communication is NCCL's kernels and copies between devices; copy is to and from the host; the rest computes."""
    if category == "kernel":
        return COMMUNICATION if _NCCL_KERNEL.match(name) else COMPUTE
    if name.startswith(_PEER_COPY):
        return COMMUNICATION
    return COPY if _HOST_COPY.match(name) else COMPUTE


def phase_at(marks: Sequence[Mark], at_ns: int) -> str:
    """The phase the host was in; `marks` in order of time."""
    # There are few marks per step: a simple search is quick enough.
    return next((mark.phase for mark in reversed(marks) if mark.at_ns <= at_ns), NO_PHASE)


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """How long at least one of the intervals [start, end) lasts."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            reached = start
        if end > reached:
            total += end - reached
            reached = end
    return total


def device_times(
    kernels: Sequence[Kernel], marks: Sequence[Mark], devices: Sequence[int], start_ns: int, end_ns: int
) -> list[DeviceTime]:
    """Where every device's time from `start_ns` to `end_ns` went. Kernels outside of it count with the part inside."""
    by_device: dict[int, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        by_device[kernel.device].append(kernel)
    return [_device_time(device, by_device[device], marks, start_ns, end_ns) for device in devices]


def _device_time(
    device: int, kernels: Sequence[Kernel], marks: Sequence[Mark], start_ns: int, end_ns: int
) -> DeviceTime:
    phases: dict[str, Seconds] = defaultdict(lambda: dict.fromkeys((*KINDS, "idle"), 0.0))
    exposed_s = 0.0
    for duration_ns, active, host_phase in _moments(kernels, marks, start_ns, end_ns):
        first = min(active, key=lambda kernel: KINDS.index(kernel.kind), default=None)
        if first is None:
            phases[host_phase]["idle"] += duration_ns * 1e-9
            continue
        phases[first.phase][first.kind] += duration_ns * 1e-9
        if first.kind == COMMUNICATION:
            exposed_s += duration_ns * 1e-9
    spans = [
        (max(kernel.start_ns, start_ns), min(kernel.end_ns, end_ns))
        for kernel in kernels
        if kernel.kind == COMMUNICATION
    ]
    return DeviceTime(device, union_ns(spans) * 1e-9, exposed_s, dict(phases))


def _moments(
    kernels: Sequence[Kernel], marks: Sequence[Mark], start_ns: int, end_ns: int
) -> Iterator[tuple[int, list[Kernel], str]]:
    """The window cut wherever a kernel starts or ends, or the host changes its phase: the duration of every piece, the
    kernels that run during it (those that started first come first), and the host's phase."""
    changes: list[tuple[int, int, Any]] = [(mark.at_ns, 0, mark) for mark in marks]
    lasting = [kernel for kernel in kernels if kernel.end_ns > kernel.start_ns]
    changes += [(kernel.end_ns, 1, kernel) for kernel in lasting]
    changes += [(kernel.start_ns, 2, kernel) for kernel in lasting]
    active: dict[int, Kernel] = {}
    phase, reached = NO_PHASE, start_ns
    for at_ns, what, item in sorted(changes, key=lambda change: change[:2]):
        now = min(max(at_ns, start_ns), end_ns)
        if now > reached:
            yield now - reached, list(active.values()), phase
            reached = now
        if what == 0:
            phase = item.phase
        elif what == 1:
            active.pop(id(item), None)
        else:
            active[id(item)] = item
    if end_ns > reached:
        yield end_ns - reached, list(active.values()), phase


def _ns(microseconds: float | str) -> int:
    return round(float(microseconds) * 1e3)
