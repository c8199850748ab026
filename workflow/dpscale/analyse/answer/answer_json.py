"""The answer for machines: answer.json, whose shape is `schemas/answer.schema.yaml`."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

from dpscale.analyse.answer.answer import Answer
from dpscale.formulas.figure import Figure
from dpscale.tables.row import Row

FILE = "answer.json"


def answer_json(answer: Answer, sentences: Sequence[str]) -> str:
    """The text of the file. Rows have the names of their columns; what is not known is null."""
    found = {
        "question": "Are more devices worth it?",
        "sentence": " ".join(sentences),
        "devices": list(map(_of_row, answer.rows)),
        "with_loading": list(map(_of_row, answer.loaded)),
        "reason": _of_row(answer.reason) if answer.reason else None,
        "reason_with_loading": _of_row(answer.reason_with_loading) if answer.reason_with_loading else None,
        "to_do": list(map(_of_row, answer.to_do)),
        "rejected_records": answer.rejected,
    }
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def _of_row(row: Row) -> dict[str, Any]:
    return {name: _of_entry(getattr(row, name), column.unit.stored) for name, column in row.columns().items()}


def _of_entry(entry: Any, unit: str) -> Any:
    """A figure with its ends, what these are, and its unit."""
    if not isinstance(entry, Figure):
        return None if entry == "" or (isinstance(entry, float) and not isfinite(entry)) else entry
    if not entry.is_known:
        return None
    value, low, high = (number if isfinite(number) else None for number in (entry.value, *entry.interval))
    return {"value": value, "low": low, "high": high, "kind": entry.kind, "unit": unit}
