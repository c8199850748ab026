"""The examples that are on record: examples/README.md has their numbers."""

import re
from pathlib import Path

import pytest

from recorded import in_documents, recorded_tables
from rows import one

EXAMPLES = ("gpt", "wide-mlp", "resnet50")


def cells_of(root: Path, example: str) -> list[str]:
    """The cells of an example's row in examples/README.md."""
    file = f"`{example.replace('-', '_')}.py`"
    rows = [line for line in (root / "examples/README.md").read_text().splitlines() if line.startswith(f"| {file}")]
    (row,) = rows
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_readme_has_what_is_on_record(root: Path, example: str) -> None:
    _, batch, one_gpu, two_gpus, speedup, reason = cells_of(root, example)
    found = recorded_tables(root, f"recorded-{example}", f"example-{example}")
    alone, together = (one(found.times, scope="compute", gpus=gpus) for gpus in (1, 2))
    assert int(batch) == alone.batch_per_gpu == together.batch_per_gpu
    assert [one_gpu, two_gpus] == [in_documents(row.images_per_s, 0) for row in (alone, together)]
    assert speedup == in_documents(one(found.speedup, scope="compute").speedup, 2)
    assert together.runs == 3
    told = {row.cause.replace("_", " ") for row in found.causes if row.is_reason}
    assert set(re.split(", then ", reason)) == (told or {"none stands out"})
