"""A cell whose two workers are stubs, in this process or in one of its own: everything but what is measured is real.

A stub needs no torch, so the launcher starts it in a tenth of a second. It leaves the outcome that a worker of its kind
would leave, with the figures of the made-up records.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dpscale.errors import DpscaleError
from dpscale.measure.launch.cells import Run, Samples, measure
from dpscale.measure.launch.nodes import ONE_NODE, NodePlace
from dpscale.measure.parent import write_outcome
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, Configuration, TimingCell, TrainingCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord
from dpscale.records.kinds import Images
from dpscale.schemas.settings import TimingSettings, TrainingSettings
from processes import signals_as_they_were
from record_factory import any_record

HELPERS = str(Path(__file__).parent)
SETTINGS = Study(
    {"study": "s", "device": "cpu", "dataset": {"source": "synthetic", "images": 64}, "scopes": ["compute"]}
).settings
IMAGES = Images("synthetic", True, 64, "0" * 64)


def measure_stub(
    out: Path,
    behaviour: str = "finish",
    timeout_s: float = 60,
    end_with_parent: bool = False,
    place: NodePlace = ONE_NODE,
    batch: int = 32,
) -> JsonRecord:
    """Return the record of a cell of two workers per node. Raises the errors of `measure`."""
    cell = TimingCell(Configuration("ddp", 2 * place.nodes, batch, place.nodes), 1)
    configuration = list(cell.configuration.coordinates.values())
    job: dict[str, Any] = {"configuration": configuration, "seed": 1, "behaviour": behaviour}
    run = Run(timeout_s, end_with_parent, out, place)
    with signals_as_they_were(), helpers_for_workers():
        return measure("stub_cell", cell, SETTINGS, job, cell.gpus, cell.gpus, run, Samples(IMAGES))


def stub_words(out: Path, behaviour: str, place: NodePlace = ONE_NODE, **more: Any) -> list[str]:
    """Return the command that measures such a cell, or is one of its nodes', and prints errors as the command line."""
    options = {"behaviour": behaviour, "place": astuple(place), **more}
    return [sys.executable, __file__, str(out), json.dumps(options)]


def start_stub(out: Path, behaviour: str, **more: Any) -> subprocess.Popen[str]:
    """Measure the cell in a process of its own."""
    with helpers_for_workers():
        return subprocess.Popen(stub_words(out, behaviour, **more), stderr=subprocess.PIPE, text=True)


@contextmanager
def helpers_for_workers() -> Iterator[None]:
    """Workers that are started find the modules that lie beside this one."""
    folders = [HELPERS, *filter(None, [os.environ.get("PYTHONPATH")])]
    with patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join(folders)}):
        yield


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
    """Return the outcome that a worker of `kind` leaves for the launcher."""
    cell, devices = CELLS[kind](job), job["configuration"][1] if "configuration" in job else 1
    epoch_s = (1 + 0.01 * job.get("seed", 1)) / devices
    settings = TimingSettings.from_json({} if kind == "training" else job["settings"])
    record = any_record(cell, settings, [epoch_s] * settings.timed_epochs)
    left = {key: value for key, value in record.items() if key not in OF_THE_LAUNCHER}
    nodes = job["team"]["nodes"] if "team" in job else 1
    return {**left, **({"nodes": [{key: left[key] for key in ("hardware", "software")}] * nodes} if nodes > 1 else {})}


CELLS: Mapping[str, Callable[[Job], AnyCell]] = {
    "timing": lambda job: TimingCell(Configuration(*job["configuration"]), job["seed"]),
    "communication": lambda job: CommunicationCell(Configuration(*job["configuration"]), job["seed"]),
    "collectives": lambda job: CollectivesCell(job["gpus"], 1),
    "training": lambda job: TrainingCell("arm", job["seed"], TrainingSettings.from_json(job["settings"])),
}
WORKER = StubWorker


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    options["place"] = NodePlace(*options["place"])
    try:
        measure_stub(Path(sys.argv[1]), **options)
    except DpscaleError as error:
        sys.exit(f"Error: {error}")
