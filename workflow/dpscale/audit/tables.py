"""The tables of audits, from their records: one row per cell, per quantity, and per warning."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = dict[str, Any]

# A cell of a quantity. A cell of strong scaling has a global batch, every other one a batch per GPU.
KEYS = ("quantity", "batch_per_gpu", "global_batch", "gpus")
COLUMNS: dict[str, list[str]] = {
    "audit": [
        "study", *KEYS, "published", "published_unit", "verdict", "convention",
        "recomputed", "recomputed_low", "recomputed_high", "agrees",
        "corrected", "corrected_low", "corrected_high", "unit", "reason", "caution", "warnings",
    ],
    "audit_findings": [
        "study", "title", "quantity", "verdict", "convention", "supporting_cells", "independent_cells",
        "conventions_tried", "conventions_fitting", "chance", "scale_chance", "sentence",
    ],
    "audit_warnings": ["study", "check", "severity", *KEYS, "detail"],
}  # fmt: skip

# `published` keeps the digits that were printed.
TEXT_COLUMNS = (
    *("published", "published_unit", "verdict", "convention", "unit", "reason", "caution", "warnings"),
    *("title", "sentence", "check", "severity", "detail"),
)

# The corrected quantity beside a published one of another name.
CORRECTED_BY = {"speedup_alternative": "speedup"}

# Units of what authors print, but for bandwidths, which have that of their label.
UNITS = {"compute_s": "s", "communication_s": "s", "images_per_s": "images/s", "utilisation_percent": "%"}

Key = tuple[Any, ...]


def rows(audits: Iterable[Mapping[str, Any]]) -> dict[str, list[Row]]:
    """The rows of every table in COLUMNS; pure."""
    found: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    for audit in audits:
        found["audit"] += _cells(audit)
        found["audit_findings"] += _findings(audit)
        found["audit_warnings"] += [{"study": audit["id"], **warning} for warning in audit["warnings"]]
    return found


def _cells(audit: Mapping[str, Any]) -> Iterator[Row]:
    """Times first, then every published quantity, then the quantities that were only computed here."""
    corrected = {_key(figure): figure for figure in audit["corrected"]}
    warnings: dict[Key, dict[str, None]] = defaultdict(dict)
    for warning in audit["warnings"]:
        warnings[_key(warning)][warning["check"]] = None
    printed = {_key(time): {"published": time["printed"], "published_unit": "s"} for time in audit["times"]}
    for quantity in audit["quantities"]:
        name = quantity["quantity"]
        for cell in quantity["cells"]:
            printed[_key({"quantity": name, **cell})] = {
                "published": cell["printed"],
                "published_unit": audit["bandwidth_unit"] if name == "bandwidth" else UNITS.get(name, ""),
                "verdict": quantity["verdict"],
                "convention": quantity["convention"]["formula"] if quantity["convention"] else None,
                "agrees": cell["agrees"],
                **_columns("recomputed", cell["recomputed"]),
            }
    for key in {**printed, **corrected}:
        name, *place = key
        figure = corrected.get((CORRECTED_BY.get(name, name), *place))
        yield {
            "study": audit["id"],
            **dict(zip(KEYS, key, strict=True)),
            **printed.get(key, {}),
            **(_columns("corrected", figure["corrected"]) if figure else {}),
            **({name: figure[name] for name in ("unit", "reason", "caution")} if figure else {}),
            "warnings": "; ".join(warnings[key]),
        }


def _findings(audit: Mapping[str, Any]) -> Iterator[Row]:
    study = {"study": audit["id"], "title": audit["title"]}
    for quantity in audit["quantities"]:
        yield {
            **study,
            **{name: quantity[name] for name in COLUMNS["audit_findings"] if name in quantity},
            "convention": quantity["convention"]["formula"] if quantity["convention"] else None,
            "scale_chance": quantity["scale"]["chance"] if quantity["scale"] else None,
        }
    for remark in audit["remarks"]:
        yield {**study, **remark}


def _columns(name: str, interval: Mapping[str, float] | None) -> Row:
    if interval is None:
        return {}
    return {name: interval["value"], f"{name}_low": interval["low"], f"{name}_high": interval["high"]}


def _key(row: Mapping[str, Any]) -> Key:
    return tuple(row.get(name) for name in KEYS)
