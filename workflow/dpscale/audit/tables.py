"""The rows of audits, from their records: one per cell, per quantity, and per warning."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow

Record = Mapping[str, Any]

# The verdict of the row that says all of a study in short.
IN_SHORT = "in short"
# The corrected quantity beside a published one of another name.
CORRECTED_BY = {"speedup_alternative": "speedup"}
# Units of what authors print, but for bandwidths, which have that of their label.
_UNITS = {"compute_s": "s", "communication_s": "s", "images_per_s": "images/s", "utilisation_percent": "%"}


class Key(NamedTuple):
    """A cell of a quantity. A cell of strong scaling has a global batch, every other one a batch per GPU."""

    quantity: str
    batch_per_gpu: int | None
    global_batch: int | None
    gpus: int

    @classmethod
    def of(cls, entry: Record) -> "Key":
        return cls(*map(entry.get, cls._fields))  # type: ignore[arg-type]


class AuditTables(NamedTuple):
    """The tables of audits, by their names."""

    audit: list[AuditRow]
    audit_findings: list[AuditFindingsRow]
    audit_warnings: list[AuditWarningsRow]


def rows(audits: Iterable[Record]) -> AuditTables:
    """Of these records; pure."""
    found = AuditTables([], [], [])
    for audit in audits:
        found.audit.extend(_cells(audit))
        found.audit_findings.extend(_findings(audit))
        found.audit_warnings.extend(
            AuditWarningsRow.read({"study": audit["id"], **warning}) for warning in audit["warnings"]
        )
    return found


def _cells(audit: Record) -> Iterator[AuditRow]:
    """Times first, then every published quantity, then the quantities that were only computed here."""
    corrected = {Key.of(figure): figure for figure in audit["corrected"]}
    checks: dict[Key, dict[str, None]] = defaultdict(dict)
    for warning in audit["warnings"]:
        checks[Key.of(warning)][warning["check"]] = None
    printed = {Key.of(time): {"published": time["printed"], "published_unit": "s"} for time in audit["times"]}
    for quantity in audit["quantities"]:
        printed |= _printed(quantity, audit["bandwidth_unit"])
    for key in {**printed, **corrected}:
        figure = corrected.get(key._replace(quantity=CORRECTED_BY.get(key.quantity, key.quantity)), {})
        yield AuditRow.read({
            **figure,
            **key._asdict(),
            **printed.get(key, {}),
            **_figure("corrected", figure.get("corrected")),
            "study": audit["id"],
            "warnings": "; ".join(checks[key]),
        })  # fmt: skip


def _printed(quantity: Record, bandwidth_unit: str | None) -> dict[Key, dict[str, Any]]:
    """What was printed of a quantity, its verdict, and what its convention gives."""
    name = quantity["quantity"]
    unit = bandwidth_unit if name == "bandwidth" else _UNITS.get(name)
    return {
        Key.of({"quantity": name, **cell}): {
            "published_unit": unit,
            "published": cell["printed"],
            "verdict": cell["state"],
            "why": cell["why"],
            **_figure("recomputed", cell["given"]),
        }
        for cell in quantity["cells"]
    }


def _findings(audit: Record) -> Iterator[AuditFindingsRow]:
    study = {"study": audit["id"], "title": audit["title"]}
    yield AuditFindingsRow.read({**study, "verdict": IN_SHORT, "sentence": audit.get("answer")})
    for quantity in audit["quantities"]:
        formula = quantity["convention"]["formula"] if quantity["convention"] else ""
        yield AuditFindingsRow.read({**quantity, **study, "convention": formula})
    for remark in audit["remarks"]:
        yield AuditFindingsRow.read({**study, **remark})


def _figure(name: str, interval: Record | None) -> dict[str, Any]:
    """The entries of a figure in a table's file."""
    interval = interval or {}
    return {name: interval.get("value"), f"{name}_low": interval.get("low"), f"{name}_high": interval.get("high")}
