"""A worker without torch: it measures nothing, and leaves the outcome that a worker of its kind would leave.

The launcher starts it as any other, in a tenth of a second. Its figures are those of the made-up records.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpscale.measure import write_outcome
from dpscale.plan.cells import CollectivesCell, CommunicationCell, Configuration, TimingCell, TrainingCell
from dpscale.schemas.settings import TimingSettings, TrainingSettings
from record_factory import collectives_record, communication_record, timing_record, training_record

Job = Mapping[str, Any]

EPOCH_S = 0.05
OOM = {"rank": 2, "phase": "warm-up", "message": "out of memory"}
# What the launcher adds to an outcome.
OF_THE_LAUNCHER = {"kind", "measurement_version", "cell", "settings", "dataset", "started_at", "finished_at"} | {
    "provenance"
}


class StubWorker:
    """One rank of a cell of `kind`. It warms up for as many epochs as `warmup_epochs` has for its strategy.

    `behaviour` in the job says how it ends: "finish", which is the default, "wait" for ever, "fail" in rank 1 with exit
    code 3, "die" there of SIGKILL, or "refuse" with a message. On several nodes "oom" is that the first rank of node 1
    runs out of memory, which ends the first rank of node 0 with an error.
    """

    kind = "timing"
    warmup_epochs: Mapping[str, int] = {}

    def __init__(self, job: Job, rank: int):
        self.job = job
        self.folder = Path(job["folder"])
        self.rank = rank

    def run(self) -> None:
        self._warm_up()
        behaviour = self.job.get("behaviour", "finish")
        if behaviour == "refuse":
            write_outcome(self.folder, {"status": "failed", "message": "this cannot be measured"})
        elif behaviour == "fail" and self.rank == 1:
            sys.exit(3)
        elif behaviour == "die" and self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        elif behaviour == "oom" and self.rank == 0:
            sys.exit(4)
        elif behaviour == "oom" and self.rank == self._first_of_node_1:
            time.sleep(0.3)
            write_outcome(self.folder, outcome(self.kind, self.job) | {"status": "oom", "oom": OOM, "scopes": {}})
        elif behaviour != "finish":
            time.sleep(1e6)
        elif self.rank == 0:
            write_outcome(self.folder, outcome(self.kind, self.job))

    @property
    def _first_of_node_1(self) -> int:
        return int(self.job["configuration"][1]) // int(self.job["team"]["nodes"])

    def _warm_up(self) -> None:
        strategy = self.job.get("configuration", ["none"])[0]
        for epoch in range(1, self.warmup_epochs.get(strategy, 0) + 1):
            time.sleep(EPOCH_S)
            if self.rank == 0:
                print(f"{time.strftime('%H:%M:%S')} warm-up epoch {epoch}: {EPOCH_S} s (not reported)", file=sys.stderr)


def stub(kind: str, warmup_epochs: Mapping[str, int]) -> type[StubWorker]:
    return type("Stub", (StubWorker,), {"kind": kind, "warmup_epochs": warmup_epochs})


def outcome(kind: str, job: Job) -> dict[str, Any]:
    """What a worker of `kind` leaves for the launcher."""
    left = {key: value for key, value in RECORDS[kind](job).items() if key not in OF_THE_LAUNCHER}
    nodes = job["team"]["nodes"] if "team" in job else 1
    return {**left, **({"nodes": [{key: left[key] for key in ("hardware", "software")}] * nodes} if nodes > 1 else {})}


def _timing(job: Job) -> dict[str, Any]:
    cell = TimingCell(Configuration(*job["configuration"]), job["seed"])
    settings = TimingSettings.from_json(job["settings"])
    epoch_s = (1 + 0.01 * cell.run) / cell.gpus
    return timing_record(cell, settings, [epoch_s] * settings.timed_epochs)


def _communication(job: Job) -> dict[str, Any]:
    cell = CommunicationCell(Configuration(*job["configuration"]), job["seed"])
    settings = TimingSettings.from_json(job["settings"])
    return communication_record(cell, settings, step_s=0.5, communication_s=0.1, exposed_s=0.05, idle_s=0.01)


def _collectives(job: Job) -> dict[str, Any]:
    return collectives_record(CollectivesCell(job["gpus"], 1), TimingSettings.from_json(job["settings"]))


def _training(job: Job) -> dict[str, Any]:
    settings = TrainingSettings.from_json(job["settings"])
    cell = TrainingCell(job["arm"], job["seed"], settings)
    return training_record(cell, [0.1 * epoch for epoch in range(1, settings.epochs + 1)])


RECORDS: Mapping[str, Callable[[Job], dict[str, Any]]] = {
    "timing": _timing,
    "communication": _communication,
    "collectives": _collectives,
    "training": _training,
}

WORKER = StubWorker
