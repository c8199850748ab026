"""The commands that measure, or make images and facts for that. Each loads only what it needs.

A setting is an option, and a job runs on one node or on several.
"""

import functools
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpscale.errors import ClusterError
from dpscale.options import CLUSTER_FILE, FILE, FOLDER, read_cluster, schema_node, study_argument
from dpscale.plan.cells import CollectivesCell, CommunicationCell, Configuration, TimingCell, TrainingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.failures import DATASET_MADE, RECORD_WRITTEN
from dpscale.schemas.settings import (
    OF_FILE,
    CollectivesSettings,
    JsonSchema,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
    sample_of,
)
from dpscale.strategies.known import BASELINE, STRATEGIES, parallel_strategies
from dpscale.terminal import tell

if TYPE_CHECKING:
    from dpscale.measure.launch.cells import Run as Job
    from dpscale.records.files import JsonRecord

Command = Callable[..., None]


def setting_options(kind: type[NetworkSettings]) -> Callable[[Command], Command]:
    """Add an option for every setting of `kind`: its type, default and help."""

    def add(command: Command) -> Command:
        for name in reversed(kind.names()):
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


# Sources that `dpscale dataset` can decode.
SOURCES = [source for source in schema_node("dataset", "source")["enum"] if source != OF_FILE]


@click.command()
@click.option("--source", type=click.Choice(SOURCES), required=True)
@click.option(
    "--root",
    type=FOLDER,
    default=schema_node("dataset", "root")["default"],
    help="Folder of the images. Not used by synthetic.",
)
@click.option("--download/--no-download", default=False, help="Download cifar10 into the root where it is missing.")
@click.option(
    "--images",
    type=click.IntRange(min=1),
    default=schema_node("dataset", "images")["default"],
    help="Training images per epoch.",
)
@click.option("--out", type=FOLDER, required=True, help="Folder to write the arrays and manifest.json to.")
def dataset(source: str, root: Path, download: bool, images: int, out: Path) -> None:
    """Decode a dataset once, and write it and one augmented epoch as arrays that cells map into memory."""
    from dpscale.measure.workload.dataset import make_dataset

    manifest = make_dataset(source, root, download, images, out)
    tell(f"{DATASET_MADE}{out}, {manifest.images} training and {manifest.test_images} test images")


@click.command()
@configuration_options(*STRATEGIES)
@click.option(
    "--baseline-at-global-batch",
    is_flag=True,
    help="Time the plain module at the global batch too, where it fits: the baseline of strong scaling.",
)
@click.option("--variant", help="The study's name for these settings, where they are a variant's.")
@job_options
@setting_options(TimingSettings)
def time(
    strategy: str,
    gpus: int,
    batch_per_gpu: int,
    run: int,
    dataset: Path | None,
    baseline_at_global_batch: bool,
    variant: str | None,
    job: "Job",
    **settings: Any,
) -> None:
    """Time one cell in new processes, and write its record.

    Out of memory is a result and is recorded. Any other error leaves no record, and the exit code is not zero.
    If more GPUs are visible than asked for, the first ones are used.
    """
    from dpscale.measure.launch.cells import measure_steps

    point, values = Configuration(strategy, gpus, batch_per_gpu, job.place.nodes), TimingSettings.from_json(settings)
    cell = TimingCell(point, run) if variant is None else VariantCell(point, run, variant, values)
    record = measure_steps(cell, values, dataset, job, baseline_at_global_batch=baseline_at_global_batch)
    _print_written(record, job.out)


@click.command()
@setting_options(NetworkSettings)
@click.option("--out", type=FILE, required=True, help="The JSON file to write.")
def network(out: Path, **settings: Any) -> None:
    """Write the facts of a network that need no measurement: sizes, FLOPs, bytes of every message. On the CPU."""
    from dpscale.measure.workload.facts import describe_network

    facts = describe_network(NetworkSettings.from_json(settings), out)
    tell(f"network: {out}, {facts.parameters:,} parameters")


@click.command()
@gpus_option
@run_option
@click.option("--network-facts", type=FILE, required=True, help="JSON file that `dpscale network` wrote.")
@click.option(
    "--strategies",
    type=click.Choice(list(STRATEGIES)),
    multiple=True,
    default=list(STRATEGIES),
    help="Whose messages are timed. Can be given several times.",
)
@job_options
@setting_options(CollectivesSettings)
def collectives(
    gpus: int,
    run: int,
    network_facts: Path,
    strategies: tuple[str, ...],
    job: "Job",
    **settings: Any,
) -> None:
    """Time allreduce, broadcast, reduce, reduce-scatter and all-gather with nothing else running, and copies between
    GPUs.

    Sizes go from 4 KiB to 1 GiB (on cpu: 4 MiB). The sizes of the network's own messages are timed too. Every result
    is checked, and a wrong one is an error.
    """
    from dpscale.measure.launch.cells import measure_collectives

    cell = CollectivesCell(gpus, run, job.place.nodes)
    values = CollectivesSettings.from_json(settings)
    _print_written(measure_collectives(cell, values, network_facts, strategies, job), job.out)


