"""What was asked for and what there is: the coverage grid, and the list of what has no number and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.present import words
from dpscale.present.words import Row, Terms
from dpscale.vocabulary.states import NOT_PLANNED

_GRID_ROWS = 200
_GRID_COLUMNS = 24


@dataclass(frozen=True)
class Cell:
    """The word for a configuration's state, and why it is so."""

    word: str
    reason: str

    @property
    def css_class(self) -> str:
        """`ok` where there is a number, `oom` where memory ended, `none` for everything else."""
        return {"ok": "ok", "OOM": "oom"}.get(self.word, "none")


@dataclass(frozen=True)
class Grid:
    """Rows (strategy, gpus) by batches; or by states, with counts, where there are many batches."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    rows_left_out: int
    counts_states: bool


@dataclass(frozen=True)
class Absence:
    """A reason why configurations have no number, how many it holds for, and which."""

    state: str
    reason: str
    number: int
    points: str


@dataclass(frozen=True)
class MissingCell:
    """A cell that was planned and has no record: its state, the reason, and the last lines of its log, if any."""

    name: str
    state: str
    reason: str
    log: str


def grid(times: pd.DataFrame, terms: Terms) -> Grid:
    """The state of every configuration of the study."""
    cells = _cells(times, terms)
    lines = sorted({(strategy, gpus) for strategy, gpus, _ in cells}, key=_plain_first)
    batches = sorted({batch for *_, batch in cells})
    states = sorted({cell.word for cell in cells.values()})
    by_batch = len(batches) <= _GRID_COLUMNS
    grid_rows = []
    for strategy, gpus in lines[:_GRID_ROWS]:
        found = {batch: cells.get((strategy, gpus, batch), Cell(NOT_PLANNED, "")) for batch in batches}
        line = list(found.values()) if by_batch else _counts(found.values(), states)
        part = times[(times["strategy"] == strategy) & (times["gpus"] == gpus)]
        grid_rows.append((f"{strategy}, {terms.count(gpus)}{words.on_nodes(part)}", line))
    columns = [f"{batch:,}" for batch in batches] if by_batch else states
    return Grid(columns, grid_rows, words.left_out(lines, len(grid_rows)), counts_states=not by_batch)


def absences(times: pd.DataFrame, counted: pd.DataFrame, terms: Terms) -> list[Absence]:
    """Every state but `ok` with its reason and its configurations, the most frequent first, as they were `counted`."""
    which: dict[tuple[str, str], dict[str, None]] = {}
    for row in words.rows(words.in_order(times[times["status"] != "ok"])):
        points = which.setdefault((words.state(row["status"]), _reason(row)), {})
        points[f"{row['strategy']} × {row['gpus']} at {row['batch_per_gpu']:,}{terms.environment(row)}"] = None
    numbers = {(words.state(row["status"]), _reason(row)): int(row["configurations"]) for row in words.rows(counted)}
    found = [Absence(*key, numbers[key], words.listed(list(points))) for key, points in which.items()]
    return sorted(found, key=lambda absence: absence.number, reverse=True)


def missing_cells(missing: pd.DataFrame, terms: Terms) -> list[MissingCell]:
    """Every planned cell without a record, those that failed first."""
    return [
        MissingCell(
            _job(row, terms),
            row["status"],
            row["reason"],
            row["log"] if words.is_known(row["log"]) else "",
        )
        for row in words.rows(missing.sort_values("status", kind="stable"))
    ]


def _job(row: Row, terms: Terms) -> str:
    """Timing needs no name: it is what a study is about."""
    if row["kind"] == "training":
        return f"training of arm {row['arm']}, seed {int(row['seed'])}"
    run = f"run {int(row['run'])}"
    if row["kind"] == "collectives":
        return f"collectives on {terms.count(int(row['gpus']))}, {run}"
    of = "communication of " if row["kind"] == "communication" else ""
    variant = f"variant {row['variant']} of " if words.is_known(row["variant"]) else ""
    return f"{of}{variant}{terms.point(row)}, {run}"


def _cells(times: pd.DataFrame, terms: Terms) -> Mapping[tuple[str, int, int], Cell]:
    """One cell a configuration. Where scopes or environments differ, their words stand side by side."""
    found: dict[tuple[str, int, int], tuple[dict[str, None], dict[str, None]]] = {}
    for row in words.rows(words.in_order(times)):
        states, reasons = found.setdefault((row["strategy"], row["gpus"], row["batch_per_gpu"]), ({}, {}))
        states[words.state(row["status"])] = None
        reasons[_reason(row)] = None
    return {point: Cell(" / ".join(states), "; ".join(reasons)) for point, (states, reasons) in found.items()}


def _reason(row: Row) -> str:
    reason = str(row["reason"]) if words.is_known(row["reason"]) else ""
    if row["status"] != "ok":
        return reason or "no reason recorded"
    timed = f"{words.plural(int(row['runs']), 'run')}, {words.plural(int(row['n']), 'timed epoch')}"
    return f"{timed}, {reason}" if reason else timed


def _counts(cells: Iterable[Cell], states: Sequence[str]) -> list[Cell]:
    found = [cell.word for cell in cells]
    return [Cell(f"{found.count(state):,} {state}", "") for state in states]


def _plain_first(line: tuple[str, int]) -> tuple[int, int]:
    strategy, gpus = line
    return words.rank(strategy), gpus
