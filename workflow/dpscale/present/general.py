"""The general table: a row per configuration with its speed and its price, and a bar for its efficiency."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from dpscale.analyse.derived import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.finding import headline
from dpscale.present.view import View, bar, column_of, plain, point, view_of
from dpscale.present.words import Row, Terms
from dpscale.vocabulary.quantities import EFFICIENCY, MFU, SPEEDUP, Quantity, columns_of_view

_CONFIGURATION = ["strategy", "gpus", "batch_per_gpu", "environment"]
_GAINED = [f"{gained.column}{end}" for gained in (SPEEDUP, EFFICIENCY) for end in ("", "_low", "_high")]


@dataclass(frozen=True)
class General:
    """The table as text, and the CSS class of the bar in every row's cell of column `bar_column`."""

    view: View
    bars: Sequence[str]
    bar_column: int


def general(times: pd.DataFrame, speedup: pd.DataFrame, terms: Terms) -> General:
    """Of the first scope, by the configurations whose epochs speak for them."""
    scope = min(times["scope"], default="")
    timed = headline(words.ok(times[times["scope"] == scope]))
    weak = speedup[(speedup["scaling"] == "weak") & (speedup["scope"] == scope)]
    # What is a range is said of each table's own figures.
    gained = weak[[*_CONFIGURATION, *_GAINED, "ranges"]].rename(columns={"ranges": "gained_ranges"})
    both = timed.merge(gained, on=_CONFIGURATION, how="left")
    both["ranges"] = both["ranges"].fillna("").astype(str).str.cat(both["gained_ranges"].fillna("").astype(str), "; ")
    # What follows from the epoch time alone has its interval.
    epoch, *others = (column.quantity for column in columns_of_view("price", "times"))
    columns = [
        *point(both, terms),
        *(column_of(quantity, terms, partial(_brief, quantity)) for quantity in (epoch, SPEEDUP)),
        efficiency := column_of(EFFICIENCY, terms, plain(EFFICIENCY, digits=3)),
        *(column_of(quantity, terms, _mfu if quantity == MFU else plain(quantity, digits=3)) for quantity in others),
    ]
    caption = f"Speed and price of every configuration whose epochs have {HEADLINE_STEPS} full steps"
    view = view_of("general", caption, both, columns, source="times", whole=times)
    shown = words.rows(words.in_order(both).head(len(view.cells)))
    bars = [bar(row[EFFICIENCY.column]) if words.is_known(row[EFFICIENCY.column]) else "" for row in shown]
    return General(view, bars, columns.index(efficiency))


def _brief(quantity: Quantity, row: Row) -> str:
    return words.brief(row, quantity.column, quantity.unit)


def _mfu(row: Row) -> str:
    return "unknown" if row["peak_source"] == "unknown" else plain(MFU, digits=3)(row)
