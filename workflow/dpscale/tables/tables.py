"""All tables of a study. A table is a field here: its name, and the class of its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from dpscale.errors import TableError
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow, CountsRow
from dpscale.tables.communication import (
    BandwidthRow,
    CollectivesRow,
    CommunicationRow,
    LadderRow,
)
from dpscale.tables.memory import MemoryRow, RooflineRow
from dpscale.tables.row import AGAIN, Row, read_rows
from dpscale.tables.study import (
    AbsencesRow,
    AuditFindingsRow,
    AuditRow,
    AuditWarningsRow,
    EnvironmentsRow,
    MissingRow,
    RecordsRow,
    RejectedRow,
)
from dpscale.tables.timing import (
    BlocksRow,
    NetworksRow,
    OneGpuRow,
    RunsRow,
    ScopesRow,
    ServersRow,
    SpeedupRow,
    StrategyPairsRow,
    TimesRow,
    VariantsRow,
)
from dpscale.tables.training import (
    TrainingCurvesRow,
    TrainingRow,
    TrainingSummaryRow,
)


@dataclass(frozen=True, eq=False)
class Tables:
    """The rows of every table."""

    times: Sequence[TimesRow] = ()
    speedup: Sequence[SpeedupRow] = ()
    communication: Sequence[CommunicationRow] = ()
    bandwidth: Sequence[BandwidthRow] = ()
    ladder: Sequence[LadderRow] = ()
    collectives: Sequence[CollectivesRow] = ()
    training: Sequence[TrainingRow] = ()
    training_summary: Sequence[TrainingSummaryRow] = ()
    variants: Sequence[VariantsRow] = ()
    one_gpu: Sequence[OneGpuRow] = ()
    networks: Sequence[NetworksRow] = ()
    memory: Sequence[MemoryRow] = ()
    roofline: Sequence[RooflineRow] = ()
    environments: Sequence[EnvironmentsRow] = ()
    records: Sequence[RecordsRow] = ()
    rejected: Sequence[RejectedRow] = ()
    missing: Sequence[MissingRow] = ()
    runs: Sequence[RunsRow] = ()
    blocks: Sequence[BlocksRow] = ()
    servers: Sequence[ServersRow] = ()
    scopes: Sequence[ScopesRow] = ()
    strategy_pairs: Sequence[StrategyPairsRow] = ()
    training_curves: Sequence[TrainingCurvesRow] = ()
    absences: Sequence[AbsencesRow] = ()
    answer: Sequence[AnswerRow] = ()
    causes: Sequence[CausesRow] = ()
    advice: Sequence[AdviceRow] = ()
    counts: Sequence[CountsRow] = ()
    audit: Sequence[AuditRow] = ()
    audit_findings: Sequence[AuditFindingsRow] = ()
    audit_warnings: Sequence[AuditWarningsRow] = ()

    @classmethod
    def read(cls, folder: Path) -> "Tables":
        """Return the tables in a folder. Raises TableError where one is missing or damaged."""
        rows: dict[str, Any] = {}
        for name, kind in TABLES.items():
            file = folder / f"{name}.csv"
            try:
                rows[name] = read_rows(kind, file)
            except OSError as error:
                raise TableError(f"{file}: cannot be read: {error.strerror}. {AGAIN}") from error
        return cls(**rows)


# By name, in the order in which they are written.
TABLES: Mapping[str, type[Row]] = {item.name: get_args(get_type_hints(Tables)[item.name])[0] for item in fields(Tables)}
