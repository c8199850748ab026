"""Tables as pandas reads them. Only until every test takes rows."""

import io
from pathlib import Path

import pandas as pd

from dpscale.tables.tables import TABLES, with_names

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
