"""One function per kind of cell: the job of its workers, and the images that they need.

Each returns the cell's record; an empty one on all nodes but node 0, which writes it.
"""

from collections.abc import Iterable
from pathlib import Path

from dpscale.errors import MeasurementError
from dpscale.measure.data.arrays import EPOCH_ARRAYS, TEST_ARRAYS, TRAIN_ARRAYS
from dpscale.measure.launch.job import Run, measure, measure_steps
from dpscale.plan.cells import CollectivesCell, CommunicationCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.workload_file import of_its_file
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import JsonRecord, read_record
from dpscale.schemas.settings import CollectivesSettings, StepSettings, TimingSettings
from dpscale.strategies.facts import NetworkFacts
from dpscale.strategies.known import strategy

# Sizes of the messages that are timed, in bytes. Each is FACTOR times the one before.
SMALLEST_BYTES = 4 * 2**10
LARGEST_BYTES = {"cuda": 2**30, "cpu": 4 * 2**20}
FACTOR = 4
OPERATIONS = ("allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather")

ARRAYS_OF_SCOPE = {"compute": EPOCH_ARRAYS, "end_to_end": TRAIN_ARRAYS}
CHECKPOINT_SUFFIX = ".checkpoint"


def time_cell(
    cell: TimingCell | VariantCell,
    settings: TimingSettings,
    dataset: Path | None,
    baseline_at_global_batch: bool,
    run: Run,
) -> JsonRecord:
    """Measure `cell` on the images in the folder `dataset`, and write its record. With `baseline_at_global_batch` its
    baseline is timed at the global batch too.

    Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    arrays = [name for scope in settings.scopes for name in ARRAYS_OF_SCOPE[scope]]
    more = {"baseline_at_global_batch": baseline_at_global_batch}
    return measure_steps("dpscale.measure.worker.timing", cell, settings, dataset, arrays, run, **more)


def measure_communication(
    cell: CommunicationCell, settings: StepSettings, dataset: Path | None, keep_traces: bool, run: Run
) -> JsonRecord:
    """Measure `cell` on the images in the folder `dataset`, and write its record; with `keep_traces`, the profiler's
    traces lie compressed beside it.

    Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    traces = str(run.out.resolve().with_suffix("")) if keep_traces else None
    module = "dpscale.measure.worker.communication"
    return measure_steps(module, cell, settings, dataset, EPOCH_ARRAYS, run, traces=traces)


def measure_collectives(
    cell: CollectivesCell, settings: CollectivesSettings, network_facts: Path, strategies: Iterable[str], run: Run
) -> JsonRecord:
    """Time every collective over a series of sizes, and at the sizes that `strategies` send for the network of
    `network_facts`; write the record. Raises RecordError or MeasurementError; there is then no record.
    """
    if cell.gpus < 2:
        raise MeasurementError("a collective needs at least 2 GPUs (workers)")
    settings = of_its_file(settings)
    facts = read_record(NetworkRecord, network_facts)
    if not settings.same_network(facts.settings):
        raise MeasurementError(f"{network_facts}: is of another network. Make it with: dpscale network")
    job = {"gpus": cell.gpus, "nodes": cell.nodes, "messages": messages(facts, settings.device, strategies)}
    return measure("dpscale.measure.worker.collectives", cell, settings, job, cell.gpus, cell.gpus, run)


def messages(network: NetworkFacts, device: str, strategies: Iterable[str]) -> list[tuple[str, int]]:
    """Which collectives to time, at how many bytes: a series of sizes for all of them, and the network's own.

    The network's are those of `strategies`, and its whole gradient as one message.
    """
    sizes = [SMALLEST_BYTES]
    while sizes[-1] * FACTOR <= LARGEST_BYTES[device]:
        sizes.append(sizes[-1] * FACTOR)
    wanted = {(operation, size) for operation in OPERATIONS for size in sizes}
    wanted.add(("allreduce", network.gradient_bytes))
    for name in strategies:
        wanted |= set(strategy(name).messages_of_step(network))
    return sorted(wanted)


def train(cell: TrainingCell, dataset: Path | None, run: Run) -> JsonRecord:
    """Train the arm of `cell` on the images in the folder `dataset`, and write its record.

    After every epoch a checkpoint is written beside the record's path. The same command continues from it, and it is
    deleted when the record is written. Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    checkpoint = run.out.resolve().with_suffix(CHECKPOINT_SUFFIX)
    module = "dpscale.measure.worker.training"
    arrays = (*TRAIN_ARRAYS, *TEST_ARRAYS)
    more = {"arm": cell.arm, "checkpoint": str(checkpoint)}
    record = measure_steps(module, cell, cell.settings, dataset, arrays, run, **more)
    if record:
        checkpoint.unlink(missing_ok=True)
    return record
