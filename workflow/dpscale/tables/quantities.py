"""Columns that several tables have, or that are spoken of where no table is: their labels, units and definitions."""

from dpscale.tables.column import (
    GB_PER_S,
    IMAGES,
    IMAGES_PER_S,
    JOULES,
    MILLISECONDS,
    MULTIPLES,
    PERCENT,
    PLAIN,
    SECONDS,
    column,
)

# What several tables hold.
STRATEGY = column("Strategy", PLAIN, "How several devices train together; `single` is one device alone.")
GPUS = column("{Devices}", PLAIN, "N, the devices that train together.")
BATCH = column("Batch per {device}", IMAGES, "b, the images that a device takes in a step.")
GLOBAL_BATCH = column("Global batch", IMAGES, "B = N·b, the images of a step.")
SCOPE = column("Scope", PLAIN, "Whether the DataLoader is in the clock (end_to_end) or not (compute).", "Time")
ENVIRONMENT = column("Environment", PLAIN, "Letter of the hardware, software and images that measured.")
STATUS = column("Status", PLAIN, "`ok`, or the reason in a word why there is no figure.")
REASON = column("Reason", PLAIN, "What is to be said of the status, in a sentence.")
RUNS = column("Runs", PLAIN, "Independent processes that measured it.", "Statistics")
N = column("Timings", PLAIN, "Timings that the figure rests on.", "Statistics")
BLOCKS = column(
    "Blocks", PLAIN, "Runs beside the baseline of their own GPU, that the figure is the mean of.", "Statistics"
)
ONE_MACHINE = column(
    "One machine",
    PLAIN,
    "Figures of this row whose 95 % interval is over the runs of one machine.",
    "Statistics",
)
REPEATABILITY = column(
    "Repeatability",
    PERCENT,
    "Standard deviation of the timings inside a process, over their mean. It says nothing of another process.",
    "Statistics",
    digits=2,
)
DRIFT = column(
    "Drift",
    PERCENT,
    "T(1,b) after the parallel epochs less that before, over their mean; of several blocks the largest.",
    "Statistics",
    digits=2,
)
DRIFTED = column("Blocks that drifted", PLAIN, "Blocks whose drift is above 2 %.", "Statistics")
SERVERS = column("Servers", PLAIN, "Different servers that measured it.", "Statistics")
SERVER = column("Server", PLAIN, "Number of the server: GPUs that were used together are of one.", "Statistics")
LOADER_PROCESSES = column("Loader processes", PLAIN, "DataLoader processes of all training processes together.", "Time")
ARM = column("Arm", PLAIN, "Name of a training with its settings.", "Training")
SEED = column("Seed", PLAIN, "Seeds weights, order and augmentation.", "Training")
RUN = column("Run", PLAIN, "Number of the repeat.", "Statistics")
EPOCH_NUMBER = column("Epoch", PLAIN, "Number of the epoch.", "Training")
COMPARED_WITH = column("Baseline", PLAIN, "The arm that this one is compared with.", "Training")
SEEDS = column("Seeds", PLAIN, "Seeds that were trained.", "Training")
DIVERGED = column("Diverged", PLAIN, "Seeds whose loss was not finite.", "Training")
SET_EPOCH = column("set_epoch", PLAIN, "Whether the sampler is told the epoch.", "Training")
SYNC_BATCH_NORM = column("SyncBatchNorm", PLAIN, "Whether workers share statistics.", "Training")
NODES = column("Nodes", PLAIN, "Nodes that its devices are spread over.", "Time")
RECORDS = column("Records", PLAIN, "Cells that were measured.")
RECORD_KIND = column("Kind", PLAIN, "What the cell measured.")
HOST = column("Host", PLAIN, "Where the cell ran.")
COMMIT = column("Commit", PLAIN, "Of the code that measured.")
DIRTY = column("Dirty", PLAIN, "Whether the code had changes beyond its commit.")
DATASET_SOURCE = column("Images", PLAIN, "Where the images are from.")
EPOCH = column("Epoch time", SECONDS, "Time of an epoch, T(N,b): mean over runs.", "Time")
STEP = column("Step time", MILLISECONDS, "Time of a full step, t(N,b): mean over runs.", "Time")
THROUGHPUT = column("Throughput", IMAGES_PER_S, "Images of an epoch over its time, D / T.", "Time")
STEPS_PER_EPOCH = column("Steps per epoch", PLAIN, "⌈D / (N·b)⌉.", "Time")
FULL_STEPS = column("Full steps per epoch", PLAIN, "⌊D / (N·b)⌋.", "Time")
IS_HEADLINE = column(
    "In findings and verdict", PLAIN, "Whether an epoch has ten full steps; others are in tables alone.", "Time"
)
ENERGY = column("Energy", JOULES, "Energy of all GPUs, by their own counters.", "Time")
SPEEDUP = column(
    "Speedup",
    MULTIPLES,
    "T(1,b) / T(N,b) with b fixed (weak), T(1,B) / T(N,B/N) with B fixed (strong).",
    "Speedup",
    over="blocks",
)
EFFICIENCY = column("Efficiency", PERCENT, "Speedup over the number of devices, S / N.", "Speedup", over="blocks")
COMMUNICATION = column(
    "Communication time",
    SECONDS,
    "Of an epoch, by subtraction (E1): T(N,b) − T(1,b)/N, every overhead included.",
    "Communication",
    over="blocks",
)
BANDWIDTH = column("Bandwidth", GB_PER_S, "Bytes of a ring allreduce over the communication time (E1).", "Bandwidth")
BANDWIDTH_AT_LEAST = column(
    "Bandwidth, at least",
    GB_PER_S,
    "What follows where the communication time may be zero: bytes over the high end of its interval.",
    "Bandwidth",
    digits=3,
)
BUS_BANDWIDTH = column(
    "Bus bandwidth", GB_PER_S, "Bytes of the message over its time, times the factor of nccl-tests.", "Bandwidth"
)
MESSAGE = column("Bytes", PLAIN, "Bytes of the message.", "Bandwidth")
TRAINING_LOSS = column("Training loss", PLAIN, "Mean cross-entropy of an epoch.", "Training")
TRAINING_ACCURACY = column("Training accuracy", PERCENT, "Share of right answers over an epoch's images.", "Training")
TEST_LOSS = column("Test loss", PLAIN, "Mean cross-entropy over all test images.", "Training")
TEST_ACCURACY = column("Test accuracy", PERCENT, "Share of right answers over all test images.", "Training")
SEEN_BEFORE = column("Images it had in the epoch before", PERCENT, "Share of a worker's images.", "Training", digits=3)
SAME_PLACE = column("Images at the same place as before", PERCENT, "Share of a worker's images.", "Training", digits=3)
GPU_SECONDS = column("{device}-seconds", PLAIN, "Time, times the devices that were held.", "Time")
EPOCH_OF_ARM = column("Epoch time", SECONDS, "Time of a training epoch.", "Training")
VARIANT = column("Variant", PLAIN, "The study's name for the settings; `base` are its own.", "Variants")
MFU = column("MFU", PERCENT, "FLOP of an image times images/s, over N times the GPU's peak.", "Utilisation and MFU")
MFU_MEASURED = column(
    "MFU, of the measured product",
    PERCENT,
    "The same, over N times what a large matrix product reaches on that GPU.",
    "Utilisation and MFU",
)
FASTER = column(
    "Faster than base",
    MULTIPLES,
    "Epoch time of `base` on as many GPUs over its own.",
    "Variants",
)
UNITS = column(
    "Units", PLAIN, "Servers, or runs of one server: of the two times the fewer that one rests on.", "Statistics"
)
RUN_DEVIATION = column(
    "Runs differ by", PERCENT, "Standard deviation of the epoch time over runs, relative to it.", "Variants", digits=2
)
# Communication of a step, estimated in five ways.
E1 = column(
    "E1 subtraction",
    MILLISECONDS,
    "The step less that on one device: t(N,b) − t(1,b).",
    "Communication",
    short="E1 subtraction",
    over="blocks",
)
E2 = column(
    "E2 ablation",
    MILLISECONDS,
    "The step with a hook in Python that calls allreduce, less the step with one that sends nothing. Version 1: "
    "the step itself, less the latter.",
    "Communication",
    short="E2 ablation",
)
E2_NO_SYNC = column(
    "E2 no_sync", MILLISECONDS, "The step less the same step under no_sync, without buckets too.", "Communication"
)
E3 = column(
    "E3 profiler, all",
    MILLISECONDS,
    "Union of the intervals of NCCL's kernels and of copies between devices, mean over devices.",
    "Communication",
    short="E3 all",
)
E3_EXPOSED = column(
    "E3 profiler, exposed",
    MILLISECONDS,
    "The part of it during which nothing computes: at most the step, unprofiled, less the device's compute.",
    "Communication",
    short="E3 exposed",
)
E3_LEAST = column(
    "E3 profiler, all, least waiting",
    MILLISECONDS,
    "The same on the device that communicated least: it waited least for others.",
    "Communication",
    short="E3 least wait",
)
E4_EXPOSED = column(
    "E4 DDP's logger, exposed",
    MILLISECONDS,
    "What of DDP's own times of its buckets lies after the backward pass.",
    "Communication",
    short="E4 logger",
)
E5 = column(
    "E5 isolated collectives",
    MILLISECONDS,
    "The step's messages, those of buffers too, with nothing else running.",
    "Communication",
    short="E5 alone",
)
PROFILER = column(
    "Profiler",
    PLAIN,
    "`ok`; `distorts`: the profiled step is more than 5 % longer than the unprofiled one, and its shares are left"
    " out; `artefact`: it shows more exposed communication than there is room for, and is bounded.",
    "Communication",
)
DATASET_SHA256 = column("Images, SHA-256", PLAIN, "Checksum of the decoded images.")
ALTERNATIVE_SPEEDUP = column(
    "Alternative speedup",
    MULTIPLES,
    "T(1,b) / T(N,b) with b fixed (weak), T(1,B) / T(N,B/N) with B fixed (strong).",
    "Speedup",
)

# The estimates of a step's communication, in the order in which people read them.
ESTIMATES_OF_STEP = (
    "communication_step_s", "ablation_step_s", "no_sync_step_s", "profiler_exposed_step_s", "profiler_step_s",
    "profiler_least_step_s", "logger_exposed_step_s", "isolated_step_s",
)  # fmt: skip
# The software whose versions tell environments apart.
SOFTWARE = ("driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python")
