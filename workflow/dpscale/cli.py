"""The command line: one command per rule. Each loads only what it needs, so that all of them start at once."""

import functools
import gc
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpscale import __version__
from dpscale.errors import DpscaleError
from dpscale.plan.cells import (
    CollectivesCell,
    CommunicationCell,
    Configuration,
    TimingCell,
    TrainingCell,
    VariantCell,
)
from dpscale.plan.study import Study
from dpscale.records.failures import DATASET_MADE, RECORD_WRITTEN
from dpscale.scheduler.cluster import Cluster
from dpscale.schemas.settings import (
    OF_FILE,
    SETTINGS,
    CollectivesSettings,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
    sample_of,
)
from dpscale.schemas.validation import load_schema
from dpscale.strategies.known import STRATEGIES, parallel_strategies

if TYPE_CHECKING:
    from dpscale.analyse.comparison import Compared
    from dpscale.analyse.comparison_studies import Overview
    from dpscale.audit.histories import Axis
    from dpscale.export.runs import Run
    from dpscale.measure.launch.job import Run as Job
    from dpscale.records.collect import Collected

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)

# What pyproject.toml requires for some commands alone: modules, and the extra that brings each.
EXTRAS = {
    **dict.fromkeys(("torch", "torchvision", "PIL", "pynvml"), "measure"),
    **{tracker: tracker for tracker in ("wandb", "mlflow", "tensorboard")},
}
# More of them are an overview.
_STUDIES_COMPARED = 2
# An epoch of made-up images for a diagnosis of the built-in workload.
_DIAGNOSED_IMAGES = 8192


def _read_study(path: Path) -> Study:
    """The study in a file, on the nodes of this folder's cluster."""
    study, here = Study.read(path), Path("config/cluster.yaml")
    return Cluster.read(here).laid_out(study) if here.exists() else study


def _schema_node(*path: str) -> dict[str, Any]:
    """What the study's schema says of a key: its type, allowed values, default and description."""
    node = load_schema("study")
    for key in path:
        node = node["properties"][key] if "properties" in node else node["additionalProperties"]
    return node


# What `dpscale dataset` can decode.
SOURCES = [source for source in _schema_node("dataset", "source")["enum"] if source != OF_FILE]


class OneLineErrors(click.Group):
    """Errors that a user can correct end the program with one line, not with a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except DpscaleError as error:
            raise click.ClickException(str(error)) from error
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            extra = f"dpscale[{EXTRAS[error.name]}]"
            lacking = f"this command needs {error.name}, which the extra {extra} brings: pip install '{extra}'"
            raise click.ClickException(lacking) from error


@click.group(cls=OneLineErrors, context_settings={"show_default": True, "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Measure how much faster data-parallel training gets with more GPUs, and where the rest of the time goes.

    Snakemake calls these commands, one per rule. You can call each of them by hand in the same way. To see the
    command of any cell: snakemake -n -p
    """
    # Ten thousand records are millions of objects that are all needed until the end. With its default thresholds the
    # garbage collector would visit them again and again.
    gc.set_threshold(50_000, 50, 50)


@main.command()
@click.option("--source", type=click.Choice(SOURCES), required=True)
@click.option(
    "--root",
    type=FOLDER,
    default=_schema_node("dataset", "root")["default"],
    help="Folder of the images. Not used by synthetic.",
)
@click.option("--download/--no-download", default=False, help="Download cifar10 into the root where it is missing.")
@click.option(
    "--images",
    type=click.IntRange(min=1),
    default=_schema_node("dataset", "images")["default"],
    help="Training images per epoch.",
)
@click.option("--out", type=FOLDER, required=True, help="Folder to write the arrays and manifest.json to.")
def dataset(source: str, root: Path, download: bool, images: int, out: Path) -> None:
    """Decode a dataset once, and write it and one augmented epoch as arrays that cells map into memory."""
    from dpscale.measure.data.dataset import make_dataset

    manifest = make_dataset(source, root, download, images, out)
    counted = f"{manifest['images']} training and {manifest['test_images']} test images"
    click.echo(f"{DATASET_MADE}{out}, {counted} from {source}")


