"""Records as cells write them: a class per kind, a field per key. Decoding is validating.

`None` is a sensor that is missing, or a figure that was not measured. Times are in seconds, sizes in bytes, moments are
UTC in ISO 8601. A field with a default is not in every record: the history above a class says which ones lack it. Keys
that only older records have are described as such, and nothing reads them where their type is `Any`. A class that
allows unknown keys says so.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta, Struct

from dpscale.formulas import NO_BLOCK, OnServer
from dpscale.schemas.settings import (
    CollectivesSettings,
    FitSettings,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
)
from dpscale.strategies.known import STRATEGIES
from dpscale.strategies.strategy import NetworkSize

T = TypeVar("T")
Positive = Annotated[int, Meta(ge=1)]
Several = Annotated[int, Meta(ge=2)]
Seconds = Annotated[float, Meta(gt=0)]
AtLeastOne = Annotated[list[T], Meta(min_length=1)]
ScopeName = Annotated[str, Meta(pattern="^(compute|end_to_end)$")]
Status = Literal["ok", "oom"]  # Both are results. Any other end leaves no record.


class _Open(Struct, frozen=True):
    """Has more keys in older records."""


class _Closed(Struct, frozen=True, forbid_unknown_fields=True):
    """Has no other keys."""


class Images(_Closed, frozen=True):
    """The dataset that steps took their images from."""

    source: str
    synthetic: bool
    images: int
    sha256: str  # Checksum over the checksums of all arrays of the dataset.


class Provenance(_Closed, frozen=True):
    """The code, the command and the job that measured a record."""

    dpscale_version: str
    git_commit: str | None
    git_dirty: bool | None
    command: str
    job_id: str | None  # Of the cluster's scheduler.
    environment: dict[str, str]  # Variables that steer CUDA, NCCL and the allocator, and the node that Slurm gave.


class Gpu(_Open, frozen=True):
    """A GPU of a cell."""

    name: str
    uuid: str | None
    memory_bytes: int


class GpuLink(_Open, frozen=True):
    """The link between two GPUs."""

    gpus: list[int]
    kind: Literal["NVLink", "PCIe"] | None
    nvlink_links: int | None
    nvlink_version: int | None  # As NVML reports it.
    via_switch: bool | None
    topology: str | None  # Closest common ancestor on PCIe.


class Hardware(_Open, frozen=True):
    """The host, its GPUs, and the links between every two of them."""

    host: str
    device_model: str  # GPU model, or the CPU's where workers compute on the CPU.
    cpu_model: str | None
    cpu_cores: int  # Cores this job may use.
    threads_per_worker: int  # Threads torch computes with in every worker.
    memory_bytes: int | None
    gpus: list[Gpu]
    links: list[GpuLink]


# Older records have what torch was told too: `cudnn_benchmark` and two switches of TF32. Settings hold it since.
class Software(_Open, frozen=True):
    """Versions of the software that computes and communicates."""

    python: str
    torch: str
    torchvision: str | None
    cuda: str | None
    cudnn: str | None
    nccl: str | None
    driver: str | None
    cudnn_benchmark: bool | None = None
    tf32_convolutions: bool | None = None
    tf32_matrix_products: bool | None = None


class Node(_Closed, frozen=True):
    """A node of a cell on several."""

    hardware: Hardware
    software: Software
    environment: dict[str, str]  # Its variables, as in provenance.


class OtherProcess(_Closed, frozen=True):
    """A process on a GPU that is not one of the cell's workers."""

    pid: int
    memory_bytes: int | None


class Sensor(_Open, frozen=True):
    """Readings of a GPU."""

    sm_clock_mhz: float | None
    power_w: float | None
    throttle_reasons: list[str] | None
    other_processes: list[OtherProcess] | None


class SensorReadings(_Closed, frozen=True):
    """Readings of every GPU in use on all nodes, before the first and after the last epoch."""

    before: list[Sensor]
    after: list[Sensor] | None


class OutOfMemory(_Closed, frozen=True):
    """The rank and the phase where memory ran out first."""

    rank: int
    phase: str
    message: str


