"""Does a measurement between nodes find the rate that a link was given, and does the forecast for four nodes hold?

    python bench/shaped_network.py [--rate-mbit 200]

Four nodes of one CPU worker each are network namespaces of this machine; the kernel's token bucket gives every link its
rate. Allreduces between two and four nodes are set beside what such a link can carry, and DDP's step on four nodes
beside what is forecast from one and two. As root; other programs on this machine have to wait meanwhile.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
from dpscale.analyse.tables import build_tables, expected_cells
from dpscale.measure.launch.job import Run, measure
from dpscale.measure.launch.nodes import NodePlace
from dpscale.plan.cells import CollectivesCell
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from dpscale.records.files import read_record
from dpscale.schemas.settings import CollectivesSettings
from dpscale.tables.tables import Tables
from shaped_network import ShapedNetwork, missing_requirement

NODES = (1, 2, 4)
PORT = 15_000
MESSAGES = [("allreduce", 2**power) for power in (18, 20, 22, 24)]
WORKLOAD = Path(__file__).with_name("wide_layers.py")
# Communication is nearly all of a step: four workers on few cores are hardly slower than one, which no forecast from
# fewer could know.
STUDY: dict[str, Any] = {
    "study": "shaped",
    "device": "cpu",
    "strategies": ["single", "ddp"],
    "gpus": list(NODES),
    "gpus_per_node": 1,
    "batch_per_gpu": [1],
    "scopes": ["compute"],
    "epochs": {"timed": 2},
    "runs": 1,
    "workload": str(WORKLOAD),
    "dataset": {"images": 32, "loader_workers": 0},
    "optimiser": {"learning_rate": 1e-4, "momentum": 0, "weight_decay": 0},
    "communication": {"runs": 1},
    "ddp": {"gradient_as_bucket_view": True},
}


@click.command()
@click.option(
    "--rate-mbit", type=click.IntRange(min=1), default=200, show_default=True, help="Of every link, each way."
)
@click.option("--collectives", hidden=True, nargs=4, type=str, help="Time the collectives on one node of a cell.")
def main(rate_mbit: int, collectives: tuple[str, str, str, str] | None) -> None:
    if collectives:
        time_collectives(int(collectives[0]), int(collectives[1]), collectives[2], Path(collectives[3]))
        return
    if reason := missing_requirement():
        raise click.ClickException(reason)
    # Four nodes share few cores: nothing else on this machine may come before them.
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    study = Study(STUDY)
    with tempfile.TemporaryDirectory() as name, ShapedNetwork(max(NODES), rate_mbit) as network:
        results = Path(name)
        dpscale("network", "--workload", str(WORKLOAD), "--out", str(results / "network.json"))
        for nodes in NODES:
            run_on(network, nodes, timing_command(study, results, nodes))
            if nodes > 1:
                out = results / f"collectives/gpus-{nodes}/run-1.json"
                run_on(network, nodes, [sys.executable, __file__, "--collectives", str(nodes)], str(out))
        tables = build_tables(study, collect(results, expected_cells(study), study.settings))
        report(tables, results, network)


def timing_command(study: Study, results: Path, nodes: int) -> list[str]:
    strategy = "ddp" if nodes > 1 else "single"
    out = results / f"cells/{strategy}/gpus-{nodes}/batch-1/run-1.json"
    cell = ["--strategy", strategy, "--gpus", str(nodes), "--batch-per-gpu", "1", "--nodes", str(nodes)]
    return [sys.executable, "-m", "dpscale", "time", *cell, "--out", str(out), *study.settings.options().split()]


def run_on(network: ShapedNetwork, nodes: int, command: Sequence[str], out: str | None = None) -> None:
    """The same command on each of so many nodes."""
    place = f"{network.address(0)}:{PORT}"
    started = []
    for rank in range(nodes):
        by_hand = ["--node-rank", str(rank), "--rendezvous", place] if nodes > 1 else []
        words = [str(rank), place, out] if out else by_hand
        started.append(network.start(rank, [*command, *words]))
    codes = [process.wait() for process in started]  # of all, before the next cell starts
    if any(codes):
        raise click.ClickException(f"failed: {command}")


def time_collectives(nodes: int, rank: int, rendezvous: str, out: Path) -> None:
    """Few messages: `dpscale collectives` has more than a slow link carries in minutes."""
    cell = CollectivesCell(nodes, 1, nodes)
    settings = CollectivesSettings.of(Study(STUDY).values)
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
    # In tables T(N) is T(1) over the speedup, with T(1) of all cells. Here one worker's step is small beside
    # communication, and differs from cell to cell with what else this machine does: so the records' own steps.
    for scored in tables.held_out:
        added_s = scored.step_s - (1 + scored.unchanged_relative_error) * scored.measured_step_s.value
        measured_s, fewer_s = (step_of_record(results, nodes) for nodes in (scored.gpus, scored.fewer_gpus))
        errors = ((fewer_s + added_s) / measured_s - 1, fewer_s / measured_s - 1, scored.relative_error)
        forecast, unchanged, of_tables = (f"{error:+.1%}" for error in errors)
        click.echo(
            f"a step on {scored.gpus} nodes takes {measured_s:.3f} s: forecast from fewer {forecast}, "
            f"unchanged {unchanged} (in tables the forecast is {of_tables} off)"
        )


def step_of_record(results: Path, nodes: int) -> float:
    """Seconds: an epoch over its steps."""
    record = read_record("timing", results / f"cells/ddp/gpus-{nodes}/batch-1/run-1.json")
    step_s: float = median(record["scopes"]["compute"]["epoch_s"]) * nodes / STUDY["dataset"]["images"]
    return step_s


def dpscale(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "dpscale", *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