Command = Callable[..., None]


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


def _option_type(node: dict[str, Any]) -> Any:
    if "enum" in node:
        return click.Choice(node["enum"])
    if node["type"] in ("string", "boolean"):
        return {"string": str, "boolean": bool}[node["type"]]
    limits: dict[str, Any] = {
        "min": node.get("minimum", node.get("exclusiveMinimum")),
        "max": node.get("maximum", node.get("exclusiveMaximum")),
        "min_open": "exclusiveMinimum" in node,
        "max_open": "exclusiveMaximum" in node,
    }
    return click.IntRange(**limits) if node["type"] == "integer" else click.FloatRange(**limits)


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


study_option = click.option("--study", "study_file", type=FILE, required=True, help="The study, as YAML or JSON.")
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
_job_options = _with(
    nodes_options,
    click.option(
        "--timeout-s",
        type=click.FloatRange(min=0, min_open=True),
        default=_schema_node("cell_timeout_s")["default"],
        help="Stop the cell after this many seconds.",
    ),
    click.option("--end-with-parent", is_flag=True, help="Stop when the process that started this one has ended."),
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
        **others: Any,
    ) -> None:
        from dpscale.measure.launch.job import Run
        from dpscale.measure.launch.nodes import Place

        place = Place.of(nodes, node_rank, rendezvous, os.environ)
        command(job=Run(timeout_s, end_with_parent, out, place), **others)

    return _job_options(with_job)


@main.command()
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
    record = time_cell(
        cell,
        values,
        dataset,
        baseline_at_global_batch,
        job,
    )
    if not record:  # node 0 writes it
        return
    for scope, result in record["scopes"].items():
        click.echo(f"{scope}: epochs of {', '.join(f'{seconds:.3f}' for seconds in result['epoch_s'])} s")
    _print_written(record, job.out)


@main.command()
@setting_options(NetworkSettings)
@click.option("--out", type=FILE, required=True, help="The JSON file to write.")
def network(out: Path, **settings: Any) -> None:
    """Write the facts of a network that need no measurement: sizes, FLOPs, bytes of every message. On the CPU."""
    from dpscale.measure.model.facts import describe_network

    facts = describe_network(NetworkSettings.from_json(settings), out)
    flop, unit = facts["flop_per_image"], f"FLOP per {sample_of(settings['workload'])}"
    work = f"{flop['forward_backward']:,} {unit}, forward and backward" if flop else f"unknown {unit}"
    click.echo(f"network: {out}, {facts['parameters']:,} parameters, {work}")


@main.command()
@gpus_option
@run_option
@click.option("--network-facts", type=FILE, required=True, help="JSON file that `dpscale network` wrote.")
@job_options
@setting_options(CollectivesSettings)
def collectives(
    gpus: int,
    run: int,
    network_facts: Path,
    job: "Job",
    **settings: Any,
) -> None:
    """Time allreduce, broadcast, reduce, reduce-scatter and all-gather with nothing else running, and copies between
    GPUs.

    Sizes go from 4 KiB to 1 GiB (on cpu: 64 MiB). The sizes of the network's own messages are timed too. Every result
    is checked, and a wrong one is an error.
    """
    from dpscale.measure.launch.cells import measure_collectives

    cell = CollectivesCell(gpus, run, job.place.nodes)
    values = CollectivesSettings.from_json(settings)
    record = measure_collectives(cell, values, network_facts, job)
    if not record:  # node 0 writes it
        return
    click.echo(f"{len(record['collectives'])} collectives, {len(record['peer_copies'])} pairs of GPUs")
    click.echo(f"{RECORD_WRITTEN}{job.out}")


