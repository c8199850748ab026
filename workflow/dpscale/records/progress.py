"""How far a run is, and what the rest costs: a line per cell as it ends, and a line of how many there are. It reads
records and logs alone.

A run's terminal and `dpscale watch` print the same lines.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, median

from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, TrainingCell, VariantCell
from dpscale.plan.plan import Plan, plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, FAILED, MISSING, STATES, CellState, states_of
from dpscale.records.kinds import Record, TimingRecord, TrainingRecord

RUNNING, QUEUED = "running", "queued"
_LOADING = {"compute": "per epoch", "end_to_end": "with loading"}


class Progress:
    """A study that is being measured, as far as it was at the last look.

    `begun` are the cells that a run is about to measure: how an earlier attempt at them ended does not count.
    """

    def __init__(self, study: Study, results: Path, begun: Collection[AnyCell] = ()):
        self._study = study
        self._results = results
        cells = plan(study).all_cells
        self._cells = {str(results / cell.path): cell for cell in cells}
        self._begun = set(begun)
        self._since = time.time() if begun else 0.0
        self._states: dict[AnyCell, CellState] = {}
        self._read(cells)

    @property
    def is_over(self) -> bool:
        """Whether no cell runs or is queued."""
        return self._now().keys().isdisjoint((RUNNING, QUEUED))

    def standing(self) -> str:
        """Return how many cells are done, running, failed and queued, what was spent, and about how long the rest
        takes."""
        now = self._now()
        cells = ", ".join(f"{len(now.get(name, ())):,} {name}" for name in (DONE, RUNNING, FAILED, QUEUED))
        spent_s = sum(gpu_seconds(state.cell, state.record) for state in self._states.values() if state.record)
        spent = f"{spent_s / 3600:.3g} {self._device}-hours spent" if spent_s else ""
        return "; ".join(filter(None, [f"{self._study.name}: {cells}", spent, self._time_left(now)]))

    def under_way(self) -> Iterator[str]:
        """Yield a line for every cell that runs, and for every one that has failed."""
        for state in self._states.values():
            now = self._state_now(state)
            if now == RUNNING:
                since = datetime.fromtimestamp(self._log_changed(state.cell))
                yield f"running since {since:%H:%M:%S}: {self._name(state.cell)}"
            elif now == FAILED:
                yield self._failed(state)

    def look(self) -> Iterator[str]:
        """Yield a line for every cell that has ended since the last look."""
        before = {cell: self._state_now(state) for cell, state in self._states.items() if state.state != DONE}
        self._read(before)
        ended = [cell for cell, was in before.items() if self._state_now(self._states[cell]) in {DONE, FAILED} - {was}]
        yield from self._lines(ended)

    def begin(self, path: str) -> None:
        """The job of the cell whose record is to be at `path` was started, perhaps once more."""
        if path in self._cells:
            self._begun.add(self._cells[path])

    def end(self, path: str) -> str:
        """Return the line of the cell whose job has ended and whose record is at `path`; empty for other jobs."""
        if path not in self._cells:
            return ""
        cell = self._cells[path]
        self._read([cell])
        self._begun.discard(cell)
        return next(self._lines([cell]))

    def _read(self, cells: Collection[AnyCell]) -> None:
        self._states |= zip(cells, states_of(cells, self._study.settings, self._results), strict=True)

    def _lines(self, ended: Collection[AnyCell]) -> Iterator[str]:
        """Yield the lines of cells that have just ended."""
        now = self._now()
        time_left = self._time_left(now)
        before = sum(len(now.get(name, ())) for name in (DONE, FAILED)) - len(ended)
        for number, state in enumerate(map(self._states.__getitem__, ended), before + 1):
            line = self._failed(state)
            if state.record is not None:
                sentence = f"{self._name(state.cell)}: {outcome(state.record)}"
                line = ", ".join(filter(None, [sentence, time_left]))
            yield f"[{number}/{len(self._states)}] {line}"

    def _failed(self, state: CellState) -> str:
        return f"{self._name(state.cell)}: failed: {state.reason.removeprefix('Error: ')}; log: {self._log(state.cell)}"

    def _now(self) -> dict[str, list[AnyCell]]:
        """Return the cells that are done, running, failed and queued."""
        now: dict[str, list[AnyCell]] = {}
        for cell, state in self._states.items():
            now.setdefault(self._state_now(state), []).append(cell)
        return now

    def _state_now(self, state: CellState) -> str:
        """Return whether a cell without a result runs: its log is there then, and has no end yet."""
        if state.state in (DONE, FAILED) and state.cell not in self._begun:
            return state.state
        latest_end = max(self._since, time.time() - self._study["cell_timeout_s"])
        return RUNNING if self._log_changed(state.cell) > latest_end else QUEUED

    def _log(self, cell: AnyCell) -> Path:
        return (self._results / "logs" / cell.path).with_suffix(".log")

    def _log_changed(self, cell: AnyCell) -> float:
        """Return when the cell's log was last written to, in seconds since 1970: mostly at its start. 0 without one."""
        try:
            return self._log(cell).stat().st_mtime
        except OSError:
            return 0.0

    def _time_left(self, now: Mapping[str, Collection[AnyCell]]) -> str:
        """Return about how long the cells take that run or are queued, with as many at once as run now; without a
        queue. Empty where none is to come."""
        running = now.get(RUNNING, ())
        to_come = Counter(cell.kind for cell in (*running, *now.get(QUEUED, ())))
        if not to_come:
            return ""
        means = mean_seconds(self._states.values())
        if to_come.keys().isdisjoint(means):
            return "time left unknown"
        left_s = sum(means.get(kind, 0.0) * number for kind, number in to_come.items()) / max(1, len(running))
        return f"{'about' if to_come.keys() <= means.keys() else 'at least'} {duration(left_s)} left"

    @property
    def _device(self) -> str:
        return "worker" if self._study["device"] == "cpu" else "GPU"

    def _name(self, cell: AnyCell) -> str:
        """Return a cell in a few words, such as `ddp, 2 GPUs, batch 128, run 1`."""
        devices = f"{cell.gpus} {self._device}{'' if cell.gpus == 1 else 's'}"
        if isinstance(cell, TrainingCell):
            return f"training of {cell.arm}, {devices}, seed {cell.seed}"
        if isinstance(cell, CollectivesCell):
            return f"collectives, {devices}, run {cell.run}"
        point = cell.configuration
        name = f"{point.strategy}, {devices}, batch {point.batch_per_gpu:,}, run {cell.run}"
        if isinstance(cell, VariantCell):
            return f"{cell.variant}, {name}"
        return f"communication, {name}" if isinstance(cell, CommunicationCell) else name


