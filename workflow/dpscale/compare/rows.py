"""The tables of a comparison, all of them a file: a row class each, and what its rows say."""

from collections.abc import Mapping

from dpscale.formulas.figure import Figure
from dpscale.tables.column import PERCENT, UTC, Column, column
from dpscale.tables.quantities import (
    ARM,
    BATCH,
    GLOBAL_BATCH,
    GPUS,
    MESSAGE,
    SCOPE,
    STATUS,
    STRATEGY,
)
from dpscale.tables.row import Row
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import SpeedupRow

_WITH_STATUS = "Its state there: `ok`, or why it has no figure; `not planned` where the study never asked for it."


class OfStudy(Row):
    """A study, which is held against the first one."""

    study: str = column("Study", "The name that it has beside the others.")


class ComparedGroupsRow(OfStudy):
    """The epoch time of a strategy on so many devices in a scope, pooled over batches, against the first study's."""

    strategy: str = STRATEGY
    gpus: int = GPUS
    scope: str = SCOPE
    status: str = STATUS
    batches: str = column("Batches", "Those that are pooled.")
    batches_left_out: str = column("Batches left out", "Those of one study alone, or of fewer runs.")
    first_runs: int | None = column("Runs of the first", "Its runs that have every batch.")
    second_runs: int | None = column("Runs of the study", "Its own.")
    change: Figure = column("Change of the epoch time", "The study's over the first one's, less 1.", PERCENT)
    outcome: str = column("Verdict", "Slower, faster, or no difference shown.")
    slower_at: str = column(
        "Slower at", "Batches at which this alone is sure, by 95 % intervals that hold for all batches of the group."
    )
    faster_at: str = column("Faster at", "The same of faster.")
    tolerance: float = column("Tolerance", "By how much a group may be slower.", PERCENT)
    beyond_tolerance: str = column(
        "Beyond the tolerance", "Whether the whole interval lies beyond it, over all batches or at one of them."
    )
    beyond_at: str = column("Beyond the tolerance at", "Batches at which this alone is sure.")


class ComparedFiguresRow(OfStudy):
    """A figure of the first study and of another one, and what they differ by: a change of what is above zero, and
    otherwise a difference.
    """

    table: str = column("Table", "Of each study, that the figures are from.")
    quantity: str = column("Figure", "The column of that table.")
    scaling: str = SpeedupRow.columns()["scaling"].but()
    scope: str = SCOPE
    strategy: str = STRATEGY
    operation: str = column("Operation", "The collective, or a copy between two devices.")
    gpus: int | None = GPUS
    batch_per_gpu: int | None = BATCH
    global_batch: int | None = GLOBAL_BATCH
    message_bytes: int | None = MESSAGE
    source: int | None = column("From", "Device that sends.")
    target: int | None = column("To", "Device that receives.")
    arm: str = ARM
    first_status: str = column("State in the first", _WITH_STATUS)
    first: Figure = column("First", "The first study's figure, in the unit of its own table.")
    second_status: str = column("State", _WITH_STATUS)
    second: Figure = column("Second", "The study's own figure.")
    change: Figure = column("Change", "The study's figure over the first one's, less 1.", PERCENT)
    difference: Figure = column("Difference", "The study's figure less the first one's.")
    outcome: str = column("Verdict", "On which side of no change the whole interval lies, if on one.")

    @property
    def described(self) -> Column:
        """What its table says of the figure."""
        return TABLES[self.table].column(self.quantity)


class ComparedStudiesRow(EnvironmentsRow, OfStudy):
    """What measured a study, by which code and when, and how many records it has: used, and damaged ones."""

    gpus: int | None = column("{Devices} per job, at most", "The most that one record has.")
    gpu_uuids: str = column("Devices by UUID", "The devices themselves.")
    git_commits: str = column("Commits of the code that measured", "All of them, shortened.")
    git_dirty: str = column("Changes beyond the commit", "Whether some record's code had such.")
    not_used: int | None = column("Not used", "Damaged, or of other settings.")
    first_started_at: str = column("First started", "When the first cell started.", UTC)
    last_finished_at: str = column("Last finished", "When the last cell finished.", UTC)


# By name, in the order in which people read them. A file has `compared_` before its table's name.
COMPARED_TABLES: Mapping[str, type[Row]] = {
    "studies": ComparedStudiesRow,
    "groups": ComparedGroupsRow,
    "figures": ComparedFiguresRow,
}