@main.command()
@configuration_options(*parallel_strategies())
@click.option("--keep-traces", is_flag=True, help="Keep the compressed traces of the profiler beside the record.")
@job_options
@setting_options(StepSettings)
def communication(
    strategy: str,
    gpus: int,
    batch_per_gpu: int,
    run: int,
    dataset: Path | None,
    keep_traces: bool,
    job: "Job",
    **settings: Any,
) -> None:
    """Measure where the time of the training step of one configuration goes.

    Variants of the step take turns, from one GPU alone to the whole step; each changes one thing. Then come DDP's own
    logger and, on GPUs, the profiler. None of these times is a headline time: those come from `dpscale time`.
    """
    from dpscale.measure.launch.cells import measure_communication

    cell = CommunicationCell(Configuration(strategy, gpus, batch_per_gpu, job.place.nodes), run)
    values = StepSettings.from_json(settings)
    record = measure_communication(cell, values, dataset, keep_traces, job)
    if not record:  # node 0 writes it
        return
    for name, blocks in (record["steps"] or {"variants": {}})["variants"].items():
        click.echo(f"{name}: steps of {', '.join(f'{seconds * 1e3:.3f}' for seconds in blocks['step_s'])} ms")
    _print_written(record, job.out)


@main.command()
@click.option("--arm", required=True, help="Name of the arm, as it is to stand in the record.")
@click.option("--seed", type=click.IntRange(min=1), default=1, help="Seed of weights, order and augmentation.")
@dataset_option
@job_options
@setting_options(TrainingSettings)
def train(
    arm: str,
    seed: int,
    dataset: Path | None,
    job: "Job",
    **settings: Any,
) -> None:
    """Train one arm with one seed, and write its record: every epoch's loss, accuracy and time, every step's loss.

    After every epoch a checkpoint is written beside the record: after an interruption the same command continues there.
    Divergence and out of memory are results.
    """
    from dpscale.measure.launch.cells import train as train_cell

    cell = TrainingCell(arm, seed, TrainingSettings.from_json(settings), job.place.nodes)
    record = train_cell(cell, dataset, job)
    if not record:  # node 0 writes it
        return
    for epoch in record["epochs"]:
        accuracy = "diverged" if epoch["test_accuracy"] is None else f"test accuracy {epoch['test_accuracy']:.4f}"
        click.echo(f"epoch {epoch['epoch']}: {epoch['epoch_s']:.3f} s, {accuracy}")
    _print_written(record, job.out)


def _print_written(record: dict[str, Any], out: Path) -> None:
    if record["oom"]:
        click.echo(f"out of memory in {record['oom']['phase']}: {record['oom']['message']}")
    click.echo(f"{RECORD_WRITTEN}{out}")


@main.command("plan")
@click.argument("study_file", metavar="STUDY", type=FILE)
@click.option("--results", type=FOLDER, show_default="results/<study>", help="Folder that holds the study's records.")
@click.option("--cells", "list_cells", is_flag=True, help="List every cell with its state and its cost too.")
def plan_study(study_file: Path, results: Path | None, list_cells: bool) -> None:
    """Print what of a STUDY is measured, what is not, and what measuring it will cost. It starts nothing.

    \b
        dpscale plan config/config.yaml
        dpscale plan config/config.yaml --cells | grep failed

    A cell is `done`, or it has a record of an `older version` of the measurement, or none: it is `missing`, it has
    `failed`, it is `unfinished` (killed, or still running), or its record is `rejected` because it is damaged or of
    other settings. The next run measures all but those that are done.

    The cost of a cell in GPU-hours is estimated from jobs of the same configuration in this study. Where there are
    none it is that of the nearest configuration of this study, then of a recorded study in results/recorded*, with the
    same device, network and number of images or samples. Otherwise it is unknown. Needs no GPU and no torch.
    """
    from dpscale.plan.plan import plan
    from dpscale.records.cost import Costs
    from dpscale.records.plan_lines import cell_lines, summary
    from dpscale.records.progress import cell_states

    study = _read_study(study_file)
    folder = results or study.results
    planned = plan(study)
    states = list(cell_states(study, planned, folder))
    recorded = (path for path in sorted(Path("results").glob("recorded*")) if path.resolve() != folder.resolve())
    costs = Costs(study, states, recorded)
    for line in summary(study, planned, states, costs):
        click.echo(line)
    if list_cells:
        click.echo()
        for line in cell_lines(planned, states, costs):
            click.echo(line)


