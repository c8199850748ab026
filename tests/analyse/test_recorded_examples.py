"""The examples that are on record: examples/README.md has their numbers."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recorded import recorded_tables, with_interval

EXAMPLES = ("gpt", "wide-mlp", "resnet50")


def cells_of(root: Path, example: str) -> list[str]:
    """The cells of an example's row in examples/README.md."""
    file = f"`{example.replace('-', '_')}.py`"
    rows = [line for line in (root / "examples/README.md").read_text().splitlines() if line.startswith(f"| {file}")]
    (row,) = rows
    return [cell.strip() for cell in row.strip("|").split("|")]


def of_compute(table: pd.DataFrame) -> dict[Any, dict[str, Any]]:
    """Its rows without loading, by number of GPUs."""
    rows = table[table["scope"] == "compute"].to_dict("records")
    return {row["gpus"]: {str(name): value for name, value in row.items()} for row in rows}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_readme_has_what_is_on_record(root: Path, example: str) -> None:
    _, batch, one, two, speedup, reason = cells_of(root, example)
    found = recorded_tables(root, f"recorded-{example}", f"example-{example}")
    times, speedups = of_compute(found["times"]), of_compute(found["speedup"])
    assert int(batch) == times[1]["batch_per_gpu"] == times[2]["batch_per_gpu"]
    assert [one, two] == [with_interval(times[gpus], "images_per_s", 0) for gpus in (1, 2)]
    assert speedup == with_interval(speedups[2], "speedup", 2)
    assert times[2]["runs"] == 3
    causes = found["causes"].to_dict("records")
    told = {row["cause"].replace("_", " ") for row in causes if row["is_told"]}
    assert set(re.split(", then ", reason)) == (told or {"none stands out"})
