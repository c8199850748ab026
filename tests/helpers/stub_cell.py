"""A cell whose two workers are stubs, in this process or in one of its own: everything but what is measured is real."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from command_line import signals_as_they_were
from dpscale.errors import DpscaleError
from dpscale.measure.launch.cells import Run, Samples, measure
from dpscale.measure.launch.nodes import NodePlace
from dpscale.plan.cells import Configuration, TimingCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord

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
    return measure("stub_worker", cell, SETTINGS, job, cell.gpus, cell.gpus, run, Samples(IMAGES))


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