@main.command()
@click.argument("study_file", metavar="STUDY", type=FILE)
@click.option("--results", type=FOLDER, show_default="results/<study>", help="Folder that holds the study's records.")
@click.option("--once", is_flag=True, help="Print how far the study is, and end.")
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    help="Seconds between two looks at the records.",
)
def watch(study_file: Path, results: Path | None, once: bool, every: float) -> None:
    """Follow a run of a STUDY from another terminal: a line per cell as it ends, with its epoch time.

    \b
        dpscale watch config/mine.yaml
        dpscale watch config/mine.yaml --once

    The first line says how many cells are done, running, failed and waiting, the GPU-hours spent, and about how long
    the rest will take with as many cells at once as run now. It ends when no cell runs or waits. It reads records and
    logs alone, so it follows a run on a cluster too, from any machine that sees the folder. Needs no GPU and no torch.

    A cell counts as running from the start of its log until the log ends or is older than cell_timeout_s.
    """
    from time import sleep

    from dpscale.records.watch import Watch

    study = _read_study(study_file)
    watched = Watch(study, results or study.results, sorted(Path("results").glob("recorded*")))
    click.echo(watched.standing())
    for line in watched.under_way():
        click.echo(line)
    while not once and not watched.is_over:
        sleep(every)
        for line in watched.look():
            click.echo(line)


@main.command()
@click.argument("published", type=FILE, nargs=-1, required=True)
@click.option("--out", type=FOLDER, help="Folder to write <id>.json to, one per study.")
@click.option("--page", "pages", type=FOLDER, help="Folder to write <id>.html to, one small page per study.")
@click.option(
    "--beside",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="Published file, or folder of results, to compare one-GPU times with. Can be given several times.",
)
def audit(published: tuple[Path, ...], out: Path | None, pages: Path | None, beside: tuple[Path, ...]) -> None:
    """Find which conventions give PUBLISHED figures, what the figures should be, and which of them cannot be.

    A file is YAML as in config/published, or your own table as CSV or Markdown:

    \b
        dpscale audit table.csv --page /tmp/audit
        dpscale audit config/published/*.yaml --out /tmp/audit

    The exit status is 1 where a figure of a CSV or Markdown table is impossible or wrong, so a script can check it, and
    where a file cannot be read. Both formats are explained in config/README.md. Needs no GPU and no torch.
    """
    from dpscale.audit.audit import audit as audited
    from dpscale.audit.audit import is_faulty
    from dpscale.audit.own_table import is_table, read_studies
    from dpscale.audit.physics import recorded_references, references_of, references_of_records
    from dpscale.audit.published import AUDIT_PATH, Published
    from dpscale.audit.sentences import summary as summarise
    from dpscale.records.files import write_record, write_text

    studies = read_studies(published)
    others = [Published.read(path) for path in beside if not path.is_dir()]
    references = [*recorded_references()]
    references += [time for study in (*studies.values(), *others) for time in references_of(study)]
    references += [time for folder in beside if folder.is_dir() for time in references_of_records(folder)]
    faulty = False
    for path, study in studies.items():
        record = audited(study, references, [*studies.values(), *others])
        lines = [summarise(record)]
        if out:
            file = out / Path(AUDIT_PATH.format(id=study.id)).name
            write_record("audit", file, record)
            lines.append(f"{RECORD_WRITTEN}{file}")
        if pages:
            from dpscale.present.audit_page import render

            write_text(pages / f"{study.id}.html", render(record))
            lines.append(f"page: {pages / study.id}.html")
        click.echo("\n".join(lines) + "\n")
        faulty = faulty or (is_table(path) and is_faulty(record))
    if faulty:
        raise click.exceptions.Exit(1)