class CellPlace(_Closed, frozen=True, kw_only=True):
    """The cell that was measured, by its coordinates. Nodes are those that its GPUs are spread over evenly."""

    nodes: Several | None = None


class RunPlace(CellPlace, frozen=True, kw_only=True):
    """The cell that was measured, and its run."""

    run: Positive


class Record(_Closed, frozen=True, kw_only=True):
    """Fields of every kind of record."""

    kind: str
    measurement_version: int  # Version of the measuring code.
    status: Status
    cell: CellPlace
    settings: NetworkSettings  # Every setting of the study that can change the number, of the class of this kind.
    started_at: str
    finished_at: str
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
        strategy = getattr(self.cell, "strategy", None)
        if strategy is not None and strategy not in STRATEGIES:
            raise ValueError(f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}")

    @property
    def run(self) -> int | None:
        """Number of the run; the seed of a training is its run, and a search for the largest batch has none."""
        return self.cell.run if isinstance(self.cell, RunPlace) else None

    @property
    def node_hardware(self) -> list[Hardware]:
        """The hardware of all nodes."""
        return [node.hardware for node in self.nodes] if self.nodes else [self.hardware]


class StepsRecord(Record, frozen=True, kw_only=True):
    """Fields of records whose cells make steps."""

    dataset: Images
    network: NetworkSize | None
    oom: OutOfMemory | None


class StepQuantiles(_Open, frozen=True):
    """Quantiles of full steps, of all timed epochs together. Older records have these and no quartiles by epoch."""

    p25: float
    median: float
    p75: float


class WatchedGpu(_Closed, frozen=True):
    """Events of a GPU during an epoch."""

    clock_event_reasons: list[str] | None  # Seen in one sample at least.
    # For how long the driver kept the clocks down, by the policy that did; its own counters.
    slowed_s: dict[str, float] | None
    sm_clock_mhz: Any = None  # Of older records.
    power_w: Any = None  # Of older records.


class WatchedHost(_Closed, frozen=True):
    """Use of the whole host during an epoch."""

    busy_cores: float  # Cores that were busy, on average.
    stolen_cores: float  # Cores that a hypervisor took away, on average.
    load_1min: Any = None  # Of older records.


class Watched(_Closed, frozen=True):
    """Events on the GPUs and the host in a timed epoch."""

    samples: int  # Readings of the GPUs within the epoch; ten a second.
    gpus: list[WatchedGpu]  # Every GPU of the cell.
    host: WatchedHost | None
    other_processes: int | None  # Most processes on one GPU that are not this cell's workers.


# Version 1 has neither loader_processes nor watched. Quartiles came later than version 2.
class StepQuartiles(NamedTuple):
    """Lower quartile, median and upper quartile of the full steps of an epoch."""

    lower_s: float
    median_s: float
    upper_s: float


class Scope(_Closed, frozen=True):
    """Timed epochs in a scope of the clock."""

    epoch_s: AtLeastOne[Seconds]  # Every timed epoch; the slowest rank's time.
    rank_epoch_s: list[AtLeastOne[Seconds]]  # All ranks' times for every timed epoch.
    step_s_median: AtLeastOne[Seconds]  # Median time of a full step in every timed epoch; the slowest rank's.
    steps_per_epoch: Positive
    full_steps_per_epoch: Positive
    peak_memory_bytes: list[int] | None  # Peak of torch's allocator on every GPU.
    energy_j: list[float] | None  # All GPUs in use together, for every timed epoch.
    # Lower and upper quartile of the full steps in every timed epoch, of the same rank.
    step_s_quartiles: list[tuple[float, float]] | None = None
    loader_processes: int | None = None  # DataLoader processes of all training processes together.
    watched: list[Watched] = []  # In every timed epoch.
    step_s_quantiles: StepQuantiles | None = None  # Of older records.
    images_per_epoch: Any = None  # Of older records.
    distinct_batches: Any = None  # Of older records.

    @property
    def slowest_rank_epoch_s(self) -> list[float]:
        """Every timed epoch by the slowest rank's own clock, which stops when the rank's devices are idle.

        In version 1 `epoch_s` holds the barrier after it too, which is no part of an epoch; later versions have the
        same in both.
        """
        return [max(ranks_s) for ranks_s in self.rank_epoch_s]

    @property
    def step_quartiles(self) -> Sequence[StepQuartiles]:
        """Quartiles of full steps: of every timed epoch, or, in older records, of all epochs together. Empty where a
        record does not have them."""
        if self.step_s_quartiles is not None:
            epochs = zip(self.step_s_quartiles, self.step_s_median, strict=True)
            return [StepQuartiles(lower_s, median_s, upper_s) for (lower_s, upper_s), median_s in epochs]
        older = self.step_s_quantiles
        return [StepQuartiles(older.p25, older.median, older.p75)] if older else []


