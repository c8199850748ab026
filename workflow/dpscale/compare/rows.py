"""The tables of a comparison, all of them a file: a row class each, and what its rows say.

Of a class with several bases, the columns of the last one come first in the file.
"""

from collections.abc import Mapping
from typing import Any

from dpscale.formulas.figure import Figure
from dpscale.tables.answer import WORTH
from dpscale.tables.column import PERCENT, PLAIN, SECONDS, TIMES, UTC, column
from dpscale.tables.quantities import (
    ARM,
    BATCH,
    BLOCKS,
    EFFICIENCY,
    EPOCH,
    GLOBAL_BATCH,
    GPUS,
    MESSAGE,
    ONE_MACHINE,
    RECORDS,
    SCOPE,
    SERVERS,
    SPEEDUP,
    STATUS,
    STRATEGY,
)
from dpscale.tables.row import Row
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.timing import SpeedupRow

_WITH_STATUS = "Its state there: `ok`, or why it has no figure; `not planned` where the study never asked for it."


class OfStudy(Row):
    """A study, which is held against the first one."""

    study: str = column("Study", PLAIN, "The name that it has beside the others.")


class AtPoint(OfStudy):
    """A configuration in a scope."""

    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    scope: str = SCOPE


class AtScaling(OfStudy):
    """The way to read a point."""

    scaling: str = SpeedupRow.columns()["scaling"].on()


class AtMessage(OfStudy):
    """A message of a collective, or a copy between two devices."""

    operation: str = column("Operation", PLAIN, "The collective, or a copy between two devices.", "Bandwidth")
    gpus: int = GPUS
    message_bytes: int | None = MESSAGE
    source: int | None = column("From", PLAIN, "Device that sends.")
    target: int | None = column("To", PLAIN, "Device that receives.")


class AtArm(OfStudy):
    """An arm of the training."""

    arm: str = ARM


class OfBoth(Row):
    """A figure of both studies. The range of two runs is no interval, and so is not among its ends."""

    quantity: str = column("Figure", PLAIN, "The column that is compared.")
    first_status: str = column("State in the first", PLAIN, _WITH_STATUS)
    first_reason: str = column("Reason in the first", PLAIN, "What is to be said of that.")
    first: Figure = column("First", PLAIN, "The first study's figure, in the unit of its own table.")
    second_status: str = column("State", PLAIN, _WITH_STATUS)
    second_reason: str = column("Reason", PLAIN, "What is to be said of that.")
    second: Figure = column("Second", PLAIN, "The study's own figure.")


class ByRatio(Row):
    """What is compared by a ratio."""

    ratio: Figure = column("Over that of the first", TIMES, "Of times, the first study's over the study's own.")

    @property
    def effect(self) -> Figure:
        return self.ratio


class ByDifference(Row):
    """What is compared by a difference."""

    difference: Figure = column("Less that of the first", PLAIN, "The study's figure less the first one's.")

    @property
    def effect(self) -> Figure:
        return self.difference


class ByChange(Row):
    """What a ratio of times is in percent of the first study's."""

    change: Figure = column("Change", PERCENT, "The study's time over the first one's, less 1.")


class WithOutcome(Row):
    """What the interval tells."""

    outcome: str = column("Beyond the intervals", PLAIN, "On which side of no change the whole interval lies, if any.")


class ComparedTimesRow(WithOutcome, ByChange, ByRatio, OfBoth, AtPoint):
    """Epoch and step times of every configuration."""


class ComparedSpeedupRow(WithOutcome, ByRatio, OfBoth, AtPoint, AtScaling):
    """Speedups of every configuration."""


class ComparedCommunicationRow(WithOutcome, ByDifference, OfBoth, AtPoint):
    """Every estimate of a step's communication, by configuration."""


class ComparedBandwidthRow(WithOutcome, ByRatio, OfBoth, AtPoint):
    """Bandwidths of a step, by configuration."""


class ComparedCollectivesRow(WithOutcome, ByRatio, OfBoth, AtMessage):
    """Bus bandwidths of messages with nothing else running."""


class ComparedTrainingRow(WithOutcome, ByDifference, OfBoth, AtArm):
    """What arms came to after their last epoch."""


ComparedRow = (
    ComparedTimesRow
    | ComparedSpeedupRow
    | ComparedCommunicationRow
    | ComparedBandwidthRow
    | ComparedCollectivesRow
    | ComparedTrainingRow
)


class ComparedOutcomesRow(OfStudy):
    """How often a quantity came to which outcome, over all scopes and in each."""

    table: str = column("Table", PLAIN, "The table of the figures.")
    quantity: str = column("Figure", PLAIN, "The column that is compared.")
    scope: str = SCOPE
    number: int | None = column("Compared", PLAIN, "Figures that both studies have.")
    above: int | None = column("Above", PLAIN, "Whose whole interval lies above no change.")
    below: int | None = column("Below", PLAIN, "Whose whole interval lies below no change.")
    not_apart: int | None = column("Not apart", PLAIN, "Whose interval holds no change.")
    no_interval: int | None = column("No interval", PLAIN, "Without an interval of the ratio or difference.")
    with_interval: int | None = column("With an interval", PLAIN, "With one.")
    by_chance: float = column("By chance", PLAIN, "Of these, how many lie beyond it where nothing differs.")
    ratio_median: float = column("Median ratio", TIMES, "The median of the ratios.")
    ratio_least: float = column("Least ratio", TIMES, "The least of them.")
    ratio_most: float = column("Largest ratio", TIMES, "The largest of them.")