@main.command("import")
@click.option(
    "--run",
    "runs",
    type=(click.IntRange(min=1), click.IntRange(min=1), FILE),
    multiple=True,
    required=True,
    metavar="BATCH GPUS FILE",
    help="Batch per GPU, GPUs, and the CSV file of the run's history; FILE::NAME for one of several runs in a file.",
)
@click.option(
    "--axis",
    type=click.Choice(["step", "epoch"]),
    required=True,
    help="What the numbers in the files count: training steps, or epochs.",
)
@click.option("--images", type=click.IntRange(min=1), required=True, help="Training images in an epoch.")
@click.option("--parameters", type=click.IntRange(min=1), help="Parameters of the network, for bandwidths.")
@click.option("--title", required=True, help="What the study is, in one line.")
@click.option("--out", type=FILE, required=True, help="The file to write, <id>.yaml.")
def import_histories(
    runs: tuple[tuple[int, int, Path], ...], axis: "Axis", images: int, parameters: int | None, title: str, out: Path
) -> None:
    """Turn run histories of experiment trackers into a published-study file for `dpscale audit`.

    \b
        dpscale import --axis epoch --images 50000 --title "Our runs" --out ours.yaml \\
            --run 128 1 one-gpu.csv --run 128 4 four-gpus.csv
        dpscale audit ours.yaml --out /tmp/audit

    A history is a CSV file with a time stamp per step or epoch: what TensorBoard, MLflow and Weights & Biases download
    from a chart, or the history of a W&B run. The epoch time is the median time from one epoch's end to the next, so
    evaluation and checkpoints count. The first epoch has no start in most histories, and is left out. Files may be of
    several repeats: their epoch times are averaged. docs/exports.md says where each tracker has the download.
    """
    from dpscale.audit.histories import epoch_times, named, published_file
    from dpscale.audit.published import Place, Published
    from dpscale.records.files import write_text

    found = [epoch_times(named(file, axis), Place(batch, gpus), images, axis) for batch, gpus, file in runs]
    write_text(out, published_file(out.stem, title, images, parameters, found))
    study = Published.read(out)
    for place, epoch_s in study.epoch_s.items():
        click.echo(f"batch {place.batch_per_gpu} per GPU on {place.gpus} GPUs: {epoch_s} s per epoch")
    click.echo(f"published study: {out}")


BUILT_IN_NETWORKS = [name for name in NetworkSettings.schema_of("network")["enum"] if name != OF_FILE]


@main.command()
@click.option(
    "--workload",
    default=BUILT_IN_NETWORKS[0],
    help="Your Python file with the functions network, dataset and loss, which is run with your rights; or "
    f"{' or '.join(BUILT_IN_NETWORKS)}, on made-up images.",
)
@gpus_option
@click.option("--batch-per-gpu", type=click.IntRange(min=1), help="Samples per GPU and step.")
@click.option(
    "--global-batch",
    type=click.IntRange(min=1),
    help="Samples per step over all GPUs, where you kept them when you added GPUs. In place of --batch-per-gpu.",
)
@click.option("--strategy", type=click.Choice(parallel_strategies()), default="ddp", help="Not used with one GPU.")
@setting_options(TimingSettings, "loader_workers", "device", "precision")
@click.option("--out", type=FILE, default="diagnosis.json", help="The JSON record to write.")
@click.option("--page", type=FILE, help="The HTML page to write.")
def diagnose(
    workload: str,
    gpus: int,
    batch_per_gpu: int | None,
    global_batch: int | None,
    strategy: str,
    loader_workers: int,
    device: str,
    precision: str,
    out: Path,
    page: Path | None,
) -> None:
    """Find out why a training step is not faster on more GPUs: causes, what each costs, and what to change.

    \b
        dpscale diagnose --workload my_training.py --gpus 2 --batch-per-gpu 64
        dpscale diagnose --workload my_training.py --gpus 2 --batch-per-gpu 8 --device cpu --page why.html

    Variants of the step take turns for about three minutes; each changes one thing: no allreduce, no loader, more
    loader workers, a larger batch, one GPU after the other. What a change saves is predicted and, where it can be tried
    at once, measured too. Needs no study file. Call it without a launcher: it starts its own processes.
    """
    from dpscale.measure.launch.diagnosis import measure_diagnosis
    from dpscale.measure.launch.job import Run
    from dpscale.plan.diagnosis import Diagnosed

    asked = Diagnosed.of(strategy, gpus, batch_per_gpu, global_batch, loader_workers)
    if workload in BUILT_IN_NETWORKS:
        trained = {"network": workload, "dataset_source": "synthetic", "epoch_images": _DIAGNOSED_IMAGES}
    else:
        trained = {"workload": workload}
    settings = StepSettings.from_json({**trained, "device": device, "precision": precision})
    timeout_s = _schema_node("cell_timeout_s")["default"]
    record = measure_diagnosis(asked, settings, Run(timeout_s, end_with_parent=True, out=out))

    from dpscale.analyse.diagnosis import diagnose as answer_of
    from dpscale.present import diagnosis
    from dpscale.records.files import write_text

    answer = answer_of(record)
    click.echo(diagnosis.text(answer, record))
    click.echo(f"\n{RECORD_WRITTEN}{out}")
    if page:
        write_text(page, diagnosis.render(answer, record))
        click.echo(f"page: {page}")


