"""What every table of a study holds: plain data. Labels, units and definitions of columns stand here and nowhere else.

To add a column to a table and to the page: its row here, in its table; and its value, where `analyse` makes the rows of
that table. The file of the table and the page's table of it follow. Sections are those of docs/method.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from dpscale.errors import DpscaleError


@dataclass(frozen=True)
class Unit:
    """The unit of a table's cell, and the one that people read: so many of the second make one of the first."""

    stored: str
    shown: str
    scale: float = 1.0
    decimals: int | None = None
    """Where all figures have as many; otherwise each has those that make sense."""

    def of(self, stored: float) -> float:
        """A table's number in the unit that people read."""
        return stored * self.scale


PLAIN = Unit("", "")
SECONDS = Unit("s", "s")
MILLISECONDS = Unit("s", "ms", 1e3)
MICROSECONDS = Unit("s", "µs", 1e6)
TIMES = Unit("1", "×")
# Of speedups and what is like them.
MULTIPLES = Unit("1", "×", decimals=2)
PERCENT = Unit("1", "%", 100.0)
POINTS = Unit("1", "points", 100.0)
BYTES = Unit("bytes", "bytes")
KIB = Unit("bytes", "KiB", 2.0**-10)
MIB = Unit("bytes", "MiB", 2.0**-20)
MB = Unit("bytes", "MB", 1e-6)
GB = Unit("bytes", "GB", 1e-9)
GB_PER_S = Unit("GB/s", "GB/s")
IMAGES = Unit("images", "images")
IMAGES_PER_S = Unit("images/s", "images/s")
JOULES = Unit("J", "J")
EPOCHS = Unit("epochs", "epochs")
TFLOP_PER_S = Unit("FLOP/s", "TFLOP/s", 1e-12)
TB_PER_S = Unit("bytes/s", "TB/s", 1e-12)
UTC = Unit("UTC", "UTC")

Kind = Literal["figure", "count", "text"]


@dataclass(frozen=True)
class Quantity:
    """A column. Labels name devices as `{device}` or `{devices}`: a study has GPUs or workers.

    `short` is the label where there is little room, such as in a chart. `digits` are the significant ones that are
    shown where there is no interval to tell how many make sense.
    """

    column: str
    label: str
    unit: Unit
    definition: str
    section: str
    kind: Kind = "figure"
    short: str = ""
    digits: int = 4

    @property
    def heading(self) -> str:
        """The label and the unit that is shown: `Step time, ms`."""
        return ", ".join(filter(None, (self.label, self.unit.shown)))


@dataclass(frozen=True)
class Column:
    """A quantity in a table. With an interval, the columns `_low` and `_high` follow it.

    `views` are the page's tables that show it, by default the one of the table's own name; none where it is on disk
    alone.
    """

    quantity: Quantity
    has_interval: bool = False
    views: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table's file."""
        name = self.quantity.column
        return (name, f"{name}_low", f"{name}_high") if self.has_interval else (name,)


def _text(column: str, label: str, definition: str, section: str = "Symbols", unit: Unit = PLAIN) -> Quantity:
    return Quantity(column, label, unit, definition, section, "text")


def _count(column: str, label: str, definition: str, section: str = "Symbols", unit: Unit = PLAIN) -> Quantity:
    return Quantity(column, label, unit, definition, section, "count")


def _plain(*quantities: Quantity, views: tuple[str, ...] | None = None) -> Iterator[Column]:
    return (Column(quantity, views=views) for quantity in quantities)


def _interval(*quantities: Quantity, views: tuple[str, ...] | None = None) -> Iterator[Column]:
    return (Column(quantity, has_interval=True, views=views) for quantity in quantities)


def _on_disk(*quantities: Quantity) -> Iterator[Column]:
    """Columns that the page does not show as they are: it shows them otherwise, or not at all."""
    return _plain(*quantities, views=())


# What several tables hold.
STRATEGY = _text("strategy", "Strategy", "How several devices train together; `single` is one device alone.")
GPUS = _count("gpus", "{Devices}", "N, the devices that train together.")
BATCH = _count("batch_per_gpu", "Batch per {device}", "b, the images that a device takes in a step.", unit=IMAGES)
GLOBAL_BATCH = _count("global_batch", "Global batch", "B = N·b, the images of a step.", unit=IMAGES)
SCOPE = _text("scope", "Scope", "Whether the DataLoader is in the clock (end_to_end) or not (compute).", "Time")
ENVIRONMENT = _text("environment", "Environment", "Letter of the hardware, software and images that measured.")
STATUS = _text("status", "Status", "`ok`, or the reason in a word why there is no figure.")
REASON = _text("reason", "Reason", "What is to be said of the status, in a sentence.")
RUNS = _count("runs", "Runs", "Independent processes that measured it.", "Statistics")
N = _count("n", "Timings", "Timings that the figure rests on.", "Statistics")
BLOCKS = _count(
    "blocks", "Blocks", "Runs beside the baseline of their own GPU, that the figure is the mean of.", "Statistics"
)
RANGES = _text(
    "ranges", "Ranges", "Figures of this row whose low and high are the range of two blocks, no 95 % interval.",
    "Statistics",
)  # fmt: skip
REPEATABILITY = Quantity(
    "repeatability", "Repeatability", PERCENT,
    "Standard deviation of the timings inside a process, over their mean. It says nothing of another process.",
    "Statistics", digits=2,
)  # fmt: skip
WITHOUT_BASELINE = _count(
    "runs_without_baseline", "Runs without a baseline", "Runs that are left out, as no T(1,b) is of their GPU.",
    "Statistics",
)  # fmt: skip
DRIFT = Quantity(
    "drift", "Drift", PERCENT,
    "T(1,b) after the parallel epochs less that before, over their mean; of several blocks the largest.", "Statistics",
    digits=2,
)  # fmt: skip
DRIFTED = _count("drifted", "Blocks that drifted", "Blocks whose drift is above 2 %.", "Statistics")
SERVERS = _count("servers", "Servers", "Different servers that measured it.", "Statistics")
SERVER = _count("server", "Server", "Number of the server: GPUs that were used together are of one.", "Statistics")
LOADER_PROCESSES = _count(
    "loader_processes", "Loader processes", "DataLoader processes of all training processes together.", "Time"
)
ALGORITHM = _text("algorithm", "Allreduce", "The model of allreduce.", "Forecast")
ARM = _text("arm", "Arm", "Name of a training with its settings.", "Training")
SEED = _count("seed", "Seed", "Seeds weights, order and augmentation.", "Training")
RUN = _count("run", "Run", "Number of the repeat.", "Statistics")
EPOCH_NUMBER = _count("epoch", "Epoch", "Number of the epoch.", "Training")
COMPARED_WITH = _text("compared_with", "Baseline", "The arm that this one is compared with.", "Training")
SEEDS = _count("seeds", "Seeds", "Seeds that were trained.", "Training")
DIVERGED = _count("diverged", "Diverged", "Seeds whose loss was not finite.", "Training")
SET_EPOCH = _text("set_epoch", "set_epoch", "Whether the sampler is told the epoch.", "Training")
SYNC_BATCH_NORM = _text("sync_batch_norm", "SyncBatchNorm", "Whether workers share statistics.", "Training")
NODES = _count("nodes", "Nodes", "Nodes that its devices are spread over.", "Time")
RECORDS = _count("records", "Records", "Cells that were measured.")
RECORD_KIND = _text("kind", "Kind", "What the cell measured.")
HOST = _text("host", "Host", "Where the cell ran.")
COMMIT = _text("git_commit", "Commit", "Of the code that measured.")
DIRTY = _text("git_dirty", "Dirty", "Whether the code had changes beyond its commit.")
DATASET_SOURCE = _text("dataset_source", "Images", "Where the images are from.")

