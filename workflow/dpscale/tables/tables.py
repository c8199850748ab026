"""All tables of a study, and their files. A table is a field here: its name, and the class of its rows."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
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
    StepsRow,
)
from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow
from dpscale.tables.row import Row
from dpscale.tables.study import AbsencesRow, EnvironmentsRow, MissingRow, OriginsRow, RecordsRow, RejectedRow
from dpscale.tables.timing import BlocksRow, RunsRow, ScopesRow, SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.training import (
    TrainingCurvesRow,
    TrainingRow,
    TrainingSummaryRow,
)
from dpscale.tables.variants import OneGpuRow, VariantsRow

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R", bound=Row)

# Characters that HTML and XML do not allow, or that turn the direction of text and its meaning with it.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


@dataclass(frozen=True, eq=False)
class Tables:
    """The rows of every table."""

    times: Sequence[TimesRow] = ()
    speedup: Sequence[SpeedupRow] = ()
    communication: Sequence[CommunicationRow] = ()
    bandwidth: Sequence[BandwidthRow] = ()
    ladder: Sequence[LadderRow] = ()
    steps: Sequence[StepsRow] = ()
    collectives: Sequence[CollectivesRow] = ()
    training: Sequence[TrainingRow] = ()
    training_summary: Sequence[TrainingSummaryRow] = ()
    variants: Sequence[VariantsRow] = ()
    one_gpu: Sequence[OneGpuRow] = ()
    environments: Sequence[EnvironmentsRow] = ()
    records: Sequence[RecordsRow] = ()
    rejected: Sequence[RejectedRow] = ()
    missing: Sequence[MissingRow] = ()
    runs: Sequence[RunsRow] = ()
    blocks: Sequence[BlocksRow] = ()
    scopes: Sequence[ScopesRow] = ()
    strategy_pairs: Sequence[StrategyPairsRow] = ()
    training_curves: Sequence[TrainingCurvesRow] = ()
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


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file that is no table of row classes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def with_names(text: str) -> str:
    """`text` with a name for every control character in it that could not be seen, or would turn what follows."""
    return _CONTROLS.sub(lambda character: f"[U+{ord(character[0]):04X}]", text)
