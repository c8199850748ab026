"""Times and speedups, of a study's own settings and of its variants, and what they rest on."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    BLOCKS,
    EFFICIENCY,
    ENVIRONMENT,
    EPOCH,
    FULL_STEPS,
    GB,
    GPU_SECONDS,
    HOST,
    IS_HEADLINE,
    MB,
    MFU,
    MILLISECONDS,
    MULTIPLES,
    NODES,
    OTHER_RUNS,
    PARAMETERS,
    PERCENT,
    REASON,
    RESTS_ON,
    RUN,
    RUNS,
    SECONDS,
    SERVERS,
    SPEEDUP,
    STATUS,
    STEP,
    STEPS_PER_EPOCH,
    TFLOP_PER_S,
    THROUGHPUT,
    UTC,
    VARIANT,
    column,
)
from dpscale.tables.row import OfConfiguration, Place, Row

SCALING = column("Scaling", "`weak`: b is fixed. `strong`: B is fixed.", words=("weak", "strong"))
N = column("Timings", "Timings that the figure rests on.")
SERVER = column("Server", "Number of the server: GPUs that were used together are of one.")
PEAK_MEMORY = column("Peak memory", "Most bytes that torch had allocated on a device.", GB)
UNITS = column("Units", "Servers, or runs of one server: of the two times the fewer that one rests on.")


class OfComparison(Place):
    """A configuration beside one device."""

    status: str = STATUS
    reason: str = REASON
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    blocks: int | None = BLOCKS
    rests_on: str = RESTS_ON
    other_runs: bool | None = OTHER_RUNS


class TimesRow(Place):
    """Epoch time, step time and throughput of every configuration, with 95 % intervals, and memory; one
    without a number says in ``status`` and ``reason`` why.

    Those of several devices are over their own runs, those of one device over every run that timed one alone.
    """

    status: str = STATUS
    reason: str = REASON
    runs: int | None = RUNS.shown
    servers: int | None = SERVERS
    n: int | None = N.but(label="Timed epochs").shown
    rests_on: str = RESTS_ON
    epoch_s: Figure = EPOCH.shown
    gpu_s: Figure = GPU_SECONDS.but(definition="N·T(N,b).").shown
    loader_processes: int | None = column(
        "Loader processes", "DataLoader processes of all training processes together."
    )
    step_s: Figure = STEP.shown
    images_per_s: Figure = THROUGHPUT.shown
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    steps_per_epoch: int | None = STEPS_PER_EPOCH.shown
    peak_memory_bytes: float = PEAK_MEMORY.shown
    mfu: Figure = MFU.shown
    nodes: int | None = NODES


class SpeedupRow(OfComparison):
    """Speedup and efficiency of every configuration over one GPU: weak scaling at the same batch per GPU, strong
    scaling at the same global batch.
    """

    scaling: str = SCALING.shown
    servers: int | None = SERVERS
    borrowed_from: int | None = column(
        "Borrowed from",
        "Other configurations whose spread is part of the speedup's interval, which rests on two servers or runs.",
    )
    epoch_s: Figure = EPOCH.but(definition="T(N,b) of the blocks of this row.")
    baseline_epoch_s: Figure = column("Epoch time on one", "T(1,b), or T(1,B), of the blocks of this row.", SECONDS)
    speedup: Figure = SPEEDUP.shown
    efficiency: Figure = EFFICIENCY.shown
    speedup_from_steps: Figure = column("Speedup from steps", "N·t(1,b) / t(N,b).", MULTIPLES).shown
    nodes: int | None = NODES


class ScopesRow(OfConfiguration):
    """Epoch time of every configuration that was measured with and without the DataLoader in the clock."""

    is_headline: bool | None = IS_HEADLINE
    rests_on: str = RESTS_ON
    epoch_s: Figure = EPOCH.but(label="Epoch time, compute").shown
    end_to_end_epoch_s: Figure = column("Epoch time, end-to-end", "With the DataLoader in the clock.", SECONDS).shown
    loader_s: Figure = column(
        "Longer by", "End-to-end less compute in each run that timed both: the mean of these differences.", SECONDS
    ).shown
    loading_ratio: Figure = column(
        "Longer", "End-to-end over compute in each run that timed both: the mean of these ratios.", MULTIPLES
    )


class StrategyPairsRow(Place):
    """Epoch times of two strategies on the same devices at the same batch, and how many times as fast the first one
    is.
    """

    other_strategy: str = column("Other strategy", "On the same devices at the same batch.")
    is_headline: bool | None = IS_HEADLINE
    rests_on: str = RESTS_ON
    epoch_s: Figure = EPOCH
    other_epoch_s: Figure = column("Epoch time of the other", "T(N,b) of the other.", SECONDS)
    ratio: float = column("Times as fast", "Epoch time of the other over this one.", MULTIPLES)


class RunsRow(Place):
    """Every run of every configuration as it was measured, under the study's own settings and under those of its
    variants, and its server.
    """

    variant: str = VARIANT.but(definition="The study's name for other settings; empty: its own.")
    run: int = RUN
    server: int | None = SERVER
    started_at: str = column("Started", "When the cell started.", UTC)
    n: int | None = N
    epoch_s: float = EPOCH.but(definition="Median of the run's timed epochs.")
    step_s: float = STEP.but(definition="Median over the run's timed epochs of the median full step.")


class BlocksRow(Place):
    """Every block: a run on a server beside one GPU there, with the drift of the baseline in its job, and the
    speedup.
    """

    scaling: str = SCALING
    block: str = column("Block", "The run, or runs that share a baseline.")
    server: int | None = SERVER
    epoch_s: float = EPOCH.but(definition="T(N,b) of the block.")
    baseline_epoch_s: float = column("Epoch time on one", "T(1,b) of the block.", SECONDS)
    drift: float = column(
        "Drift", "T(1,b) after the parallel epochs less that before, over their mean.", PERCENT, digits=2
    )
    has_drifted: bool | None = column("Drifted", "Whether the drift is above 2 %.")
    speedup: float = SPEEDUP
    efficiency: float = EFFICIENCY


class ServersRow(Row):
    """Every server beside the others, at the configurations that both timed: how many times as long its epochs take."""

    environment: str = ENVIRONMENT
    server: int | None = SERVER.shown
    host: str = HOST.shown
    gpu_uuids: str = column("{Devices} by UUID", "The beginnings of their UUIDs.")
    is_of_scheduler: bool | None = column("In jobs", "Whether a scheduler's jobs measured there.")
    configurations: int | None = column("Configurations", "That it shares with other servers.").shown
    rests_on: str = RESTS_ON
    times_as_long: Figure = column(
        "Times as long",
        "An epoch there over the median of the other servers': median over the configurations that they share.",
        MULTIPLES,
    ).shown


class _OfVariant(Row):
    variant: str = VARIANT


class _Changed(_OfVariant):
    changes: str = column("Changes", "Settings in place of the study's own.")


class VariantsRow(Place, _Changed):
    """Variants: the GPUs used otherwise. Every variant of the study beside the study's own settings."""

    variant: str = VARIANT.shown
    status: str = STATUS
    reason: str = REASON
    runs: int | None = RUNS
    rests_on: str = RESTS_ON
    full_steps_per_epoch: int | None = FULL_STEPS
    steps_per_epoch: int | None = STEPS_PER_EPOCH
    is_headline: bool | None = IS_HEADLINE
    epoch_s: Figure = EPOCH.shown
    step_s: Figure = STEP
    longer_step_s: Figure = column("Step longer by", "Step time less that of `base` on as many GPUs.", MILLISECONDS)
    images_per_s: Figure = THROUGHPUT.shown
    mfu: Figure = MFU.but(label="MFU, of the data sheet", definition="Of the peak of the variant's precision.").shown
    mfu_measured: Figure = column(
        "MFU, of the measured product",
        "The same, over N times what a large matrix product reaches on that GPU.",
        PERCENT,
    ).shown
    faster: Figure = column("Faster than base", "Epoch time of `base` on as many GPUs over its own.", MULTIPLES).shown
    faster_units: int | None = UNITS
    is_fastest: bool | None = column("Fastest", "Whether its mean epoch is the shortest of all variants.")
    run_deviation: float = column(
        "Runs differ by", "Standard deviation of the epoch time over runs, relative to it.", PERCENT, digits=2
    ).shown
    other_runs: bool | None = OTHER_RUNS.but(
        definition="Whether the variant's times, of one device and of these, rest on other runs than its speedup."
    )
    speedup: Figure = SPEEDUP.but(label="Speedup over 1 {device}", definition="Over one GPU of the variant.").shown
    preparation_s: Figure = column("Preparation", "To compile and capture, before any clock.", SECONDS).shown
    peak_memory_bytes: float = PEAK_MEMORY
    matrix_flop_per_s: Figure = column(
        "Matrix product", "FLOP/s of a large one, on the cell's first GPU, in the variant's precision.", TFLOP_PER_S
    )