EPOCH = Quantity("epoch_s", "Epoch time", SECONDS, "Time of an epoch, T(N,b): mean over runs.", "Time")
STEP = Quantity("step_s", "Step time", MILLISECONDS, "Time of a full step, t(N,b): mean over runs.", "Time")
THROUGHPUT = Quantity("images_per_s", "Throughput", IMAGES_PER_S, "Images of an epoch over its time, D / T.", "Time")
STEPS_PER_EPOCH = _count("steps_per_epoch", "Steps per epoch", "⌈D / (N·b)⌉.", "Time")
FULL_STEPS = _count("full_steps_per_epoch", "Full steps per epoch", "⌊D / (N·b)⌋.", "Time")
IS_HEADLINE = _text(
    "is_headline", "In findings and verdict", "Whether an epoch has ten full steps; others are in tables alone.",
    "Time",
)  # fmt: skip
ENERGY = Quantity("energy_j", "Energy", JOULES, "Energy of all GPUs, by their own counters.", "Time")
SPEEDUP = Quantity(
    "speedup", "Speedup", MULTIPLES, "T(1,b) / T(N,b) with b fixed (weak), T(1,B) / T(N,B/N) with B fixed (strong).",
    "Speedup",
)  # fmt: skip
EFFICIENCY = Quantity("efficiency", "Efficiency", PERCENT, "Speedup over the number of devices, S / N.", "Speedup")
COMMUNICATION = Quantity(
    "communication_s", "Communication time", SECONDS,
    "Of an epoch, by subtraction (E1): T(N,b) − T(1,b)/N, every overhead included.", "Communication",
)  # fmt: skip
BANDWIDTH = Quantity(
    "bandwidth_gb_s", "Bandwidth", GB_PER_S, "Bytes of a ring allreduce over the communication time (E1).", "Bandwidth"
)
BANDWIDTH_AT_LEAST = Quantity(
    "bandwidth_gb_s_at_least", "Bandwidth, at least", GB_PER_S,
    "What follows where the communication time may be zero: bytes over the high end of its interval.", "Bandwidth",
    digits=3,
)  # fmt: skip
BUS_BANDWIDTH = Quantity(
    "bus_bandwidth_gb_s", "Bus bandwidth", GB_PER_S,
    "Bytes of the message over its time, times the factor of nccl-tests.", "Bandwidth",
)  # fmt: skip
MESSAGE = _count("message_bytes", "Bytes", "Bytes of the message.", "Bandwidth")
TRAINING_LOSS = Quantity("training_loss", "Training loss", PLAIN, "Mean cross-entropy of an epoch.", "Training")
TRAINING_ACCURACY = Quantity(
    "training_accuracy", "Training accuracy", PERCENT, "Share of right answers over an epoch's images.", "Training"
)
TEST_LOSS = Quantity("test_loss", "Test loss", PLAIN, "Mean cross-entropy over all test images.", "Training")
TEST_ACCURACY = Quantity(
    "test_accuracy", "Test accuracy", PERCENT, "Share of right answers over all test images.", "Training"
)
SEEN_BEFORE = Quantity(
    "seen_before", "Images it had in the epoch before", PERCENT, "Share of a worker's images.", "Training", digits=3
)
SAME_PLACE = Quantity(
    "same_place", "Images at the same place as before", PERCENT, "Share of a worker's images.", "Training", digits=3
)
GPU_SECONDS = Quantity("gpu_s", "{device}-seconds", PLAIN, "Time, times the devices that were held.", "Time")
ERROR = Quantity(
    "worst_relative_error", "Largest error", PERCENT, "Largest relative error of the fit at a measured point.",
    "Forecast", digits=2,
)  # fmt: skip
EPOCH_OF_ARM = Quantity("epoch_s", "Epoch time", SECONDS, "Time of a training epoch.", "Training")
VARIANT = _text("variant", "Variant", "The study's name for the settings; `base` are its own.", "Variants")
MFU = Quantity(
    "mfu", "MFU", PERCENT, "FLOP of an image times images/s, over N times the GPU's peak.", "Utilisation and MFU"
)
MFU_MEASURED = Quantity(
    "mfu_measured", "MFU, of the measured product", PERCENT,
    "The same, over N times what a large matrix product reaches on that GPU.", "Utilisation and MFU",
)  # fmt: skip
FASTER = Quantity(
    "faster", "Faster than base", MULTIPLES,
    "Epoch time of `base` on as many GPUs over its own, of runs on the same GPUs where there are such.", "Variants",
)  # fmt: skip
RUN_DEVIATION = Quantity(
    "run_deviation", "Runs differ by", PERCENT, "Standard deviation of the epoch time over runs, relative to it.",
    "Variants", digits=2,
)  # fmt: skip
DEVIATION_RATIO = Quantity(
    "deviation_ratio", "Of what runs of base differ by", PERCENT,
    "What its runs differ by, over what those of `base` do.", "Variants", digits=2,
)  # fmt: skip
# The parts of a profiled step, by the columns of their shares.
KERNEL_SHARES = tuple(
    Quantity(f"{kind}_share", label, PERCENT, definition, "Variants", short=short, digits=3)
    for kind, label, short, definition in (
        ("convolution", "Convolution", "convolution", "Convolutions and matrix products."),
        ("batch_norm", "Batch-norm", "batch-norm", "Kernels of batch-norm, and reductions that hold some of it."),
        ("element_wise", "Element-wise", "element-wise", "Kernels that work point by point, and the optimiser's."),
        ("copy", "Copies", "copies", "Copies, casts and changes of layout."),
        ("other", "Other", "other", "All other kernels."),
        ("idle", "Idle", "idle", "Nothing runs on the device."),
    )
)

# Communication of a step, estimated in five ways.
E1 = Quantity(
    "communication_step_s", "E1 subtraction", MILLISECONDS, "The step less that on one device: t(N,b) − t(1,b).",
    "Communication", short="E1 subtraction",
)  # fmt: skip
E2 = Quantity(
    "ablation_step_s", "E2 ablation", MILLISECONDS,
    "The step with a hook in Python that calls allreduce, less the step with one that sends nothing. Version 1: the "
    "step itself, less the latter.", "Communication", short="E2 ablation",
)  # fmt: skip
E2_NO_SYNC = Quantity(
    "no_sync_step_s", "E2 no_sync", MILLISECONDS, "The step less the same step under no_sync, without buckets too.",
    "Communication",
)  # fmt: skip
E3 = Quantity(
    "profiler_step_s", "E3 profiler, all", MILLISECONDS,
    "Union of the intervals of NCCL's kernels and of copies between devices, mean over devices.", "Communication",
    short="E3 all",
)  # fmt: skip
E3_EXPOSED = Quantity(
    "profiler_exposed_step_s", "E3 profiler, exposed", MILLISECONDS,
    "The part of it during which nothing computes: at most the step, unprofiled, less the device's compute.",
    "Communication", short="E3 exposed",
)  # fmt: skip
E3_LEAST = Quantity(
    "profiler_least_step_s", "E3 profiler, all, least waiting", MILLISECONDS,
    "The same on the device that communicated least: it waited least for others.", "Communication",
    short="E3 least wait",
)  # fmt: skip
E3_LEAST_EXPOSED = Quantity(
    "profiler_least_exposed_step_s", "E3 profiler, exposed, least waiting", MILLISECONDS,
    "The exposed part on the device that communicated least.", "Communication",
)  # fmt: skip
E4 = Quantity(
    "logger_step_s", "E4 DDP's logger, all", MILLISECONDS, "From the first bucket's start to the last one's end.",
    "Communication",
)  # fmt: skip
E4_EXPOSED = Quantity(
    "logger_exposed_step_s", "E4 DDP's logger, exposed", MILLISECONDS, "What of that lies after the backward pass.",
    "Communication", short="E4 logger",
)  # fmt: skip
E5 = Quantity(
    "isolated_step_s", "E5 isolated collectives", MILLISECONDS,
    "The step's messages, those of buffers too, with nothing else running.", "Communication", short="E5 alone",
)  # fmt: skip
PROFILER = _text(
    "profiler",
    "Profiler",
    "`ok`; `distorts`: the profiled step is more than 5 % longer than the unprofiled one, and its shares are left "
    "out; `artefact`: it shows more exposed communication than there is room for, and is bounded.",
    "Communication",
)
LADDER_DIFFERENCE = Quantity(
    "difference_s", "Difference", MILLISECONDS, "The rung's step less that of the rung before.", "Communication"
)
# Their columns, in the order in which people read them.
ESTIMATES_OF_STEP = tuple(
    estimate.column for estimate in (E1, E2, E2_NO_SYNC, E3_EXPOSED, E3, E3_LEAST, E4_EXPOSED, E4, E5)
)

