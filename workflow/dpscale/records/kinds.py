"""Records as cells write them: a class per kind, a field per key. Decoding is validating.

`None` is a sensor that is missing, or a figure that was not measured. Times are in seconds, sizes in bytes, moments are
UTC in ISO 8601. A field with a default is not in every record: the history above a class says which ones lack it.
"""

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

from msgspec import Meta, Struct

from dpscale.formulas import NO_BLOCK, OnServer
from dpscale.schemas.settings import (
    CollectivesSettings,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
)
from dpscale.strategies.strategy import WHOLE, NetworkSize

T = TypeVar("T")
# What is measured has limits that no measurement reaches, so that formulas of it stay finite.
MOST = 2**53  # whole numbers up to it are exact as floats
Count = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[int, Meta(ge=1, le=MOST)]
Several = Annotated[int, Meta(ge=2, le=MOST)]
Number = Annotated[float, Meta(ge=-1e18, le=1e18)]
Seconds = Annotated[float, Meta(ge=1e-9, le=1e9)]
Moment = Annotated[datetime, Meta(tz=True)]
AtLeastOne = Annotated[list[T], Meta(min_length=1)]
ScopeName = Annotated[str, Meta(pattern="^(compute|end_to_end)$")]
Status = Literal["ok", "oom"]  # Both are results. Any other end leaves no record.


@dataclass_transform(frozen_default=True)
class _Part(Struct, frozen=True):
    """A part of a record; frozen, as all that inherit from it. Older records have more keys, which nothing reads."""


class Images(_Part):
    """The dataset that steps took their images from."""

    source: str
    synthetic: bool
    images: Count
    sha256: str  # Checksum over the checksums of all arrays of the dataset.


class Provenance(_Part):
    """The code, the command and the job that measured a record."""

    dpscale_version: str
    git_commit: str | None
    git_dirty: bool | None
    command: str
    job_id: str | None  # Of the cluster's scheduler.
    environment: dict[str, str]  # Variables that steer CUDA, NCCL and the allocator, and the node that Slurm gave.


class Gpu(_Part):
    """A GPU of a cell."""

    name: str
    uuid: str | None
    memory_bytes: Count


class GpuLink(_Part):
    """The link between two GPUs."""

    gpus: list[Count]
    kind: Literal["NVLink", "PCIe"] | None
    nvlink_links: Count | None
    nvlink_version: Count | None  # As NVML reports it.
    via_switch: bool | None
    topology: str | None  # Closest common ancestor on PCIe.


class Hardware(_Part):
    """The host, its GPUs, and the links between every two of them."""

    host: str
    device_model: str  # GPU model, or the CPU's where workers compute on the CPU.
    cpu_model: str | None
    cpu_cores: Count  # Cores this job may use.
    threads_per_worker: Count  # Threads torch computes with in every worker.
    memory_bytes: Count | None
    gpus: list[Gpu]
    links: list[GpuLink]


class Software(_Part):
    """Versions of the software that computes and communicates."""

    python: str
    torch: str
    torchvision: str | None
    cuda: str | None
    cudnn: str | None
    nccl: str | None
    driver: str | None


class Node(_Part):
    """A node of a cell on several."""

    hardware: Hardware
    software: Software
    environment: dict[str, str]  # Its variables, as in provenance.


class OtherProcess(_Part):
    """A process on a GPU that is not one of the cell's workers."""

    pid: Count
    memory_bytes: Count | None


class Sensor(_Part):
    """Readings of a GPU."""

    throttle_reasons: list[str] | None
    other_processes: list[OtherProcess] | None


class SensorReadings(_Part):
    """Readings of every GPU in use on all nodes, before the first and after the last epoch."""

    before: list[Sensor]
    after: list[Sensor] | None


class OutOfMemory(_Part):
    """The rank and the phase where memory ran out first."""

    rank: Count
    phase: str
    message: str


class CellPlace(_Part, kw_only=True):
    """The cell that was measured, by its coordinates. Nodes are those that its GPUs are spread over evenly."""

    nodes: Several | None = None


class RunPlace(CellPlace, kw_only=True):
    """The cell that was measured, and its run."""

    run: Positive


