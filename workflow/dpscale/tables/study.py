"""Records: what was measured, where, and what is missing; and the audits of other people's figures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    ARM,
    BATCH,
    ENVIRONMENT,
    GPU_SECONDS,
    GPUS,
    HOST,
    REASON,
    RUN,
    SECONDS,
    SEED,
    STATUS,
    STRATEGY,
    UTC,
    VARIANT,
    column,
)
from dpscale.tables.row import Row

RECORDS = column("Records", "Cells that were measured.")
RECORD_KIND = column("Kind", "What the cell measured.")
COMMIT = column("Commit", "Of the code that measured.")
DIRTY = column("Dirty", "Whether the code had changes beyond its commit.")
DATASET_SOURCE = column("Images", "Where the images are from.")


class EnvironmentsRow(Row):
    """Every combination of hardware, software and images that was measured. Records of different environments are
    never pooled.
    """

    environment: str = ENVIRONMENT
    device_model: str = column("Device", "Model of the devices.")
    cpu_model: str = column("CPU", "Model of the CPU.")
    driver: str = column("Driver", "Version of the GPU's driver.")
    cuda: str = column("CUDA", "Version of CUDA that torch was built with.")
    cudnn: str = column("cuDNN", "Version of cuDNN.")
    nccl: str = column("NCCL", "Version of NCCL.")
    torch: str = column("torch", "Version of torch.")
    torchvision: str = column("torchvision", "Version of torchvision.")
    python: str = column("Python", "Version of Python.")
    dataset_sha256: str = column("Images, SHA-256", "Checksum of the decoded images.")
    links: str = column("Links", "What connects the devices.")
    variables: str = column("Variables", "NCCL's variables and NVIDIA_TF32_OVERRIDE, where they are set.")
    hosts: str = column("Hosts", "Names of the hosts.")
    records: int | None = RECORDS
    cpu_cores: str = column("Cores", "Cores that a job may use.")
    measurement_versions: str = column("Versions", "Versions of the clocked code, by kind of record.")


class RecordsRow(Row):
    """Every record that was used: when, where and by which commit it was measured, on which GPUs, and what disturbed
    it.
    """

    path: str = column("File", "The record.")
    kind: str = RECORD_KIND
    strategy: str = STRATEGY
    gpus: int | None = GPUS
    batch_per_gpu: int | None = BATCH
    run: int | None = RUN
    arm: str = ARM
    seed: int | None = SEED
    status: str = STATUS
    environment: str = ENVIRONMENT
    started_at: str = column("Started", "When the cell started.", UTC)
    finished_at: str = column("Finished", "When the cell finished.", UTC)
    gpu_s: float = GPU_SECONDS
    host: str = HOST
    git_commit: str = COMMIT
    git_dirty: bool | None = DIRTY
    job_id: str = column("Job", "The scheduler's number of the job.")
    gpu_uuids: str = column("Devices by UUID", "The devices themselves.")
    slowed_s: float = column(
        "Kept down",
        "For how long a device's clocks were kept down in timed epochs, by the policy that did so longest.",
        SECONDS,
    )
    stalled_s: float = column(
        "Stood still", "Time of timed epochs that no step explains, where timing them again did not help.", SECONDS
    )
    skipped_updates: int | None = column(
        "Skipped updates", "Updates of timed epochs that were not made, because a gradient overflowed in float16."
    )
    hot_devices: str = column("Slowed by heat", "The devices of which the driver said so in timed epochs.")
    other_processes: int | None = column("Other processes", "Most processes of others that were seen on the devices.")
    dataset_source: str = DATASET_SOURCE
    synthetic: bool | None = column("Synthetic", "Whether the images are noise.")


class RejectedRow(Row):
    """Records that were found and not used, and why."""

    path: str = column("File", "The record.").shown
    reason: str = REASON.but(definition="Why it is not used.").shown


class MissingRow(Row):
    """Planned cells without a record: their state, the reason, and the end of their logs, without user names and
    secrets.
    """

    path: str = column("File", "The record that is missing.")
    kind: str = RECORD_KIND
    variant: str = VARIANT
    strategy: str = STRATEGY
    gpus: int | None = GPUS
    batch_per_gpu: int | None = BATCH
    run: int | None = RUN
    arm: str = ARM
    seed: int | None = SEED
    status: str = STATUS
    reason: str = REASON
    log: str = column("Log", "Its last lines.")


class AbsencesRow(Row):
    """Why configurations have no number, and for how many of them each reason holds."""

    status: str = STATUS
    reason: str = REASON
    configurations: int | None = column("Configurations", "That have no number for this reason.")


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
