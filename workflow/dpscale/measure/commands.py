"""The commands that measure, or make images and facts for that. Each loads only what it needs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpscale.measure.options import (
    BUILT_IN_NETWORKS,
    configuration_options,
    dataset_option,
    end_options,
    gpus_option,
    job_options,
    run_option,
    setting_options,
    settings_of_workload,
)
from dpscale.options import FILE, FOLDER, schema_node
from dpscale.plan.cells import (
    CollectivesCell,
    CommunicationCell,
    Configuration,
    TimingCell,
    TrainingCell,
    VariantCell,
)
from dpscale.records.failures import DATASET_MADE, RECORD_WRITTEN
from dpscale.schemas.settings import (
    OF_FILE,
    CollectivesSettings,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
    sample_of,
)
from dpscale.strategies.known import BASELINE, STRATEGIES, parallel_strategies

if TYPE_CHECKING:
    from dpscale.measure.launch.cells import Run as Job
    from dpscale.records.files import JsonRecord

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
    click.echo(f"{DATASET_MADE}{out}, {manifest.images} training and {manifest.test_images} test images")


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
    from dpscale.measure.launch.cells import time_cell

    point, values = Configuration(strategy, gpus, batch_per_gpu, job.place.nodes), TimingSettings.from_json(settings)
    cell = TimingCell(point, run) if variant is None else VariantCell(point, run, variant, values)
    _print_written(time_cell(cell, values, dataset, baseline_at_global_batch, job), job.out)


@click.command()
@setting_options(NetworkSettings)
@click.option("--out", type=FILE, required=True, help="The JSON file to write.")
def network(out: Path, **settings: Any) -> None:
    """Write the facts of a network that need no measurement: sizes, FLOPs, bytes of every message. On the CPU."""
    from dpscale.measure.workload.facts import describe_network

    facts = describe_network(NetworkSettings.from_json(settings), out)
    click.echo(f"network: {out}, {facts.parameters:,} parameters")


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
    from dpscale.measure.launch.cells import measure_communication

    cell = CommunicationCell(Configuration(strategy, gpus, batch_per_gpu, job.place.nodes), run)
    values = StepSettings.from_json(settings)
    _print_written(measure_communication(cell, values, dataset, job), job.out)


@click.command()
@click.option("--arm", required=True, help="Name of the arm, as it is to stand in the record.")
@click.option("--seed", type=click.IntRange(min=1), default=1, help="Seed of weights, order and augmentation.")
@dataset_option
@job_options
@setting_options(TrainingSettings)
def train(arm: str, seed: int, dataset: Path | None, job: "Job", **settings: Any) -> None:
    """Train one arm with one seed, and write its record: every epoch's loss, accuracy and time.

    After every epoch a checkpoint is written beside the record: after an interruption the same command continues there.
    Divergence and out of memory are results.
    """
    from dpscale.measure.launch.cells import train as train_cell

    cell = TrainingCell(arm, seed, TrainingSettings.from_json(settings), job.place.nodes)
    _print_written(train_cell(cell, dataset, job), job.out)


def _print_written(record: "JsonRecord", out: Path) -> None:
    """Print what the cell's log does not have yet; nothing on nodes that write no record."""
    if oom := record.get("oom"):
        click.echo(f"out of memory in {oom['phase']}: {oom['message']}")
    if record:
        click.echo(f"{RECORD_WRITTEN}{out}")


@click.command()
@click.option("--workload", required=True, help=f"Your Python file, or {' or '.join(BUILT_IN_NETWORKS)}.")
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default=BASELINE)
@click.option("--gpus", type=click.IntRange(min=1), default=1)
@click.option(
    "--memory-gb", type=click.FloatRange(min=0, min_open=True), help="Of a smaller GPU, in place of all that is free."
)
@end_options
@setting_options(StepSettings, *(name for name in StepSettings.names() if name != "workload"))
def fit(
    workload: str,
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

    values = StepSettings.from_json(settings | settings_of_workload(workload))
    tries = find_largest_batch(strategy, gpus, values, memory_gb, timeout_s, end_with_parent)
    click.echo(f"{'batch per GPU':>13}  {'memory, GB':>10}  {sample_of(values.workload) + 's/s':>10}")
    for attempt in tries:
        memory, rate = attempt.peak_bytes, attempt.images_per_s
        figures = f"{memory / 1e9:>10.2f}  {rate:>10,.0f}" if memory else f"{'too large':>10}"
        click.echo(f"{attempt.batch_per_gpu:>13,}  {figures}")
    too_large = smallest_too_large(tries)
    above = f"; {too_large:,} does not fit" if too_large else ""
    click.echo(f"largest that fits: {largest_of(tries).batch_per_gpu:,}{above}")
    click.echo(f"smallest within 2 % of the best throughput: {as_fast(tries)[0].batch_per_gpu:,}")
