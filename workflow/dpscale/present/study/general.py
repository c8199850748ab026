"""The general table: a row per configuration with its speed and its price, and a bar for its efficiency."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present.text.numbers import brief
from dpscale.present.text.view import (
    ROWS_SHOWN,
    ShownColumn,
    View,
    bar,
    columns_on,
    point,
    shown,
    view_of,
    written,
)
from dpscale.present.text.words import Terms, headline, in_order, ok
from dpscale.tables.column import MULTIPLES, SECONDS
from dpscale.tables.timing import SpeedupRow, TimesRow


@dataclass(frozen=True)
class General:
    """The table as text, and the CSS class of the bar in every row's cell of column `bar_column`."""

    view: View
    bars: Sequence[str]
    bar_column: int


def general(times: Sequence[TimesRow], speedup: Sequence[SpeedupRow], terms: Terms) -> General:
    """Of the first scope, by the configurations whose epochs speak for them."""
    scope = min((row.scope for row in times), default="")
    timed = in_order(headline(ok(row for row in times if row.scope == scope)))
    gained = {_place(row): row for row in speedup if row.scaling == "weak" and row.scope == scope}
    efficiencies = [gained.get(_place(row), _NOT_KNOWN).efficiency for row in timed[:ROWS_SHOWN]]
    plain = {name: written(column, digits=3) for name, column in TimesRow.columns().items()}
    cells: dict[str, Callable[[TimesRow], str]] = {
        **plain,
        "epoch_s": lambda row: brief(row.epoch_s, SECONDS),
        "mfu": partial(_mfu, plain["mfu"]),
    }
    epoch, *others = (shown(column, terms, cells[column.name]) for column in columns_on(TimesRow, "price"))
    columns = [
        *point(TimesRow, timed, terms),
        epoch,
        _gained("speedup", lambda row: brief(row.speedup, MULTIPLES), gained, terms),
        efficiency := _gained("efficiency", written(SpeedupRow.column("efficiency"), digits=3), gained, terms),
        *others,
    ]
    caption = f"Speed and price of every configuration whose epochs have {HEADLINE_STEPS} full steps"
    view = view_of("general", caption, timed, columns, "times", times)
    bars = [bar(found.value) if found.is_known else "" for found in efficiencies]
    return General(view, bars, columns.index(efficiency))


_NOT_KNOWN = SpeedupRow(strategy="", gpus=0, batch_per_gpu=0, global_batch=0, scope="", environment="")


def _place(row: TimesRow | SpeedupRow) -> tuple[Any, ...]:
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def _gained(
    name: str, cell: Callable[[SpeedupRow], str], gained: Mapping[Any, SpeedupRow], terms: Terms
) -> ShownColumn[Any]:
    """A column of the speedups beside the times."""
    return shown(SpeedupRow.column(name), terms, lambda row: cell(gained.get(_place(row), _NOT_KNOWN)))


def _mfu(plain: Callable[[TimesRow], str], row: TimesRow) -> str:
    return "unknown" if row.peak_source == "unknown" else plain(row)
