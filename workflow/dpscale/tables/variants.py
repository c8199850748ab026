"""Variants of a study's settings, and one GPU used well."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    EPOCHS,
    IMAGES_PER_S,
    JOULES_PER_EPOCH,
    MULTIPLES,
    PERCENT,
    SECONDS,
    TB_PER_S,
    TFLOP_PER_S,
    column,
)
from dpscale.tables.quantities import (
    ENERGY,
    EPOCH,
    FASTER,
    FULL_STEPS,
    IS_HEADLINE,
    MFU,
    MFU_MEASURED,
    OTHER_RUNS,
    PEAK_MEMORY,
    REASON,
    RESTS_ON,
    RUN_DEVIATION,
    RUNS,
    SPEEDUP,
    STATUS,
    STEPS_PER_EPOCH,
    THROUGHPUT,
    UNITS,
    VARIANT,
)
from dpscale.tables.row import Place, Row


class _OfVariant(Row):
    variant: str = VARIANT


class _Changed(_OfVariant):
    changes: str = column("Changes", "Settings in place of the study's own.")


class VariantsRow(Place, _Changed):
    """Variants: the GPUs used otherwise. Every variant of the study beside the study's own settings, and beside the
    limit of its GPU.
    """

    variant: str = VARIANT.shown
    status: str = STATUS
    reason: str = REASON
    runs: int | None = RUNS
    rests_on: str = RESTS_ON
    full_steps_per_epoch: int | None = FULL_STEPS
    steps_per_epoch: int | None = STEPS_PER_EPOCH
    is_headline: bool | None = IS_HEADLINE
    epoch_s: Figure = EPOCH.shown
    images_per_s: Figure = THROUGHPUT.shown
    mfu: Figure = MFU.but(label="MFU, of the data sheet", definition="Of the peak of the variant's precision.").shown
    mfu_measured: Figure = MFU_MEASURED.shown
    faster: Figure = FASTER.shown
    faster_units: int | None = UNITS
    is_fastest: bool | None = column("Fastest", "Whether its mean epoch is the shortest of all variants.")
    run_deviation: float = RUN_DEVIATION.shown
    other_runs: bool | None = OTHER_RUNS.but(
        definition="Whether the variant's times, of one device and of these, rest on other runs than its speedup."
    )
    speedup: Figure = SPEEDUP.but(label="Speedup over 1 {device}", definition="Over one GPU of the variant.").shown
    base_speedup: Figure = column("Speedup of base", "Of `base` on as many GPUs.", MULTIPLES)
    alone_faster: Figure = column("Faster on 1 {device}", "Than `base` on one GPU.", MULTIPLES)
    preparation_s: Figure = column("Preparation", "To compile and capture, before any clock.", SECONDS).shown
    saved_s: Figure = column("Saved", "Of an epoch, against `base`.", SECONDS)
    pays_from_epochs: Figure = column(
        "Preparation pays from", "Preparation over what an epoch saves against `base`, rounded up.", EPOCHS
    ).shown
    pays: str = column(
        "Pays",
        "`yes`: an epoch saves time against `base`, by its interval. `never`: it saves none. `undecided`: the "
        "interval holds zero, or there is none.",
    )
    energy_j: Figure = ENERGY.but(unit=JOULES_PER_EPOCH)
    peak_memory_bytes: float = PEAK_MEMORY
    matrix_flop_per_s: Figure = column(
        "Matrix product", "FLOP/s of a large one, on the cell's first GPU, in the variant's precision.", TFLOP_PER_S
    )
    copy_bytes_per_s: Figure = column("Copy", "Bytes read and written by a large copy in that GPU's memory.", TB_PER_S)
    limit_images_per_s: Figure = column(
        "Limit of the {device}", "Of all GPUs, without communication: 1 / (compute + memory).", IMAGES_PER_S
    )
    limit_share: Figure = column("Reached of it", "Throughput over this limit.", PERCENT)
    peak_source: str = column("Source of the peak", "The data sheet, or `unknown`.")


class OneGpuRow(Place, _OfVariant):
    """The fastest variant on one GPU beside every variant on more GPUs, at the same batch per GPU: an epoch of
    either, and whether the one GPU is as fast.
    """

    variant: str = VARIANT.but(label="Variant on 1 {device}", definition="The fastest there at this batch.").shown
    full_steps_per_epoch: int | None = FULL_STEPS
    is_headline: bool | None = IS_HEADLINE
    other_variant: str = column("Variant on more", "The study's name for the settings; `base` are its own.")
    rests_on: str = RESTS_ON
    units: int | None = UNITS
    epoch_s: Figure = EPOCH.but(label="Epoch on 1 {device}", definition="Of the fastest variant on one GPU.").shown
    other_epoch_s: Figure = column("Epoch on more", "Of the other variant on N GPUs.", SECONDS).shown
    ratio: Figure = column("Times as fast on 1 {device}", "Epoch on more over epoch on one.", MULTIPLES).shown
    as_fast: str = column(
        "As fast",
        "`holds`: the interval of the ratio lies at or above 1. `does not`: below. `undecided`: 1 is in it, or "
        "there is none.",
    ).shown
