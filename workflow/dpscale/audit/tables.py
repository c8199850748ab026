"""The rows of audits, as their records hold them: one per cell, per quantity, and per warning."""

from collections.abc import Iterable
from typing import NamedTuple

from dpscale.records.audit import AuditRecord
from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow

# The verdict of the row that says all of a study in short.
IN_SHORT = "in short"


class AuditTables(NamedTuple):
    """The tables of audits, by their names."""

    audit: list[AuditRow]
    audit_findings: list[AuditFindingsRow]
    audit_warnings: list[AuditWarningsRow]


def rows(audits: Iterable[AuditRecord]) -> AuditTables:
    """Return the rows of these records; pure."""
    tables = AuditTables([], [], [])
    for audit in audits:
        tables.audit.extend(map(AuditRow.read, audit.cells))
        tables.audit_findings.extend(map(AuditFindingsRow.read, audit.findings))
        tables.audit_warnings.extend(map(AuditWarningsRow.read, audit.warnings))
    return tables
