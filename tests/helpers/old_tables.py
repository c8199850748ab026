"""Tables as pandas reads them. Only until every test takes rows."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dpscale.analyse.tables import complete
from dpscale.tables.tables import TABLES, Tables, with_names

COLUMNS = {name: list(kind.file_columns()) for name, kind in TABLES.items()}
TEXT_COLUMNS = {
    column.name for kind in TABLES.values() for column in kind.columns().values() if column.kind in ("text", "flag")
}


def read_table(csv: Path | io.StringIO) -> pd.DataFrame:
    """A table from its file."""
    table = pd.read_csv(csv, dtype=dict.fromkeys(TEXT_COLUMNS, str), keep_default_na=False, na_values=[""])
    for name in table.columns.intersection(list(TEXT_COLUMNS)):
        table[name] = table[name].map(with_names, na_action="ignore").astype(str)
    return table


def with_derived(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """These rows with the columns and tables that follow from them."""
    tables = complete(Tables.of_rows(rows))
    return {
        name: [{key: value for key, value in row.flat().items() if value is not None} for row in getattr(tables, name)]
        for name in TABLES
    }
