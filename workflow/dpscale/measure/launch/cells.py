"""From a cell to its record: check the dataset, run the workers, write the outcome.

Functions that measure return the cell's record; an empty one on all nodes but node 0, which writes it. They raise
DatasetError, RecordError, MeasurementError or WorkloadError where there is no record then.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from dpscale import __version__, vocabulary
from dpscale.errors import MeasurementError
from dpscale.measure.launch.nodes import ONE_NODE, NodePlace, NodeTeam, node_differences
from dpscale.measure.launch.workers import Workers, machine_alone
from dpscale.measure.watch.nvml import gpus_there
from dpscale.measure.workload.dataset import EPOCH_ARRAYS, TEST_ARRAYS, TRAIN_ARRAYS, read_manifest, verify_dataset
from dpscale.plan.cells import (
    AnyCell,
    CollectivesCell,
    StepCell,
    TrainingCell,
)
from dpscale.plan.study import contradiction, of_its_file
from dpscale.records import VERSIONS
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import (
    RECORD_BEGIN,
    JsonRecord,
    claim_space,
    now,
    read_record,
    require_replaceable,
    write_record,
)
from dpscale.records.kinds import Images
from dpscale.records.redaction import public_command, without_private
from dpscale.schemas.settings import (
    BUILT_IN,
    CollectivesSettings,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
)
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import NetworkFacts
from dpscale.vocabulary import own_yaml

# Sizes of the messages that are timed, in bytes. Each is FACTOR times the one before.
SMALLEST_BYTES = 4 * 2**10
LARGEST_BYTES = {"cuda": 2**30, "cpu": 4 * 2**20}
FACTOR = 4
OPERATIONS = ("allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather")

ARRAYS_OF_SCOPE = {"compute": EPOCH_ARRAYS, "end_to_end": TRAIN_ARRAYS}
# Variables that can change a number.
RECORDED_VARIABLES: list[str] = own_yaml(vocabulary.__file__, "variables.yaml")


@dataclass(frozen=True)
class Run:
    """How a cell is run: it is stopped after `timeout_s` seconds, and, with `end_with_parent`, when the process that
    started it has ended. Its record is written to `out`, by node 0 of those that it is run on (`place`)."""

    timeout_s: float
    end_with_parent: bool
    out: Path
    place: NodePlace = ONE_NODE


@dataclass(frozen=True)
class Samples:
    """The samples of a cell, as its record describes them; and a function that verifies them, while the workers load
    torch."""

    description: Images
    verify: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, settings: StepSettings, folder: Path | None) -> "Samples":
        """Return the images in `folder`, or the samples that the settings' file makes, which the workers verify when
        they load it. Raises DatasetError where `folder` holds no dataset, MeasurementError where one is needed and none
        is named, or where it is not that of `settings`."""
        if settings.workload != BUILT_IN:
            # As far as a checksum can tell, they are the file.
            return cls(Images(settings.dataset_source, False, settings.epoch_images, settings.workload_sha256))
        if folder is None:
            raise MeasurementError("no images: name the folder that `dpscale dataset` wrote with --dataset")
        manifest = read_manifest(folder)
        if (manifest.images, manifest.source) != (settings.epoch_images, settings.dataset_source):
            raise MeasurementError(
                f"{folder}: has {manifest.images} images of {manifest.source}, "
                f"the cell asks for {settings.epoch_images} of {settings.dataset_source}"
            )
        images = Images(manifest.source, manifest.synthetic, manifest.images, manifest.sha256)
        return cls(images, partial(verify_dataset, folder, manifest, arrays_of(settings)))


def arrays_of(settings: StepSettings) -> Sequence[str]:
    """Return the arrays of images that cells with these settings read."""
    if isinstance(settings, TrainingSettings):
        return (*TRAIN_ARRAYS, *TEST_ARRAYS)
    if isinstance(settings, TimingSettings):
        return [name for scope in settings.scopes for name in ARRAYS_OF_SCOPE[scope]]
    return EPOCH_ARRAYS


def measure_collectives(
    cell: CollectivesCell, settings: CollectivesSettings, network_facts: Path, strategies: Iterable[str], run: Run
) -> JsonRecord:
    """Time every collective over a series of sizes, and at the sizes that `strategies` send for the network of
    `network_facts`."""
    if cell.gpus < 2:
        raise MeasurementError("a collective needs at least 2 GPUs (workers)")
    settings = of_its_file(settings)
    facts = read_record(NetworkRecord, network_facts)
    if not settings.same_network(facts.settings):
        raise MeasurementError(f"{network_facts}: is of another network. Make it with: dpscale network")
    job = {"gpus": cell.gpus, "nodes": cell.nodes, "messages": messages(facts, settings.device, strategies)}
    return measure("dpscale.measure.worker.collectives", cell, settings, job, cell.gpus, cell.gpus, run)


def messages(network: NetworkFacts, device: str, strategies: Iterable[str]) -> list[tuple[str, int]]:
    """Return the collectives to time and their bytes: a series of sizes for all of them, the messages that `strategies`
    send for the network, and its whole gradient as one message."""
    sizes = [SMALLEST_BYTES]
    while sizes[-1] * FACTOR <= LARGEST_BYTES[device]:
        sizes.append(sizes[-1] * FACTOR)
    wanted = {(operation, size) for operation in OPERATIONS for size in sizes}
    wanted.add(("allreduce", network.gradient_bytes))
    for name in strategies:
        wanted |= set(strategy(name).messages_of_step(network))
    return sorted(wanted)


def measure_steps(
    cell: StepCell | TrainingCell,
    settings: StepSettings,
    dataset: Path | None,
    run: Run,
    **more: Any,
) -> JsonRecord:
    """Have the workers of this kind of cell train its configuration on the images in the folder `dataset`, or on the
    samples of the settings' file. `more` are further keys of the workers' job. Raises MeasurementError also where no
    such cell can exist."""
    settings = of_its_file(settings)
    configuration = cell.configuration
    if obstacle := contradiction(settings) or configuration.obstacle(settings):
        raise MeasurementError(": ".join(obstacle))
    samples = Samples.of(settings, dataset)
    job = {
        "configuration": list(configuration.coordinates.values()),
        "seed": cell.seed,
        "dataset": str(dataset.resolve()) if dataset else "",
        **more,
    }
    processes = strategy(configuration.strategy).processes(configuration.gpus)
    module = f"dpscale.measure.worker.{cell.kind}"
    return measure(module, cell, settings, job, processes, configuration.gpus, run, samples)


def measure(
    module: str,
    cell: AnyCell,
    settings: NetworkSettings,
    job: JsonRecord,
    processes: int,
    gpus: int,
    run: Run,
    samples: Samples | None = None,
) -> JsonRecord:
    """Run `module` in `processes` workers on `gpus` GPUs, those of all nodes together, and write the outcome as the
    cell's record."""
    require_replaceable(run.out, RECORD_BEGIN.format(cell.kind))
    values = settings.to_json()
    full_job = {**job, "settings": values, "timeout_s": run.timeout_s}
    identity = {
        "kind": cell.kind,
        "measurement_version": VERSIONS[cell.kind].current,
        "cell": cell.coordinates,
        "settings": values,
        **({} if samples is None else {"dataset": asdict(samples.description)}),
    }
    gpus_here = gpus // run.place.nodes if values["device"] == "cuda" else 0
    require_given(gpus_here, os.environ)
    # Of several nodes, node 0 alone waits: two cells could wait for each other for ever.
    machine = machine_alone(run.end_with_parent) if run.place.rank == 0 else nullcontext()
    with (
        claim_space(run.out.parent) as space,
        machine,
        NodeTeam(run.place, {**identity, "dpscale": __version__}, steering_variables()) as team,
    ):
        started_at = now()
        with Workers(module, full_job, processes, gpus_here, team) as workers:
            if samples is not None:
                samples.verify()  # while the workers load torch
            origin = provenance()
            outcome = workers.outcome(run.timeout_s, run.end_with_parent)
        if not outcome:
            return {}
        if oom := outcome.get("oom"):
            oom["message"] = without_private(oom["message"])
        record = {
            **identity,
            "started_at": started_at,
            "finished_at": now(),
            "provenance": origin,
            **outcome,
        }
        if run.place.nodes > 1:
            nodes = zip(outcome["nodes"], team.environments, strict=True)
            record["nodes"] = [{**node, "environment": environment} for node, environment in nodes]
            record["nodes_differ"] = node_differences(record["nodes"])
        space.close()
        write_record(cell.kind, run.out, record)
    return record


