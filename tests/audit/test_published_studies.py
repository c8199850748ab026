"""What must come out for the published studies: all that is said of each, and numbers worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dpscale.records.audit import AuditRecord, FlatRow

STUDIES = tuple(f"study-{letter}" for letter in "abcdefghij")
EXPECTED = Path(__file__).with_name("expected.yaml")


def said(record: AuditRecord) -> dict[str, Any]:
    """The convention of every quantity with its sentence, remarks, what does not agree in which cells, and corrected
    figures to four digits, or why there is none."""
    warnings: dict[str, dict[str, list[str]]] = {}
    corrected: dict[str, list[str]] = {}
    for warning in record.warnings:
        check = f"{warning['severity']}: {warning['check']}"
        cells = warnings.setdefault(check, {}).setdefault(str(warning["detail"]), [])
        cells.append(f"{warning['quantity']} at {at(warning)}")
    for cell in record.cells:
        value = cell["reason"] if cell["corrected"] is None else f"{cell['corrected']:.4g}"
        if value and cell["quantity"] != "speedup_alternative":
            corrected.setdefault(str(cell["quantity"]), []).append(f"{at(cell)}: {value}")
    columns = [row for row in record.findings if row["conventions_tried"] is not None]
    return {
        "answer": record.answer,
        "quantities": {
            row["quantity"]: {
                "verdict": row["verdict"],
                "formula": row["convention"],
                "sentence": row["sentence"],
            }
            for row in columns
        },
        "warnings": {
            check: {detail: ", ".join(cells) for detail, cells in details.items()}
            for check, details in warnings.items()
        },
        "remarks": [row["sentence"] for row in record.findings[1:] if row not in columns],
        "corrected": {quantity: "; ".join(cells) for quantity, cells in corrected.items()},
    }


def at(entry: FlatRow) -> str:
    return f"{entry['batch_per_gpu']} on {entry['gpus']}"


@pytest.mark.parametrize("name", STUDIES)
def test_all_that_is_said_of_a_study(audits: dict[str, AuditRecord], name: str) -> None:
    """Where a sentence changes on purpose, print `yaml.safe_dump(said(record))` for the file."""
    assert said(audits[name]) == yaml.safe_load(EXPECTED.read_text())[name]


def test_no_code_knows_a_study(root: Path) -> None:
    for path in (root / "workflow").rglob("*.py"):
        assert not [name for name in STUDIES if name in path.read_text()], path