class ComparedGroupsRow(OfStudy):
    """The epoch time of a strategy on so many devices in a scope, pooled over batches, against the first study's."""

    strategy: str = STRATEGY
    gpus: int = GPUS
    scope: str = SCOPE
    status: str = STATUS
    batches: str = column("Batches", PLAIN, "Those that are pooled.")
    batches_left_out: str = column("Batches left out", PLAIN, "Those of one study alone, or of fewer runs.")
    first_runs: int | None = column("Runs of the first", PLAIN, "Its runs that have every batch.")
    second_runs: int | None = column("Runs", PLAIN, "The study's own.")
    first_runs_left_out: str = column("Runs of the first left out", PLAIN, "Its runs that lack a batch.")
    second_runs_left_out: str = column("Runs left out", PLAIN, "The study's own.")
    first_s: float = column("Mean of the first", SECONDS, "Geometric mean of its epoch times.")
    second_s: float = column("Mean", SECONDS, "The study's own.")
    change: Figure = column("Change of the epoch time", PERCENT, "The study's over the first one's, less 1.")
    outcome: str = column("Verdict", PLAIN, "Slower, faster, or no difference shown.")
    tolerance: float = column("Tolerance", PERCENT, "By how much a group may be slower.")
    beyond_tolerance: str = column("Beyond the tolerance", PLAIN, "Whether the whole interval lies beyond it.")


class ComparedEnvironmentsRow(OfStudy):
    """A property of where, by which code and when two studies were measured, and whether it differs."""

    property: str = column("Property", PLAIN, "The column of the studies' table.")
    first: str = column("First", PLAIN, "That of the first study.")
    second: str = column("Second", PLAIN, "The study's own.")
    differs: bool | None = column("Compared", PLAIN, "Whether they differ; nothing where that says nothing.")


def _of_environment(name: str) -> Any:
    return EnvironmentsRow.column(name)


class ComparedStudiesRow(OfStudy):
    """What measured a study, by which code and when."""

    gpus: int | None = column("{Devices} per job, at most", PLAIN, "The most that one record has.")
    device_model: str = _of_environment("device_model")
    cpu_model: str = _of_environment("cpu_model")
    cpu_cores: str = _of_environment("cpu_cores")
    links: str = _of_environment("links")
    driver: str = _of_environment("driver")
    cuda: str = _of_environment("cuda")
    cudnn: str = _of_environment("cudnn")
    nccl: str = _of_environment("nccl")
    torch: str = _of_environment("torch")
    torchvision: str = _of_environment("torchvision")
    python: str = _of_environment("python")
    variables: str = _of_environment("variables")
    dataset_sha256: str = _of_environment("dataset_sha256")
    measurement_versions: str = _of_environment("measurement_versions")
    gpu_uuids: str = column("Devices by UUID", PLAIN, "The devices themselves.")
    git_commits: str = column("Commits of the code that measured", PLAIN, "All of them, shortened.")
    git_dirty: str = column("Changes beyond the commit", PLAIN, "Whether some record's code had such.")
    hosts: str = _of_environment("hosts")
    records: int | None = RECORDS
    first_started_at: str = column("First started", UTC, "When the first cell started.")
    last_finished_at: str = column("Last finished", UTC, "When the last cell finished.")


class ComparedFiguresRow(OfStudy):
    """A study's own answer: what one device and every number of devices give."""

    gpus: int = GPUS
    strategy: str = STRATEGY
    batch_per_gpu: int = BATCH
    scope: str = SCOPE
    blocks: int | None = BLOCKS
    servers: int | None = SERVERS
    one_machine: str = ONE_MACHINE
    epoch_s: Figure = EPOCH
    speedup: Figure = SPEEDUP
    efficiency: Figure = EFFICIENCY
    worth: str = WORTH


class ComparedRecordsRow(OfStudy):
    """How many records a study has, how many of its own are left out as others have them too, and how many were not
    used for what is wrong with them."""

    records: int | None = RECORDS
    same_records: int | None = column("Same records", PLAIN, "Left out: another study has the same file.")
    not_used: int | None = column("Not used", PLAIN, "Damaged, or of other settings.")


# By name, in the order in which people read them. A file has `compared_` before its table's name.
COMPARED_TABLES: Mapping[str, type[Row]] = {
    "studies": ComparedStudiesRow,
    "figures": ComparedFiguresRow,
    "groups": ComparedGroupsRow,
    "times": ComparedTimesRow,
    "speedup": ComparedSpeedupRow,
    "communication": ComparedCommunicationRow,
    "bandwidth": ComparedBandwidthRow,
    "collectives": ComparedCollectivesRow,
    "training": ComparedTrainingRow,
    "outcomes": ComparedOutcomesRow,
    "environments": ComparedEnvironmentsRow,
    "records": ComparedRecordsRow,
}


def group_of(row: AtPoint | ComparedGroupsRow | ComparedFiguresRow) -> tuple[str, int, str]:
    """Strategy, devices and scope."""
    return row.strategy, row.gpus, row.scope