class NetworksRow(SpeedupRow):
    """Networks: speedup, communication and memory on several GPUs with every network of the study, its own where others
    were measured too."""

    variant: str = VARIANT.but(label="Network")
    parameters: int | None = PARAMETERS
    gradient_bytes: float = column("Gradients", "Bytes of all gradients, K·s.", MB)
    communication_step_s: Figure = column(
        "Step longer by", "Communication by subtraction (E1): t(N,b) − t(1,b), every overhead included.", MILLISECONDS
    )
    peak_memory_bytes: float = PEAK_MEMORY


class OneGpuRow(Place, _OfVariant):
    """The fastest variant on one GPU beside every variant on more GPUs, at the same batch per GPU: an epoch of
    either, and how many times as fast the one GPU is.
    """

    variant: str = VARIANT.but(label="Variant on 1 {device}", definition="The fastest there at this batch.")
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    other_variant: str = column("Variant on more", "The study's name for the settings; `base` are its own.")
    rests_on: str = RESTS_ON
    units: int | None = UNITS
    epoch_s: Figure = EPOCH.but(label="Epoch on 1 {device}", definition="Of the fastest variant on one GPU.")
    other_epoch_s: Figure = column("Epoch on more", "Of the other variant on N GPUs.", SECONDS)
    ratio: Figure = column("Times as fast on 1 {device}", "Epoch on more over epoch on one.", MULTIPLES)