class Record(_Part, kw_only=True, forbid_unknown_fields=True):
    """Fields of every kind of record. It has no other keys."""

    kind: str
    measurement_version: Count  # Version of the measuring code.
    status: Status
    cell: CellPlace
    settings: NetworkSettings  # Every setting of the study that can change the number, of the class of this kind.
    started_at: Moment
    finished_at: Moment
    provenance: Provenance
    hardware: Hardware  # Of the first node.
    software: Software  # Of the first node.
    sensors: SensorReadings
    # Every node of a cell on several, in their order; no record of one node has it.
    nodes: Annotated[list[Node], Meta(min_length=2)] | None = None
    # What computes or communicates on the nodes and is not the same on all of them.
    nodes_differ: list[str] = []
    # Of the record's steps; collectives and the search for the largest batch have none.
    dataset: Images | None = None
    # Filled in when the records of a study are collected: its environment's letter, and its run on its server.
    environment: str = ""
    block: OnServer = NO_BLOCK

    def __post_init__(self) -> None:
        if self.finished_at < self.started_at:
            raise ValueError("finished_at is before started_at")

    @property
    def run(self) -> int | None:
        """Number of the run; the seed of a training is its run, and a search for the largest batch has none."""
        return self.cell.run if isinstance(self.cell, RunPlace) else None

    @property
    def node_hardware(self) -> list[Hardware]:
        """The hardware of all nodes."""
        return [node.hardware for node in self.nodes] if self.nodes else [self.hardware]


class StepsRecord(Record, kw_only=True):
    """Fields of records whose cells make steps."""

    dataset: Images
    network: NetworkSize | None
    oom: OutOfMemory | None


class StepQuantiles(_Part):
    """Quantiles of full steps, of all timed epochs together. Older records have these and no quartiles by epoch."""

    p25: Number
    median: Number
    p75: Number


class WatchedGpu(_Part):
    """Events of a GPU during an epoch."""

    clock_event_reasons: list[str] | None  # Seen in one sample at least.
    # For how long the driver kept the clocks down, by the policy that did; its own counters.
    slowed_s: dict[str, Number] | None


class Watched(_Part):
    """Events on the GPUs in a timed epoch."""

    gpus: list[WatchedGpu]  # Every GPU of the cell.
    other_processes: Count | None  # Most processes on one GPU that are not this cell's workers.


class AllocatedMemory(_Part):
    """What torch's allocator holds on a device more than before the network was built, in bytes."""

    built_bytes: Number  # By network and optimiser, before the first step: weights, buffers, DDP's buckets.
    gradients_bytes: Number  # Between two steps, what it gives back with the gradients.
    optimiser_bytes: Number  # Without gradients, after the first steps, beyond `built_bytes`.
    activations_bytes: Number  # By a forward pass, until its backward pass begins.
    peak_bytes: Number  # At most, in a step.


class StepWork(_Part):
    """Work of a whole step: floating point operations by torch's counter, and bytes that its operators move at most."""

    flop: Count
    moved_bytes: Positive


class StepMemory(_Part):
    """Memory of a training step on the first device of a rank: what its tensors add up to, in bytes."""

    weights_bytes: Count  # And buffers.
    gradients_bytes: Count
    optimiser_bytes: Count
    # What a forward pass saves for its backward pass, every piece of memory once, without weights.
    saved_bytes: Count
    allocated: AllocatedMemory | None  # None on a CPU, where torch does not count.
    work: StepWork | None = None  # On one GPU alone, where it can be counted.


