"""Communication: inferred, measured, and where a step's time goes."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    BUS_BANDWIDTH,
    ENVIRONMENT,
    EPOCH,
    GB_PER_S,
    GPUS,
    KIB,
    MB,
    MICROSECONDS,
    MILLISECONDS,
    NODES,
    PARAMETERS,
    PERCENT,
    RESTS_ON,
    RUNS,
    SECONDS,
    SERVERS,
    STEP,
    STEPS_PER_EPOCH,
    column,
)
from dpscale.tables.row import OfConfiguration, Row
from dpscale.tables.timing import OfComparison

COMMUNICATION = column(
    "Communication time",
    "Of an epoch, by subtraction (E1): T(N,b) − T(1,b)/N, every overhead included.",
    SECONDS,
)


class CommunicationRow(OfComparison):
    """Communication time of every configuration of several GPUs: inferred by subtraction (E1), and estimated
    independently (E2, E3, E5).
    """

    epoch_s: float = EPOCH.but(definition="T(N,b) of the blocks of this row.").shown
    compute_s: float = column("Compute time", "Of an epoch: T(1,b)/N.", SECONDS).shown
    communication_s: Figure = COMMUNICATION.shown
    communication_share: float = column("Share of the epoch", "Communication time over the epoch time.", PERCENT).shown
    step_s: float = STEP.but(label="Step, headline", definition="t(N,b) of the blocks of this row.")
    communication_step_s: Figure = column(
        "E1 subtraction",
        "The step less that on one device: t(N,b) − t(1,b).",
        MILLISECONDS,
    ).shown
    ablation_step_s: Figure = column(
        "E2 ablation",
        "The step with a hook in Python that calls allreduce, less the step with one that sends nothing. Version 1: "
        "the step itself, less the latter.",
        MILLISECONDS,
    )
    profiler_step_s: Figure = column(
        "E3 profiler, all",
        "Union of the intervals of NCCL's kernels and of copies between devices, mean over devices.",
        MILLISECONDS,
    )
    profiler_exposed_step_s: Figure = column(
        "E3 profiler, exposed",
        "The part of it during which nothing computes; none where the profiler distorts the step.",
        MILLISECONDS,
    )
    profiler_least_step_s: Figure = column(
        "E3 profiler, all, least waiting",
        "The same on the device that communicated least: it waited least for others.",
        MILLISECONDS,
    )
    slower_computing_step_s: Figure = column(
        "E3 profiler, slower computing",
        "What kernels that compute take longer in the step than in one that sends nothing, mean over devices: the same "
        "kernels in both, added up.",
        MILLISECONDS,
    )
    isolated_step_s: Figure = column(
        "E5 isolated collectives",
        "The step's messages, those of buffers too, with nothing else running.",
        MILLISECONDS,
    )
    training_step_s: Figure = column("Step, here", "The step beside which E2 was timed.", MILLISECONDS)
    profiler: str = column(
        "Profiler",
        "`ok`; `distorts`: the profiled step is more than 5 % longer than the unprofiled one.",
    )


class BandwidthRow(OfComparison):
    """Bytes of the allreduce, the bandwidth inferred from them and from the communication time, and its share of the
    bandwidth measured alone.
    """

    parameters: int | None = PARAMETERS
    allreduce_bytes_per_step: float = column(
        "Allreduce per step",
        "V, what a GPU sends: 2·(N−1)/N·K·s by a ring (for dp as if by one), 3·(N−1)/N·K·s with fsdp; half of it where "
        "gradients are sent in bfloat16.",
        MB,
    ).shown
    steps_per_epoch: int | None = STEPS_PER_EPOCH.shown
    communication_s: Figure = COMMUNICATION.shown
    bandwidth_gb_s: Figure = column(
        "Bandwidth", "Bytes of a ring allreduce over the communication time (E1).", GB_PER_S
    ).shown
    bus_bandwidth_gb_s: Figure = BUS_BANDWIDTH.but(label="Bus bandwidth, measured").shown
    utilisation: Figure = column("Utilisation", "Bandwidth over the measured bus bandwidth.", PERCENT).shown
    bandwidth_gb_s_at_least: float = column(
        "Bandwidth, at least",
        "What follows where the communication time may be zero: bytes over the high end of its interval.",
        GB_PER_S,
        digits=3,
    )
    gradient_bytes: float = column("Whole gradient", "K·s, the message of an allreduce.", KIB)


class LadderRow(OfConfiguration):
    """The ladder from one GPU alone to the whole step, by intervention: the seconds that every rung adds to the one
    before it, of unprofiled steps in turns. Steps are t(1,b) of the timing cells, times the rung's ratio to one GPU
    alone.
    """

    rung: str = column("Rung", "What runs, by its name in the records.").shown
    order: int = column("Order", "Place on the ladder; 0 is one GPU alone.")
    step_s: Figure = column(
        "Step", "t(1,b), times the rung's ratio to one GPU alone in its own rounds.", MILLISECONDS
    ).shown
    adds: str = column("What it adds", "What the rung does beyond the one before it.").shown
    difference_s: Figure = column("Difference", "The rung's step less that of the rung before.", MILLISECONDS).shown
    share: float = column(
        "Share of the step",
        "The difference over the whole step; of the first rung, its step over the whole one.",
        PERCENT,
        digits=3,
    ).shown
    uneven_s: Figure = column(
        "Slowest less fastest {device}",
        "A step of the slowest {device} where none waits for another, less the fastest one's in the same rounds.",
        MILLISECONDS,
    )
    slowest: str = column("Slowest {device}", "Its rank, and its node where there are several.")
    runs: int | None = RUNS
    rests_on: str = RESTS_ON


class CollectivesRow(Row):
    """Time and bandwidth of collectives and of copies between GPUs with nothing else running, by size of message."""

    operation: str = column("Operation", "The collective, or a copy between two devices.").shown
    gpus: int = GPUS.shown
    message_bytes: int = column("Bytes", "Bytes of the message.").shown
    environment: str = ENVIRONMENT
    runs: int | None = RUNS
    servers: int | None = SERVERS
    rests_on: str = RESTS_ON
    time_s: Figure = column("Time", "Time of one call: mean over servers.", MICROSECONDS).shown
    bus_bandwidth_gb_s: Figure = BUS_BANDWIDTH.shown
    use: str = column("For", "The strategies whose step sends such a message.").shown
    source: int | None = column("From", "Device that sends.")
    target: int | None = column("To", "Device that receives.")
    nodes: int | None = NODES
