"""The words and the numbers of the page: one way to write each."""

import math
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import pandas as pd

from dpscale.analyse import claims
from dpscale.analyse.claims import is_range
from dpscale.present.text.words import Terms as Terms
from dpscale.schemas.settings import BUILT_IN
from dpscale.strategies.known import STRATEGIES
from dpscale.strategies.known import strategy as known_strategy
from dpscale.vocabulary.quantities import BANDWIDTH, E1, MULTIPLES, PLAIN, Unit

Tables = Mapping[str, pd.DataFrame]
Row = Mapping[str, Any]

ABSENT = "–"
MINUS = "−"
POINT_COLUMNS = ["strategy", "gpus", "batch_per_gpu"]

# More batches in a row are a range.
_NAMED_EACH = 2

_STATES = {"oom": "OOM"}
_SCOPES = {"compute": "compute", "end_to_end": "end-to-end"}


def is_own_workload(study: Mapping[str, Any]) -> bool:
    """Whether a study trains a file of a user, not the built-in workload."""
    return bool(study["workload"] != BUILT_IN)


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


def span(counts: pd.Series) -> str:
    """The whole numbers of a column: `3`, or `1 to 4` where they differ. There must be one."""
    least, most = int(counts.min()), int(counts.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def listed(items: Sequence[str], limit: int = 12, separator: str = ", ") -> str:
    """`a, b, c`, and how many more where there are more than `limit`."""
    more = f" and {left_out(items, limit):,} more" if len(items) > limit else ""
    return separator.join(items[:limit]) + more


def batches(chosen: Sequence[int], among: Sequence[int]) -> str:
    """`32`, `32 and 128`, `128 to 2,048`: three or more in a row, of those `among` which they were chosen, as a range.

    Both ascend.
    """
    rows: list[list[int]] = []
    for batch in chosen:
        follows = rows and among.index(batch) == among.index(rows[-1][-1]) + 1
        if follows:
            rows[-1].append(batch)
        else:
            rows.append([batch])
    named: list[str] = []
    for row in rows:
        named += [f"{row[0]:,} to {row[-1]:,}"] if len(row) > _NAMED_EACH else [f"{batch:,}" for batch in row]
    *first, last = named
    return f"{', '.join(first)} and {last}" if first else last


def on_nodes(part: pd.DataFrame) -> str:
    """` on 2 nodes`, where devices of these rows are on several; otherwise nothing. Their `nodes` may be unknown."""
    several = part["nodes"][part["nodes"] > 1]
    return f" on {int(several.max())} nodes" if len(several) else ""


def left_out(items: Sized, shown: int) -> int:
    """How many of the items are not shown."""
    return max(0, len(items) - shown)


def is_known(value: Any) -> bool:
    """Whether a table's entry holds something. Missing entries are NaN; an infinite number is none either."""
    return value is not pd.NA and claims.is_known(value)


def are_true(column: pd.Series) -> pd.Series:
    """A column of truth values that may have missing entries or be text, as CSV leaves it."""
    return pd.Series(list(map(claims.is_true, column)), index=column.index, dtype=bool)


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


def estimate(row: Row, name: str, unit: Unit = PLAIN, with_unit: bool = False) -> str:
    """`2.871 [2.866, 2.874]`: the quantity `name` of a row as `unit` shows it, and its 95 % interval.

    With the decimals that two significant digits of the interval's width have, at most four of the value. The range of
    two runs is called that: `2.871 [range of two runs: 2.866 to 2.874]`.
    """
    if not is_known(row[name]):
        return ABSENT
    symbol = _symbol(unit) if with_unit else ""
    value = unit.of(row[name])
    if unit.decimals is not None:
        return _with_decimals(row, name, symbol, unit)
    ends = [row[f"{name}{end}"] for end in ("_low", "_high")]
    if not all(map(is_known, ends)):
        return f"{figure(value)}{symbol} [{_why_no_interval(row, name)}]"
    low, high = map(unit.of, ends)
    decimals = _decimals(value, 4)
    if high > low:
        by_width = _decimals(high - low, 2)
        least = _decimals(low, 1) if low > 0 else 0  # what is above zero is not shown as zero
        decimals = min(decimals, max(by_width, _decimals(value, 1), least)) if value else by_width
    shown, *interval = (_fixed(number, decimals) for number in (value, low, high))
    if is_range(row, name):
        return f"{shown}{symbol} [range of two runs: {' to '.join(interval)}]"
    return f"{shown}{symbol} [{', '.join(interval)}]"


def brief(row: Row, name: str, unit: Unit = PLAIN) -> str:
    """The same where there is little room: the range of two runs in parentheses, and without an interval the number."""
    if not is_known(row[name]):
        return ABSENT
    if is_range(row, name):
        return estimate(row, name, unit).replace("[range of two runs: ", "(").replace("]", ")")
    has_interval = all(is_known(row.get(f"{name}{end}")) for end in ("_low", "_high"))
    return estimate(row, name, unit) if has_interval else in_unit(row[name], unit)


def _with_decimals(row: Row, name: str, symbol: str, unit: Unit) -> str:
    """`2.87× [2.86, 2.88]`: with the unit's own decimals."""
    value, low, high = (in_unit(row[f"{name}{end}"], unit) for end in ("", "_low", "_high"))
    if ABSENT in (low, high):
        return f"{value}{symbol} [{_why_no_interval(row, name)}]"
    if unit is MULTIPLES:
        value, low, high = _beside_one(row, name)
    if is_range(row, name):
        return f"{value}{symbol} [range of two runs: {low} to {high}]"
    return f"{value}{symbol} [{low}, {high}]"


def _beside_one(row: Row, name: str) -> list[str]:
    """A multiple and its ends, with as many decimals (2 to 4) as show on which side of 1 an end lies: 1.00 would say
    that two may be alike."""
    ends = [float(row[f"{name}{end}"]) for end in ("", "_low", "_high")]
    _, low, high = ends
    nearest = low - 1 if low > 1 else 1 - high if high < 1 else 1.0
    decimals = min(4, max(2, _decimals(nearest, 1)))
    return [_fixed(end, decimals) for end in ends]


# Figures that are means over the blocks of their row, not over its runs.
_OF_BLOCKS = ("speedup", "efficiency", "speedup_from_steps", "efficiency_from_steps", "communication_s", E1.column)


def _why_no_interval(row: Row, name: str) -> str:
    number = row.get("blocks") if name in _OF_BLOCKS else row.get("runs")
    return "no interval: one run" if is_known(number) and number == 1 else "no interval"


def bandwidth(row: Row) -> str:
    """The inferred bandwidth with its interval, or what follows where it is not resolvable: `at least 47.1`."""
    least = row["bandwidth_gb_s_at_least"]
    return f"at least {figure(least, 3)}" if is_known(least) else estimate(row, BANDWIDTH.column, BANDWIDTH.unit)


def measured(value: Any, unit: Unit, digits: int = 3) -> str:
    """`26.3 ms`, `0.39×`: a table's number in its unit, or a dash where there is none."""
    return f"{in_unit(value, unit, digits)}{_symbol(unit)}" if is_known(value) else ABSENT


def in_unit(value: Any, unit: Unit, digits: int = 4) -> str:
    """The same without its unit, for where a heading says it."""
    if unit.decimals is not None and is_known(value):
        return _fixed(unit.of(value), unit.decimals)
    return figure(unit.of(value), digits) if is_known(value) else ABSENT


def _symbol(unit: Unit) -> str:
    """The unit as it follows a number: `×` at once, others after a space."""
    return unit.shown if unit.shown in ("", "×") else f" {unit.shown}"


def _decimals(value: float, digits: int) -> int:
    """Decimals that give a number its significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def _fixed(value: float, decimals: int) -> str:
    return f"{value:z,.{decimals}f}".replace("-", MINUS)  # z: zero has no sign


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    """The table sorted as people read it: scope, then strategy, GPUs and batch. Raises StrategyError."""
    if table.empty:
        return table
    columns = [name for name in ("scope", "scaling", *POINT_COLUMNS, "environment") if name in table]
    return table.sort_values(
        columns, key=lambda column: column.map(rank) if column.name == "strategy" else column, kind="stable"
    )


def rank(strategy: str) -> int:
    """The place of a strategy in the order in which people read them. Raises StrategyError for an unknown one."""
    return list(STRATEGIES).index(known_strategy(strategy).name)


def colour(strategy: str) -> str:
    """The colour of a strategy, as a variable of the page's style. Raises StrategyError for an unknown one."""
    return f"var(--{known_strategy(strategy).name})"


def ok(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a result."""
    return table[table["status"] == "ok"]


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as mappings. Keys are text, values Python's own numbers and text, with None in place of pandas' NA.

    As pandas' own way to records has it, in a fifth of the time.
    """
    names = [str(name) for name in table]
    values = [[None if value is pd.NA else value for value in row] for row in table.to_numpy(dtype=object).tolist()]
    return [dict(zip(names, row, strict=True)) for row in values]
