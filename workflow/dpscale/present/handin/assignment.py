"""The assignment's tables, all strategies in one table.

Table 1: time and speedup. Table 2: computation and communication time. Table 3: bandwidth and its utilisation. A word
stands where there is no number.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from dpscale.formulas.figure import Figure
from dpscale.present.handin.cells import PrintedCell, cell
from dpscale.present.handin.grid import Grid, PrintedPlace, Quantity
from dpscale.present.handin.rows import AssignmentRows
from dpscale.present.handin.sentences import of_bandwidth, of_communication, of_speedup
from dpscale.present.handin.sheet import Sheet
from dpscale.present.text.numbers import at_least
from dpscale.present.text.words import Terms, ok, scope
from dpscale.tables.column import PLAIN, Unit
from dpscale.tables.communication import BandwidthRow, CommunicationRow
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.vocabulary.states import BORROWED, OTHER_RUNS

# Of the strategies, this one has no allreduce, and the tables of an assignment give it the bandwidth of one.
_WITHOUT_ALLREDUCE = "dp"

Timed = TimesRow | SpeedupRow | CommunicationRow | BandwidthRow


def sheets(rows: AssignmentRows, terms: Terms) -> list[Sheet]:
    """The tables of every environment that has results on several devices, as a page shows them."""
    shown = []
    for environment in dict.fromkeys(row.environment for row in ok(rows.times) if row.gpus > 1):
        in_environment = rows.in_environment(environment)
        where = terms.in_environment(environment)
        suffix = f"-{environment}".lower() if where else ""
        for grid in grids(in_environment, terms):
            sheet = grid.by_batch(in_environment.times, terms)
            shown.append(replace(sheet, id=f"{sheet.id}{suffix}", title=f"{sheet.title}{where}"))
    return shown


def grids(rows: AssignmentRows, terms: Terms) -> list[Grid]:
    """Tables 1 to 3 of an environment, where they have results. Table 1 is of the compute scope, or of the first there
    is."""
    first = min((row.scope for row in rows.times), default="compute")
    timed = [row for row in rows.times if row.scope == first]
    weak = [row for row in rows.speedup if row.scope == first and row.scaling == "weak"]
    has_none = any(row.strategy == _WITHOUT_ALLREDUCE for row in rows.bandwidth)
    remark = ". DataParallel (dp) runs no allreduce: its figure is for comparison only" if has_none else ""
    tables = (
        Grid(
            "table-1",
            "Table 1: time and speedup",
            f"Epoch time T(N,b), s, and speedup T(1,b) / T(N,b), ×, {scope(first)}",
            [_quantity("time", "epoch_s", timed), _quantity("speedup", "speedup", weak)],
        ),
        Grid(
            "table-2",
            "Table 2: computation and communication time",
            "Of an epoch, inferred: computation T(1,b)/N, s, and communication T(N,b) − T(1,b)/N, s, at the "
            "T(1,b) of the same runs, compute scope",
            [
                _quantity("computation", "compute_s", rows.communication),
                _quantity("communication", "communication_s", rows.communication),
            ],
        ),
        Grid(
            "table-3",
            "Table 3: bandwidth utilisation",
            "Bytes of a ring allreduce over the communication time, GB/s (1 GB is 10⁹ bytes), and that over the "
            f"measured bus bandwidth, %, at the T(1,b) of the same runs, compute scope{remark}",
            [
                _quantity("bandwidth", "bandwidth_gb_s", rows.bandwidth),
                _quantity("utilisation", "utilisation", rows.bandwidth),
            ],
        ),
    )
    texts = of_speedup(rows, first, terms), of_communication(rows, terms), of_bandwidth(rows.bandwidth, terms)
    return [replace(grid, paragraphs=text) for grid, text in zip(tables, texts, strict=True) if grid.has_results]


def _quantity(name: str, column: str, rows: Sequence[Timed]) -> Quantity:
    unit = type(rows[0]).column(column).unit if rows else PLAIN
    cells = {PrintedPlace(row.strategy, row.gpus, row.batch_per_gpu): _cell(row, column, unit) for row in rows}
    return Quantity(name, unit, cells)


def _cell(row: Timed, column: str, unit: Unit) -> PrintedCell:
    value, states = getattr(row, column), _states(row)
    figure = value if isinstance(value, Figure) else Figure(value)
    if isinstance(row, BandwidthRow) and not figure.is_known:
        if column == "utilisation" and row.bandwidth_gb_s.is_known:
            return PrintedCell(states=(*states, "no bus bandwidth"))
        if column == "bandwidth_gb_s" and isfinite(row.bandwidth_gb_s_at_least):
            return PrintedCell(low=at_least(row.bandwidth_gb_s_at_least), states=states)
    return cell(figure, unit, *states)


def _states(row: Timed) -> tuple[str, ...]:
    drifted = ("drift",) if getattr(row, "drifted", None) else ()
    other_runs = (OTHER_RUNS,) if getattr(row, "other_runs", None) else ()
    borrowed = (BORROWED,) if getattr(row, "borrowed_from", None) else ()
    return (*(() if row.status == "ok" else (row.status,)), *drifted, *other_runs, *borrowed)
