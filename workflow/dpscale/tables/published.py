"""Other people's figures: every cell, what each quantity was computed by, and what calls for a second look."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import PLAIN, column
from dpscale.tables.row import Row

_SECTION = "Audit"
_STUDY = column("Study", PLAIN, "Of others, by the name of its file.", _SECTION)
_QUANTITY = column("Quantity", PLAIN, "What was published.", _SECTION)
_BATCH = column("Batch per GPU", PLAIN, "b; empty in strong scaling.", _SECTION)
_GLOBAL_BATCH = column("Global batch", PLAIN, "B; empty in weak scaling.", _SECTION)
_GPUS = column("GPUs", PLAIN, "N.", _SECTION)
_VERDICT = column("Verdict", PLAIN, "Whether conventions give the figures.", _SECTION)
_CONVENTION = column("Convention", PLAIN, "The formula that gives them.", _SECTION)


class AuditRow(Row):
    """Figures of published studies as printed, and as the definitions of this project give them for the printed
    times.
    """

    study: str = _STUDY
    quantity: str = _QUANTITY
    batch_per_gpu: int | None = _BATCH
    global_batch: int | None = _GLOBAL_BATCH
    gpus: int = _GPUS
    published: str = column("Published", PLAIN, "With the digits that were printed.", _SECTION)
    published_unit: str = column("Its unit", PLAIN, "As published.", _SECTION)
    verdict: str = column("Verdict", PLAIN, "Whether a convention gives the figure.", _SECTION)
    why: str = column("Why", PLAIN, "Which convention, or why none.", _SECTION)
    recomputed: Figure = column("Recomputed", PLAIN, "By its column's convention, from the printed times.", _SECTION)
    corrected: Figure = column("By our definition", PLAIN, "From the printed times.", _SECTION)
    unit: str = column("Unit", PLAIN, "Of the corrected figure.", _SECTION)
    reason: str = column("Reason", PLAIN, "Why there is no corrected figure.", _SECTION)
    caution: str = column("Caution", PLAIN, "What is to be said of it.", _SECTION)
    warnings: str = column("Warnings", PLAIN, "The checks that the cell fails.", _SECTION)


class AuditFindingsRow(Row):
    """Which convention gives the figures that a published study printed, and how sure that is."""

    study: str = _STUDY
    title: str = column("Title", PLAIN, "What the study is.", _SECTION)
    quantity: str = _QUANTITY
    verdict: str = _VERDICT
    convention: str = _CONVENTION
    supporting_cells: int | None = column("Supporting cells", PLAIN, "Cells that it gives.", _SECTION)
    independent_cells: int | None = column(
        "Independent cells", PLAIN, "Those of them that say something new.", _SECTION
    )
    conventions_tried: int | None = column("Tried", PLAIN, "Conventions that were tried.", _SECTION)
    conventions_fitting: int | None = column("Fitting", PLAIN, "Conventions that fit.", _SECTION)
    chance: float = column("Chance", PLAIN, "Probability that one fits by chance.", _SECTION)
    sentence: str = column("Sentence", PLAIN, "What is said of it.", _SECTION)


class AuditWarningsRow(Row):
    """What is inconsistent in a published study's figures."""

    study: str = _STUDY
    check: str = column("Check", PLAIN, "What was asked.", _SECTION)
    severity: str = column("Severity", PLAIN, "How bad it is.", _SECTION)
    quantity: str = _QUANTITY
    batch_per_gpu: int | None = _BATCH
    global_batch: int | None = _GLOBAL_BATCH
    gpus: int = _GPUS
    detail: str = column("Detail", PLAIN, "The numbers.", _SECTION)
