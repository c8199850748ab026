"""The smallest tables of each kind that people hand in: what is wrong in them is named, and nothing else is accused.

A line of `small_tables.txt` has a file, its exit status, its faulty cells, and what is said of it first. All
were judged by hand from the printed figures.
"""

from pathlib import Path

import pytest

from dpscale.audit.audit import audit
from dpscale.audit.own_table import read_studies

TABLES = Path(__file__).parent / "tables/small"
EXPECTED = [line.split(" | ") for line in Path(__file__).with_name("small_tables.txt").read_text().splitlines()]


@pytest.mark.parametrize(("name", "status", "cells", "answers"), EXPECTED, ids=[line[0] for line in EXPECTED])
def test_a_small_table(name: str, status: str, cells: str, answers: str) -> None:
    records = [audit(study) for study in read_studies(TABLES / name)]
    warnings = [row for record in records for row in record.warnings if row["severity"] != "look"]
    faulty = sorted({f"{row['quantity']} {row['batch_per_gpu']}x{row['gpus']}" for row in warnings})
    assert (", ".join(faulty) or "-", str(int(bool(warnings)))) == (cells, status)
    assert " / ".join(record.answer for record in records) == answers
