"""Readings of GPUs and host around a measurement. What cannot be read is None. Free of torch."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pynvml

from dpscale.measure.watch.nvml import ask, gpu_handle

# Reasons that say a GPU ran slower than it could. Idle and clocks set by an application are not among them.
_SLOWING_REASONS = {
    "software power cap": "nvmlClocksThrottleReasonSwPowerCap",
    "hardware slowdown": "nvmlClocksThrottleReasonHwSlowdown",
    "software thermal slowdown": "nvmlClocksThrottleReasonSwThermalSlowdown",
    "hardware thermal slowdown": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "hardware power brake": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
    "sync boost": "nvmlClocksThrottleReasonSyncBoost",
}

# What NVML counts the time of during which it kept the clocks down (nvml.h, nvmlPerfPolicyType_t).
_SLOWING_POLICIES = {
    "power": pynvml.NVML_PERF_POLICY_POWER,
    "thermal": pynvml.NVML_PERF_POLICY_THERMAL,
    "sync boost": pynvml.NVML_PERF_POLICY_SYNC_BOOST,
    "board limit": pynvml.NVML_PERF_POLICY_BOARD_LIMIT,
    "reliability": pynvml.NVML_PERF_POLICY_RELIABILITY,
}

# Columns of the first line of /proc/stat, in ticks (man 5 proc). Those of guests are part of `user`.
_HOST_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_IDLE = ("idle", "iowait")


class Sensors:
    """Readings of the GPUs with these UUIDs, in their order. Without NVML, or without GPUs, there are none."""

    def __init__(self, uuids: Sequence[str | None], worker_pids: Sequence[int]):
        self._handles = [gpu_handle(uuid) for uuid in uuids]
        self._worker_pids = set(worker_pids)

    def read(self) -> list[dict[str, Any]]:
        """One reading for every GPU."""
        return [self._read_gpu(handle) for handle in self._handles]

    def sample(self) -> list[dict[str, Any]]:
        """The part of a reading that changes within an epoch, for every GPU."""
        return [
            {
                "sm_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
                "power_w": _scaled(ask(pynvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
                "clock_event_reasons": _slowing_reasons(handle),
                "other_processes": _count(self._other_processes(handle)),
            }
            for handle in self._handles
        ]

    def energy_j(self) -> float | None:
        """Energy used by all GPUs since the driver was loaded, or None where one of them has no reading."""
        readings = [_energy_j(handle) for handle in self._handles]
        return sum(reading for reading in readings if reading is not None) if _all_known(readings) else None

    def slowed_s(self) -> list[dict[str, float]]:
        """Seconds for which every GPU's clocks were kept down since the driver was loaded, by the policy that did."""
        return [_slowed_s(handle) for handle in self._handles]

    def _read_gpu(self, handle: Any) -> dict[str, Any]:
        return {
            "sm_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
            "temperature_c": ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            "power_w": _scaled(ask(pynvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
            "energy_j": _energy_j(handle),
            "throttle_reasons": _slowing_reasons(handle),
            "other_processes": self._other_processes(handle),
        }

    def _other_processes(self, handle: Any) -> list[dict[str, int | None]] | None:
        processes = ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if processes is None:
            return None
        return [
            {"pid": process.pid, "memory_bytes": process.usedGpuMemory}
            for process in processes
            if process.pid not in self._worker_pids
        ]


def host_ticks() -> dict[str, int] | None:
    """How long the host's cores did what since it was started, all together, in the kernel's ticks."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    return dict(zip(_HOST_TICKS, map(int, first[1:]), strict=False))


def busy_cores(cores: Collection[int]) -> dict[str, int] | None:
    """How long these cores were busy and idle since the host was started, in the kernel's ticks."""
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except OSError:
        return None
    wanted = {f"cpu{core}" for core in cores}
    found = [
        dict(zip(_HOST_TICKS, map(int, ticks), strict=False)) for name, *ticks in filter(None, lines) if name in wanted
    ]
    idle = sum(ticks[name] for ticks in found for name in _IDLE)
    return {"busy": sum(sum(ticks.values()) for ticks in found) - idle, "idle": idle}


def host_load(
    before: Mapping[str, int] | None, after: Mapping[str, int] | None, seconds: float
) -> dict[str, Any] | None:
    """How many cores were busy between two readings, and how many a hypervisor took away, on average."""
    if before is None or after is None:
        return None
    per_core = os.sysconf("SC_CLK_TCK") * seconds
    spent = {name: after[name] - before[name] for name in after}
    return {
        "busy_cores": sum(ticks for name, ticks in spent.items() if name not in (*_IDLE, "steal")) / per_core,
        "stolen_cores": spent.get("steal", 0) / per_core,
        "load_1min": os.getloadavg()[0],
    }


def _slowing_reasons(handle: Any) -> list[str] | None:
    bits = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if bits is None:
        return None
    return [name for name, constant in _SLOWING_REASONS.items() if bits & getattr(pynvml, constant)]


def _slowed_s(handle: Any) -> dict[str, float]:
    answers = {
        name: ask(pynvml.nvmlDeviceGetViolationStatus, handle, policy) for name, policy in _SLOWING_POLICIES.items()
    }
    return {name: answer.violationTime * 1e-9 for name, answer in answers.items() if answer is not None}


def _energy_j(handle: Any) -> float | None:
    return _scaled(ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle), 1e-3)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _count(found: Sequence[Any] | None) -> int | None:
    return None if found is None else len(found)


def _all_known(values: Sequence[float | None]) -> bool:
    return bool(values) and None not in values
