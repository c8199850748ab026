"""Other people's figures: every cell, what each quantity was computed by, and what calls for a second look."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from dpscale.formulas.figure import Figure
from dpscale.tables.column import column
from dpscale.tables.row import Row

_STUDY = column("Study", "Of others, by the name of its file.")
_QUANTITY = column("Quantity", "What was published.")
_BATCH = column("Batch per GPU", "b.")
_GPUS = column("GPUs", "N.")
_VERDICT = column("Verdict", "Whether conventions give the figures.")
_CONVENTION = column("Convention", "The formula that gives them.")


class AuditRow(Row):
    """Figures of published studies as printed, and as the definitions of this project give them for the printed
    times.
    """

    study: str = _STUDY
    quantity: str = _QUANTITY
    batch_per_gpu: int = _BATCH
    gpus: int = _GPUS
    published: str = column("Published", "With the digits that were printed.")
    published_unit: str = column("Its unit", "As published.")
    verdict: str = column("Verdict", "Whether a convention gives the figure.")
    why: str = column("Why", "Which convention, or why none.")
    recomputed: Figure = column("Recomputed", "By its column's convention, from the printed times.")
    corrected: Figure = column("By our definition", "From the printed times.")
    unit: str = column("Unit", "Of the corrected figure.")
    reason: str = column("Reason", "Why there is no corrected figure.")


class AuditFindingsRow(Row):
    """The convention that gives the figures that a published study printed, and how sure that is."""

    study: str = _STUDY
    title: str = column("Title", "What the study is.")
    quantity: str = _QUANTITY
    verdict: str = _VERDICT
    convention: str = _CONVENTION
    supporting_cells: int | None = column("Supporting cells", "Cells that it gives.")
    independent_cells: int | None = column("Independent cells", "Those of them that say something new.")
    conventions_tried: int | None = column("Tried", "Conventions that were tried.")
    chance: float = column("Chance", "Probability that one fits by chance.")
    sentence: str = column("Sentence", "What is said of it.")


class AuditWarningsRow(Row):
    """Inconsistencies in a published study's figures."""

    study: str = _STUDY
    check: str = column("Check", "What was asked.")
    severity: str = column("Severity", "How bad it is.")
    quantity: str = _QUANTITY
    batch_per_gpu: int = _BATCH
    gpus: int = _GPUS
    detail: str = column("Detail", "The numbers.")


class AuditedRows(Protocol):
    """A record of an audit: the rows of its tables, as their files have them."""

    @property
    def cells(self) -> Sequence[Mapping[str, object]]: ...
    @property
    def findings(self) -> Sequence[Mapping[str, object]]: ...
    @property
    def warnings(self) -> Sequence[Mapping[str, object]]: ...


class AuditTables(NamedTuple):
    """The tables of audits, by their names."""

    audit: list[AuditRow]
    audit_findings: list[AuditFindingsRow]
    audit_warnings: list[AuditWarningsRow]

    @classmethod
    def of(cls, audits: Iterable[AuditedRows]) -> Self:
        """Return the rows of these records: one per cell, per quantity, and per warning."""
        tables = cls([], [], [])
        for audit in audits:
            tables.audit.extend(map(AuditRow.read, audit.cells))
            tables.audit_findings.extend(map(AuditFindingsRow.read, audit.findings))
            tables.audit_warnings.extend(map(AuditWarningsRow.read, audit.warnings))
        return tables