class Halves(_Closed, frozen=True):
    """Epochs of one GPU before the cell's own, and those after."""

    before: Scope
    after: Scope | None = None  # None where memory ran out before it, in older records alone.

    @property
    def measured(self) -> list[Scope]:
        """The halves that there are: both of a baseline that ended well."""
        return [self.before, *([self.after] if self.after else [])]


class Alone(_Closed, frozen=True):
    """The plain module on the first worker's GPU, timed in the same processes while the other GPUs idle."""

    batch_per_gpu: Positive
    status: Status
    scopes: dict[ScopeName, Halves]


class MeasuredChip(_Closed, frozen=True):
    """The best that the first GPU reaches, after all clocks."""

    precision: Literal["bfloat16", "tf32", "float32"]  # Of the matrix product.
    matrix_flop_per_s: float  # A product of two matrices of 8192 x 8192.
    copy_bytes_per_s: Any = None  # Of older records.


class TimingPlace(RunPlace, frozen=True, kw_only=True):
    """A timing cell."""

    strategy: str
    gpus: Positive
    batch_per_gpu: Positive
    variant: str = ""  # The study's name for these settings. Only cells of a variant have one.


# 1: One GPU was timed in cells of its own (`single`) alone. The clock held the closing barrier.
# 2: `alone`: baselines in every job. `watched` in every epoch. Later `chip`, `preparation_s` and quartiles of steps
#    were added, which change no number; and `ddp_bucket_bytes` and `profile` went.
class TimingRecord(StepsRecord, frozen=True, kw_only=True):
    """A timing cell: epochs of a configuration, by scope."""

    kind: Literal["timing"]
    cell: TimingPlace
    settings: TimingSettings
    epochs_total_s: float | None  # Seconds inside epochs, the warm-up included.
    scopes: dict[ScopeName, Scope]
    # Seconds to compile the step and to capture it in a graph, on the slowest rank, before any clock. None where
    # settings ask for neither.
    preparation_s: float | None = None
    # At the cell's batch per GPU and, for strong scaling, at its global batch. None where the cell has one GPU, or
    # where its baseline comes from cells of single.
    alone: list[Alone] | None = None
    chip: MeasuredChip | None = None  # None on a CPU.
    ddp_bucket_bytes: Any = None  # Of older records.
    profile: Any = None  # Of older records.


Rung = Annotated[
    str,
    Meta(
        pattern="^(training|alone|one_node|together|no_sync|no_op_hook|allreduce_hook|threads|scattered"
        "|no_communication|gathered_once)$"
    ),
]
Ranks = AtLeastOne[AtLeastOne[Seconds | None]]


# Version 1 has no times of ranks. `rank_block_step_s` came later than `rank_step_s`.
class Blocks(_Closed, frozen=True):
    """Blocks of steps of one rung, in their order."""

    # Median of every block's steps but the first, the slowest rank's, by the device's clock.
    step_s: AtLeastOne[Seconds]
    block_step_s: AtLeastOne[Seconds]  # The block's time over its steps, by the host's clock.
    rank_step_s: Ranks | None = None  # The step of every rank. None of a rank that waited.
    # The block's time of every rank over its steps. A rank that is stopped now and then shows here alone.
    rank_block_step_s: Ranks | None = None


