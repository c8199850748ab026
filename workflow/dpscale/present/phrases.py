"""What findings share: their form, which rows are compared, and how a figure and its place are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.present import words
from dpscale.present.words import Row, Tables, Words

_CELLS_NAMED = 6


@dataclass(frozen=True)
class Finding:
    """A sentence with its numbers, and the cells it rests on: `rows` rows of the page's table `view`."""

    sentence: str
    view: str
    rows: int
    cells: Sequence[str]

    @property
    def rests_on(self) -> str:
        """The cells, and how many more where there are too many for a line or two."""
        return words.listed(self.cells, _CELLS_NAMED, "; ")


Predicate = Callable[[Tables, Words], Finding | None]


def finding(sentence: str, view: str, rows: Sequence[Row], say: Words) -> Finding:
    """A finding that rests on these rows of configurations."""
    return Finding(sentence, view, len(rows), _places(rows, say))


def _places(rows: Sequence[Row], say: Words) -> list[str]:
    """`ddp × 4 at 32, 128 (compute scope)`: batches stand together. Tables of ddp alone have no column for it."""
    batches: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        scope = f" ({words.scope(row['scope'])})" if "scope" in row else ""
        place = f"{row.get('strategy', 'ddp')} × {row['gpus']}", f"{scope}{say.environment(row)}"
        batches.setdefault(place, {})[f"{int(row['batch_per_gpu']):,}"] = None
    return [f"{who} at {words.listed(list(found))}{where}" for (who, where), found in batches.items()]


def with_interval(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows whose quantity `name` has an interval."""
    return table.dropna(subset=[name, f"{name}_low", f"{name}_high"])


def extreme(table: pd.DataFrame, name: str, largest: bool) -> Row:
    return words.rows(table.sort_values(name, ascending=not largest, kind="stable").head(1))[0]


def place(row: Row, say: Words) -> str:
    return f"{say.point(row)} ({words.scope(row['scope'])})"


def part_of(part: pd.DataFrame, whole: pd.DataFrame) -> str:
    """`8 of 40 comparisons`."""
    return f"{len(part):,} of {words.plural(len(whole), 'comparison')}"


def multiple(row: Row, name: str) -> str:
    """`2.31× [2.30, 2.32]`."""
    return words.estimate(row, name, unit="×")


def percent(value: float) -> str:
    return f"{words.figure(value * 100, 3)} %"
