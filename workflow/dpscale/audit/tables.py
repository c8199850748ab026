"""The rows of audits, as their records hold them: one per cell, per quantity, and per warning."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow

Record = Mapping[str, Any]

# The verdict of the row that says all of a study in short.
IN_SHORT = "in short"


class AuditTables(NamedTuple):
    """The tables of audits, by their names."""

    audit: list[AuditRow]
    audit_findings: list[AuditFindingsRow]
    audit_warnings: list[AuditWarningsRow]


def rows(audits: Iterable[Record]) -> AuditTables:
    """Of these records; pure."""
    found = AuditTables([], [], [])
    for audit in audits:
        found.audit.extend(map(AuditRow.read, audit["cells"]))
        found.audit_findings.extend(map(AuditFindingsRow.read, audit["findings"]))
        found.audit_warnings.extend(map(AuditWarningsRow.read, audit["warnings"]))
    return found