def outcome(record: Record) -> str:
    """Return the result of a cell in a few words: its epoch time, mostly."""
    if record.status == "oom":
        return "out of memory"
    if isinstance(record, TimingRecord):
        scopes = record.scopes.items()
        return ", ".join(f"{median(timed.slowest_rank_epoch_s):.3g} s {_LOADING[scope]}" for scope, timed in scopes)
    if isinstance(record, TrainingRecord):
        accuracy = record.epochs[-1].test_accuracy
        end = "diverged" if accuracy is None else f"test accuracy {accuracy:.4f}"
        return f"{median(epoch.epoch_s for epoch in record.epochs):.3g} s per epoch, {end}"
    return f"took {duration(seconds_of(record))}"


def seconds_of(record: Record) -> float:
    """Return the time of a job from its start to its end."""
    return (datetime.fromisoformat(record.finished_at) - datetime.fromisoformat(record.started_at)).total_seconds()


def gpu_seconds(cell: AnyCell, record: Record) -> float:
    """Return the time of a job from its start to its end, times the GPUs (workers) that it held."""
    return seconds_of(record) * cell.gpus


def mean_seconds(states: Iterable[CellState]) -> dict[str, float]:
    """Return how long jobs of a kind took on average, by kind. A kind of which no cell is done is not in it."""
    seconds = defaultdict(list)
    for state in states:
        if state.state == DONE and state.record is not None:
            seconds[state.cell.kind].append(seconds_of(state.record))
    return {kind: fmean(times) for kind, times in seconds.items()}