# Version 1 has neither loader_processes nor watched. Quartiles came later than version 2. Older ones have `energy_j`.
class Scope(_Part):
    """Timed epochs in a scope of the clock."""

    epoch_s: AtLeastOne[Seconds]  # Every timed epoch; the slowest rank's time.
    rank_epoch_s: list[AtLeastOne[Seconds]]  # All ranks' times for every timed epoch.
    step_s_median: AtLeastOne[Seconds]  # Median time of a full step in every timed epoch; the slowest rank's.
    steps_per_epoch: Positive
    full_steps_per_epoch: Positive
    peak_memory_bytes: list[Count] | None  # Peak of torch's allocator on every GPU.
    # Lower and upper quartile of the full steps in every timed epoch, of the same rank.
    step_s_quartiles: list[tuple[Number, Number]] | None = None
    loader_processes: Count | None = None  # DataLoader processes of all training processes together.
    watched: list[Watched] = []  # In every timed epoch.
    # Seconds of every timed epoch that no step explains, where timing it again did not help; 0 where it is undisturbed.
    stalled_s: list[float] = []
    skipped_updates: Count = 0  # In the timed epochs, in float16: gradients overflowed.
    step_s_quantiles: StepQuantiles | None = None  # Of older records.

    def __post_init__(self) -> None:
        for name in ("rank_epoch_s", "step_s_median", "step_s_quartiles"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.epoch_s):
                raise ValueError(f"{name} is not of as many epochs as epoch_s")

    @property
    def slowest_rank_epoch_s(self) -> list[float]:
        """Every timed epoch by the slowest rank's own clock, which stops when the rank's devices are idle.

        In version 1 `epoch_s` holds the barrier after it too, which is no part of an epoch; later versions have the
        same in both.
        """
        return [max(ranks_s) for ranks_s in self.rank_epoch_s]

    @property
    def step_quartiles(self) -> Sequence[tuple[float, float, float]]:
        """Lower quartile, upper quartile and median of full steps: of every timed epoch, or, in older records, of all
        epochs together. Empty where a record does not have them."""
        if self.step_s_quartiles is not None:
            epochs = zip(self.step_s_quartiles, self.step_s_median, strict=True)
            return [(lower_s, upper_s, median_s) for (lower_s, upper_s), median_s in epochs]
        older = self.step_s_quantiles
        return [(older.p25, older.p75, older.median)] if older else []


class Halves(_Part):
    """Epochs of one GPU before the cell's own, and those after."""

    before: Scope
    after: Scope

    @property
    def measured(self) -> list[Scope]:
        return [self.before, self.after]


class Alone(_Part):
    """The plain module on the first worker's GPU, timed in the same processes while the other GPUs idle."""

    batch_per_gpu: Positive
    status: Status
    scopes: dict[ScopeName, Halves]


class MeasuredChip(_Part):
    """The best that the first GPU reaches, after all clocks."""

    precision: Literal["bfloat16", "tf32", "float32"]  # Of the matrix product.
    matrix_flop_per_s: Number  # A product of two matrices of 8192 x 8192.


class TimingPlace(RunPlace, kw_only=True):
    """A timing cell."""

    strategy: str
    gpus: Positive
    batch_per_gpu: Positive
    variant: str = ""  # The study's name for these settings. Only cells of a variant have one.


# 1: One GPU was timed in cells of its own (`single`) alone. The clock held the closing barrier.
# 2: `alone`: baselines in every job. `watched` in every epoch. Later `chip`, `preparation_s` and quartiles of steps
#    were added, which change no number; and `ddp_bucket_bytes` and `profile` went. Later still, disturbed epochs were
#    timed again, and `stalled_s` was added: no other epoch is another. `memory` and `skipped_updates` came then.
#    The work of a step in `memory` is the newest.
class TimingRecord(StepsRecord, kw_only=True):
    """A timing cell: epochs of a configuration, by scope."""

    kind: Literal["timing"]
    cell: TimingPlace
    settings: TimingSettings
    scopes: dict[ScopeName, Scope]
    # Seconds to compile the step and to capture it in a graph, on the slowest rank, before any clock. None where
    # settings ask for neither.
    preparation_s: Number | None = None
    # At the cell's batch per GPU and, for strong scaling, at its global batch. None where the cell has one GPU, or
    # where its baseline comes from cells of single.
    alone: list[Alone] | None = None
    chip: MeasuredChip | None = None  # None on a CPU.
    memory: list[StepMemory] = []  # Of every rank. Empty where the step is compiled, or captured in a CUDA graph.
    epochs_total_s: Any = None  # Of older records.
    ddp_bucket_bytes: Any = None  # Of older records.
    profile: Any = None  # Of older records.

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status == "ok" and (missing := set(self.settings.scopes) - self.scopes.keys()):
            raise ValueError(f"scopes has no {' and no '.join(sorted(missing))}")


