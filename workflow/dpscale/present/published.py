"""Other people's figures: a block a study, with what was found, what does not agree, and both tables side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpscale.audit.consistency import SEVERITIES
from dpscale.present import words
from dpscale.present.view import Column, View
from dpscale.present.words import Row, Tables
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import EPOCH, Quantity, Unit, quantity

NOT_RECOMPUTABLE = "not recomputable"

# What studies differ in most stands first: the table is wider than a phone.
_QUANTITIES: Mapping[str, Quantity] = {
    "speedup": quantities.SPEEDUP,
    "speedup_alternative": quantities.ALTERNATIVE_SPEEDUP,
    "bandwidth": quantities.BANDWIDTH,
    "communication_s": quantities.COMMUNICATION,
    "compute_s": quantity("compute_s", "communication"),
    "efficiency": quantities.EFFICIENCY,
    "images_per_s": quantities.THROUGHPUT,
    "utilisation_percent": replace(quantity("utilisation"), column="utilisation_percent", label="Utilisation"),
}
# A quantity that is shown only where somebody printed it.
_ONLY_PUBLISHED = ("images_per_s",)
# So many cells of a warning are told; the others are in the table.
_CELLS_SHOWN = 6


@dataclass(frozen=True)
class Finding:
    """What was found out about a quantity: one word or two, and a sentence."""

    verdict: str
    sentence: str


@dataclass(frozen=True)
class Warned:
    """What does not agree, and where."""

    check: str
    details: str


@dataclass(frozen=True)
class Block:
    """A published study."""

    id: str
    title: str
    findings: Sequence[Finding]
    warnings: Sequence[Warned]
    view: View
    notes: Sequence[str]


def blocks(tables: Tables) -> list[Block]:
    """Every published study that was audited."""
    findings = tables["audit_findings"]
    return [_block(tables, str(study), part) for study, part in findings.groupby("study", sort=False)]


def _block(tables: Tables, study: str, findings: pd.DataFrame) -> Block:
    cells, warnings = (_of(tables[name], study) for name in ("audit", "audit_warnings"))
    return Block(
        id=study,
        title=str(findings["title"].iloc[0]),
        findings=[Finding(words.capitalised(row["verdict"]), row["sentence"]) for row in words.rows(findings)],
        warnings=_warned(warnings),
        view=_view(study, cells),
        notes=[*_strong_speedups(cells), *_not_recomputable(cells), *_cautions(cells)],
    )


def _of(table: pd.DataFrame, study: str) -> pd.DataFrame:
    return table[table["study"] == study]


def _warned(warnings: pd.DataFrame) -> list[Warned]:
    """What does not agree, the worst first, each with what it means."""
    known = warnings.assign(severity=warnings["severity"].fillna(""))
    found = []
    for key, group in known.groupby(["severity", "check"], sort=False):
        severity, check = map(str, key)
        found.append(
            (severity, Warned(words.capitalised(f"{severity}: {check}" if severity else check), _details(group)))
        )
    order = (*SEVERITIES, "")
    return [warned for _, warned in sorted(found, key=lambda entry: order.index(entry[0]))]


def _details(warnings: pd.DataFrame) -> str:
    """`batch 32 on 2 GPUs: printed 1.40, is 0.700; ...`; a detail that many cells share is said once."""
    details = []
    for detail, group in warnings.groupby("detail", sort=False):
        places = [_place(row) for row in words.rows(group)]
        details.append(f"{places[0]}: {detail}" if len(places) == 1 else f"{detail} ({len(places)} cells)")
    more = [f"and {len(details) - _CELLS_SHOWN} more cells"] if len(details) > _CELLS_SHOWN else []
    return "; ".join([*details[:_CELLS_SHOWN], *more])


def _place(row: Row) -> str:
    name, batch = "batch", row["batch_per_gpu"]
    if words.is_known(row["global_batch"]):
        name, batch = "global batch", row["global_batch"]
    return f"{name} {words.whole(batch)} on {words.plural(row['gpus'], 'GPU')}"


def _strong_speedups(cells: pd.DataFrame) -> list[str]:
    """A sentence for every global batch that was held fixed: these cells have no weak figures to stand beside."""
    known = cells[(cells["quantity"] == "speedup_strong") & cells["corrected"].notna()]
    return [
        f"Strong speedup at global batch {words.whole(batch)}: "
        + "; ".join(
            f"{words.estimate(row, 'corrected')}× on {words.plural(row['gpus'], 'GPU')}" for row in words.rows(group)
        )
        + "."
        for batch, group in known.groupby("global_batch")
    ]


def _not_recomputable(cells: pd.DataFrame) -> list[str]:
    """A sentence for every reason, with the quantities and the number of cells that it holds for."""
    headings = {name: shown.label.lower() for name, shown in _QUANTITIES.items()}
    shown = cells[cells["reason"].notna() & cells["quantity"].isin(headings)]
    return [
        f"{words.capitalised(NOT_RECOMPUTABLE)}, as {reason}: "
        f"{words.listed([headings[name] for name in dict.fromkeys(group['quantity'])])} "
        f"({words.plural(len(group[['batch_per_gpu', 'gpus']].drop_duplicates()), 'cell')})."
        for reason, group in shown.groupby("reason", sort=False)
    ]


def _cautions(cells: pd.DataFrame) -> list[str]:
    """A sentence for every time that may be wrong, with what follows from it."""
    headings = {name: shown.label.lower() for name, shown in _QUANTITIES.items()}
    doubtful = cells[cells["caution"].notna() & cells["quantity"].isin(headings)]
    return [
        f"Caution: {words.listed([headings[name] for name in dict.fromkeys(group['quantity'])])} {caution!s}."
        for caution, group in doubtful.groupby("caution", sort=False)
        if caution
    ]


def _view(study: str, cells: pd.DataFrame) -> View:
    """One row a cell with several GPUs, published and corrected side by side."""
    known = {(row["quantity"], row["batch_per_gpu"], row["gpus"]): row for row in words.rows(cells)}
    columns = [
        Column("Batch per GPU", lambda place: words.whole(place["batch_per_gpu"])),
        Column("GPUs", lambda place: words.whole(place["gpus"])),
        Column(f"T(N,b), {EPOCH.unit.shown}", lambda place: _published(_at(known, "epoch_s", place))),
    ]
    for name, shown in _QUANTITIES.items():
        of_it = cells[cells["quantity"] == name]
        if of_it["published"].notna().any():
            unit = f"labelled {of_it['published_unit'].dropna().iloc[0]}" if name == "bandwidth" else shown.unit.shown
            columns.append(_published_column(known, name, f"{shown.label}, published, {unit}"))
        is_known = of_it["corrected"].notna().any() or of_it["reason"].notna().any()
        is_wanted = name not in _ONLY_PUBLISHED or of_it["published"].notna().any()
        if name != "speedup_alternative" and is_known and is_wanted:
            columns.append(_corrected_column(known, name, shown))
    rows = [[column.cell(place) for column in columns] for place in _places(cells)]
    return View(f"audit-{study}", "audit", f"{study}, as published and as defined here", columns, rows, 0, None)


def _places(cells: pd.DataFrame) -> list[Row]:
    """The cells with several GPUs, in order."""
    shown = cells[cells["quantity"].isin(list(_QUANTITIES)) & (cells["gpus"] > 1)]
    return list(words.rows(shown.drop_duplicates(["batch_per_gpu", "gpus"]).sort_values(["batch_per_gpu", "gpus"])))


Known = dict[tuple[Any, Any, Any], dict[str, Any]]


def _at(known: Known, quantity: str, place: Row) -> Row | None:
    return known.get((quantity, place["batch_per_gpu"], place["gpus"]))


def _published_column(known: Known, quantity: str, heading: str) -> Column:
    return Column(heading, lambda place: _published(_at(known, quantity, place)))


def _corrected_column(known: Known, quantity: str, shown: Quantity) -> Column:
    return Column(
        shown.heading, lambda place: _corrected(_at(known, quantity, place), replace(shown.unit, decimals=None))
    )


def _published(row: Row | None) -> str:
    """With the digits that were printed."""
    return words.text(row["published"]) if row else words.ABSENT


def _corrected(row: Row | None, unit: Unit) -> str:
    if row is None:
        return words.ABSENT
    if not words.is_known(row["corrected"]):
        return NOT_RECOMPUTABLE if words.is_known(row["reason"]) else words.ABSENT
    return words.estimate(row, "corrected", unit)