@click.command()
@configuration_options(*parallel_strategies())
@job_options
@setting_options(StepSettings)
def communication(
    strategy: str,
    gpus: int,
    batch_per_gpu: int,
    run: int,
    dataset: Path | None,
    job: "Job",
    **settings: Any,
) -> None:
    """Measure where the time of the training step of one configuration goes.

    Variants of the step take turns, from one GPU alone to the whole step; each changes one thing. Then comes,
    on GPUs, the profiler. None of these times is a headline time: those come from `dpscale time`.
    """
    from dpscale.measure.launch.cells import measure_steps

    cell = CommunicationCell(Configuration(strategy, gpus, batch_per_gpu, job.place.nodes), run)
    values = StepSettings.from_json(settings)
    _print_written(measure_steps(cell, values, dataset, job), job.out)


@click.command()
@click.option("--arm", required=True, help="Name of the arm, as it is to stand in the record.")
@click.option("--seed", type=click.IntRange(min=1), default=1, help="Seed of weights, order and augmentation.")
@dataset_option
@job_options
@setting_options(TrainingSettings)
def train(arm: str, seed: int, dataset: Path | None, job: "Job", **settings: Any) -> None:
    """Train one arm with one seed, and write its record: every epoch's loss, accuracy and time.

    Divergence and out of memory are results.
    """
    from dpscale.measure.launch.cells import measure_steps

    cell = TrainingCell(arm, seed, TrainingSettings.from_json(settings), job.place.nodes)
    _print_written(measure_steps(cell, cell.settings, dataset, job), job.out)


def _print_written(record: "JsonRecord", out: Path) -> None:
    """Print what the cell's log does not have yet; nothing on nodes that write no record."""
    if oom := record.get("oom"):
        tell(f"out of memory in {oom['phase']}: {oom['message']}")
    if record:
        tell(f"{RECORD_WRITTEN}{out}")


@click.command()
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default=BASELINE)
@click.option("--gpus", type=click.IntRange(min=1), default=1)
@click.option(
    "--memory-gb", type=click.FloatRange(min=0, min_open=True), help="Of a smaller GPU, in place of all that is free."
)
@end_options
@setting_options(StepSettings)
def fit(
    strategy: str,
    gpus: int,
    memory_gb: float | None,
    timeout_s: float,
    end_with_parent: bool,
    **settings: Any,
) -> None:
    """Find the largest batch per GPU that fits, and the smallest one that is as fast.

    Every batch is tried in new processes, and none that is larger than an epoch. To measure a study at the batch that
    this prints, write it into the study's batch_per_gpu.
    """
    from dpscale.measure.launch.fit import as_fast, find_largest_batch, largest_of, smallest_too_large

    values = StepSettings.from_json(settings)
    tries = find_largest_batch(strategy, gpus, values, memory_gb, timeout_s, end_with_parent)
    tell(f"{'batch per GPU':>13}  {'memory, GB':>10}  {sample_of(values.workload) + 's/s':>10}")
    for attempt in tries:
        memory, rate = attempt.peak_bytes, attempt.images_per_s
        figures = f"{memory / 1e9:>10.2f}  {rate:>10,.0f}" if memory else f"{'too large':>10}"
        tell(f"{attempt.batch_per_gpu:>13,}  {figures}")
    too_large = smallest_too_large(tries)
    above = f"; {too_large:,} does not fit" if too_large else ""
    tell(f"largest that fits: {largest_of(tries).batch_per_gpu:,}{above}")
    tell(f"smallest within 2 % of the best throughput: {as_fast(tries)[0].batch_per_gpu:,}")


@click.command()
@study_argument
@click.option("--here", "is_here", is_flag=True, help="On this machine, in no job of its own.")
def doctor(study_file: Path, is_here: bool) -> None:
    """Check what every cell of a STUDY needs before many of them wait: torch, a GPU, space for records, the images.

    On a cluster with Slurm one small job checks it, as config/cluster.yaml has cells run; elsewhere this machine does.
    """
    from dpscale.measure.launch.doctor import check_here
    from dpscale.scheduler.slurm import run_small_job

    study, cluster = Study.read(study_file), read_cluster()
    if is_here or not shutil.which("srun"):
        tell(f"checked on {socket.gethostname()}:" if is_here else "no Slurm here; checked on this machine:")
        sys.exit(not check_here(study))
    if cluster is None:
        raise ClusterError(f"{CLUSTER_FILE}: there is no such file: it says how Slurm runs cells")
    sys.exit(run_small_job(cluster, study.settings, f"dpscale doctor --here {shlex.quote(str(study_file))}"))