@main.command()
@study_option
@click.option("--results", type=FOLDER, required=True, help="Folder that holds the study's cells/.")
@click.option("--out", type=FOLDER, required=True, help="Folder to write the CSV tables to.")
def tables(study_file: Path, results: Path, out: Path) -> None:
    """Compute every table of a study from its records, as CSV. Needs no GPU and no torch."""
    from dpscale.analyse.tables import build_tables
    from dpscale.audit.published import collect_audits
    from dpscale.records.files import write_text
    from dpscale.tables.tables import TABLES, written

    study = _read_study(study_file)
    collected = _collect(study, results)
    built = build_tables(study, collected, collect_audits(results, study["published"]))
    if len(built["environments"]) > 1:
        click.echo("more than one environment was measured; they are never pooled or compared:", err=True)
        click.echo(built["environments"].to_string(index=False), err=True)
    for name, kind in TABLES.items():
        write_text(out / f"{name}.csv", written(kind, getattr(built, name)))
    click.echo(f"{len(collected.records)} records, {len(built)} tables: {out}")


def _collect(study: Study, results: Path) -> "Collected":
    """The records of a study. Prints which files are not used, and why."""
    from dpscale.analyse.tables import expected_cells
    from dpscale.records.collect import collect

    collected = collect(results, expected_cells(study), study.settings)
    for reason in collected.rejected.values():
        click.echo(f"not used: {reason}", err=True)
    return collected


@main.command()
@study_option
@click.option("--tables", "tables_folder", type=FOLDER, required=True, help="Folder that `dpscale tables` wrote.")
@click.option("--out", type=FILE, required=True, help="The HTML page to write.")
@click.option("--charts", "charts_folder", type=FOLDER, help="Folder to write the charts of the page to, as SVG files.")
def report(study_file: Path, tables_folder: Path, out: Path, charts_folder: Path | None) -> None:
    """Render the page of a study from its tables: one HTML file that needs no other file.

    Where the study names figures that others published, their page stands beside it, as <page>-audit.html.
    """
    from dpscale.present import published_page
    from dpscale.present.chart_files import write_charts
    from dpscale.present.page import render
    from dpscale.records.files import write_text

    study, tables = Study.read(study_file), _read_tables(tables_folder)
    audit_page = study.audit_page(out)
    page = render(study.values, tables, audit_page.name if audit_page else "")
    write_text(out, page)
    if audit_page:
        write_text(audit_page, published_page.render(study.values, tables, out.name))
    if charts_folder:
        write_charts(page, charts_folder)
    click.echo(f"page: {out}")