# Version 1 has no seed and no orders, and for ddp alone no_op_hook and no_sync.
class Ladder(_Closed, frozen=True):
    """Blocks of steps, in turns, of training as it is (`training`), and of training without parts of it.

    `alone` is the plain network on the first GPU, all others waiting; `one_node` the same on every GPU of the first of
    several nodes. ddp: `together` is a plain network on every GPU, nothing shared; `no_sync` leaves out buckets,
    allreduce and the broadcast of buffers; `no_op_hook` is a communication hook that does nothing, `allreduce_hook` one
    that calls allreduce. dp: `threads` is a thread and a lasting replica per GPU, nothing moved between GPUs;
    `scattered` the same with scatter and gather. fsdp: with `no_communication` every device shards among itself alone,
    and with `gathered_once` weights stay gathered after the forward pass.
    """

    block_steps: Positive
    variants: dict[Rung, Blocks]
    seed: int | None = None  # The orders were drawn with it.
    orders: AtLeastOne[AtLeastOne[str]] | None = None  # In which order the variants ran, in every round.

    def __post_init__(self) -> None:
        if "training" not in self.variants:
            raise ValueError("variants lack training")


class DdpLogger(_Closed, frozen=True):
    """Figures of single steps by DDP's own logger, the slowest rank's each."""

    exposed_s: AtLeastOne[float]  # Communication during which the backward pass does not go on.
    bucket_bytes: list[int]
    backward_s: Any = None  # Of older records.
    communication_s: Any = None  # Of older records.
    overlap_s: Any = None  # Of older records.


class Phase(_Closed, frozen=True):
    """Parts of a step on a device."""

    compute_s: float
    communication_s: float  # Exposed.
    copy_s: float  # To and from the host, while nothing else went on.
    idle_s: float


class ProfiledDevice(_Closed, frozen=True):
    """A step of a device, by the profiler."""

    device: int
    step_s: float  # By the clock of the host that drives it.
    communication_s: float  # Union of the intervals of NCCL's kernels and of copies between GPUs.
    exposed_s: float  # The part of it during which nothing computes.
    phases: dict[str, Phase]  # Of the whole `step`. Older records have it by the phases of the host.


class ProfiledBlock(_Closed, frozen=True):
    """A block of profiled steps, for one step."""

    step_s: float  # The slowest rank's, by the host's clock, while profiled.
    devices: AtLeastOne[ProfiledDevice]


class StepProfile(_Closed, frozen=True):
    """Times of every device by its parts."""

    steps: Positive  # Steps of a block.
    blocks: AtLeastOne[ProfiledBlock]


class CommunicationPlace(RunPlace, frozen=True, kw_only=True):
    """A communication cell."""

    strategy: str
    gpus: Several
    batch_per_gpu: Positive


# 1: Training with and without communication, in turns.
# 2: A ladder of rungs in random order, a control of the hook that does nothing.
# 3: In dp's rung `threads` the loss is computed in the threads too.
class CommunicationRecord(StepsRecord, frozen=True, kw_only=True):
    """Training steps of one configuration taken apart. None of its times is a headline time; None was not finished."""

    kind: Literal["communication"]
    cell: CommunicationPlace
    settings: StepSettings
    steps: Ladder | None
    ddp_logger: DdpLogger | None  # None without DDP.
    profile: StepProfile | None  # None where there is no GPU.

    @property
    def variants(self) -> dict[str, Blocks]:
        """Blocks by rung; none where memory ran out."""
        return self.steps.variants if self.steps else {}


# Version 1 has no `held`, and some of its records `hold_s`.
class TimedCollective(_Closed, frozen=True):
    """Timings of one collective with one size of message."""

    operation: Literal["allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather"]
    # Size of the message as nccl-tests counts it. For reduce_scatter and all_gather that of all ranks together.
    bytes: Positive
    calls: Positive  # Calls in a row that a timing is the mean of.
    seconds: AtLeastOne[Seconds]  # Of one call; the slowest rank's in every repeat.
    # Whether every rank was held back until all calls were queued. Where not, launching the calls may be in the time.
    # None on a CPU.
    held: list[bool] | None = None
    hold_s: Any = None  # Of older records.


class PeerCopy(_Closed, frozen=True):
    """Timings of copies of memory from one GPU to another."""

    source: int
    target: int
    bytes: int
    seconds: AtLeastOne[Seconds]
    peer_access: bool | None = None  # Of older records.


class CollectivesPlace(RunPlace, frozen=True, kw_only=True):
    """A collectives cell."""

    gpus: Several


