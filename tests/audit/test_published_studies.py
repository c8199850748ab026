"""Audits of the published studies: all sentences about each, and numbers worked out by hand."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpscale.audit.audit import audit
from dpscale.audit.checks import COPIED
from dpscale.audit.own_table import read_studies
from dpscale.records.facts import AuditRecord

STUDIES = tuple(f"study-{letter}" for letter in "abcdefghij")
EXPECTED = Path(__file__).with_name("expected.yaml")
NOT_GIVEN = "not what the times give"


def summarised(record: AuditRecord) -> dict[str, Any]:
    """The convention of every quantity with its sentence, remarks, what does not agree in which cells, and corrected
    figures to four digits, or why there is none."""
    warnings: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in record.warnings:
        cells = warnings[f"{row['severity']}: {row['check']}"][str(row["detail"])]
        cells.append(f"{row['quantity']} at {row['batch_per_gpu']} on {row['gpus']}")
    corrected: defaultdict[str, list[str]] = defaultdict(list)
    for row in record.cells:
        value = row["reason"] if row["corrected"] is None else f"{row['corrected']:.4g}"
        if value and row["quantity"] != "speedup_alternative":
            corrected[str(row["quantity"])].append(f"{row['batch_per_gpu']} on {row['gpus']}: {value}")
    columns = [row for row in record.findings if row["conventions_tried"] is not None]
    return {
        "answer": record.answer,
        "quantities": {
            row["quantity"]: {"verdict": row["verdict"], "formula": row["convention"], "sentence": row["sentence"]}
            for row in columns
        },
        "warnings": {
            check: {detail: ", ".join(cells) for detail, cells in details.items()}
            for check, details in warnings.items()
        },
        "remarks": [row["sentence"] for row in record.findings[1:] if row not in columns],
        "corrected": {quantity: "; ".join(cells) for quantity, cells in corrected.items()},
    }


@pytest.mark.parametrize("name", STUDIES)
def test_all_sentences_about_a_study(audits: dict[str, AuditRecord], name: str) -> None:
    """If a sentence changes on purpose, print `yaml.safe_dump(summarised(record))` for the file."""
    assert summarised(audits[name]) == yaml.safe_load(EXPECTED.read_text())[name]


def test_no_code_knows_a_study(root: Path) -> None:
    for path in (root / "workflow").rglob("*.py"):
        assert not [name for name in STUDIES if name in path.read_text()], path


@pytest.mark.parametrize("file", ["study-a.ipynb", "study-b.markdown", "study-c.txt", "study-d.html"])
def test_a_study_as_its_authors_print_it_has_the_same_warnings(audits: dict[str, AuditRecord], file: str) -> None:
    """The form of the assignment, as a notebook, as Markdown, as text and as a page. What nobody says is not held
    against figures: no network is named in study-d."""
    (study,) = read_studies(Path(__file__).parent / "tables/seeds" / file)
    keys = ("check", "quantity", "batch_per_gpu", "gpus")
    warnings, expected = (
        {tuple(row[key] for key in keys) for row in record.warnings if row["check"] != COPIED}
        for record in (audit(study), audits[study.id])
    )
    assert warnings == {row for row in expected if study.id != "study-d" or row[:2] != (NOT_GIVEN, "bandwidth")}
