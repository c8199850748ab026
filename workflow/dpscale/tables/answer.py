"""What is concluded from the other tables."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import IMAGES, MILLISECONDS, MULTIPLES, PERCENT, PLAIN, SECONDS, column
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
    ONE_MACHINE,
    SCOPE,
    SERVERS,
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
    """Why more devices are not faster, for every configuration: causes, and what each costs of a step."""

    scaling: str = column("Scaling", PLAIN, "Held fixed: the batch per device (weak) or the global batch.", "Speedup")
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    scope: str = SCOPE
    environment: str = ENVIRONMENT
    order: int = column("Order", PLAIN, "Of the causes of a configuration, the first one 0.", "Causes")
    cause: str = column(
        "Cause", PLAIN, "By its name in diagnoses; `nothing`, `no_certain_loss`, `unknown` are answers.", "Causes"
    ).on("causes")
    is_reason: bool | None = column(
        "Reason", PLAIN, "Whether it takes enough of the step, where more devices surely lose time.", "Causes"
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


class AdviceRow(Place):
    """What to do on the most devices, at the batch of the answer: what is used, what is better, and the part of the
    time that it saves. Where the better one was chosen from several, its interval holds for all of them.
    """

    problem: str = column("Problem", PLAIN, "What could be done otherwise.", "Advice")
    used: str = column("Used", PLAIN, "The strategy, variant or batch that is used.", "Advice")
    better: str = column("Better", PLAIN, "The one to use in its place.", "Advice")
    on_gpus: int | None = column("{Devices} of the better one", PLAIN, "How many it runs on.", "Advice")
    chosen_from: int | None = column("Chosen from", PLAIN, "So many were compared.", "Choosing")
    used_s: float = column("Time of what is used", SECONDS, "Of an epoch.", "Advice")
    better_s: float = column("Time of the better one", SECONDS, "Of an epoch: that time, less the saving.", "Advice")
    saving: Figure = column("Saving", PERCENT, "1 less the better one's time over what is used.", "Advice", digits=2)
    saving_gpu_s: Figure = column(
        "Saving of {device}-seconds", PERCENT, "The same of time times devices.", "Advice", digits=2
    )


class AnswerRow(Place):
    """The answer: what one device and every number of devices of the study give at the batch that was fixed before the
    data, and at which batch the most is gained.
    """

    asked_batch_per_gpu: int | None = column("Batch of the answer", IMAGES, "As the study fixes it.", "The answer")
    blocks: int | None = BLOCKS
    servers: int | None = SERVERS
    drift: float = DRIFT
    drifted: int | None = DRIFTED
    is_headline: bool | None = IS_HEADLINE
    one_machine: str = ONE_MACHINE
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
