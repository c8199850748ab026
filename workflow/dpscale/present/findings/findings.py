"""All findings of a study's tables, and the first of every section."""

from collections.abc import Sequence

from dpscale.present.findings.communication import communication_findings
from dpscale.present.findings.finding import Finding
from dpscale.present.findings.scaling import scaling_findings
from dpscale.present.findings.training import training_findings
from dpscale.present.findings.variants import variant_findings
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables

# The section of the page that a finding on a table stands in, beside its chart.
_SECTIONS = {
    "speedup": "speedup", "times": "times", "communication": "communication", "ladder": "steps",
    "estimates": "estimates", "bandwidth": "bandwidth", "variants": "variants", "training_summary": "training",
}  # fmt: skip


def findings(tables: Tables, terms: Terms) -> list[Finding]:
    """What these tables make true."""
    rooms = (scaling_findings, variant_findings, communication_findings, training_findings)
    return [found for room in rooms for found in room(tables, terms) if found]


def key_findings(found: Sequence[Finding]) -> dict[str, list[Finding]]:
    """The first finding of every section; the others are in an appendix."""
    first: dict[str, list[Finding]] = {}
    for one in found:
        if one.view in _SECTIONS:
            first.setdefault(_SECTIONS[one.view], [one])
    return first
