"""A process that samples the GPUs while workers measure, so that no worker's interpreter is held up by it.

`python -m dpscale.measure.watch.watcher <file> <parent's pid> <uuids> <workers' pids>` adds a line to the file ten
times a second, until its parent ends. Free of torch.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dpscale.measure.parent import end_with_parent
from dpscale.measure.watch.sensors import Sensors, host_load, host_ticks, sum_of_known

SAMPLE_EVERY_S = 0.1


class Watcher:
    """What GPUs and host did during an epoch, and the energy that the GPUs used. Used as a context around the epoch;
    `seen` is filled on leaving it.

    A fall of the clocks inside the epoch is seen in two ways: by samples of the reasons that the driver gives for it,
    and by its own counters of the time for which it kept them down.
    """

    def __init__(self, folder: Path, sensors: Sensors, uuids: Sequence[str], worker_pids: Sequence[int]):
        self._sensors = sensors
        self._samples = folder / "samples"
        self.seen: dict[str, Any] = {}
        if uuids:
            words = [self._samples, os.getpid(), ",".join(uuids), ",".join(map(str, worker_pids))]
            command = [sys.executable, "-m", "dpscale.measure.watch.watcher", *map(str, words)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def __enter__(self) -> "Watcher":
        self._energy_j, self._slowed_s = self._sensors.energy_j(), self._sensors.slowed_s()
        self._ticks, self._since = host_ticks(), time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        until, ticks, slowed_s = time.monotonic(), host_ticks(), self._sensors.slowed_s()
        energy_j = used_j(self._energy_j, self._sensors.energy_j())
        samples = self._taken(self._since, until)
        self.seen = {
            "energy_j": energy_j,
            "samples": len(samples),
            "gpus": [
                {
                    "clock_event_reasons": _reasons([sample[gpu]["throttle_reasons"] for sample in samples]),
                    # By how much every counter grew, None without a counter.
                    "slowed_s": {name: after[name] - before[name] for name in after if name in before} or None,
                }
                for gpu, (before, after) in enumerate(zip(self._slowed_s, slowed_s, strict=True))
            ],
            "host": host_load(self._ticks, ticks, until - self._since),
            "other_processes": _largest(map(_number, (gpu["other_processes"] for sample in samples for gpu in sample))),
        }

    def _taken(self, since: float, until: float) -> list[list[dict[str, Any]]]:
        """The samples between two readings of the monotonic clock, which all processes share. The last line may be
        half written."""
        if not self._samples.exists():
            return []
        lines = self._samples.read_text().split("\n")[:-1]
        taken = (json.loads(line) for line in lines)
        return [sample["gpus"] for sample in taken if since <= sample["monotonic_s"] <= until]


def seen_on_nodes(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was seen during an epoch on every node in one: all their GPUs, and of their hosts the busiest."""
    hosts = [node["host"] for node in nodes]
    return {
        "energy_j": sum_of_known([node["energy_j"] for node in nodes]),
        "samples": min(node["samples"] for node in nodes),
        "gpus": [gpu for node in nodes for gpu in node["gpus"]],
        "host": {name: max(host[name] for host in hosts) for name in hosts[0]},
        "other_processes": _largest(node["other_processes"] for node in nodes),
    }


def used_j(before_j: float | None, after_j: float | None) -> float | None:
    """The energy between two readings, None where one of them is not known."""
    return None if before_j is None or after_j is None else after_j - before_j


def _reasons(samples: Sequence[Sequence[str] | None]) -> list[str] | None:
    """All that were seen of one GPU. None where a sample lacks them."""
    known = [found for found in samples if found is not None]
    return sorted({name for found in known for name in found}) if known and len(known) == len(samples) else None


def _number(processes: Sequence[Any] | None) -> int | None:
    return None if processes is None else len(processes)


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


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
