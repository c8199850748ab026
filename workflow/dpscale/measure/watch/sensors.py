"""Readings of GPUs and host around a measurement. What cannot be read is None. Free of torch."""

import os
from collections.abc import Mapping, Sequence
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

    def __init__(self, uuids: Sequence[str], worker_pids: Sequence[int]):
        self._handles = [gpu_handle(uuid) for uuid in uuids]
        self._worker_pids = set(worker_pids)

    def read(self) -> list[dict[str, Any]]:
        """One reading for every GPU."""
        return [
            {
                "sm_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
                "power_w": _thousandth(ask(pynvml.nvmlDeviceGetPowerUsage, handle)),
                "throttle_reasons": _slowing_reasons(handle),
                "other_processes": self._other_processes(handle),
            }
            for handle in self._handles
        ]

    def energy_j(self) -> float | None:
        """Energy used by all GPUs since the driver was loaded, or None where one of them has no reading."""
        return sum_of_known(
            [_thousandth(ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)) for handle in self._handles]
        )

    def slowed_s(self) -> list[dict[str, float]]:
        """Seconds for which every GPU's clocks were kept down since the driver was loaded, by the policy that did."""
        return [
            {
                name: answer.violationTime * 1e-9
                for name, policy in _SLOWING_POLICIES.items()
                if (answer := ask(pynvml.nvmlDeviceGetViolationStatus, handle, policy)) is not None
            }
            for handle in self._handles
        ]

    def _other_processes(self, handle: Any) -> list[dict[str, int | None]] | None:
        processes = ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if processes is None:
            return None
        return [
            {"pid": process.pid, "memory_bytes": process.usedGpuMemory}
            for process in processes
            if process.pid not in self._worker_pids
        ]


def host_ticks() -> dict[str, int]:
    """How long the host's cores did what since it started, in the kernel's ticks, all together."""
    ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return dict(zip(_HOST_TICKS, map(int, ticks), strict=False))


def host_load(before: Mapping[str, int], after: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """How many cores were busy between two readings, and how many a hypervisor took away, on average."""
    per_core = os.sysconf("SC_CLK_TCK") * seconds
    spent = {name: after[name] - before[name] for name in after}
    return {
        "busy_cores": sum(ticks for name, ticks in spent.items() if name not in (*_IDLE, "steal")) / per_core,
        "stolen_cores": spent.get("steal", 0) / per_core,
    }


def _slowing_reasons(handle: Any) -> list[str] | None:
    bits = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if bits is None:
        return None
    return [name for name, constant in _SLOWING_REASONS.items() if bits & getattr(pynvml, constant)]


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value * 1e-3


def sum_of_known(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known, or where there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