def duration(seconds: float) -> str:
    """Return `48 s`, `12 min` or `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


UNKNOWN = "no cell of their kind is done"


def summary(study: Study, planned: Plan, states: Sequence[CellState]) -> Iterator[str]:
    """Yield how far the study is, what is not run and why, and what the rest will cost, in lines for a terminal."""
    unit = f"{'worker' if study['device'] == 'cpu' else 'GPU'}-hours"
    means = mean_seconds(states)
    numbers = Counter(cell_state.state for cell_state in states)
    shown = [state for state in STATES if state in (DONE, MISSING) or numbers[state]]
    yield f"{study.name}: {_plural(len(states), 'cell')}"
    yield ""
    yield "  ".join(
        [f"{'kind':<13}", *(f"{state:>{max(7, len(state))}}" for state in shown), f"{unit} spent", "to come"]
    )
    for kind in dict.fromkeys(cell_state.cell.kind for cell_state in states):
        of_kind = [cell_state for cell_state in states if cell_state.cell.kind == kind]
        numbers = Counter(cell_state.state for cell_state in of_kind)
        spent_s = sum(gpu_seconds(cell_state.cell, cell_state.record) for cell_state in of_kind if cell_state.record)
        to_come = _to_come(of_kind)
        to_come_s = means.get(kind, 0.0) * sum(cell_state.cell.gpus for cell_state in to_come)
        yield "  ".join([
            f"{kind:<13}",
            *(f"{numbers[state]:>{max(7, len(state))}}" for state in shown),
            f"{_hours(spent_s):>{len(unit) + 6}}",
            f"{'unknown' if to_come and kind not in means else _hours(to_come_s):>7}",
        ])  # fmt: skip
    yield ""
    yield from _not_run(planned)
    yield from _total(_to_come(states), means, unit)


def _to_come(states: Sequence[CellState]) -> list[CellState]:
    return [cell_state for cell_state in states if cell_state.is_to_be_measured]


def _not_run(planned: Plan) -> Iterator[str]:
    for (state, reason), number in Counter((item.state, item.reason) for item in planned.not_run).items():
        yield f"{state}: {_plural(number, 'configuration')}: {reason}"
    for arm in planned.arms_not_run:
        yield f"{arm.state}: arm {arm.arm}: {arm.reason}"


def _total(to_come: Sequence[CellState], means: dict[str, float], unit: str) -> Iterator[str]:
    if not to_come:
        yield "Nothing is to be measured."
        return
    known_s = [
        means[cell_state.cell.kind] * cell_state.cell.gpus for cell_state in to_come if cell_state.cell.kind in means
    ]
    unknown_cells = len(to_come) - len(known_s)
    hours = (
        f"{'at least' if unknown_cells else 'about'} {_hours(sum(known_s))} {unit}" if known_s else f"{unit} unknown"
    )
    yield f"To be measured: {_plural(len(to_come), 'cell')}, {hours}."
    if unknown_cells:
        yield f"  unknown for {_plural(unknown_cells, 'cell')}: {UNKNOWN}"
    yield "Without waiting in a queue, and without making the dataset."


def cell_lines(planned: Plan, states: Sequence[CellState]) -> Iterator[str]:
    """Yield a line per cell: its path, its state, and what it will cost; then what is not run."""
    means = mean_seconds(states)
    for cell_state in states:
        parts = [cell_state.cell.path, cell_state.state, cell_state.reason]
        if cell_state.is_to_be_measured:
            mean_s = means.get(cell_state.cell.kind)
            parts.append("cost unknown" if mean_s is None else f"{mean_s * cell_state.cell.gpus:.3g} GPU-seconds")
        yield "  ".join(filter(None, parts))
    for item in planned.not_run:
        point = item.configuration
        where = f"{point.strategy} on {_plural(point.gpus, 'GPU')} at batch {point.batch_per_gpu}"
        yield f"{where}  {item.state}  {item.reason}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g}"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
