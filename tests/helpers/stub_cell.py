"""A cell whose two workers are stubs, in this process or in one of its own: everything but what is measured is real.

A stub needs no torch, so the launcher starts it in a tenth of a second. It leaves the outcome that a worker of its kind
would leave, with the figures of the made-up records.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dpscale.errors import DpscaleError
from dpscale.measure.launch.cells import Run, Samples, measure
from dpscale.measure.launch.nodes import NodePlace
from dpscale.measure.parent import write_outcome
from dpscale.plan.cells import CollectivesCell, CommunicationCell, Configuration, TimingCell, TrainingCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord
from dpscale.schemas.settings import TimingSettings, TrainingSettings
from processes import signals_as_they_were
from record_factory import collectives_record, communication_record, timing_record, training_record

HELPERS = str(Path(__file__).parent)
CELL = TimingCell(Configuration("ddp", 2, 32), 1)
SETTINGS = Study(
    {"study": "s", "device": "cpu", "dataset": {"source": "synthetic", "images": 64}, "scopes": ["compute"]}
).settings
IMAGES = {"source": "synthetic", "synthetic": True, "images": 64, "sha256": "0" * 64}


def measure_stub(
    out: Path, behaviour: str = "finish", timeout_s: float = 60, end_with_parent: bool = False
) -> JsonRecord:
    """The cell's record. Raises what `measure` raises."""
    with signals_as_they_were(), helpers_for_workers():
        return _measure(CELL, behaviour, Run(timeout_s, end_with_parent, out))


def start_node(out: Path, behaviour: str, place: NodePlace, batch_per_gpu: int = 16) -> subprocess.Popen[str]:
    """The launcher of one of the nodes that share a cell of two workers per node, in a process of its own."""
    return _started(node_words(out, behaviour, place.nodes, place.rank, place.rendezvous, batch_per_gpu))


def node_words(out: Path, behaviour: str, nodes: int, rank: int, rendezvous: str, batch_per_gpu: int = 16) -> list[str]:
    """The command of such a launcher."""
    node = f"{nodes} {rank} {rendezvous} {batch_per_gpu}"
    return [sys.executable, __file__, str(out), behaviour, "60", "--node", node]


def measure_on_node(out: Path, behaviour: str, place: NodePlace, batch_per_gpu: int) -> JsonRecord:
    cell = TimingCell(Configuration("ddp", 2 * place.nodes, batch_per_gpu, place.nodes), 1)
    return _measure(cell, behaviour, Run(60, False, out, place))


def _measure(cell: TimingCell, behaviour: str, run: Run) -> JsonRecord:
    configuration = list(cell.configuration.coordinates.values())
    job: dict[str, Any] = {"configuration": configuration, "seed": 1, "behaviour": behaviour}
    return measure("stub_cell", cell, SETTINGS, job, cell.gpus, cell.gpus, run, Samples(IMAGES))


def start_stub(
    out: Path, behaviour: str, timeout_s: float = 60, end_with_parent: bool = False
) -> subprocess.Popen[str]:
    """The same in a process of its own, which prints errors as the command line does."""
    more = ["--end-with-parent"] if end_with_parent else []
    return _started([sys.executable, __file__, str(out), behaviour, str(timeout_s), *more])


def _started(words: list[str]) -> subprocess.Popen[str]:
    with helpers_for_workers():
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


@contextmanager
def helpers_for_workers() -> Iterator[None]:
    """Workers that are started find the modules that lie beside this one."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = HELPERS if before is None else os.pathsep.join([HELPERS, before])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


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


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("behaviour")
@click.argument("timeout_s", type=float)
@click.option("--end-with-parent", is_flag=True)
@click.option("--node")
def main(out: Path, behaviour: str, timeout_s: float, end_with_parent: bool, node: str | None) -> None:
    try:
        if node:
            nodes, rank, rendezvous, batch = node.split()
            measure_on_node(out, behaviour, NodePlace.of(int(nodes), int(rank), rendezvous, {}), int(batch))
            return
        measure_stub(out, behaviour, timeout_s, end_with_parent)
    except DpscaleError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
