"""The smallest tables of each kind that people hand in: what is wrong in them is named, and nothing else is accused.

A line of `small_tables.txt` has a file, its exit status, its faulty cells, and what is said of it first. All
were judged by hand from the printed figures.
"""

from pathlib import Path

import pytest

from command_line import dpscale
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


def test_all_of_them_at_once_have_one_summary(tmp_path: Path) -> None:
    done = dpscale("audit", TABLES, "--summary", tmp_path / "audit.csv", "--page", tmp_path / "pages")
    lines = (tmp_path / "audit.csv").read_text().splitlines()
    assert len(lines) == 1 + len([*TABLES.iterdir()])
    assert sum(",faults," in line for line in lines[1:]) == sum(status == "1" for _, status, *_ in EXPECTED)
    assert len([*(tmp_path / "pages").iterdir()]) == len(EXPECTED)
    assert done.returncode == 1
