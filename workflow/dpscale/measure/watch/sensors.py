"""Readings of GPUs: at one moment, and during an epoch. What cannot be read is None. Free of torch.

`python -m dpscale.measure.watch.sensors <file> <parent's pid> <uuids> <workers' pids>` samples the GPUs while workers
measure, so that no worker's interpreter is held up by it: it adds a line to the file ten times a second, until its
parent ends.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pynvml

from dpscale.measure.parent import end_with_parent
from dpscale.measure.watch.nvml import ask, gpu_handle
from dpscale.records.files import JsonRecord
from dpscale.records.kinds import Watched, WatchedGpu

SAMPLE_EVERY_S = 0.1

# Reasons that say a GPU ran slower than it could. Idle and clocks set by an application are not among them.
_SLOWING_REASONS = {
    "software power cap": "nvmlClocksThrottleReasonSwPowerCap",
    "hardware slowdown": "nvmlClocksThrottleReasonHwSlowdown",
    "software thermal slowdown": "nvmlClocksThrottleReasonSwThermalSlowdown",
    "hardware thermal slowdown": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "hardware power brake": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
    "sync boost": "nvmlClocksThrottleReasonSyncBoost",
}

# Policies that keep clocks down, for which NVML counts the time (nvml.h, nvmlPerfPolicyType_t).
_SLOWING_POLICIES = {
    "power": pynvml.NVML_PERF_POLICY_POWER,
    "thermal": pynvml.NVML_PERF_POLICY_THERMAL,
    "sync boost": pynvml.NVML_PERF_POLICY_SYNC_BOOST,
    "board limit": pynvml.NVML_PERF_POLICY_BOARD_LIMIT,
    "reliability": pynvml.NVML_PERF_POLICY_RELIABILITY,
}


class Sensors:
    """Readings of the GPUs with these UUIDs, in their order. Without NVML, or without GPUs, there are none."""

    def __init__(self, uuids: Sequence[str], worker_pids: Sequence[int]):
        self._handles = [gpu_handle(uuid) for uuid in uuids]
        self._worker_pids = set(worker_pids)

    def read(self) -> list[JsonRecord]:
        """Return a reading for every GPU, as records have it."""
        return [
            {
                "throttle_reasons": _slowing_reasons(handle),
                "other_processes": self._other_processes(handle),
            }
            for handle in self._handles
        ]

    def slowed_s(self) -> list[dict[str, float]]:
        """Return the seconds for which every GPU's clocks were kept down since the driver was loaded, by policy."""
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


def _slowing_reasons(handle: Any) -> list[str] | None:
    bits = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if bits is None:
        return None
    return [name for name, constant in _SLOWING_REASONS.items() if bits & getattr(pynvml, constant)]


class Watcher:
    """Watches GPUs during an epoch. Used as a context around the epoch; `observation` is there on leaving it.

    A fall of the clocks inside the epoch is seen in two ways: by samples of the reasons that the driver gives for it,
    and by its own counters of the time for which it kept them down.
    """

    def __init__(self, folder: Path, sensors: Sensors, uuids: Sequence[str], worker_pids: Sequence[int]):
        self._sensors = sensors
        self._samples = folder / "samples"
        self.observation: Watched
        if uuids:
            words = [self._samples, os.getpid(), ",".join(uuids), ",".join(map(str, worker_pids))]
            command = [sys.executable, "-m", "dpscale.measure.watch.sensors", *map(str, words)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def __enter__(self) -> "Watcher":
        self._slowed_s = self._sensors.slowed_s()
        self._since = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        until, slowed_s = time.monotonic(), self._sensors.slowed_s()
        samples = self._samples_between(self._since, until)
        other_processes = [gpu["other_processes"] for sample in samples for gpu in sample]
        self.observation = Watched(
            [
                WatchedGpu(
                    _reasons([sample[gpu]["throttle_reasons"] for sample in samples]),
                    {name: after[name] - before[name] for name in after if name in before} or None,
                )
                for gpu, (before, after) in enumerate(zip(self._slowed_s, slowed_s, strict=True))
            ],
            max((len(processes) for processes in other_processes if processes is not None), default=None),
        )

    def _samples_between(self, since: float, until: float) -> list[list[JsonRecord]]:
        """Return the samples between two readings of the monotonic clock, which all processes share. The last line of
        the file may be half written."""
        if not self._samples.exists():
            return []
        lines = self._samples.read_text().split("\n")[:-1]
        samples = (json.loads(line) for line in lines)
        return [sample["gpus"] for sample in samples if since <= sample["monotonic_s"] <= until]


def on_all_nodes(nodes: Sequence[Watched]) -> Watched:
    """Return the events on the GPUs of all nodes."""
    numbers = (node.other_processes for node in nodes if node.other_processes is not None)
    return Watched([gpu for node in nodes for gpu in node.gpus], max(numbers, default=None))


def _reasons(samples: Sequence[Sequence[str] | None]) -> list[str] | None:
    """Return all reasons in the samples of a GPU; None where there is no sample, or one lacks them."""
    if not samples or None in samples:
        return None
    return sorted({name for reasons in samples for name in reasons or ()})


def _sample_for_ever(samples: Path, sensors: Sensors) -> None:
    with samples.open("w") as lines:
        while True:
            lines.write(json.dumps({"monotonic_s": time.monotonic(), "gpus": sensors.read()}) + "\n")
            lines.flush()
            time.sleep(SAMPLE_EVERY_S)


if __name__ == "__main__":
    file, parent_pid, gpus, pids = sys.argv[1:]
    end_with_parent(int(parent_pid))
    _sample_for_ever(Path(file), Sensors(gpus.split(","), [int(pid) for pid in pids.split(",")]))
