"""All tables of a study, and their files. A table is a field here: its name, and the class of its rows."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from dpscale.errors import DpscaleError
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow, CountsRow
from dpscale.tables.communication import (
    BandwidthRow,
    CollectivesRow,
    CommunicationRow,
    LadderRow,
    PeerCopiesRow,
    StepsRow,
)
from dpscale.tables.forecast import (
    AllreduceModelsRow,
    CriticalBatchRow,
    ForecastRow,
    LawsRow,
    PublishedScalingRow,
)
from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow
from dpscale.tables.row import Row
from dpscale.tables.study import (
    AbsencesRow,
    CostsRow,
    EnvironmentsRow,
    MissingRow,
    OriginsRow,
    RecordsRow,
    RejectedRow,
)
from dpscale.tables.timing import (
    BlocksRow,
    RunsRow,
    ScopesRow,
    SpeedupRow,
    StrategyPairsRow,
    TimesRow,
    VarianceComponentsRow,
)
from dpscale.tables.training import (
    FrontierRow,
    TrainingCurvesRow,
    TrainingEvidenceRow,
    TrainingOrderRow,
    TrainingRow,
    TrainingSummaryRow,
    TwinsRow,
)
from dpscale.tables.variants import KernelsRow, OneGpuRow, VariantsRow

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R", bound=Row)

# Characters that HTML and XML do not allow, or that turn the direction of text and its meaning with it.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


@dataclass(frozen=True, eq=False)
class Tables(Mapping[str, Any]):
    """The rows of every table."""

    times: Sequence[TimesRow] = ()
    speedup: Sequence[SpeedupRow] = ()
    communication: Sequence[CommunicationRow] = ()
    bandwidth: Sequence[BandwidthRow] = ()
    ladder: Sequence[LadderRow] = ()
    steps: Sequence[StepsRow] = ()
    collectives: Sequence[CollectivesRow] = ()
    laws: Sequence[LawsRow] = ()
    published_scaling: Sequence[PublishedScalingRow] = ()
    allreduce_models: Sequence[AllreduceModelsRow] = ()
    forecast: Sequence[ForecastRow] = ()
    critical_batch: Sequence[CriticalBatchRow] = ()
    training: Sequence[TrainingRow] = ()
    training_summary: Sequence[TrainingSummaryRow] = ()
    frontier: Sequence[FrontierRow] = ()
    twins: Sequence[TwinsRow] = ()
    training_evidence: Sequence[TrainingEvidenceRow] = ()
    variants: Sequence[VariantsRow] = ()
    one_gpu: Sequence[OneGpuRow] = ()
    kernels: Sequence[KernelsRow] = ()
    environments: Sequence[EnvironmentsRow] = ()
    records: Sequence[RecordsRow] = ()
    rejected: Sequence[RejectedRow] = ()
    missing: Sequence[MissingRow] = ()
    runs: Sequence[RunsRow] = ()
    blocks: Sequence[BlocksRow] = ()
    variance_components: Sequence[VarianceComponentsRow] = ()
    scopes: Sequence[ScopesRow] = ()
    strategy_pairs: Sequence[StrategyPairsRow] = ()
    peer_copies: Sequence[PeerCopiesRow] = ()
    training_curves: Sequence[TrainingCurvesRow] = ()
    training_order: Sequence[TrainingOrderRow] = ()
    costs: Sequence[CostsRow] = ()
    origins: Sequence[OriginsRow] = ()
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
        """From their files. Raises DpscaleError where there are none."""
        try:
            rows: dict[str, Any] = {name: read_rows(kind, folder / f"{name}.csv") for name, kind in TABLES.items()}
        except OSError as error:
            raise DpscaleError(f"{folder}: no tables there ({error}). Make them with: dpscale tables") from error
        return cls(**rows)

    # Only until every reader takes fields: tables as pandas has them.
    @cached_property
    def _frames(self) -> dict[str, "pd.DataFrame"]:
        return {}

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self._frames:
            self._frames[name] = _as_read(TABLES[name], io.StringIO(written(TABLES[name], getattr(self, name))))
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    @classmethod
    def of_rows(cls, rows: Mapping[str, Iterable[Any]]) -> "Tables":
        """From rows by table, with fields or as mappings of the file's columns."""
        found: dict[str, Any] = {
            name: [row if isinstance(row, TABLES[name]) else TABLES[name].read(row) for row in some]
            for name, some in rows.items()
        }
        return cls(**found)

    @classmethod
    def of(cls, frames: Mapping[str, Any]) -> "Tables":
        """From pandas' tables, for tests."""
        if isinstance(frames, Tables):
            return frames
        found: dict[str, Any] = {
            name: [TABLES[name].read(entries) for entries in _entries(table)] for name, table in frames.items()
        }
        return cls(**found)


def _as_read(kind: type[Row], file: io.StringIO) -> "pd.DataFrame":
    import pandas as pd

    texts = [item.name for item in kind.columns().values() if item.kind in ("text", "flag")]
    table = pd.read_csv(file, dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=[""])
    for name in texts:
        table[name] = table[name].map(with_names, na_action="ignore").astype(str)
    return table


def _entries(table: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    whole = table.astype(object)
    for entries in whole.where(whole.notna(), None).to_dict("records"):
        yield {str(name): value for name, value in entries.items()}


# By name, in the order in which they are written.
TABLES: Mapping[str, type[Row]] = MappingProxyType({
    item.name: get_args(get_type_hints(Tables)[item.name])[0] for item in fields(Tables)
})  # fmt: skip


def frame(kind: type[Row], rows: Iterable[Row]) -> "pd.DataFrame":
    """As pandas has it. Whole numbers stay whole beside missing ones."""
    import pandas as pd

    table = pd.DataFrame([row.flat() for row in rows], columns=list(kind.file_columns()))
    return table if table.empty else table.convert_dtypes()


def written(kind: type[Row], rows: Iterable[Row], **how: Any) -> str:
    """A table's file. `how` are pandas' own options."""
    # Before Python 3.13 a carriage return alone is not put in quotes, and a reader takes it for the end of the row.
    return str(frame(kind, rows).replace("\r", "\n", regex=True).to_csv(index=False, **how))


def read_rows(kind: type[R], file: Path | io.StringIO) -> list[R]:
    """The rows of a table's file, for people to read.

    Only an empty entry is a missing one: a host may be called `null`, or `007`. Control characters are named, such as
    `[U+202E]`.
    """
    text = file.getvalue() if isinstance(file, io.StringIO) else file.read_bytes().decode()
    entries = csv.DictReader(io.StringIO(text, newline=""))
    return [kind.read({name: with_names(entry) for name, entry in row.items()}) for row in entries]


def with_names(text: str) -> str:
    """`text` with a name for every control character in it that could not be seen, or would turn what follows."""
    return _CONTROLS.sub(lambda character: f"[U+{ord(character[0]):04X}]", text)
