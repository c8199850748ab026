"""The diagnoses that are on record: docs/diagnose.md says what they found."""

import json
import re
from pathlib import Path

import pytest
from bench.diagnosis_table import shown_table

TOLD = [rf"{place}: (\d+ of \d+)" for place in ("named first", "first three", "when off")] + [r"savings told: (\d+%)"]


@pytest.mark.parametrize("name", ["cpu", "cpu-crowded", "gpu"])
def test_the_document_says_what_was_found(name: str, root: Path) -> None:
    file = f"results/recorded-diagnosis/scripts-{name}.json"
    table = shown_table(json.loads((root / file).read_text())["runs"])
    numbers = [re.findall(pattern, table)[0] for pattern in TOLD]
    (row,) = (line for line in (root / "docs/diagnose.md").read_text().splitlines() if f"(../{file})" in line)
    assert row.replace(" %", "%").split(" | ", 1)[1] == f"{' | '.join(numbers)} |"