_POINT = (STRATEGY, GPUS, BATCH, GLOBAL_BATCH)
_KEYS = (*_POINT, SCOPE, ENVIRONMENT)
_ARM_KEYS = (ARM, *_POINT, ENVIRONMENT)
_SOFTWARE = (
    _text("driver", "Driver", "Version of the GPU's driver."),
    _text("cuda", "CUDA", "Version of CUDA that torch was built with."),
    _text("cudnn", "cuDNN", "Version of cuDNN."),
    _text("nccl", "NCCL", "Version of NCCL."),
    _text("torch", "torch", "Version of torch."),
    _text("torchvision", "torchvision", "Version of torchvision."),
    _text("python", "Python", "Version of Python."),
)
# The names of software whose versions tell environments apart.
SOFTWARE = tuple(version.column for version in _SOFTWARE)
_IMAGES = _text("dataset_sha256", "Images, SHA-256", "Checksum of the decoded images.")

TABLES: Mapping[str, Sequence[Column]] = MappingProxyType(
    {
        "times": (
            *_on_disk(*_KEYS, STATUS, REASON),
            *_plain(RUNS, replace(N, label="Timed epochs")),
            *_on_disk(RANGES),
            *_interval(EPOCH, views=("times", "price")),
            *_interval(replace(GPU_SECONDS, definition="N·T(N,b)."), views=("price",)),
            *_on_disk(
                REPEATABILITY,
                _text(
                    "outliers",
                    "Outliers",
                    "Runs more than 8 robust deviations off the median, of 5 runs or more. They stay in.",
                    "Statistics",
                ),
                LOADER_PROCESSES,
            ),
            *_plain(
                Quantity("first_timed_epoch_s", "First timed epoch", SECONDS, "Median of the runs' first ones.", "Time")
            ),
            *_interval(STEP),
            *_interval(THROUGHPUT, views=("times", "price")),
            *_on_disk(FULL_STEPS, IS_HEADLINE),
            *_plain(STEPS_PER_EPOCH),
            *_plain(
                Quantity(
                    "peak_memory_bytes", "Peak memory", GB, "Most bytes that torch had allocated on a device.", "Time"
                ),
                views=("times", "price"),
            ),
            *_interval(replace(ENERGY, unit=Unit("J", "J per epoch")), views=("times", "price")),
            *_on_disk(
                Quantity("flop_per_image", "FLOP of an image", PLAIN, "Forward and backward.", "Utilisation and MFU"),
                Quantity("peak_flop_s", "Peak FLOP/s", PLAIN, "Of one GPU, dense.", "Utilisation and MFU"),
                _text("peak_source", "Source of the peak", "The data sheet, or `unknown`.", "Utilisation and MFU"),
            ),
            *_interval(MFU, views=("times", "price")),
            *_on_disk(
                Quantity(
                    "interval_width",
                    "Width of the interval",
                    PERCENT,
                    "High less low of the epoch time, over it.",
                    "Statistics",
                ),
                NODES,
            ),
        ),
        "speedup": (
            *_on_disk(*_KEYS),
            *_plain(_text("scaling", "Scaling", "`weak`: b is fixed. `strong`: B is fixed.", "Speedup")),
            *_on_disk(STATUS, REASON, N, _count("baseline_n", "Timings on one", "Of the baseline.", "Statistics")),
            *_on_disk(FULL_STEPS, IS_HEADLINE, BLOCKS, WITHOUT_BASELINE, DRIFT, DRIFTED, RANGES),
            *_on_disk(EPOCH, Quantity("baseline_epoch_s", "Epoch time on one", SECONDS, "Of the baseline.", "Time")),
            *_interval(SPEEDUP, EFFICIENCY, views=("speedup", "strong")),
            *_interval(
                Quantity("speedup_from_steps", "Speedup from steps", MULTIPLES, "N·t(1,b) / t(N,b).", "Speedup")
            ),
            *_interval(
                Quantity("efficiency_from_steps", "Efficiency from steps", PERCENT, "t(1,b) / t(N,b).", "Speedup"),
                views=(),
            ),
            *_on_disk(
                Quantity("efficiency_lost", "Lost", PERCENT, "1 less the efficiency.", "Speedup"),
                _text(
                    "worth",
                    "Worth it",
                    "`worth it`: the interval of the efficiency lies above 50 %. `not`: wholly below. `undecided`: "
                    "it holds 50 %, or there is no interval.",
                    "Speedup",
                ),
                Quantity(
                    "steps_disagree_by",
                    "Epochs against steps",
                    PERCENT,
                    "Speedup over the speedup from steps, less 1, without its sign.",
                    "Speedup",
                ),
                NODES,
            ),
        ),
        "communication": (
            *_on_disk(*_KEYS, STATUS, REASON, N, FULL_STEPS, IS_HEADLINE),
            *_on_disk(BLOCKS, WITHOUT_BASELINE, DRIFT, DRIFTED, RANGES),
            *_plain(EPOCH, Quantity("compute_s", "Compute time", SECONDS, "Of an epoch: T(1,b)/N.", "Communication")),
            *_interval(COMMUNICATION),
            *_plain(
                Quantity(
                    "communication_share",
                    "Share of the epoch",
                    PERCENT,
                    "Communication time over the epoch time.",
                    "Communication",
                )
            ),
            *_plain(replace(STEP, label="Step, headline"), views=("estimates",)),
            *_on_disk(Quantity("baseline_step_s", "Step time on one", MILLISECONDS, "t(1,b).", "Time")),
            *_interval(E1, views=("communication", "estimates")),
            *_interval(E2, E2_NO_SYNC, E3, E3_EXPOSED, E3_LEAST, views=("estimates",)),
            *_interval(E3_LEAST_EXPOSED, views=()),
            *_interval(E4, E4_EXPOSED, E5, views=("estimates",)),
            *_interval(
                Quantity(
                    "training_step_s",
                    "Step, here",
                    MILLISECONDS,
                    "The step beside which E2 was timed.",
                    "Communication",
                ),
                Quantity(
                    "profiled_step_s",
                    "Step, profiled",
                    MILLISECONDS,
                    "The step while it was profiled.",
                    "Communication",
                ),
                views=("estimates",),
            ),
            *_plain(
                PROFILER,
                views=("estimates",),
            ),
            *_on_disk(
                Quantity(
                    "estimates_apart",
                    "Estimates apart",
                    MULTIPLES,
                    "Largest over smallest of the estimates above zero with their intervals.",
                    "Communication",
                ),
                Quantity(
                    "beyond_profiler_s", "E1 less E3", MILLISECONDS, "What E1 counts and E3 does not.", "Communication"
                ),
                Quantity("waiting_step_s", "Waiting", MILLISECONDS, "E3 less E3 of least waiting.", "Communication"),
                Quantity(
                    "profiler_slows_by",
                    "Profiling adds",
                    PERCENT,
                    "Profiled step over the step, less 1.",
                    "Communication",
                ),
            ),
        ),
        "bandwidth": (
            *_on_disk(*_KEYS, STATUS, REASON, N, FULL_STEPS, IS_HEADLINE, BLOCKS, WITHOUT_BASELINE, RANGES),
            *_on_disk(_count("parameters", "Parameters", "K, trainable ones.")),
            *_plain(
                Quantity(
                    "allreduce_bytes_per_step", "Allreduce per step", MB, "V = 2·(N−1)/N·K·s, a ring.", "Bandwidth"
                ),
                STEPS_PER_EPOCH,
            ),
            *_on_disk(
                Quantity("allreduce_bytes_per_epoch", "Allreduce per epoch", MB, "V times the steps.", "Bandwidth")
            ),
            *_interval(
                COMMUNICATION,
                BANDWIDTH,
                Quantity(
                    "profiler_bandwidth_gb_s",
                    "Bandwidth from the profiler's time",
                    GB_PER_S,
                    "V over E3, for ddp that of least waiting.",
                    "Bandwidth",
                ),
                replace(BUS_BANDWIDTH, label="Bus bandwidth, measured"),
                Quantity(
                    "utilisation",
                    "Utilisation",
                    PERCENT,
                    "Bandwidth over the measured bus bandwidth.",
                    "Utilisation and MFU",
                ),
            ),
            *_on_disk(BANDWIDTH_AT_LEAST),
            *_plain(
                Quantity(
                    "root_link_bytes_per_step",
                    "Through {device} 0's links per step",
                    MB,
                    "What DataParallel moves: 2·K·s, buffers, images out and outputs in.",
                    "Bandwidth",
                )
            ),
            *_on_disk(
                Quantity("gradient_bytes", "Whole gradient", KIB, "K·s, the message of an allreduce.", "Bandwidth")
            ),
        ),
        "ladder": (
            *_on_disk(*_POINT, ENVIRONMENT),
            *_plain(_text("rung", "Rung", "What runs, by its name in the records.", "Communication")),
            *_on_disk(_count("order", "Order", "Place on the ladder; 0 is one GPU alone.", "Communication")),
            *_interval(replace(STEP, label="Step", definition="Median step of the rung.", section="Communication")),
            *_plain(_text("adds", "What it adds", "What the rung does beyond the one before it.", "Communication")),
            *_interval(LADDER_DIFFERENCE),
            *_plain(
                Quantity(
                    "share",
                    "Share of the step",
                    PERCENT,
                    "The difference over the whole step; of the first rung, its step over the whole one.",
                    "Communication",
                    digits=3,
                ),
                Quantity(
                    "repeatability",
                    "Repeatability",
                    PERCENT,
                    "Standard deviation of the rung's step within a process, over its mean. It is no interval.",
                    "Statistics",
                    digits=2,
                ),
            ),
            *_on_disk(
                RECORDS,
                _count("rounds", "Rounds", "Blocks of the rung in all records.", "Statistics"),
                RANGES,
                replace(STEP, column="headline_step_s", label="Step, headline"),
                *(
                    Quantity(column, label, MILLISECONDS, definition, "Communication")
                    for column, label, definition in (
                        ("part_of_headline_s", "Part of the headline step", "The share, of the timing cell's step."),
                        (
                            "reached_of_headline_s",
                            "Reached of the headline step",
                            "The parts up to this rung together.",
                        ),
                        ("beyond_alone_s", "More than alone", "These, less that of the first rung."),
                    )
                ),
            ),
        ),
        "steps": (
            *_on_disk(*_POINT, ENVIRONMENT),
            *_plain(_count("device", "{device}", "Number of the device.")),
            *_plain(
                _text("phase", "Phase", "What the host asked for; `all` is the whole step.", "Communication"),
                views=("phases",),
            ),
            *_plain(PROFILER),
            *_on_disk(N),
            *_interval(
                Quantity(
                    "compute_s", "Compute", MILLISECONDS, "Kernels that compute.", "Communication", short="compute"
                ),
                Quantity(
                    "communication_s",
                    "Communication, exposed",
                    MILLISECONDS,
                    "Communication while nothing computes.",
                    "Communication",
                    short="communication",
                ),
                Quantity(
                    "copy_s",
                    "Copies from and to the host",
                    MILLISECONDS,
                    "Copies while nothing else runs.",
                    "Communication",
                    short="copies",
                ),
                Quantity("idle_s", "Idle", MILLISECONDS, "Nothing runs on the device.", "Communication", short="idle"),
                views=("steps", "phases"),
            ),
            *_plain(
                Quantity(
                    "hidden_communication_s",
                    "Communication, hidden",
                    MILLISECONDS,
                    "Communication while something computes.",
                    "Communication",
                )
            ),
            *_on_disk(Quantity("parts_s", "Sum of the parts", MILLISECONDS, "Of the median block.", "Communication")),
            *_interval(replace(STEP, label="Step, by the host's clock")),
            *_on_disk(
                Quantity(
                    "difference",
                    "Parts against the step",
                    PERCENT,
                    "Sum of the parts over the step, less 1.",
                    "Communication",
                ),
                *(
                    Quantity(
                        f"{part}_share",
                        f"Share of {part}",
                        PERCENT,
                        "The part over the sum of the parts.",
                        "Communication",
                    )
                    for part in ("compute", "communication", "copy", "idle")
                ),
            ),
        ),
        "collectives": (
            *_plain(
                _text("operation", "Operation", "The collective, or a copy between two devices.", "Bandwidth"),
                GPUS,
                MESSAGE,
            ),
            *_on_disk(ENVIRONMENT, RUNS, SERVERS, N, RANGES),
            *_interval(Quantity("time_s", "Time", MICROSECONDS, "Time of one call: mean over runs.", "Bandwidth")),
            *_on_disk(
                REPEATABILITY,
                Quantity("time_s_min", "Shortest time", MICROSECONDS, "Of all timings.", "Bandwidth"),
                Quantity("time_s_p95", "Time, 95th percentile", MICROSECONDS, "Of all timings.", "Bandwidth"),
                Quantity("algorithm_bandwidth_gb_s", "Algorithm bandwidth", GB_PER_S, "Bytes over time.", "Bandwidth"),
            ),
            *_interval(BUS_BANDWIDTH),
            *_plain(_text("use", "For", "The messages of a training that have this size.", "Bandwidth")),
            *_on_disk(
                _count("source", "From", "Device that sends."),
                _count("target", "To", "Device that receives."),
                _count(
                    "not_held",
                    "Not held",
                    "Timings that may hold the launch of their calls: the queue could not be held back long enough.",
                    "Bandwidth",
                ),
                NODES,
            ),
        ),
        "laws": (
            *_on_disk(STRATEGY, SCOPE, ENVIRONMENT, BATCH, _text("law", "Law", "Of scaling.", "Forecast")),
            *_on_disk(_text("parameter", "Parameter", "Of the law.", "Forecast")),
            *_interval(Quantity("value", "Value", PLAIN, "Of the parameter.", "Forecast"), views=()),
            *_on_disk(
                _count("points", "Points", "Speedups that it is fitted to.", "Forecast"),
                _count("degrees_of_freedom", "Degrees of freedom", "Points less parameters.", "Forecast"),
                ERROR,
            ),
            *_plain(_text("statement", "What the points can tell", "How well the law describes them.", "Forecast")),
        ),
        "published_scaling": (
            *_on_disk(STATUS, REASON, _text("title", "Training", "What others trained, and on what.", "Forecast")),
            *_plain(
                _text("study", "Study", "Of others, by the name of its file.", "Forecast"),
                replace(BATCH, label="Batch per GPU"),
                _text("law", "Law", "Of scaling; `unchanged`: efficiency stays as it is on a node.", "Forecast"),
            ),
            *_on_disk(_text("fitted_on_gpus", "Fitted on", "GPUs of a node, that the law is fitted to.", "Forecast")),
            *_plain(
                replace(GPUS, label="GPUs"),
                _count("nodes", "Nodes", "Nodes that the GPUs fill.", "Forecast"),
                Quantity("training_s", "Published time", SECONDS, "Time of a whole training.", "Forecast", digits=6),
                Quantity("predicted_training_s", "Predicted time", SECONDS, "By the law.", "Forecast", digits=6),
                Quantity(
                    "relative_error", "Error", PERCENT, "Predicted over published time, less 1.", "Forecast", digits=3
                ),
                _text(
                    "beats_unchanged",
                    "Better than unchanged",
                    "Whether the law's error is smaller than that of an unchanged efficiency.",
                    "Forecast",
                ),
            ),
        ),
        "allreduce_models": (
            *_on_disk(ENVIRONMENT, STATUS, REASON),
            *_plain(replace(ALGORITHM, label="Algorithm"), GPUS),
            *_interval(
                Quantity("latency_s", "Latency", MICROSECONDS, "Of an allreduce of no bytes, by the model.", "Forecast")
            ),
            *_interval(
                Quantity(
                    "base_latency_s", "Base latency", MICROSECONDS, "The part of it that no device adds to.", "Forecast"
                ),
                views=(),
            ),
            *_interval(
                Quantity("bandwidth_gb_s", "Bandwidth", GB_PER_S, "β of the fitted link.", "Forecast"),
            ),
            *_plain(
                *(
                    Quantity(
                        f"{which}_relative_error",
                        f"{which.capitalize()} error",
                        PERCENT,
                        f"{which.capitalize()} relative error of the model at the sizes measured on N devices.",
                        "Forecast",
                        digits=2,
                    )
                    for which in ("median", "lowest", "highest")
                )
            ),
            *_on_disk(ERROR),
        ),
        "forecast": (
            *_plain(
                _text(
                    "kind",
                    "Kind",
                    "`held out`: predicted and measured. `extrapolated`: predicted, by links that were measured. "
                    "`scenario`: predicted, by links that were not.",
                    "Forecast",
                ),
                views=("forecast",),
            ),
            *_on_disk(ENVIRONMENT, STATUS, REASON, GPUS, BATCH, GLOBAL_BATCH),
            *_plain(_count("nodes", "Nodes", "Nodes that the devices fill.", "Forecast")),
            *_on_disk(
                _count("calibrated_on_gpus", "Calibrated on", "Devices whose step gave the overhead.", "Forecast")
            ),
            *_plain(ALGORITHM, views=("held_out", "forecast")),
            *_plain(
                Quantity("compute_s", "Compute", MILLISECONDS, "t(1,b).", "Forecast"),
                Quantity(
                    "overhead_s", "Overhead", MILLISECONDS, "What fewer devices have beyond the model.", "Forecast"
                ),
                views=("held_out",),
            ),
            *_plain(
                Quantity(
                    "exposed_s", "Exposed communication", MILLISECONDS, "By the model of the overlap.", "Forecast"
                ),
                views=("held_out", "forecast"),
            ),
            *_on_disk(Quantity("hidden_s", "Hidden communication", MILLISECONDS, "By the same model.", "Forecast")),
            *_interval(replace(STEP, label="Predicted step", section="Forecast"), views=("held_out", "forecast")),
            *_interval(
                Quantity(
                    "measured_step_s", "Measured step", MILLISECONDS, "t(N,b) of runs with a baseline.", "Forecast"
                ),
                Quantity("relative_error", "Error", PERCENT, "Predicted over measured step, less 1.", "Forecast"),
                views=("held_out",),
            ),
            *_on_disk(_text("within_tolerance", "Within tolerance", "Whether the error is small enough.", "Forecast")),
            *_plain(
                Quantity(
                    "carried_over_relative_error",
                    "Error of the step on fewer {devices} unchanged",
                    PERCENT,
                    "Step on fewer devices over the measured one, less 1.",
                    "Forecast",
                    digits=2,
                ),
                _text(
                    "beats_unchanged",
                    "Better than unchanged",
                    "Whether the model's error is smaller than that of the step on fewer devices.",
                    "Forecast",
                ),
                views=("held_out",),
            ),
            *_interval(THROUGHPUT, views=()),
            *_interval(SPEEDUP, EFFICIENCY),
            *_on_disk(
                _count("gpus_at_most", "{Devices} at most", "N of the largest step that D images make.", "Forecast")
            ),
        ),
        "critical_batch": (
            *_on_disk(ENVIRONMENT, STATUS, REASON, GPUS, ALGORITHM),
            *_interval(
                Quantity(
                    "batch_per_gpu",
                    "Predicted",
                    IMAGES,
                    "Batch from which on communication hides behind backward.",
                    "Forecast",
                )
            ),
            *_plain(
                _text(
                    "backward_from", "Backward pass from", "What says how long the device's backward takes.", "Forecast"
                )
            ),
            *_on_disk(_count("profiled", "Profiled", "Batches whose steps profiling does not change.", "Forecast")),
            *_plain(
                _count(
                    "measured_batch_per_gpu",
                    "Smallest such batch by the profiler",
                    "By the measured overlap.",
                    "Forecast",
                    IMAGES,
                )
            ),
        ),
        "training": (
            *_on_disk(
                *_ARM_KEYS,
                SEED,
                EPOCH_NUMBER,
                STATUS,
                _count("steps", "Steps", "Of the epoch.", "Training"),
                Quantity("learning_rate", "Learning rate", PLAIN, "Of the last step.", "Training"),
                TRAINING_LOSS,
                TRAINING_ACCURACY,
                TEST_LOSS,
                TEST_ACCURACY,
                Quantity("validation_loss", "Validation loss", PLAIN, "Of images that are held out.", "Training"),
                Quantity("validation_accuracy", "Validation accuracy", PERCENT, "Share of them right.", "Training"),
                EPOCH_OF_ARM,
                THROUGHPUT,
                GPU_SECONDS,
                ENERGY,
                Quantity("elapsed_s", "Elapsed", SECONDS, "Time of training since the start.", "Training"),
            ),
        ),
        "training_summary": (
            *_on_disk(*_ARM_KEYS),
            *_plain(
                _count("epochs", "Epochs", "Epochs of a training.", "Training"),
                _text("remedies", "Remedies", "Settings of learning that are not as they are by default.", "Training"),
                _text("faster_by", "Faster by", "Settings of speed that are not as they are by default.", "Training"),
                _count("tuned_trials", "Trials of the search", "Of the search that found the recipe.", "Training"),
                _text("tuned_on", "Recipe chosen on", "Empty where no recipe was searched.", "Training"),
            ),
            *_on_disk(
                _text("is_baseline", "Is the baseline", "Whether the study says so.", "Training"), STATUS, REASON
            ),
            *_plain(SEEDS),
            *_on_disk(DIVERGED),
            *_interval(TRAINING_LOSS, TRAINING_ACCURACY, TEST_LOSS, TEST_ACCURACY),
            *_plain(
                Quantity(
                    "test_accuracy_spread",
                    "Its standard deviation over seeds",
                    POINTS,
                    "Of the test accuracy.",
                    "Training",
                    digits=2,
                )
            ),
            *_interval(
                Quantity(
                    "training_loss_difference", "Training loss less the baseline's", PLAIN, "Of means.", "Training"
                ),
                Quantity(
                    "training_accuracy_difference",
                    "Training accuracy less the baseline's",
                    POINTS,
                    "Of means.",
                    "Training",
                ),
                views=(),
            ),
            *_interval(
                Quantity(
                    "test_accuracy_difference", "Less the baseline's", POINTS, "Of mean test accuracies.", "Training"
                )
            ),
            *_plain(COMPARED_WITH),
            *_on_disk(
                _count("difference_pairs", "Pairs, baseline", "Seeds compared pair by pair; 0 is Welch's.", "Training"),
                _text("without_remedies", "Without remedies", "The arm that has none and is the same.", "Training"),
                _count("gain_pairs", "Pairs", "Seeds compared pair by pair; 0 is Welch's.", "Training"),
            ),
            *_interval(
                Quantity(
                    "test_accuracy_gain", "Less that without remedies", POINTS, "Of mean test accuracies.", "Training"
                )
            ),
            *_interval(
                Quantity(
                    "training_loss_change", "Training loss less that without remedies", PLAIN, "Of means.", "Training"
                ),
                views=(),
            ),
            *_interval(
                Quantity(
                    "recovered",
                    "Lost accuracy recovered",
                    PERCENT,
                    "The gain, over what the same arm without remedies lost against the baseline.",
                    "Training",
                )
            ),
            *_on_disk(_text("recovered_status", "Recovered", "Whether the loss can be told from zero.", "Training")),
            *_on_disk(
                Quantity("target_accuracy", "Target", PERCENT, "A test accuracy.", "Training"),
                _count("seeds_at_target", "Seeds at the target", "Seeds that reached it.", "Training"),
            ),
            *_plain(
                Quantity(
                    "time_to_target_s", "Time to the target", SECONDS, "Of training, mean over seeds.", "Training"
                ),
                Quantity(
                    "gpu_s_to_target",
                    "{device}-seconds to the target",
                    PLAIN,
                    "The same times the devices.",
                    "Training",
                ),
                EPOCH_OF_ARM,
            ),
            *_on_disk(THROUGHPUT),
            *_plain(GPU_SECONDS, ENERGY),
        ),
        "frontier": (
            *_on_disk(*_ARM_KEYS),
            *_plain(SEEDS),
            *_interval(
                TEST_ACCURACY,
                Quantity("training_s", "Training time", SECONDS, "All epochs together, without tests.", "Frontier"),
                replace(GPU_SECONDS, definition="The same times the devices.", section="Frontier"),
                replace(ENERGY, definition="Of all epochs, by the GPUs' own counters.", section="Frontier"),
            ),
            *_plain(
                *(
                    _text(
                        column,
                        label,
                        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs "
                        "less and ends higher, by the intervals of both. `undecided`: neither.",
                        "Frontier",
                    )
                    for column, label in (
                        ("by_time", "By seconds"),
                        ("by_gpu_s", "By {device}-seconds"),
                        ("by_energy", "By energy"),
                    )
                )
            ),
        ),
        "twins": (
            *_on_disk(*_ARM_KEYS),
            *_plain(_text("twin", "Slow twin", "The arm that differs in settings of speed alone.", "Frontier")),
            *_interval(
                Quantity(
                    "twin_accuracy_difference",
                    "Test accuracy less that of the twin",
                    POINTS,
                    "Of means over seeds, after the last epoch.",
                    "Frontier",
                ),
                Quantity(
                    "twin_time_ratio",
                    "Training time over that of the twin",
                    PLAIN,
                    "Of geometric means over seeds, all epochs together, without tests.",
                    "Frontier",
                ),
            ),
            *_plain(_count("pairs", "Pairs", "Seeds compared pair by pair; 0 is Welch's.", "Frontier")),
        ),
        "training_evidence": (
            *_on_disk(*_ARM_KEYS),
            *_plain(SET_EPOCH, SYNC_BATCH_NORM),
            *_on_disk(SEED, EPOCH_NUMBER),
            *_plain(_count("worker", "{device}", "Number of the worker.", "Training")),
            *_on_disk(_count("checksum", "Checksum", "Of the order of samples.", "Training")),
            *_plain(
                SEEN_BEFORE,
                SAME_PLACE,
                _text(
                    "statistics_kept",
                    "Its statistics are tested",
                    "Whether the network that is tested has them.",
                    "Training",
                ),
                Quantity(
                    "statistics_difference",
                    "Running means apart, standard deviations",
                    PLAIN,
                    "Largest difference of running means between workers.",
                    "Training",
                    digits=3,
                ),
            ),
        ),
        "variants": (
            *_plain(VARIANT, views=("variants", "variant_costs", "variant_limits")),
            *_on_disk(_text("changes", "Changes", "Settings in place of the study's own.", "Variants")),
            *_on_disk(*_KEYS, STATUS, REASON, RUNS, N, RANGES),
            *_on_disk(FULL_STEPS, STEPS_PER_EPOCH, IS_HEADLINE),
            *_interval(STEP),
            *_interval(THROUGHPUT, views=("variants", "variant_limits")),
            *_interval(
                replace(MFU, label="MFU, of the data sheet", definition="Of the peak of the variant's precision."),
                MFU_MEASURED,
            ),
            *_interval(FASTER),
            *_on_disk(
                _count(
                    "faster_blocks",
                    "Blocks beside base",
                    "Runs of both on one GPU that the comparison with `base` is the mean of; 0: independent times.",
                    "Statistics",
                ),
                _text("is_fastest", "Fastest", "Whether its mean epoch is the shortest of all variants.", "Variants"),
            ),
            *_plain(RUN_DEVIATION),
            *_interval(DEVIATION_RATIO, views=()),
            *_interval(replace(SPEEDUP, label="Speedup over 1 {device}", definition="Over one GPU of the variant.")),
            *_interval(
                Quantity("base_speedup", "Speedup of base", MULTIPLES, "Of `base` on as many GPUs.", "Variants"),
                Quantity("alone_faster", "Faster on 1 {device}", MULTIPLES, "Than `base` on one GPU.", "Variants"),
                views=(),
            ),
            *_interval(
                Quantity(
                    "preparation_s", "Preparation", SECONDS, "To compile and capture, before any clock.", "Variants"
                )
            ),
            *_interval(
                Quantity("saved_s", "Saved", SECONDS, "Of an epoch, against `base`.", "Variants"),
                views=(),
            ),
            *_interval(
                _count(
                    "pays_from_epochs",
                    "Preparation pays from",
                    "Preparation over what an epoch saves against `base`, rounded up.",
                    "Variants",
                    EPOCHS,
                )
            ),
            *_on_disk(
                _text(
                    "pays",
                    "Pays",
                    "`yes`: an epoch saves time against `base`, by its interval. `never`: it saves none. `undecided`: "
                    "the interval holds zero, or there is none.",
                    "Variants",
                )
            ),
            *_interval(EPOCH, GPU_SECONDS, replace(ENERGY, unit=Unit("J", "J per epoch")), views=("variant_costs",)),
            *_plain(
                Quantity("peak_memory_bytes", "Peak memory", GB, "Most bytes that torch had allocated.", "Time"),
                views=("variant_costs",),
            ),
            *_interval(
                Quantity(
                    "matrix_flop_per_s",
                    "Matrix product",
                    TFLOP_PER_S,
                    "FLOP/s of a large one, on the cell's first GPU, in the variant's precision.",
                    "Limit of a GPU",
                ),
                Quantity(
                    "copy_bytes_per_s",
                    "Copy",
                    TB_PER_S,
                    "Bytes read and written by a large copy in that GPU's memory.",
                    "Limit of a GPU",
                ),
                Quantity(
                    "limit_images_per_s",
                    "Limit, memory after compute",
                    IMAGES_PER_S,
                    "Of all GPUs, without communication: 1 / (compute + memory).",
                    "Limit of a GPU",
                ),
                Quantity("limit_share", "Reached of it", PERCENT, "Throughput over this limit.", "Limit of a GPU"),
                Quantity(
                    "overlapped_limit_images_per_s",
                    "Limit, both at a time",
                    IMAGES_PER_S,
                    "Of all GPUs, without communication: 1 / max(compute, memory).",
                    "Limit of a GPU",
                ),
                Quantity(
                    "overlapped_limit_share",
                    "Reached of that",
                    PERCENT,
                    "Throughput over that limit.",
                    "Limit of a GPU",
                ),
                views=("variant_limits",),
            ),
            *_on_disk(
                Quantity("flop_per_image", "FLOP of an image", PLAIN, "Forward and backward.", "Utilisation and MFU"),
                Quantity("peak_flop_s", "Peak FLOP/s", PLAIN, "Of one GPU, dense.", "Utilisation and MFU"),
                _text("peak_source", "Source of the peak", "The data sheet, or `unknown`.", "Utilisation and MFU"),
            ),
        ),
        "one_gpu": (
            *_plain(replace(VARIANT, label="Variant on 1 {device}", definition="The fastest there at this batch.")),
            *_on_disk(*_KEYS, FULL_STEPS, IS_HEADLINE),
            *_on_disk(replace(VARIANT, column="other_variant", label="Variant on more")),
            *_on_disk(replace(BLOCKS, definition="Runs of both on one GPU; 0: independent times."), RANGES),
            *_interval(
                replace(EPOCH, label="Epoch on 1 {device}", definition="Of the fastest variant on one GPU."),
                Quantity("other_epoch_s", "Epoch on more", SECONDS, "Of the other variant on N GPUs.", "Time"),
                Quantity(
                    "ratio", "Times as fast on 1 {device}", MULTIPLES, "Epoch on more over epoch on one.", "Variants"
                ),
            ),
            *_plain(
                _text(
                    "as_fast",
                    "As fast",
                    "`holds`: the interval of the ratio lies at or above 1. `does not`: below. `undecided`: 1 is in "
                    "it, or there is none.",
                    "Variants",
                )
            ),
        ),
        "kernels": (
            *_plain(VARIANT),
            *_on_disk(*_POINT, ENVIRONMENT, RUNS, RANGES),
            *_interval(
                replace(STEP, label="Step, profiled", definition="The step while it was profiled."),
                Quantity(
                    "busy_s",
                    "Busy",
                    MILLISECONDS,
                    "Of that step, the time in which the device did anything.",
                    "Variants",
                ),
            ),
            *_plain(
                Quantity(
                    "profiler_slows_by",
                    "Profiling adds",
                    PERCENT,
                    "Profiled step over the run's own step, less 1; the median of the runs.",
                    "Variants",
                    digits=3,
                ),
                _text(
                    "profiler",
                    "Profiler",
                    "`ok`; `distorts`: the profiled step is more than 5 % longer than the unprofiled one.",
                    "Variants",
                ),
            ),
            *_interval(*KERNEL_SHARES),
        ),
        "environments": (
            *_plain(
                ENVIRONMENT,
                _text("device_model", "Device", "Model of the devices."),
                _text("cpu_model", "CPU", "Model of the CPU."),
                *_SOFTWARE,
                _IMAGES,
                _text("links", "Links", "What connects the devices."),
                _text("variables", "Variables", "NCCL's variables and NVIDIA_TF32_OVERRIDE, where they are set."),
                _text("hosts", "Hosts", "Names of the hosts."),
                RECORDS,
            ),
            *_on_disk(
                _text("cpu_cores", "Cores", "Cores that a job may use."),
                _text("measurement_versions", "Versions", "Versions of the clocked code, by kind of record."),
                _text("older_measurements", "Older versions", "Those of them that are measured no more."),
            ),
        ),
        "records": (
            *_on_disk(
                _text("path", "File", "The record."),
                RECORD_KIND,
                STRATEGY,
                GPUS,
                BATCH,
                RUN,
                ARM,
                SEED,
                STATUS,
                ENVIRONMENT,
                _text("started_at", "Started", "When the cell started.", unit=UTC),
                _text("finished_at", "Finished", "When the cell finished.", unit=UTC),
                GPU_SECONDS,
                HOST,
                COMMIT,
                DIRTY,
                _text("job_id", "Job", "The scheduler's number of the job."),
                _text("gpu_uuids", "Devices by UUID", "The devices themselves."),
                _text(
                    "throttle_reasons",
                    "Throttled",
                    "Why clocks were held down: in timed epochs; of other records before and after.",
                ),
                Quantity(
                    "slowed_s",
                    "Kept down",
                    SECONDS,
                    "For how long a device's clocks were kept down in timed epochs, by the policy that did so longest.",
                    "Time",
                ),
                _text("slowed_by", "Kept down by", "The policies that kept clocks down in timed epochs.", "Time"),
                Quantity(
                    "stolen_share",
                    "Cores stolen",
                    PERCENT,
                    "The most that a hypervisor took away in a timed epoch, over the cores given.",
                    "Time",
                ),
                _count("other_processes", "Other processes", "Most processes of others that were seen on the devices."),
                DATASET_SOURCE,
                _text("synthetic", "Synthetic", "Whether the images are noise."),
                _IMAGES,
            ),
        ),
        "rejected": (*_plain(_text("path", "File", "The record."), replace(REASON, definition="Why it is not used.")),),
        "missing": (
            *_on_disk(
                _text("path", "File", "The record that is missing."),
                RECORD_KIND,
                VARIANT,
                STRATEGY,
                GPUS,
                BATCH,
                RUN,
                ARM,
                SEED,
                STATUS,
                REASON,
                _text("log", "Log", "Its last lines."),
            ),
        ),
        # Every run and every block as it was measured.
        "runs": (
            *_on_disk(
                *_KEYS,
                RUN,
                SERVER,
                HOST,
                _text("started_at", "Started", "When the cell started.", unit=UTC),
                N,
                replace(EPOCH, definition="Median of the run's timed epochs."),
                replace(STEP, definition="Median over the run's timed epochs of the median full step."),
                REPEATABILITY,
                Quantity(
                    "robust_deviations",
                    "Robust deviations",
                    PLAIN,
                    "Of the epoch time's logarithm off the median of the runs, in 1.4826 median absolute deviations.",
                    "Statistics",
                    digits=2,
                ),
                _text("is_outlier", "Outlier", "Whether these are more than 8; of 5 runs or more.", "Statistics"),
            ),
        ),
        "blocks": (
            *_on_disk(
                *_KEYS,
                _text("scaling", "Scaling", "`weak`: b is fixed. `strong`: B is fixed.", "Speedup"),
                _text("block", "Block", "The run, or runs that share a baseline.", "Statistics"),
                STATUS,
                REASON,
                _text("baseline", "Baseline", "`in job`: timed around the run. `own cells`: of its GPU.", "Statistics"),
                replace(EPOCH, definition="T(N,b) of the block."),
                Quantity("baseline_epoch_s", "Epoch time on one", SECONDS, "T(1,b) of the block.", "Time"),
                Quantity("before_epoch_s", "On one, before", SECONDS, "T(1,b) before the parallel epochs.", "Time"),
                Quantity("after_epoch_s", "On one, after", SECONDS, "T(1,b) after the parallel epochs.", "Time"),
                DRIFT,
                _text("has_drifted", "Drifted", "Whether the drift is above 2 %.", "Statistics"),
                SPEEDUP,
                COMMUNICATION,
                E1,
            ),
        ),
        "variance_components": (
            *_on_disk(
                *_KEYS,
                REASON,
                SERVERS,
                RUNS,
                N,
                *(
                    Quantity(
                        f"{what}_deviation",
                        f"Between {what}s",
                        PERCENT,
                        f"Standard deviation that {what}s add to the epoch time, relative to it.",
                        "Statistics",
                        digits=2,
                    )
                    for what in ("server", "run", "epoch")
                ),
            ),
        ),
        # What follows from the tables above and from nothing else.
        "scopes": (
            *_on_disk(*_POINT, ENVIRONMENT, IS_HEADLINE, RANGES),
            *_interval(
                replace(EPOCH, label="Epoch time, compute"),
                Quantity(
                    "end_to_end_epoch_s", "Epoch time, end-to-end", SECONDS, "With the DataLoader in the clock.", "Time"
                ),
            ),
            *_interval(
                Quantity("loader_s", "Longer by", SECONDS, "End-to-end less compute: the mean over runs.", "Statistics")
            ),
            *_interval(
                Quantity("loading_ratio", "Longer", MULTIPLES, "End-to-end over compute, over runs.", "Statistics"),
                views=(),
            ),
            *_interval(
                replace(SPEEDUP, label="Speedup, compute"),
                Quantity(
                    "end_to_end_speedup",
                    "Speedup, end-to-end",
                    MULTIPLES,
                    "With the DataLoader in the clock.",
                    "Speedup",
                ),
            ),
            *_on_disk(Quantity("speedup_ratio", "Speedup hidden", MULTIPLES, "Compute over end-to-end.", "Speedup")),
        ),
        "strategy_pairs": (
            *_on_disk(
                STRATEGY,
                _text("other_strategy", "Other strategy", "On the same devices at the same batch."),
                GPUS,
                BATCH,
                GLOBAL_BATCH,
                SCOPE,
                ENVIRONMENT,
                IS_HEADLINE,
                LOADER_PROCESSES,
                replace(LOADER_PROCESSES, column="other_loader_processes", label="Loader processes of the other"),
                RANGES,
            ),
            *_interval(
                EPOCH,
                Quantity("other_epoch_s", "Epoch time of the other", SECONDS, "T(N,b) of the other.", "Time"),
                views=(),
            ),
            *_on_disk(Quantity("ratio", "Times as fast", MULTIPLES, "Epoch time of the other over this one.", "Time")),
        ),
        "peer_copies": (
            *_on_disk(
                GPUS,
                ENVIRONMENT,
                _count("directions", "Directions", "Directed pairs of devices.", "Bandwidth"),
                MESSAGE,
                Quantity(
                    "bus_bandwidth_gb_s", "Median bandwidth", GB_PER_S, "Of a copy, over the directions.", "Bandwidth"
                ),
                Quantity("bus_bandwidth_gb_s_low", "Least bandwidth", GB_PER_S, "Over the directions.", "Bandwidth"),
                Quantity("bus_bandwidth_gb_s_high", "Largest bandwidth", GB_PER_S, "Over the directions.", "Bandwidth"),
            ),
        ),
        "training_curves": (
            *_on_disk(*_ARM_KEYS),
            *_on_disk(COMPARED_WITH),
            *_plain(EPOCH_NUMBER, SEEDS, DIVERGED),
            *_interval(TRAINING_LOSS, TEST_ACCURACY),
            *_plain(EPOCH_OF_ARM),
        ),
        "training_order": (
            *_on_disk(
                STRATEGY,
                SET_EPOCH,
                _count("orders", "Orders", "Of workers and epochs but the first.", "Training"),
                _count("repeated", "Repeated", "Orders that are that of the epoch before.", "Training"),
                replace(SEEN_BEFORE, definition="Mean over orders."),
                replace(SAME_PLACE, definition="Mean over orders."),
            ),
        ),
        "costs": (
            *_on_disk(
                _text("measured", "Measured", "Timing, communication (collectives too) or training.", "Time"),
                RECORDS,
                GPU_SECONDS,
            ),
        ),
        "origins": (
            *_plain(RECORD_KIND),
            *_on_disk(ENVIRONMENT),
            *_plain(HOST, COMMIT),
            *_on_disk(DIRTY),
            *_plain(
                DATASET_SOURCE,
                RECORDS,
                _text("first", "First started", "When the first cell started.", unit=UTC),
                _text("last", "Last finished", "When the last cell finished.", unit=UTC),
                _text("jobs", "Jobs", "The scheduler's numbers."),
                _count("throttled", "Throttled", "Records whose clocks were held down."),
                _count("disturbed", "With other processes", "Records with processes of others on the devices."),
            ),
        ),
        "absences": (
            *_on_disk(
                STATUS, REASON, _count("configurations", "Configurations", "That have no number for this reason.")
            ),
        ),
        "answer": (
            *_on_disk(*_KEYS, RANGES),
            *_interval(
                SPEEDUP,
                Quantity(
                    "end_to_end_speedup",
                    "Speedup, end-to-end",
                    MULTIPLES,
                    "With the DataLoader in the clock.",
                    "Speedup",
                ),
                EFFICIENCY,
                Quantity(
                    "gpu_s_over_one",
                    "{device}-seconds of an epoch over those on 1 {device}",
                    MULTIPLES,
                    "N·T(N,b) / T(1,b), which is one over the efficiency.",
                    "Speedup",
                ),
                MFU,
                Quantity(
                    "energy_over_one",
                    "Energy of an epoch over that on 1 {device}",
                    MULTIPLES,
                    "By the GPUs' own counters, of other runs.",
                    "Time",
                ),
                views=(),
            ),
        ),
        "causes": (
            *_on_disk(
                _text("scaling", "Scaling", "Held fixed: the batch per device (weak) or the global batch.", "Speedup"),
                *_KEYS,
            ),
            *_on_disk(_count("order", "Order", "Of the causes of a configuration, the first one 0.", "Causes")),
            *_plain(
                _text("cause", "Cause", "By its name in diagnoses; `nothing` and `unknown` are answers.", "Causes")
            ),
            *_on_disk(
                _text(
                    "is_reason", "Reason", "Whether it takes enough of the step, surely more than nothing.", "Causes"
                ),
                _text("is_told", "In the answer", "Whether the page's answer for these devices tells it.", "Causes"),
            ),
            *_interval(
                Quantity("cost_s", "Cost", MILLISECONDS, "What it adds to a step.", "Causes"),
                Quantity("share", "Share of the step", PERCENT, "The cost over the whole step.", "Causes", digits=2),
                Quantity("whole_s", "Whole step", MILLISECONDS, "N·b·T / D, with loading if measured.", "Causes"),
                Quantity(
                    "efficiency",
                    "1 {device} alone over the whole step",
                    PERCENT,
                    "The plain step on one device, batches in memory, over the whole step.",
                    "Causes",
                ),
            ),
            *_on_disk(_text("remedy", "Remedy", "What was tried, or predicted without it.", "Causes")),
            *_on_disk(replace(BATCH, column="larger_batch_per_gpu", label="Larger batch per {device}")),
            *_interval(
                Quantity(
                    "predicted_saving_s", "Predicted saving", MILLISECONDS, "Of a step, without trying.", "Causes"
                ),
                Quantity("saving_s", "Saving", MILLISECONDS, "Of a step, with what was measured.", "Causes"),
                Quantity("graph_saving_s", "Saving of a CUDA graph", MILLISECONDS, "Of a variant's step.", "Causes"),
                views=(),
            ),
            *_interval(
                Quantity("end_to_end_s", "Loader and step", MILLISECONDS, "Evidence: of a step.", "Causes"),
                Quantity("dp_s", "DataParallel's step", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("training_s", "DDP's step", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("no_op_hook_s", "DDP's step without allreduce", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("loader_at_best_s", "Loader at its best", MILLISECONDS, "Evidence: of a step.", "Causes"),
                Quantity("alone_s", "Plain step", MILLISECONDS, "Evidence: on one device.", "Causes"),
                Quantity("alone_large_s", "Plain step, larger batch", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("alone_reference_s", "Plain step, global batch", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("allreduce_s", "Allreduce of the gradient alone", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("not_captured_s", "Step before its capture", MILLISECONDS, "Evidence.", "Causes"),
                Quantity("bus_gb_s", "Bus bandwidth", GB_PER_S, "Evidence: of the largest allreduce.", "Causes"),
                views=(),
            ),
            *_on_disk(
                Quantity("copy_gb_s", "Plain copy", GB_PER_S, "Evidence: of the slowest pair of devices.", "Causes"),
                Quantity("nominal_gb_s", "Link, data sheet", GB_PER_S, "Evidence.", "Causes"),
                Quantity("gradient_bytes", "Gradient", MB, "Evidence.", "Causes"),
                _count("loader_workers", "Loader workers", "Evidence: of a training process.", "Causes"),
                _text("captured_variant", "Captured variant", "The one that a CUDA graph is tried on.", "Causes"),
                _text("graph_variant", "Variant with the graph", "It differs in the graph alone.", "Causes"),
                replace(GPUS, column="graph_gpus", label="{Devices} of the graph"),
                _text("not_seen", "Not seen", "Causes that the study measured nothing of.", "Causes"),
            ),
        ),
        "advice": (
            *_on_disk(
                _text("problem", "Problem", "What could be done otherwise.", "Advice"),
                STRATEGY,
                GPUS,
                BATCH,
                replace(BATCH, column="used_batch_per_gpu", label="Batch that is used"),
                SCOPE,
                ENVIRONMENT,
                _text("used", "Used", "The strategy, variant or arm that is used.", "Advice"),
                _text("better", "Better", "The one to use in its place.", "Advice"),
                _count("on_gpus", "{Devices} of the better one", "Where these are others.", "Advice"),
                RANGES,
            ),
            *_interval(
                Quantity("used_s", "Time of what is used", SECONDS, "Of an epoch, or of a training.", "Advice"),
                Quantity("better_s", "Time of the better one", SECONDS, "Of an epoch, or of a training.", "Advice"),
                Quantity(
                    "saving",
                    "Saving",
                    PERCENT,
                    "1 less the better one's time, or device-seconds, over what is used.",
                    "Advice",
                    digits=2,
                ),
                views=(),
            ),
            *_on_disk(
                _text("saves", "Saves", "What the saving is a part of.", "Advice"),
                _text("evidence", "Evidence", "The table that the times are of.", "Advice"),
                replace(GPU_SECONDS, column="used_gpu_s", label="{Device}-seconds of what is used"),
                replace(GPU_SECONDS, column="better_gpu_s", label="{Device}-seconds of the better one"),
                _text("without_remedies", "Without remedies", "The arm that has none and is the same.", "Training"),
                replace(TEST_ACCURACY, column="without_accuracy", label="Its test accuracy"),
                replace(TEST_ACCURACY, column="used_accuracy", label="Test accuracy of what is used"),
                replace(TEST_ACCURACY, column="better_accuracy", label="Test accuracy of the better one"),
                _count("tuned_trials", "Trials of the search", "Of the search that found the recipe.", "Training"),
                _text("tuned_on", "Recipe chosen on", "Empty where no recipe was searched.", "Training"),
            ),
        ),
        "counts": (
            *_on_disk(
                _text("what", "What", "The claim."),
                _count("number", "Number", "Rows for which it holds."),
                _count("of", "Of", "Rows that were asked."),
            ),
        ),
    }
)

# A figure that published studies alone have.
ALTERNATIVE_SPEEDUP = replace(SPEEDUP, column="speedup_alternative", label="Alternative speedup")

_BY_COLUMN: Mapping[str, Quantity] = MappingProxyType(
    # Where tables mean different things by a column, its first table has the general meaning.
    {
        column.quantity.column: column.quantity
        for columns in reversed(list(TABLES.values()))
        for column in reversed(columns)
    }
)


def quantity(column: str, table: str = "") -> Quantity:
    """The quantity of a column, as the `table` means it where one is named. Raises DpscaleError for an unknown one."""
    found = next((known.quantity for known in TABLES.get(table, ()) if known.quantity.column == column), None)
    if found is None and not table:
        found = _BY_COLUMN.get(column)
    if found is None:
        raise DpscaleError(f"no quantity is called {column}{f' in the table {table}' if table else ''}")
    return found


def columns_of_view(view: str, table: str) -> Iterator[Column]:
    """The columns of `table` that the page's table `view` shows, in the order of the file."""
    for column in TABLES[table]:
        if view in ((table,) if column.views is None else column.views):
            yield column