def require_given(gpus: int, environment: Mapping[str, str]) -> None:
    """Raise MeasurementError where this process has fewer GPUs than it is to use: before torch is loaded."""
    available = gpus_there(environment)
    if gpus and available is not None and available < gpus:
        visible = environment.get("CUDA_VISIBLE_DEVICES")
        limit = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible}"
        raise MeasurementError(
            f"asked for {gpus} GPUs on this node, visible are {available}{limit}. "
            "On a CPU, workers take their place: --device cpu (in a study: device: cpu)"
        )


def provenance() -> JsonRecord:
    """Return the code and the command that make a record, and the variables that they run under."""
    commit, dirty = git_state(Path(__file__).parents[3])
    return {
        "dpscale_version": __version__,
        "git_commit": commit,
        "git_dirty": dirty,
        "command": shlex.join(public_command(["dpscale", *sys.argv[1:]])),
        "job_id": os.environ.get("SLURM_JOB_ID"),
        "environment": steering_variables(),
    }


def steering_variables() -> dict[str, str]:
    """Return the variables of RECORDED_VARIABLES that are set, without what is private in them."""
    return {name: without_private(os.environ[name]) for name in RECORDED_VARIABLES if name in os.environ}


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the code in `folder`, and whether anything in it differs; None without a repository."""
    # Without its locks: a cell that is killed here would leave one behind, and nobody could commit any more.
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    try:
        commit, changes = (
            subprocess.run([*git, *arguments], capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, bool(changes)
