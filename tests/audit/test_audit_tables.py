"""The tables of audits: one row a study, quantity and cell."""

from pathlib import Path

import pytest
from msgspec import to_builtins

from dpscale.audit.audit import audit
from dpscale.audit.reading.published import AUDIT_PATH, Published, collect_audits
from dpscale.errors import RecordError
from dpscale.records.files import write_record
from published_factory import written


def test_an_audit_of_another_version_of_its_file_is_not_used(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml")
    with pytest.raises(RecordError, match=r"audit/made-up\.json: cannot be read"):
        collect_audits(tmp_path, [str(path)])
    record = audit(Published.read(path))
    write_record("audit", tmp_path / AUDIT_PATH.format(id="made-up"), to_builtins(record))
    assert collect_audits(tmp_path, [str(path)]) == [record]
    written(path, title="Another")
    with pytest.raises(RecordError, match="another version of its published file"):
        collect_audits(tmp_path, [str(path)])
