"""Audits of the published studies, which take seconds each, made once."""

from pathlib import Path

import pytest

from dpscale.audit.audit import audit
from dpscale.audit.published import Published
from dpscale.records.facts import AuditRecord
from once import once


@pytest.fixture(scope="session")
def audits(root: Path) -> dict[str, AuditRecord]:
    """Records by study, each beside the others. Nobody may change them."""
    return _audits(root)


@once
def _audits(root: Path) -> dict[str, AuditRecord]:
    studies = [Published.read(path) for path in sorted((root / "config/published").glob("study-*.yaml"))]
    return {study.id: audit(study, studies) for study in studies}
