"""The general table: a row per configuration with its speed and its price."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present.text.numbers import brief
from dpscale.present.text.view import View, columns_on, point, shown, view_of, written
from dpscale.present.text.words import Terms, headline, ok
from dpscale.tables.column import MULTIPLES, SECONDS
from dpscale.tables.timing import SpeedupRow, TimesRow

_NOT_KNOWN = SpeedupRow(strategy="", gpus=0, batch_per_gpu=0, global_batch=0, scope="", environment="")


def general(times: Sequence[TimesRow], speedup: Sequence[SpeedupRow], terms: Terms) -> View:
    """Of the first scope, by the configurations whose epochs speak for them. Speedups come first, for phones."""
    scope = min((row.scope for row in times), default="")
    timed = headline(ok(row for row in times if row.scope == scope))
    gains = {_place(row): row for row in speedup if row.scaling == "weak" and row.scope == scope}
    plain = {name: written(column, digits=3) for name, column in TimesRow.columns().items()}
    cells: dict[str, Callable[[TimesRow], str]] = {
        **plain,
        "epoch_s": lambda row: brief(row.epoch_s, SECONDS),
        "mfu": partial(_mfu, plain["mfu"]),
    }
    gained: dict[str, Callable[[SpeedupRow], str]] = {
        "speedup": lambda row: brief(row.speedup, MULTIPLES),
        "efficiency": written(SpeedupRow.column("efficiency"), digits=3),
    }

    def beside(cell: Callable[[SpeedupRow], str]) -> Callable[[TimesRow], str]:
        return lambda row: cell(gains.get(_place(row), _NOT_KNOWN))

    columns = [
        *point(TimesRow, timed, terms),
        *(shown(SpeedupRow.column(name), terms, beside(cell)) for name, cell in gained.items()),
        *(shown(column, terms, cells[column.name]) for column in columns_on(TimesRow, "price")),
    ]
    caption = f"Speed and price of every configuration whose epochs have {HEADLINE_STEPS} full steps"
    return view_of("general", caption, timed, columns, "times", times)


def _place(row: TimesRow | SpeedupRow) -> tuple[Any, ...]:
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def _mfu(plain: Callable[[TimesRow], str], row: TimesRow) -> str:
    return "unknown" if row.peak_source == "unknown" else plain(row)
