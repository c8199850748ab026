"""What is concluded from the other tables."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import GB_PER_S, IMAGES, MB, MILLISECONDS, MULTIPLES, PERCENT, PLAIN, SECONDS, column
from dpscale.tables.quantities import (
    BATCH,
    BLOCKS,
    DRIFT,
    DRIFTED,
    EFFICIENCY,
    ENVIRONMENT,
    EPOCH,
    GLOBAL_BATCH,
    GPUS,
    IS_HEADLINE,
    RANGES,
    RUNS,
    SCOPE,
    SPEEDUP,
    STRATEGY,
)
from dpscale.tables.row import Place, Row

WORTH = column(
    "Worth it",
    PLAIN,
    "By the interval of the speedup: `worth it` above N / 2, `not` below, `undecided` where it holds N / 2; "
    "`not confirmed` where there is none.",
    "The answer",
)


class CausesRow(Row):
    """Why more devices are not faster, for every configuration: causes, what each costs of a step, what that rests
    on, and what was saved without it.
    """

    scaling: str = column("Scaling", PLAIN, "Held fixed: the batch per device (weak) or the global batch.", "Speedup")
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    scope: str = SCOPE
    environment: str = ENVIRONMENT
    order: int = column("Order", PLAIN, "Of the causes of a configuration, the first one 0.", "Causes")
    cause: str = column("Cause", PLAIN, "By its name in diagnoses; `nothing` and `unknown` are answers.", "Causes").on(
        "causes"
    )
    is_reason: bool | None = column(
        "Reason", PLAIN, "Whether it takes enough of the step, surely more than nothing.", "Causes"
    )
    is_told: bool | None = column(
        "In the answer", PLAIN, "Whether the page's answer for these devices tells it.", "Causes"
    )
    cost_s: Figure = column("Cost", MILLISECONDS, "What it adds to a step.", "Causes").on("causes")
    share: Figure = column("Share of the step", PERCENT, "The cost over the whole step.", "Causes", digits=2).on(
        "causes"
    )
    whole_s: Figure = column("Whole step", MILLISECONDS, "N·b·T / D, with loading if measured.", "Causes").on("causes")
    efficiency: Figure = column(
        "1 {device} alone over the whole step",
        PERCENT,
        "The plain step on one device, batches in memory, over the whole step.",
        "Causes",
    ).on("causes")
    remedy: str = column("Remedy", PLAIN, "What was tried, or predicted without it.", "Causes")
    larger_batch_per_gpu: int | None = column(
        "Larger batch per {device}", IMAGES, "b, the images that a device takes in a step."
    )
    predicted_saving_s: Figure = column("Predicted saving", MILLISECONDS, "Of a step, without trying.", "Causes")
    saving_s: Figure = column("Saving", MILLISECONDS, "Of a step, with what was measured.", "Causes")
    graph_saving_s: Figure = column("Saving of a CUDA graph", MILLISECONDS, "Of a variant's step.", "Causes")
    end_to_end_s: Figure = column("Loader and step", MILLISECONDS, "Evidence: of a step.", "Causes")
    dp_s: Figure = column("DataParallel's step", MILLISECONDS, "Evidence.", "Causes")
    training_s: Figure = column("DDP's step", MILLISECONDS, "Evidence.", "Causes")
    no_op_hook_s: Figure = column("DDP's step without allreduce", MILLISECONDS, "Evidence.", "Causes")
    loader_at_best_s: Figure = column("Loader at its best", MILLISECONDS, "Evidence: of a step.", "Causes")
    alone_s: Figure = column("Plain step", MILLISECONDS, "Evidence: on one device.", "Causes")
    alone_large_s: Figure = column("Plain step, larger batch", MILLISECONDS, "Evidence.", "Causes")
    alone_reference_s: Figure = column("Plain step, global batch", MILLISECONDS, "Evidence.", "Causes")
    allreduce_s: Figure = column("Allreduce of the gradient alone", MILLISECONDS, "Evidence.", "Causes")
    not_captured_s: Figure = column("Step before its capture", MILLISECONDS, "Evidence.", "Causes")
    bus_gb_s: Figure = column("Bus bandwidth", GB_PER_S, "Evidence: of the largest allreduce.", "Causes")
    copy_gb_s: float = column("Plain copy", GB_PER_S, "Evidence: of the slowest pair of devices.", "Causes")
    nominal_gb_s: float = column("Link, data sheet", GB_PER_S, "Evidence.", "Causes")
    gradient_bytes: float = column("Gradient", MB, "Evidence.", "Causes")
    loader_workers: int | None = column("Loader workers", PLAIN, "Evidence: of a training process.", "Causes")
    captured_variant: str = column("Captured variant", PLAIN, "The one that a CUDA graph is tried on.", "Causes")
    graph_variant: str = column("Variant with the graph", PLAIN, "It differs in the graph alone.", "Causes")
    graph_gpus: int | None = column("{Devices} of the graph", PLAIN, "N, the devices that train together.")
    not_seen: str = column("Not seen", PLAIN, "Causes that the study measured nothing of.", "Causes")


class AdviceRow(Row):
    """What to do, for every strategy on every number of devices: what is used, what is better, and the part of the
    time that it saves, with its interval.
    """

    problem: str = column("Problem", PLAIN, "What could be done otherwise.", "Advice")
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    used_batch_per_gpu: int | None = column(
        "Batch that is used", IMAGES, "b, the images that a device takes in a step."
    )
    scope: str = SCOPE
    environment: str = ENVIRONMENT
    used: str = column("Used", PLAIN, "The strategy, variant or arm that is used.", "Advice")
    better: str = column("Better", PLAIN, "The one to use in its place.", "Advice")
    on_gpus: int | None = column("{Devices} of the better one", PLAIN, "Where these are others.", "Advice")
    ranges: str = RANGES
    used_s: Figure = column("Time of what is used", SECONDS, "Of an epoch, or of a training.", "Advice")
    better_s: Figure = column("Time of the better one", SECONDS, "Of an epoch, or of a training.", "Advice")
    saving: Figure = column(
        "Saving", PERCENT, "1 less the better one's time, or device-seconds, over what is used.", "Advice", digits=2
    )
    saves: str = column("Saves", PLAIN, "What the saving is a part of.", "Advice")
    evidence: str = column("Evidence", PLAIN, "The table that the times are of.", "Advice")
    used_gpu_s: float = column(
        "{Device}-seconds of what is used", PLAIN, "Time, times the devices that were held.", "Time"
    )
    better_gpu_s: float = column(
        "{Device}-seconds of the better one", PLAIN, "Time, times the devices that were held.", "Time"
    )
    without_remedies: str = column("Without remedies", PLAIN, "The arm that has none and is the same.", "Training")
    without_accuracy: float = column(
        "Its test accuracy", PERCENT, "Share of right answers over all test images.", "Training"
    )
    used_accuracy: float = column(
        "Test accuracy of what is used", PERCENT, "Share of right answers over all test images.", "Training"
    )
    better_accuracy: float = column(
        "Test accuracy of the better one", PERCENT, "Share of right answers over all test images.", "Training"
    )
    tuned_trials: int | None = column("Trials of the search", PLAIN, "Of the search that found the recipe.", "Training")
    tuned_on: str = column("Recipe chosen on", PLAIN, "Empty where no recipe was searched.", "Training")


class AnswerRow(Place):
    """The answer: what one device and every number of devices of the study give at the batch that was fixed before the
    data, and at which batch the most is gained.
    """

    asked_batch_per_gpu: int | None = column("Batch of the answer", IMAGES, "As the study fixes it.", "The answer")
    runs: int | None = RUNS
    blocks: int | None = BLOCKS
    drift: float = DRIFT
    drifted: int | None = DRIFTED
    is_headline: bool | None = IS_HEADLINE
    ranges: str = RANGES
    epoch_s: Figure = EPOCH
    speedup: Figure = SPEEDUP
    efficiency: Figure = EFFICIENCY
    gpu_s_over_one: Figure = column(
        "{device}-seconds of an epoch over those on 1 {device}",
        MULTIPLES,
        "N·T(N,b) / T(1,b), which is one over the efficiency.",
        "The answer",
        over="blocks",
    )
    limit: float = column("Limit", MULTIPLES, "More devices are worth it above this speedup: N / 2.", "The answer")
    worth: str = WORTH
    end_to_end_speedup: Figure = column(
        "Speedup, end-to-end", MULTIPLES, "With the DataLoader in the clock.", "Speedup", over="blocks"
    )
    end_to_end_worth: str = WORTH.but(definition="The same with the DataLoader in the clock.")
    faster_strategy: str = column("Faster strategy", PLAIN, "One whose speedup is surely above this.", "The answer")
    faster_speedup: Figure = column("Its speedup", MULTIPLES, "At the same batch.", "Speedup", over="blocks")
    best_batch_per_gpu: int | None = column(
        "Best batch", IMAGES, "Of this strategy, the one with the largest speedup.", "Choosing"
    )
    chosen_from: int | None = column("Chosen from", PLAIN, "So many batches.", "Choosing")
    best_speedup: Figure = column(
        "Speedup at the best batch", MULTIPLES, "Its interval holds for all of them at once.", "Choosing"
    )


class CountsRow(Row):
    """Of how many rows every claim of the page holds, and how many rows were asked."""

    what: str = column("What", PLAIN, "The claim.")
    number: int | None = column("Number", PLAIN, "Rows for which it holds.")
    of: int | None = column("Of", PLAIN, "Rows that were asked.")