Ranks = AtLeastOne[AtLeastOne[Seconds | None]]


# Version 1 has no times of ranks; older records have `rank_step_s`, and later ones `rank_block_step_s`.
class Blocks(_Part):
    """Blocks of steps of one rung, in their order."""

    # Median of every block's steps but the first, the slowest rank's, by the device's clock.
    step_s: AtLeastOne[Seconds]
    # The block's time of every rank over its steps, by the host's clock; None of a rank that waited. A rank that is
    # stopped now and then shows here alone.
    rank_block_step_s: Ranks | None = None
    rank_step_s: Ranks | None = None  # Of older records: the median step of every rank.


# Version 1 has no seed and no orders, and for ddp alone no_op_hook and no_sync.
class Ladder(_Part):
    """Blocks of steps, in turns, of training as it is (`training`), and of training without parts of it.

    `alone` is the plain network on the first GPU, all others waiting; `one_node` the same on every GPU of the first of
    several nodes. ddp: `together` is a plain network on every GPU, nothing shared; `no_sync` leaves out buckets,
    allreduce and the broadcast of buffers; `no_op_hook` is a communication hook that does nothing, `allreduce_hook` one
    that calls allreduce. dp: `threads` is a thread and a lasting replica per GPU, nothing moved between GPUs;
    `scattered` the same with scatter and gather. fsdp: with `no_communication` every device shards among itself alone,
    with `kept_whole` weights stay gathered for good, and with `gathered_once` after the forward pass.
    """

    block_steps: Positive
    variants: dict[str, Blocks]  # By rung.
    seed: int | None = None  # The orders were drawn with it.
    orders: AtLeastOne[AtLeastOne[str]] | None = None  # In which order the variants ran, in every round.


class ProfiledDevice(_Part):
    """The communication of a device in a step, by the profiler."""

    device: Count
    communication_s: Number  # Union of the intervals of NCCL's kernels and of copies between GPUs.
    exposed_s: Number  # The part of it during which nothing computes.
    # Kernels that compute in the whole step, and the same kernels in a step that sends nothing. None in older records,
    # and where a strategy has no such step.
    computing_s: Number | None = None
    silent_computing_s: Number | None = None


class ProfiledBlock(_Part):
    """A block of profiled steps, for one step."""

    step_s: Number  # The slowest rank's, by the host's clock, while profiled.
    devices: AtLeastOne[ProfiledDevice]

    @property
    def communication_s(self) -> list[float]:
        """The communication of every device."""
        return [device.communication_s for device in self.devices]

    @property
    def slower_computing_s(self) -> float | None:
        """What kernels that compute take longer than where nothing is sent, mean over devices; None if not known."""
        longer = [
            device.computing_s - device.silent_computing_s
            for device in self.devices
            if device.computing_s is not None and device.silent_computing_s is not None
        ]
        return fmean(longer) if longer else None


class StepProfile(_Part):
    """Blocks of profiled steps."""

    steps: Positive  # Steps of a block.
    blocks: AtLeastOne[ProfiledBlock]


class CommunicationPlace(RunPlace, kw_only=True):
    """A communication cell."""

    strategy: str
    gpus: Several
    batch_per_gpu: Positive


# 1: Training with and without communication, in turns.
# 2: A ladder of rungs in random order, a control of the hook that does nothing.
# 3: In dp's rung `threads` the loss is computed in the threads too.
# Without a new version: the profile has the time of kernels that compute, with and without communication.
class CommunicationRecord(StepsRecord, kw_only=True):
    """Training steps of one configuration taken apart. None of its times is a headline time; None was not finished."""

    kind: Literal["communication"]
    cell: CommunicationPlace
    settings: StepSettings
    steps: Ladder | None
    profile: StepProfile | None  # None where there is no GPU.
    ddp_logger: Any = None  # Of older records.

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status == "ok" and WHOLE not in self.variants:
            raise ValueError(f"steps has no {WHOLE}")

    @property
    def variants(self) -> dict[str, Blocks]:
        """Blocks by rung; none where memory ran out."""
        return self.steps.variants if self.steps else {}

    @property
    def profiled_blocks(self) -> list[ProfiledBlock]:
        """Blocks of profiled steps; none without a GPU."""
        return self.profile.blocks if self.profile else []


