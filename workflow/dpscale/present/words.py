"""The words and the numbers of the page: one way to write each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

Tables = Mapping[str, pd.DataFrame]
Row = Mapping[str, Any]

ABSENT = "–"
MINUS = "−"
STRATEGIES = ("single", "dp", "ddp")
POINT_COLUMNS = ["strategy", "gpus", "batch_per_gpu"]

_STATES = {"oom": "OOM"}
_SCOPES = {"compute": "compute", "end_to_end": "end-to-end"}


@dataclass(frozen=True)
class Words:
    """How this study speaks: of GPUs or of workers, and of environments only where there are several."""

    device: str
    several_environments: bool
    synthetic: bool

    @classmethod
    def of(cls, study: Mapping[str, Any], tables: Tables) -> "Words":
        return cls(
            device="worker" if study["device"] == "cpu" else "GPU",
            several_environments=len(tables["environments"]) > 1,
            synthetic=study["dataset"]["source"] == "synthetic" or any(is_true(tables["records"]["synthetic"])),
        )

    @property
    def devices(self) -> str:
        return f"{self.device}s"

    @property
    def heading(self) -> str:
        """`GPUs`, `Workers`."""
        return capitalised(self.devices)

    def count(self, number: int) -> str:
        """`1 GPU`, `4 GPUs`."""
        return plural(number, self.device)

    def point(self, row: Row) -> str:
        """`ddp on 4 GPUs at batch 512 per GPU`, and its environment where there are several."""
        where = f"{row['strategy']} on {self.count(int(row['gpus']))}"
        return f"{where} at batch {int(row['batch_per_gpu']):,} per {self.device}{self.environment(row)}"

    def environment(self, row: Row) -> str:
        """` in environment B` where there are several and this row has one; else nothing."""
        known = self.several_environments and is_known(row.get("environment"))
        return f" in environment {row['environment']}" if known else ""


def state(status: str) -> str:
    """The word for a status."""
    return _STATES.get(status, status)


def scope(name: str) -> str:
    """`compute scope`, `end-to-end scope`."""
    return f"{_SCOPES[name]} scope"


def capitalised(sentence: str) -> str:
    """The sentence with a capital first letter, the rest as it is."""
    return sentence[:1].upper() + sentence[1:]


def plural(number: int, noun: str, several: str = "") -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {several or f'{noun}s'}"


def listed(items: Sequence[str], limit: int = 12, separator: str = ", ") -> str:
    """`a, b, c`, and how many more where there are more than `limit`."""
    more = f" and {len(items) - limit:,} more" if len(items) > limit else ""
    return separator.join(items[:limit]) + more


def is_known(value: Any) -> bool:
    """Whether a table's entry holds something. Missing entries are NaN; an infinite number is none either."""
    if value is None or value is pd.NA:
        return False
    return not isinstance(value, float) or math.isfinite(value)


def is_true(column: Iterable[Any]) -> list[bool]:
    """A column of truth values that may have missing entries or be text, as CSV leaves it."""
    return [str(value).lower() == "true" for value in column]


def text(value: Any) -> str:
    """Text, or a dash where there is none."""
    return str(value) if is_known(value) and str(value) else ABSENT


def figure(value: Any, digits: int = 4) -> str:
    """A number with `digits` significant digits and thousands separated, or a dash where there is none."""
    if not is_known(value):
        return ABSENT
    decimals = _decimals(value, digits)
    if decimals > digits + 3:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    return _fixed(value, decimals)


def whole(value: Any) -> str:
    """A count with thousands separated, or a dash where there is none."""
    return f"{int(value):,}" if is_known(value) else ABSENT


def estimate(row: Row, name: str, scale: float = 1.0, unit: str = "") -> str:
    """`2.871 [2.866, 2.874]`: the quantity `name` of a row, in its unit times `scale`, and its interval.

    With the decimals that two significant digits of the interval's width have, at most four of the value.
    """
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if not is_known(value):
        return ABSENT
    if not (is_known(low) and is_known(high)):
        return f"{figure(value * scale)}{unit} [no interval]"
    decimals = _decimals(value * scale, 4)
    if high > low:
        by_width = _decimals((high - low) * scale, 2)
        decimals = min(decimals, max(by_width, _decimals(value * scale, 1))) if value else by_width
    shown, *interval = (_fixed(number * scale, decimals) for number in (value, low, high))
    return f"{shown}{unit} [{', '.join(interval)}]"


def _decimals(value: float, digits: int) -> int:
    """Decimals that give a number its significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def _fixed(value: float, decimals: int) -> str:
    return f"{value:z,.{decimals}f}".replace("-", MINUS)  # z: zero has no sign


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    """The table sorted as people read it: scope, then strategy, GPUs and batch."""
    ranks = {name: rank for rank, name in enumerate(STRATEGIES)}
    columns = [name for name in ("scope", "scaling", *POINT_COLUMNS, "environment") if name in table]
    return table.sort_values(
        columns, key=lambda column: column.map(ranks) if column.name == "strategy" else column, kind="stable"
    )


def ok(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a result."""
    return table[table["status"] == "ok"]


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as mappings. Keys are text, values as pandas holds them."""
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
