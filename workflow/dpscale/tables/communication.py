"""Communication: inferred, measured, and where a step's time goes."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    GB_PER_S,
    KIB,
    MB,
    MICROSECONDS,
    MILLISECONDS,
    MULTIPLES,
    PERCENT,
    PLAIN,
    SECONDS,
    column,
)
from dpscale.tables.quantities import (
    BANDWIDTH,
    BANDWIDTH_AT_LEAST,
    BLOCKS,
    BUS_BANDWIDTH,
    COMMUNICATION,
    DRIFT,
    DRIFTED,
    E1,
    E2,
    E2_NO_SYNC,
    E3,
    E3_EXPOSED,
    E3_LEAST,
    E4_EXPOSED,
    E5,
    ENVIRONMENT,
    EPOCH,
    FULL_STEPS,
    GPUS,
    IS_HEADLINE,
    MESSAGE,
    NODES,
    ONE_MACHINE,
    PROFILER,
    REASON,
    REPEATABILITY,
    RUNS,
    SERVERS,
    STATUS,
    STEP,
    STEPS_PER_EPOCH,
    N,
)
from dpscale.tables.row import EnvironmentPoint, Place, Row


class CommunicationRow(Place):
    """Communication time of every configuration of several GPUs: inferred by subtraction (E1), and estimated
    independently (E2 to E5).
    """

    status: str = STATUS
    reason: str = REASON
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    blocks: int | None = BLOCKS
    drift: float = DRIFT
    drifted: int | None = DRIFTED
    one_machine: str = ONE_MACHINE
    epoch_s: float = EPOCH.on("communication")
    compute_s: float = column("Compute time", SECONDS, "Of an epoch: T(1,b)/N.", "Communication").on("communication")
    communication_s: Figure = COMMUNICATION.on("communication")
    communication_share: float = column(
        "Share of the epoch", PERCENT, "Communication time over the epoch time.", "Communication"
    ).on("communication")
    step_s: float = STEP.but(label="Step, headline").on("estimates")
    communication_step_s: Figure = E1.on("communication", "estimates")
    ablation_step_s: Figure = E2.on("estimates")
    no_sync_step_s: Figure = E2_NO_SYNC.on("estimates")
    profiler_step_s: Figure = E3.on("estimates")
    profiler_exposed_step_s: Figure = E3_EXPOSED.on("estimates")
    profiler_least_step_s: Figure = E3_LEAST.on("estimates")
    logger_exposed_step_s: Figure = E4_EXPOSED.on("estimates")
    isolated_step_s: Figure = E5.on("estimates")
    training_step_s: Figure = column(
        "Step, here", MILLISECONDS, "The step beside which E2 was timed.", "Communication"
    ).on("estimates")
    profiled_step_s: Figure = column(
        "Step, profiled", MILLISECONDS, "The step while it was profiled.", "Communication"
    ).on("estimates")
    profiler: str = PROFILER.on("estimates")
    estimates_apart: float = column(
        "Estimates apart",
        MULTIPLES,
        "Largest over smallest of the estimates above zero with their intervals.",
        "Communication",
    )
    beyond_profiler_s: float = column("E1 less E3", MILLISECONDS, "What E1 counts and E3 does not.", "Communication")
    waiting_step_s: float = column("Waiting", MILLISECONDS, "E3 less E3 of least waiting.", "Communication")
    profiler_slows_by: float = column(
        "Profiling adds", PERCENT, "Profiled step over the step, less 1.", "Communication"
    )


class BandwidthRow(Place):
    """Bytes of the allreduce, the bandwidth inferred from them and from the communication time, and its share of the
    bandwidth measured alone.
    """

    status: str = STATUS
    reason: str = REASON
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    blocks: int | None = BLOCKS
    one_machine: str = ONE_MACHINE
    parameters: int | None = column("Parameters", PLAIN, "K, trainable ones.")
    allreduce_bytes_per_step: float = column("Allreduce per step", MB, "V = 2·(N−1)/N·K·s, a ring.", "Bandwidth").on(
        "bandwidth"
    )
    steps_per_epoch: int | None = STEPS_PER_EPOCH.on("bandwidth")
    communication_s: Figure = COMMUNICATION.on("bandwidth")
    bandwidth_gb_s: Figure = BANDWIDTH.on("bandwidth")
    profiler_bandwidth_gb_s: Figure = column(
        "Bandwidth from the profiler's time", GB_PER_S, "V over E3, for ddp that of least waiting.", "Bandwidth"
    ).on("bandwidth")
    bus_bandwidth_gb_s: Figure = BUS_BANDWIDTH.but(label="Bus bandwidth, measured").on("bandwidth")
    utilisation: Figure = column(
        "Utilisation", PERCENT, "Bandwidth over the measured bus bandwidth.", "Utilisation and MFU"
    ).on("bandwidth")
    bandwidth_gb_s_at_least: float = BANDWIDTH_AT_LEAST
    root_link_bytes_per_step: float = column(
        "Through {device} 0's links per step",
        MB,
        "What DataParallel moves: 2·K·s, buffers, images out and outputs in.",
        "Bandwidth",
    ).on("bandwidth")
    gradient_bytes: float = column("Whole gradient", KIB, "K·s, the message of an allreduce.", "Bandwidth")


class LadderRow(EnvironmentPoint):
    """What every rung from one GPU alone to the whole step adds to the one before it, in seconds, by intervention:
    unprofiled steps in turns. Steps are t(1,b) of the timing cells, times the rung's ratio to one GPU alone.
    """

    rung: str = column("Rung", PLAIN, "What runs, by its name in the records.", "Communication").on("ladder")
    order: int = column("Order", PLAIN, "Place on the ladder; 0 is one GPU alone.", "Communication")
    step_s: Figure = column(
        "Step", MILLISECONDS, "t(1,b), times the rung's ratio to one GPU alone in its own rounds.", "Communication"
    ).on("ladder")
    adds: str = column("What it adds", PLAIN, "What the rung does beyond the one before it.", "Communication").on(
        "ladder"
    )
    difference_s: Figure = column(
        "Difference", MILLISECONDS, "The rung's step less that of the rung before.", "Communication"
    ).on("ladder")
    share: float = column(
        "Share of the step",
        PERCENT,
        "The difference over the whole step; of the first rung, its step over the whole one.",
        "Communication",
        digits=3,
    ).on("ladder")
    beyond_alone_s: Figure = column(
        "More than alone", MILLISECONDS, "The rung's step less that of the first rung.", "Communication"
    )
    repeatability: float = REPEATABILITY.but(
        definition="Standard deviation of the rung's step within a process, over its mean. It is no interval."
    ).on("ladder")
    runs: int | None = RUNS
    one_machine: str = ONE_MACHINE


class StepsRow(EnvironmentPoint):
    """Where a profiled step goes, for every GPU: compute, exposed communication, copies and idle time, in seconds."""

    device: int = column("{device}", PLAIN, "Number of the device.").on("steps")
    profiler: str = PROFILER.on("steps")
    compute_s: float = column("Compute", MILLISECONDS, "Kernels that compute.", "Communication").on("steps")
    communication_s: float = column(
        "Communication, exposed", MILLISECONDS, "Communication while nothing computes.", "Communication"
    ).on("steps")
    copy_s: float = column(
        "Copies from and to the host", MILLISECONDS, "Copies while nothing else runs.", "Communication"
    ).on("steps")
    idle_s: float = column("Idle", MILLISECONDS, "Nothing runs on the device.", "Communication").on("steps")
    parts_s: float = column("Step, profiled", MILLISECONDS, "The sum of these parts.", "Communication").on("steps")
    hidden_communication_s: float = column(
        "Communication, hidden", MILLISECONDS, "Communication while something computes.", "Communication"
    ).on("steps")
    step_s: float = STEP.but(label="Step, by the host's clock", definition="Of the same profiled block.")
    difference: float = column(
        "Parts against the step", PERCENT, "Sum of the parts over the step, less 1.", "Communication"
    )
    compute_share: float = column("Share of compute", PERCENT, "The part over the sum of the parts.", "Communication")
    communication_share: float = column(
        "Share of communication", PERCENT, "The part over the sum of the parts.", "Communication"
    )
    copy_share: float = column("Share of copy", PERCENT, "The part over the sum of the parts.", "Communication")
    idle_share: float = column("Share of idle", PERCENT, "The part over the sum of the parts.", "Communication")


class CollectivesRow(Row):
    """Time and bandwidth of collectives and of copies between GPUs with nothing else running, by size of message."""

    operation: str = column("Operation", PLAIN, "The collective, or a copy between two devices.", "Bandwidth").on(
        "collectives"
    )
    gpus: int = GPUS.on("collectives")
    message_bytes: int | None = MESSAGE.on("collectives")
    environment: str = ENVIRONMENT
    runs: int | None = RUNS
    servers: int | None = SERVERS
    n: int | None = N
    one_machine: str = ONE_MACHINE
    time_s: Figure = column("Time", MICROSECONDS, "Time of one call: mean over runs.", "Bandwidth").on("collectives")
    repeatability: float = REPEATABILITY
    bus_bandwidth_gb_s: Figure = BUS_BANDWIDTH.on("collectives")
    use: str = column("For", PLAIN, "The messages of a training that have this size.", "Bandwidth").on("collectives")
    source: int | None = column("From", PLAIN, "Device that sends.")
    target: int | None = column("To", PLAIN, "Device that receives.")
    nodes: int | None = NODES


class PeerCopiesRow(Row):
    """Bandwidth of copies from one device to another: the median over all directed pairs, the least and the most."""

    gpus: int = GPUS
    environment: str = ENVIRONMENT
    directions: int | None = column("Directions", PLAIN, "Directed pairs of devices.", "Bandwidth")
    message_bytes: int | None = MESSAGE
    bus_bandwidth_gb_s: Figure = BUS_BANDWIDTH.but(
        label="Median bandwidth", definition="Of a copy, over the directions."
    )
