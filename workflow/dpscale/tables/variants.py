"""Variants of a study's settings, and one GPU used well."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    EPOCHS,
    GB,
    IMAGES_PER_S,
    JOULES_PER_EPOCH,
    MULTIPLES,
    PERCENT,
    PLAIN,
    SECONDS,
    TB_PER_S,
    TFLOP_PER_S,
    column,
)
from dpscale.tables.quantities import (
    BATCH,
    ENERGY,
    ENVIRONMENT,
    EPOCH,
    FASTER,
    FULL_STEPS,
    GLOBAL_BATCH,
    GPUS,
    IS_HEADLINE,
    MFU,
    MFU_MEASURED,
    ONE_MACHINE,
    PROFILER,
    REASON,
    RUN_DEVIATION,
    RUNS,
    SCOPE,
    SPEEDUP,
    STATUS,
    STEP,
    STEPS_PER_EPOCH,
    STRATEGY,
    THROUGHPUT,
    UNITS,
    VARIANT,
)
from dpscale.tables.row import Row


class VariantsRow(Row):
    """The same GPUs, used otherwise: every variant of the study beside the study's own settings and beside the limit
    of its GPU.
    """

    variant: str = VARIANT.on("variants", "variant_limits")
    changes: str = column("Changes", PLAIN, "Settings in place of the study's own.", "Variants")
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    scope: str = SCOPE
    environment: str = ENVIRONMENT
    status: str = STATUS
    reason: str = REASON
    runs: int | None = RUNS
    one_machine: str = ONE_MACHINE
    full_steps_per_epoch: int | None = FULL_STEPS
    steps_per_epoch: int | None = STEPS_PER_EPOCH
    is_headline: bool | None = IS_HEADLINE
    epoch_s: Figure = EPOCH.on("variants")
    images_per_s: Figure = THROUGHPUT.on("variants", "variant_limits")
    mfu: Figure = MFU.but(label="MFU, of the data sheet", definition="Of the peak of the variant's precision.").on(
        "variants"
    )
    mfu_measured: Figure = MFU_MEASURED.on("variants")
    faster: Figure = FASTER.on("variants")
    faster_units: int | None = UNITS
    is_fastest: bool | None = column(
        "Fastest", PLAIN, "Whether its mean epoch is the shortest of all variants.", "Variants"
    )
    run_deviation: float = RUN_DEVIATION.on("variants")
    speedup: Figure = SPEEDUP.but(label="Speedup over 1 {device}", definition="Over one GPU of the variant.").on(
        "variants"
    )
    base_speedup: Figure = column("Speedup of base", MULTIPLES, "Of `base` on as many GPUs.", "Variants")
    alone_faster: Figure = column("Faster on 1 {device}", MULTIPLES, "Than `base` on one GPU.", "Variants")
    preparation_s: Figure = column("Preparation", SECONDS, "To compile and capture, before any clock.", "Variants").on(
        "variants"
    )
    saved_s: Figure = column("Saved", SECONDS, "Of an epoch, against `base`.", "Variants")
    pays_from_epochs: Figure = column(
        "Preparation pays from", EPOCHS, "Preparation over what an epoch saves against `base`, rounded up.", "Variants"
    ).on("variants")
    pays: str = column(
        "Pays",
        PLAIN,
        "`yes`: an epoch saves time against `base`, by its interval. `never`: it saves none. `undecided`: the "
        "interval holds zero, or there is none.",
        "Variants",
    )
    energy_j: Figure = ENERGY.but(unit=JOULES_PER_EPOCH)
    peak_memory_bytes: float = column("Peak memory", GB, "Most bytes that torch had allocated.", "Time")
    matrix_flop_per_s: Figure = column(
        "Matrix product",
        TFLOP_PER_S,
        "FLOP/s of a large one, on the cell's first GPU, in the variant's precision.",
        "Limit of a GPU",
    ).on("variant_limits")
    copy_bytes_per_s: Figure = column(
        "Copy", TB_PER_S, "Bytes read and written by a large copy in that GPU's memory.", "Limit of a GPU"
    ).on("variant_limits")
    limit_images_per_s: Figure = column(
        "Limit of the {device}",
        IMAGES_PER_S,
        "Of all GPUs, without communication: 1 / (compute + memory).",
        "Limit of a GPU",
    ).on("variant_limits")
    limit_share: Figure = column("Reached of it", PERCENT, "Throughput over this limit.", "Limit of a GPU").on(
        "variant_limits"
    )
    peak_source: str = column("Source of the peak", PLAIN, "The data sheet, or `unknown`.", "Utilisation and MFU")


class OneGpuRow(Row):
    """The fastest variant on one GPU beside every variant on more GPUs, at the same batch per GPU: an epoch of
    either, and whether the one GPU is as fast.
    """

    variant: str = VARIANT.but(label="Variant on 1 {device}", definition="The fastest there at this batch.").on(
        "one_gpu"
    )
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    scope: str = SCOPE
    environment: str = ENVIRONMENT
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    other_variant: str = column(
        "Variant on more", PLAIN, "The study's name for the settings; `base` are its own.", "Variants"
    )
    one_machine: str = ONE_MACHINE
    units: int | None = UNITS
    epoch_s: Figure = EPOCH.but(label="Epoch on 1 {device}", definition="Of the fastest variant on one GPU.").on(
        "one_gpu"
    )
    other_epoch_s: Figure = column("Epoch on more", SECONDS, "Of the other variant on N GPUs.", "Time").on("one_gpu")
    ratio: Figure = column("Times as fast on 1 {device}", MULTIPLES, "Epoch on more over epoch on one.", "Variants").on(
        "one_gpu"
    )
    as_fast: str = column(
        "As fast",
        PLAIN,
        "`holds`: the interval of the ratio lies at or above 1. `does not`: below. `undecided`: 1 is in it, or "
        "there is none.",
        "Variants",
    ).on("one_gpu")


class KernelsRow(Row):
    """What fills a profiled step of one GPU, by class of kernels, for every variant: a witness, in shares of the
    profiled step.
    """

    variant: str = VARIANT.on("kernels")
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    environment: str = ENVIRONMENT
    runs: int | None = RUNS
    one_machine: str = ONE_MACHINE
    step_s: Figure = STEP.but(label="Step, profiled", definition="The step while it was profiled.").on("kernels")
    profiler_slows_by: float = column(
        "Profiling adds",
        PERCENT,
        "Profiled step over the run's own step, less 1; the median of the runs.",
        "Variants",
        digits=3,
    ).on("kernels")
    profiler: str = PROFILER.but(
        definition="`ok`; `distorts`: the profiled step is more than 5 % longer than the unprofiled one.",
        section="Variants",
    ).on("kernels")
    convolution_share: Figure = column(
        "Convolution", PERCENT, "Convolutions and matrix products.", "Variants", short="convolution", digits=3
    ).on("kernels")
    batch_norm_share: Figure = column(
        "Batch-norm",
        PERCENT,
        "Kernels of batch-norm, and reductions that hold some of it.",
        "Variants",
        short="batch-norm",
        digits=3,
    ).on("kernels")
    element_wise_share: Figure = column(
        "Element-wise",
        PERCENT,
        "Kernels that work point by point, and the optimiser's.",
        "Variants",
        short="element-wise",
        digits=3,
    ).on("kernels")
    copy_share: Figure = column(
        "Copies", PERCENT, "Copies, casts and changes of layout.", "Variants", short="copies", digits=3
    ).on("kernels")
    other_share: Figure = column("Other", PERCENT, "All other kernels.", "Variants", short="other", digits=3).on(
        "kernels"
    )
    idle_share: Figure = column("Idle", PERCENT, "Nothing runs on the device.", "Variants", short="idle", digits=3).on(
        "kernels"
    )
