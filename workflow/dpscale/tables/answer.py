"""What is concluded from the other tables."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    EFFICIENCY,
    EPOCH,
    IMAGES,
    IS_HEADLINE,
    MILLISECONDS,
    MULTIPLES,
    OTHER_RUNS,
    PERCENT,
    RESTS_ON,
    SECONDS,
    SPEEDUP,
    column,
)
from dpscale.tables.row import Place, Row
from dpscale.vocabulary.causes import ANSWERS
from dpscale.vocabulary.states import UNITS, VERDICTS

WORTH = column(
    "Worth it",
    "By the interval of the speedup: `worth it` above the limit, `not` below. Otherwise it is not decided: `probably` "
    "and `probably not` where every machine, or run, lies on one side; `undecided` where they lie on both; "
    "`not confirmed` of a single one.",
    words=VERDICTS,
)


class CausesRow(Place):
    """Why more devices are not faster, for every configuration: causes, and what each costs of a step."""

    order: int = column("Order", "Of the causes of a configuration, the first one 0.")
    cause: str = column(
        "Cause",
        "By its name in diagnoses; `nothing`, `no_certain_loss`, `unknown` are answers.",
        words=ANSWERS,
        is_needed=True,
    ).shown
    is_reason: bool | None = column(
        "Reason", "Whether it takes enough of the step, where more devices surely lose time."
    )
    rests_on: str = RESTS_ON
    cost_s: Figure = column("Cost", "What it adds to a step.", MILLISECONDS).shown
    share: Figure = column("Share of the step", "The cost over the whole step.", PERCENT, digits=2).shown
    whole_s: Figure = column("Whole step", "N·b·T / D, with loading if measured.", MILLISECONDS).shown
    efficiency: Figure = column(
        "1 {device} alone over the whole step",
        "The plain step on one device, batches in memory, over the whole step.",
        PERCENT,
    ).shown
    is_by_steps: bool | None = column(
        "By steps", "Whether that is by the times of steps, whose interval is narrower, and not by those of epochs."
    )
    part: str = column("Largest part", "By intervention, of a step whose cause is `unknown`.")
    part_s: Figure = column("Time of that part", "Of a step.", MILLISECONDS)


class AdviceRow(Place):
    """Advice for the most devices, at the batch of the answer: what is used, what is better, and the part of the
    time that it saves. Where the better one was chosen from several, its interval holds for all of them.
    """

    problem: str = column("Problem", "What could be done otherwise.")
    used: str = column("Used", "The strategy, variant or batch that is used.")
    better: str = column("Better", "The one to use in its place.")
    on_gpus: int | None = column("{Devices} of the better one", "How many it runs on.")
    used_s: float = column("Time of what is used", "Of an epoch.", SECONDS)
    better_s: float = column("Time of the better one", "Of an epoch.", SECONDS)
    rests_on: str = RESTS_ON
    saving: Figure = column("Saving", "1 less the better one's time over what is used.", PERCENT, digits=2)
    saving_gpu_s: Figure = column("Saving of {device}-seconds", "The same of time times devices.", PERCENT, digits=2)


class AnswerRow(Place):
    """The answer: what one device and every number of devices of the study give at the batch that was fixed before the
    data; then the same with loading, where both scopes were measured.
    """

    asked_batch_per_gpu: int | None = column("Batch of the answer", "As the study fixes it.", IMAGES)
    is_headline: bool | None = IS_HEADLINE
    rests_on: str = RESTS_ON
    other_runs: bool | None = OTHER_RUNS
    epoch_s: Figure = EPOCH
    speedup: Figure = SPEEDUP
    efficiency: Figure = EFFICIENCY
    gpu_s_over_one: Figure = column(
        "{device}-seconds of an epoch over those on 1 {device}",
        "One over the efficiency: N·T(N,b) / T(1,b) in each run.",
        MULTIPLES,
    )
    twice_if_level: float = column(
        "Twice as many, level loss",
        "Speedup of twice as many {device}s if the share that is lost stays: 2·N times the efficiency. An assumption, "
        "not tested.",
        MULTIPLES,
    )
    twice_if_growing: float = column(
        "Twice as many, growing loss",
        "The same if the efficiency falls once more by as much as from half as many {device}s to these. Empty where it "
        "did not fall.",
        MULTIPLES,
    )
    worth_from: float = column("Worth from", "More devices are worth it from this efficiency on.", PERCENT)
    limit: float = column("Limit", "The same as a speedup.", MULTIPLES)
    worth: str = WORTH
    is_decided: bool | None = column("Decided", "Whether the interval lies on one side of the limit.")
    unit: str = column(
        "Unit", "What the speedup is the mean of: each `machine`, or each `run` of one machine.", words=UNITS
    )
    units: int | None = column("Units", "How many of them there are.")
    lowest: float = column("Lowest", "The least speedup of a unit.", MULTIPLES)
    highest: float = column("Highest", "The most of a unit.", MULTIPLES)
    units_below: int | None = column("Units below", "How many of them lie below the limit.")
    more_units: int | None = column(
        "More to decide",
        "So many more units would decide what is not decided, if value and spread stay. Empty where 20 in all would "
        "not.",
    )
    more_s: float = column(
        "Time to decide", "Measuring one cell after the other: of all these runs, or on each machine.", SECONDS
    )
    command: str = column("Command", "That measures these runs, or that on the next machine.")


class CountsRow(Row):
    """For every claim of the page: in how many rows it holds, and how many rows were asked."""

    claim: str = column("Claim", "The predicate, in words.")
    number: int | None = column("Number", "Rows for which it holds.")
    asked: int | None = column("Asked", "Rows, or pairs of rows, that were asked.")
