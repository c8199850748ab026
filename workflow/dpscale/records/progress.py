"""How far a run is: a line per cell as it ends, and a line of how many there are. It reads records and logs alone.

A run's terminal and `dpscale watch` print the same lines.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from statistics import median

from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, TrainingCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, FAILED, CellState, states_of
from dpscale.records.cost import duration, gpu_seconds, mean_seconds, seconds_of
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
        before = sum(len(now.get(name, ())) for name in (DONE, FAILED)) - len(ended)
        for number, state in enumerate(map(self._states.__getitem__, ended), before + 1):
            line = self._failed(state)
            if state.record is not None:
                sentence = f"{self._name(state.cell)}: {outcome(state.record)}"
                line = ", ".join(filter(None, [sentence, self._time_left(now)]))
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
        means = mean_seconds(self._states.values())
        if not to_come:
            return ""
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
