"""The tables of audits: one row a study, quantity and cell."""

from pathlib import Path
from typing import Any

import pytest

from dpscale.audit.audit import audit
from dpscale.audit.reading.published import AUDIT_PATH, Published, collect_audits
from dpscale.audit.tables import AuditTables, rows
from dpscale.errors import RecordError
from dpscale.records.files import write_record
from dpscale.tables.published import AuditRow
from published_factory import written

BANDWIDTH = {"study": "study-a", "quantity": "bandwidth", "batch_per_gpu": 128, "gpus": 4}


@pytest.fixture(scope="module")
def tables(audits: dict[str, dict[str, Any]]) -> AuditTables:
    return rows(audits.values())


def cell(tables: AuditTables, **where: Any) -> AuditRow:
    (found,) = [row for row in tables.audit if all(getattr(row, name) == value for name, value in where.items())]
    return found


def test_a_row_says_all_of_a_cell(tables: AuditTables) -> None:
    row = cell(tables, **BANDWIDTH)
    assert (row.published, row.published_unit, row.unit) == ("0.0058", "GB/s", "GB/s")
    assert (row.verdict, row.why) == ("within another run", "as where its digits are cut, not rounded")
    assert row.recomputed.low < row.recomputed.value < row.recomputed.high
    assert row.recomputed.value == pytest.approx(0.005865, abs=1e-6)
    assert row.corrected.value == pytest.approx(0.5903, abs=1e-4)


def test_an_audit_of_another_version_of_its_file_is_not_used(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml")
    with pytest.raises(RecordError, match=r"audit/made-up\.json: cannot be read"):
        collect_audits(tmp_path, [str(path)])
    record = audit(Published.read(path))
    write_record("audit", tmp_path / AUDIT_PATH.format(id="made-up"), record)
    assert collect_audits(tmp_path, [str(path)]) == [record]
    written(path, title="Another")
    with pytest.raises(RecordError, match="another version of its published file"):
        collect_audits(tmp_path, [str(path)])