# Version 1 has no `held`, and some of its records `hold_s`.
class TimedCollective(_Part):
    """Timings of one collective with one size of message."""

    operation: Literal["allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather"]
    # Size of the message as nccl-tests counts it. For reduce_scatter and all_gather that of all ranks together.
    bytes: Positive
    calls: Positive  # Calls in a row that a timing is the mean of.
    seconds: AtLeastOne[Seconds]  # Of one call; the slowest rank's in every repeat.
    # Whether every rank was held back until all calls were queued. Where not, launching the calls may be in the time.
    # None on a CPU.
    held: list[bool] | None = None


class PeerCopy(_Part):
    """Timings of copies of memory from one GPU to another."""

    source: Count
    target: Count
    bytes: Positive
    seconds: AtLeastOne[Seconds]


class CollectivesPlace(RunPlace, kw_only=True):
    """A collectives cell."""

    gpus: Several


# 1: Calls could wait for the host.
# 2: The GPU is held until all calls are queued.
class CollectivesRecord(Record, kw_only=True):
    """Times of collectives on a number of GPUs (workers) when nothing else runs. Every result was checked."""

    kind: Literal["collectives"]
    status: Literal["ok"]
    cell: CollectivesPlace
    settings: CollectivesSettings
    collectives: AtLeastOne[TimedCollective]
    peer_copies: list[PeerCopy]  # From every GPU to every other. None on a CPU.


class Epoch(_Part):
    """An epoch of a training. None is a loss that was not finite any more, or a sensor that is missing."""

    epoch: Positive
    global_batch: Positive
    steps: Positive
    learning_rate: Annotated[float, Meta(ge=0, le=1e38)]  # Of the last step; a float32.
    training_loss: Number | None  # Mean cross-entropy of the augmented images, each once, as they were trained with.
    training_accuracy: Number | None  # Share of them that were right.
    test_loss: Number | None  # Mean cross-entropy of all test images after the epoch.
    test_accuracy: Number | None  # Share of them that are right.
    epoch_s: Seconds  # The slowest rank's time, augmentation in it and testing not.
    images_per_s: Number  # Images that an epoch trains on, over its time.
    gpu_s: Number  # The epoch's time, times the GPUs (workers).


class TrainingPlace(CellPlace, kw_only=True):
    """A training cell."""

    arm: str
    seed: Positive


# 1: One seed for all; the first epochs hold the start-up. `warm_up_s` and `seeds` were of it.
# 2: Order and crops draw from seeds of their own; the clock starts after warm-up steps. For a time,
#    epochs had loss and accuracy of images that were held out.
class TrainingRecord(StepsRecord, kw_only=True):
    """One arm trained with one seed, epoch by epoch. It started with the process that ended the training."""

    kind: Literal["training"]
    cell: TrainingPlace
    settings: TrainingSettings
    diverged: bool  # The loss of a step was not finite; the training ended with its epoch.
    epochs: list[Epoch]
    step_loss: Any = None  # Of older records.
    validation_checksum: Any = None  # Of older records.
    continued_after_epochs: Any = None  # Of older records.
    warm_up_s: Any = None  # Of older records.
    seeds: Any = None  # Of older records.

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status == "ok" and not self.epochs:
            raise ValueError("epochs is empty")
        for name in () if self.diverged else ("training_loss", "training_accuracy", "test_accuracy"):
            if any(getattr(epoch, name) is None for epoch in self.epochs):
                raise ValueError(f"an epoch has no {name}, and the training has not diverged")

    @property
    def run(self) -> int | None:
        """The seed."""
        return self.cell.seed


RECORDS: dict[str, type[Record]] = {
    "timing": TimingRecord,
    "communication": CommunicationRecord,
    "collectives": CollectivesRecord,
    "training": TrainingRecord,
}