def share(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A share that is written in percent: 5% is 0.05."""
    if value is None:
        return None
    number, sign, rest = value.partition("%")
    try:
        percent = float(number)
    except ValueError:
        percent = math.nan
    if not sign or rest or not 0 <= percent < math.inf:
        raise click.BadParameter(f"{value} is no share. Write it in percent, such as 5%", context, parameter)
    return percent / 100


@main.command()
@click.argument(
    "study_files", metavar="FIRST SECOND [MORE]...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "--results",
    type=FOLDER,
    multiple=True,
    show_default="results/<study> of each",
    help="Folder of the records of a study. Given once per study, in their order.",
)
@click.option(
    "--differing",
    "may_differ",
    type=click.Choice(sorted({name for settings in SETTINGS.values() for name in settings.names()})),
    multiple=True,
    metavar="SETTING",
    help="A setting that may differ, because it is what you compare. Can be given several times.",
)
@click.option(
    "--fail-slower",
    "tolerance",
    callback=share,
    metavar="PERCENT",
    help="End with exit status 1 if a strategy on so many GPUs is slower by more than this, such as 5%, with its "
    "whole 95 % interval.",
)
@click.option("--tables", "tables_folder", type=FOLDER, help="Folder to write the compared figures to, as CSV.")
@click.option("--out", type=FILE, required=True, help="The HTML page to write.")
@click.pass_context
def compare(
    context: click.Context,
    study_files: tuple[Path, ...],
    results: tuple[Path, ...],
    may_differ: tuple[str, ...],
    tolerance: float | None,
    tables_folder: Path | None,
    out: Path,
) -> None:
    """Compare SECOND with FIRST: two machines, or before and after a change. Writes one HTML page.

    The studies are files, as YAML or JSON, whose cells were measured. They can be the same file with the records of
    two machines. With MORE studies the page has one row per study, and each is compared with FIRST. Needs no GPU and
    no torch:

    \b
        dpscale compare config/before.yaml config/after.yaml --out /tmp/compared.html
        dpscale compare config/mine.yaml config/mine.yaml --results here/mine --results there/mine --out /tmp/c.html
        dpscale compare config/before.yaml config/after.yaml --fail-slower 5% --out /tmp/compared.html

    Studies that differ in a setting that can change a number are refused, and every such setting is named. Where you
    want to see that difference, name it: --differing precision --differing memory_format. Hardware and software may
    differ between the studies. The records of one study must come from one environment. A record that stands in two
    of the studies is left out: the same file in both is no evidence of a difference.

    With --fail-slower, exit status 1 says that a strategy on so many GPUs became slower by more than that, over all
    batches, beyond its 95 % interval. Where the interval holds that limit, or there is none, it is undecided: that is
    said, and is no failure.
    """
    from dpscale.analyse.comparison import compare as compare_sides
    from dpscale.analyse.comparison import refuse_other_settings
    from dpscale.analyse.comparison_evidence import Named, sides
    from dpscale.analyse.comparison_studies import overview
    from dpscale.present import comparison, comparison_studies
    from dpscale.present.comparison_groups import is_beyond
    from dpscale.records.files import write_text

    for folder in filter(Path.is_dir, study_files):
        raise click.UsageError(f"{folder} is a folder, no study file. Folders of records follow --results, one each")
    if len(study_files) < _STUDIES_COMPARED:
        raise click.UsageError("name two studies or more")
    if results and len(results) != len(study_files):
        raise click.UsageError("give --results once per study, in their order, or not at all")
    studies = [_read_study(file) for file in study_files]
    refuse_other_settings(studies, may_differ)  # before reading any record
    folders = results or [study.results for study in studies]
    measured = sides([
        Named(name, study, _collect(study, folder))
        for name, study, folder in zip(_names(studies), studies, folders, strict=True)
    ])  # fmt: skip
    found: Compared | Overview
    if len(measured) == _STUDIES_COMPARED:
        found = compare_sides(measured[0], measured[1], may_differ, tolerance)
        page, sentences = comparison.render(found), comparison.summary(found)
    else:
        found = overview(measured, may_differ, tolerance)
        page, sentences = comparison_studies.render(found), comparison_studies.summary(found)
    if tables_folder:
        for name, table in found.tables.items():
            write_text(tables_folder / f"{name}.csv", table.to_csv(index=False))
    write_text(out, page)
    for sentence in sentences:
        click.echo(sentence)
    click.echo(f"page: {out}")
    if is_beyond(found.tables["compared_groups"]):
        context.exit(1)


def _names(studies: Sequence[Study]) -> list[str]:
    """The studies' names, numbered where they are the same."""
    names = [study.name for study in studies]
    return names if len(set(names)) == len(names) else [f"{name} ({n})" for n, name in enumerate(names, 1)]


@main.command("export")
@click.argument("study_file", metavar="STUDY", type=FILE)
@click.option("--to", "tracker", type=click.Choice(["wandb", "mlflow", "tensorboard"]), required=True)
@click.option(
    "--results", type=FOLDER, show_default="results/<study>", help="Folder of the study's records and tables/."
)
@click.option(
    "--out", type=FOLDER, show_default="<results>/exports/<tracker>", help="Folder to write to. Not with --uri."
)
@click.option("--uri", help="MLflow alone: address of a tracking server, or of another store, in place of a folder.")
def export_study(study_file: Path, tracker: str, results: Path | None, out: Path | None, uri: str | None) -> None:
    """Give a measured STUDY to an experiment tracker: Weights & Biases, MLflow or TensorBoard.

    \b
        dpscale export config/mine.yaml --to wandb          # offline; send it later with: wandb sync
        dpscale export config/mine.yaml --to mlflow --uri http://127.0.0.1:5000
        dpscale export config/mine.yaml --to tensorboard --out /tmp/events

    There is one run per timing cell, per cell of a variant and per training: settings, the history of its epochs (of a
    training also of its steps), and the figures that the tables say of it. One more run, `study`, holds the tables and
    the page as files; TensorBoard keeps no files.

    A second export doubles nothing: the same record is the same run. Each tracker is an extra of the package, for
    example pip install 'dpscale[wandb]'. docs/exports.md has more. Needs no GPU and no torch.
    """
    if uri is not None and (tracker != "mlflow" or out is not None):
        raise click.UsageError("--uri goes with --to mlflow, and without --out")
    export = _exporter(tracker, uri)  # before reading: what is not installed is said at once

    from dpscale.export.runs import runs_of

    study = _read_study(study_file)
    folder = results or study.results
    tables = sorted((folder / "tables").glob("*.csv"))
    files = [*tables, study.page] if study.page.exists() else tables
    runs = list(runs_of(study, _collect(study, folder), _read_tables(folder / "tables"), files))
    if not runs:
        raise DpscaleError(f"{folder}: no records of timing cells or trainings there")
    place = out or folder / "exports" / tracker
    look = export(runs, place)
    click.echo(f"{len(runs)} runs: {uri or place}\n{look}")
    if not study.page.exists():
        click.echo(f"without the page: {study.page} is not there", err=True)


def _exporter(tracker: str, uri: str | None) -> Callable[[Sequence["Run"], Path], str]:
    """What writes runs to a tracker, and says how to look at them."""
    if tracker == "wandb":
        from dpscale.export import to_wandb

        return to_wandb.export
    if tracker == "tensorboard":
        from dpscale.export import to_tensorboard

        return to_tensorboard.export
    from dpscale.export import to_mlflow

    def to_store(runs: Sequence["Run"], place: Path) -> str:
        if uri is not None:
            return to_mlflow.export(runs, uri)
        return to_mlflow.export(runs, to_mlflow.local_store(place), place / "artefacts")

    return to_store


@main.command()
@study_option
def summary(study_file: Path) -> None:
    """Print the main figures of a study that was run in this folder, and where its page is."""
    from dpscale.present.summary import summary as summarise

    study = _read_study(study_file)
    click.echo(summarise(_read_tables(study.results / "tables")))
    click.echo(f"\nThe page: {study.page.resolve()}")


def _read_tables(folder: Path) -> Any:
    from dpscale.tables.tables import Tables

    return Tables.read(folder)
