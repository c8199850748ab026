"""Options of the commands that measure: a setting is an option, and a job runs on one node or on several."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpscale.options import FILE, FOLDER, schema_node
from dpscale.schemas.settings import OF_FILE, JsonSchema, NetworkSettings

Command = Callable[..., None]

BUILT_IN_NETWORKS = [name for name in NetworkSettings.schema_of("network")["enum"] if name != OF_FILE]


def setting_options(kind: type[NetworkSettings], *names: str) -> Callable[[Command], Command]:
    """Add an option for every setting of `kind`, or for those with these names: its type, default and help."""

    def add(command: Command) -> Command:
        for name in reversed(names or kind.names()):
            node = kind.schema_of(name)
            several = node["type"] == "array"
            command = click.option(
                f"--{name.replace('_', '-')}",
                name,
                type=_option_type(node["items"] if several else node),
                multiple=several,
                default=node.get("default"),
                required="default" not in node,
                help=node["description"] + (" Can be given several times." if several else ""),
            )(command)
        return command

    return add


def _option_type(node: JsonSchema) -> Any:
    if "enum" in node:
        return click.Choice(node["enum"])
    if node["type"] in ("string", "boolean"):
        return {"string": str, "boolean": bool}[node["type"]]
    number_range = click.IntRange if node["type"] == "integer" else click.FloatRange
    return number_range(
        min=node.get("minimum", node.get("exclusiveMinimum")),
        max=node.get("maximum", node.get("exclusiveMaximum")),
        min_open="exclusiveMinimum" in node,
        max_open="exclusiveMaximum" in node,
    )


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator. `--help` lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def configuration_options(*strategies: str) -> Callable[[Command], Command]:
    """The options that name a cell that trains, and the images it trains on."""
    return _with(
        click.option("--strategy", type=click.Choice(strategies), required=True),
        gpus_option,
        click.option(
            "--batch-per-gpu",
            type=click.IntRange(min=1),
            required=True,
            help="Images (samples of a workload's file) per GPU and step.",
        ),
        run_option,
        dataset_option,
    )


dataset_option = click.option(
    "--dataset", type=FOLDER, help="Folder that `dpscale dataset` wrote. Not needed with the file of a --workload."
)
gpus_option = click.option("--gpus", type=click.IntRange(min=1), required=True, help="GPUs (on cpu: worker processes).")
run_option = click.option(
    "--run", type=click.IntRange(min=1), default=1, help="Number of the run. It is the seed of the weights."
)
# On several nodes the same command runs on each of them.
nodes_options = _with(
    click.option(
        "--nodes",
        type=click.IntRange(min=1),
        default=1,
        help="Nodes that the GPUs are spread over evenly. This command runs on each of them: by srun with one task per "
        "node, or by hand with the two options below.",
    ),
    click.option(
        "--node-rank", type=click.IntRange(min=0), help="Number of this node, from 0. Node 0 writes the record."
    ),
    click.option("--rendezvous", metavar="HOST:PORT", help="Where all nodes reach node 0: any free port of it."),
)
end_options = _with(
    click.option(
        "--timeout-s",
        type=click.FloatRange(min=0, min_open=True),
        default=schema_node("cell_timeout_s")["default"],
        help="Stop the cell after this many seconds.",
    ),
    click.option("--end-with-parent", is_flag=True, help="Stop when the process that started this one has ended."),
)
_job_options = _with(
    nodes_options,
    end_options,
    click.option("--out", type=FILE, required=True, help="The JSON record to write."),
)


def job_options(command: Command) -> Command:
    """The options of how a cell is run, which the command gets as one `job`."""

    @functools.wraps(command)
    def with_job(
        *,
        nodes: int,
        node_rank: int | None,
        rendezvous: str | None,
        timeout_s: float,
        end_with_parent: bool,
        out: Path,
        **options: Any,
    ) -> None:
        from dpscale.measure.launch.cells import Run
        from dpscale.measure.launch.nodes import NodePlace

        place = NodePlace.of(nodes, node_rank, rendezvous, os.environ)
        command(job=Run(timeout_s, end_with_parent, out, place), **options)

    return _job_options(with_job)


def settings_of_workload(workload: str) -> dict[str, str]:
    """Return the settings of a workload: a network that comes with dpscale, with made-up images, or a user's file."""
    built_in = workload in BUILT_IN_NETWORKS
    return {"network": workload, "dataset_source": "synthetic"} if built_in else {"workload": workload}
