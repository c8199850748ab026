"""What was asked for and what there is: the coverage grid, and the list of what has no number and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpscale.present.text.words import Terms, in_order, left_out, listed, on_nodes, plural, rank, state
from dpscale.tables.study import AbsencesRow, MissingRow
from dpscale.tables.timing import TimesRow
from dpscale.vocabulary.states import NOT_PLANNED

_GRID_ROWS = 200
_GRID_COLUMNS = 24


@dataclass(frozen=True)
class State:
    """The word for a configuration's state, and why it is so."""

    word: str
    reason: str

    @property
    def css_class(self) -> str:
        """`ok` where there is a number, `oom` where memory ended, `none` for everything else."""
        return {"ok": "ok", "OOM": "oom"}.get(self.word, "none")


@dataclass(frozen=True)
class Coverage:
    """Rows (strategy, gpus) by batches; or by states, with counts, where there are many batches."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[State]]]
    rows_left_out: int
    counts_states: bool

    @property
    def words(self) -> list[list[str]]:
        return [[cell.word for cell in cells] for _, cells in self.rows]


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


def coverage(times: Sequence[TimesRow], terms: Terms) -> Coverage:
    """The state of every configuration of the study."""
    found = _states(times)
    lines = sorted({(strategy, gpus) for strategy, gpus, _ in found}, key=lambda line: (rank(line[0]), line[1]))
    batches = sorted({batch for *_, batch in found})
    words = sorted({state.word for state in found.values()})
    by_batch = len(batches) <= _GRID_COLUMNS
    rows = []
    for strategy, gpus in lines[:_GRID_ROWS]:
        line = [found.get((strategy, gpus, batch), State(NOT_PLANNED, "")) for batch in batches]
        nodes = on_nodes(row.nodes for row in times if (row.strategy, row.gpus) == (strategy, gpus))
        rows.append((f"{strategy}, {terms.count(gpus)}{nodes}", line if by_batch else _counts(line, words)))
    columns = [f"{batch:,}" for batch in batches] if by_batch else words
    return Coverage(columns, rows, left_out(lines, len(rows)), counts_states=not by_batch)


def absences(times: Iterable[TimesRow], counted: Iterable[AbsencesRow], terms: Terms) -> list[Absence]:
    """Every state but `ok` with its reason and its configurations, the most frequent first, as they were `counted`."""
    which: dict[tuple[str, str], dict[str, None]] = {}
    for row in in_order(row for row in times if row.status != "ok"):
        points = which.setdefault((state(row.status), _reason(row)), {})
        points[f"{row.strategy} × {row.gpus} at {row.batch_per_gpu:,}{terms.environment(row)}"] = None
    numbers = {(state(row.status), _reason(row)): row.configurations or 0 for row in counted}
    found = [Absence(*key, numbers[key], listed(list(points))) for key, points in which.items()]
    return sorted(found, key=lambda absence: absence.number, reverse=True)


def missing_cells(missing: Iterable[MissingRow], terms: Terms) -> list[MissingCell]:
    """Every planned cell without a record, those that failed first."""
    failed_first = sorted(missing, key=lambda row: row.status)
    return [MissingCell(_job(row, terms), row.status, row.reason, row.log) for row in failed_first]


def _job(row: MissingRow, terms: Terms) -> str:
    """Timing needs no name: it is what a study is about."""
    if row.kind == "training":
        return f"training of arm {row.arm}, seed {row.seed}"
    run = f"run {row.run}"
    if row.kind == "collectives":
        return f"collectives on {terms.count(row.gpus)}, {run}"
    of = "communication of " if row.kind == "communication" else ""
    variant = f"variant {row.variant} of " if row.variant else ""
    return f"{of}{variant}{terms.point(row)}, {run}"


def _states(times: Iterable[TimesRow]) -> Mapping[tuple[str, int, int], State]:
    """One a configuration. Where scopes or environments differ, their words stand side by side."""
    found: dict[tuple[str, int, int], tuple[dict[str, None], dict[str, None]]] = {}
    for row in in_order(times):
        words, reasons = found.setdefault((row.strategy, row.gpus, row.batch_per_gpu), ({}, {}))
        words[state(row.status)] = None
        reasons[_reason(row)] = None
    return {point: State(" / ".join(words), "; ".join(reasons)) for point, (words, reasons) in found.items()}


def _reason(row: TimesRow | AbsencesRow) -> str:
    if isinstance(row, AbsencesRow) or row.status != "ok":
        return row.reason or "no reason recorded"
    timed = f"{plural(row.runs or 0, 'run')}, {plural(row.n or 0, 'timed epoch')}"
    return f"{timed}, {row.reason}" if row.reason else timed


def _counts(states: Iterable[State], words: Sequence[str]) -> list[State]:
    found = [state.word for state in states]
    return [State(f"{found.count(word):,} {word}", "") for word in words]
