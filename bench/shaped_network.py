"""Does a measurement between nodes find the rate that a link was given?

    python bench/shaped_network.py [--rate-mbit 200] [--out /tmp/rate-200]

Four nodes of one CPU worker each are network namespaces of this machine; the kernel's token bucket gives every link its
rate. Allreduces between two and four nodes are set beside what such a link can carry. What counts, at 150 and at 600
Mbit/s: bus bandwidth within 5 % of that. The step of DDP on one, two and four nodes is told beside it. As root. Every
node has cores of its own where there are eight or more (of those that `taskset` leaves); on fewer, other programs on
this machine have to wait meanwhile.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
from dpscale.analyse.tables import build_tables
from dpscale.measure.launch.cells import Run, measure
from dpscale.measure.launch.nodes import NodePlace
from dpscale.plan.cells import CollectivesCell, TimingCell
from dpscale.plan.plan import expected_cells
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from dpscale.records.files import write_text
from dpscale.schemas.settings import CollectivesSettings
from dpscale.tables.row import written
from dpscale.tables.tables import TABLES, Tables
from shaped_network import ShapedNetwork, missing_requirement

NODES = (1, 2, 4)
OURS = sorted(os.sched_getaffinity(0))
SHARE = len(OURS) // max(NODES)
# Every node's own, two at least: a worker, and what moves its messages. None where this process may use too few.
CORES = [OURS[node * SHARE : (node + 1) * SHARE] for node in range(max(NODES))] if SHARE > 1 else []
PORT = 15_000
MESSAGES = [("allreduce", 2**power) for power in (17, 19, 21, 23)]
WORKLOAD = Path(__file__).with_name("wide_layers.py")
# A batch is this over the rate, so that computing is the same share of a step at every rate: about 3 % of one on four
# nodes. It is little, for four workers on two cores compute twice as long as one; and the step of one node is long
# enough to be timed, over all of an epoch's batches.
IMAGES_MBIT = 30_000
BATCHES = 4 * max(NODES)
STUDY: dict[str, Any] = {
    "study": "shaped",
    "device": "cpu",
    "strategies": ["single", "ddp"],
    "gpus": list(NODES),
    "gpus_per_node": 1,
    "scopes": ["compute"],
    "epochs": {"timed": 1},
    "runs": 3,
    "workload": str(WORKLOAD),
    "optimiser": {"learning_rate": 1e-4, "momentum": 0, "weight_decay": 0},
    "communication": {"runs": 1},
    "ddp": {"gradient_as_bucket_view": True},
}


@click.command()
@click.option(
    "--rate-mbit", type=click.IntRange(min=1), default=200, show_default=True, help="Of every link, each way."
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the records and tables here.")
@click.option("--collectives", hidden=True, nargs=4, type=str, help="Time the collectives on one node of a cell.")
def main(rate_mbit: int, out: Path | None, collectives: tuple[str, str, str, str] | None) -> None:
    if collectives:
        settings = CollectivesSettings.of(study_at(rate_mbit).values)
        time_collectives(settings, int(collectives[0]), int(collectives[1]), collectives[2], Path(collectives[3]))
        return
    if reason := missing_requirement():
        raise click.ClickException(reason)
    with tempfile.TemporaryDirectory() as name, ShapedNetwork(max(NODES), rate_mbit) as network:
        if not CORES:  # Four nodes share few: nothing else on this machine may come before them.
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        click.echo(f"cores of the nodes: {CORES or 'shared by all'}")
        results = out or Path(name)
        tables = measured(study_at(rate_mbit), results, network)
        for table, kind in TABLES.items():
            write_text(results / f"tables/{table}.csv", written(kind, getattr(tables, table)))
        report(tables, results, network)


def study_at(rate_mbit: int) -> Study:
    batch = IMAGES_MBIT // rate_mbit
    return Study({**STUDY, "batch_per_gpu": [batch], "dataset": {"images": BATCHES * batch, "loader_workers": 0}})


def measured(study: Study, results: Path, network: ShapedNetwork) -> Tables:
    """Every cell on its nodes, and the tables of their records."""
    dpscale("network", "--workload", str(WORKLOAD), "--out", str(results / "network.json"))
    for nodes in NODES[1:]:
        out = results / f"collectives/gpus-{nodes}/run-1.json"
        run_on(network, nodes, [sys.executable, __file__, "--collectives", str(nodes)], str(out))
    cells = expected_cells(study)
    for cell in cells:
        if isinstance(cell, TimingCell):
            run_on(network, cell.gpus, timing_command(study, results, cell))
    return build_tables(study, collect(results, cells, study.settings))


def timing_command(study: Study, results: Path, cell: TimingCell) -> list[str]:
    out = ["--out", str(results / cell.path)]
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in cell.labels.items())
    return [sys.executable, "-m", "dpscale", "time", *out, *f"{options} {study.settings.options()}".split()]


def run_on(network: ShapedNetwork, nodes: int, command: Sequence[str], out: str | None = None) -> None:
    """The same command on each of so many nodes."""
    place = f"{network.address(0)}:{PORT}"
    started = []
    for rank in range(nodes):
        by_hand = ["--node-rank", str(rank), "--rendezvous", place] if nodes > 1 else []
        words = [str(rank), place, out] if out else by_hand
        bound = ["taskset", "-c", ",".join(map(str, CORES[rank]))] if CORES else []
        started.append(network.start(rank, [*bound, *command, *words]))
    codes = [process.wait() for process in started]  # of all, before the next cell starts
    if any(codes):
        raise click.ClickException(f"failed: {command}")


def time_collectives(settings: CollectivesSettings, nodes: int, rank: int, rendezvous: str, out: Path) -> None:
    """Few messages: `dpscale collectives` has more than a slow link carries in minutes."""
    cell = CollectivesCell(nodes, 1, nodes)
    job = {"gpus": nodes, "nodes": nodes, "messages": MESSAGES}
    run = Run(600, False, out, NodePlace.of(nodes, rank, rendezvous, {}))
    measure("dpscale.measure.worker.collectives", cell, settings, job, nodes, nodes, run)


def report(tables: Tables, results: Path, network: ShapedNetwork) -> None:
    carried_gb_s = network.carried_gb_s
    click.echo(f"{network.rate_mbit} Mbit/s carry {carried_gb_s * 1e3:.2f} MB/s of messages")
    for row in tables.collectives:
        if row.message_bytes == MESSAGES[-1][1]:
            bus_gb_s = row.bus_bandwidth_gb_s.value
            share = bus_gb_s / carried_gb_s
            click.echo(f"allreduce on {row.gpus} nodes: bus bandwidth {bus_gb_s * 1e3:.2f} MB/s, {share:.1%}")
    tell_of_steps(tables)


def tell_of_steps(tables: Tables) -> None:
    """The step on every number of nodes, and what that of one node differs by between cells."""
    step_s = {row.gpus: row.step_s.value for row in tables.times}
    for row in tables.speedup:
        if row.scaling == "weak":
            alone_s = row.speedup_from_steps.value * step_s[row.gpus] / row.gpus
            click.echo(f"a step of one node alone, in the cell of {row.gpus}: {alone_s * 1e3:.1f} ms")
            click.echo(f"a step on {row.gpus} nodes: {step_s[row.gpus]:.3f} s")


def dpscale(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "dpscale", *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