# 1: Calls could wait for the host.
# 2: The GPU is held until all calls are queued.
class CollectivesRecord(Record, frozen=True, kw_only=True):
    """Times of collectives on a number of GPUs (workers) when nothing else runs. Every result was checked."""

    kind: Literal["collectives"]
    status: Literal["ok"]
    cell: CollectivesPlace
    settings: CollectivesSettings
    collectives: AtLeastOne[TimedCollective]
    peer_copies: list[PeerCopy]  # From every GPU to every other. None on a CPU.


class Epoch(_Closed, frozen=True):
    """An epoch of a training. None is a loss that was not finite any more, or a sensor that is missing."""

    epoch: Positive
    global_batch: Positive
    steps: Positive
    learning_rate: float  # Of the last step.
    training_loss: float | None  # Mean cross-entropy of the augmented images, each once, as they were trained with.
    training_accuracy: float | None  # Share of them that were right.
    test_loss: float | None  # Mean cross-entropy of all test images after the epoch.
    test_accuracy: float | None  # Share of them that are right.
    epoch_s: Seconds  # The slowest rank's time, augmentation in it and testing not.
    images_per_s: float  # Images that an epoch trains on, over its time.
    gpu_s: float  # The epoch's time, times the GPUs (workers).
    energy_j: float | None  # All GPUs in use together.
    validation_loss: float | None = None  # Mean cross-entropy of the training images that are held out.
    validation_accuracy: float | None = None  # Share of them that are right. None where none is held out.
    orders: Any = None  # Of older records.
    batch_norm: Any = None  # Of older records.


class TrainingPlace(CellPlace, frozen=True, kw_only=True):
    """A training cell."""

    arm: str
    seed: Positive


# 1: One seed for all; the first epochs hold the start-up. `warm_up_s` and `seeds` were of it.
# 2: Order and crops draw from seeds of their own; the clock starts after warm-up steps. Later, held-out images.
class TrainingRecord(StepsRecord, frozen=True, kw_only=True):
    """One arm trained with one seed, epoch by epoch. It started with the process that ended the training."""

    kind: Literal["training"]
    cell: TrainingPlace
    settings: TrainingSettings
    diverged: bool  # The loss of a step was not finite; the training ended with its epoch.
    continued_after_epochs: list[int]  # Epochs after which another process went on from the checkpoint.
    # The loss that was trained, of every step, over all workers; five significant digits, label smoothing in it, the
    # sampler's padding not. None is not finite.
    step_loss: list[float | None]
    epochs: list[Epoch]
    validation_checksum: int | None = None  # CRC-32 of the indices that are held out. None where none is.
    warm_up_s: Any = None  # Of older records.
    seeds: Any = None  # Of older records.

    @property
    def run(self) -> int | None:
        """The seed."""
        return self.cell.seed


class TriedBatch(_Closed, frozen=True):
    """A try of a batch. One that did not fit has no peak and no images per second."""

    batch_per_gpu: Positive
    limit_bytes: float  # Free before the try on the GPU with the least, or the limit that was asked for.
    peak_bytes: float | None  # Most that torch had allocated on a GPU.
    images_per_s: float | None  # Of all GPUs together.
    seconds: float  # Of the whole try, with the start of its processes.


class FitPlace(CellPlace, frozen=True, kw_only=True):
    """A search for the largest batch."""

    strategy: str
    gpus: Positive


class FitRecord(Record, frozen=True, kw_only=True):
    """The batches that were tried in new processes, and the largest that follows. Sensors are of the last try."""

    kind: Literal["fit"]
    status: Literal["ok"]
    cell: FitPlace
    settings: FitSettings
    tries: AtLeastOne[TriedBatch]
    largest: Positive  # Largest batch per GPU that fits and is in an epoch.
    too_large: int | None  # Smallest one that was tried and does not fit.
    enough: Positive  # Smallest one that was tried within 2 % of the best throughput.


RECORDS: dict[str, type[Record]] = {
    "timing": TimingRecord,
    "communication": CommunicationRecord,
    "collectives": CollectivesRecord,
    "training": TrainingRecord,
    "fit": FitRecord,
}
