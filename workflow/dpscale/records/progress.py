"""How far a run is: a line per cell as it ends, and a line of how many there are. It reads records and logs alone.

A run's terminal and `dpscale watch` print the same lines.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

from dpscale.plan.cells import LARGEST, AnyCell, CollectivesCell, CommunicationCell, FitCell, TrainingCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, FAILED, CellState, states_of
from dpscale.records.cost import Costs, duration, gpu_seconds, seconds_of
from dpscale.records.kinds import FitRecord, Record, TimingRecord, TrainingRecord

RUNNING, QUEUED = "running", "queued"
# To estimate the time left may take at most this part of a run's own time: a study may have ten thousand cells.
_ESTIMATING = 0.02
_WITH_WHAT = {"compute": "per epoch", "end_to_end": "with loading"}


class Progress:
    """A study that is being measured, as far as it was at the last look.

    `begun` are the cells that a run is about to measure: how an earlier attempt at them ended does not count.
    """

    def __init__(self, study: Study, results: Path, recorded: Sequence[Path], begun: Collection[AnyCell] = ()):
        self._study = study
        self._results = results
        self._recorded = [folder for folder in recorded if folder.resolve() != results.resolve()]
        planned = plan(study)
        self._fits = planned.fits
        self._cells = {str(results / cell.path): cell for cell in planned.all_cells}
        self._states: dict[AnyCell, CellState] = {}
        self._read(planned.all_cells)
        self._begun = {cell.path for cell in begun}
        self._since = time.time() if begun else 0.0
        self._left = ""
        self._estimate_again = 0.0

    @property
    def is_over(self) -> bool:
        """Whether no cell runs or is queued."""
        return not self._to_come()

    def standing(self) -> str:
        """How many cells are done, running, failed and queued, what was spent, and about how long the rest takes."""
        counted = dict.fromkeys((DONE, RUNNING, FAILED, QUEUED), 0)
        for state in self._states.values():
            counted[self._now(state)] += 1
        cells = ", ".join(f"{number:,} {name}" for name, number in counted.items())
        spent_s = sum(gpu_seconds(state.cell, state.record) for state in self._states.values() if state.record)
        spent = f"{spent_s / 3600:.3g} {self._device}-hours spent" if spent_s else ""
        return "; ".join(filter(None, [f"{self._study.name}: {cells}", spent, self._time_left()]))

    def under_way(self) -> Iterator[str]:
        """A line for every cell that runs, and for every one that has failed."""
        for state in self._states.values():
            now = self._now(state)
            if now == RUNNING:
                since = datetime.fromtimestamp(self._log_changed(state.cell))
                yield f"running since {since:%H:%M:%S}: {self._name(state.cell)}"
            elif now == FAILED:
                yield self._failed(state)

    def look(self) -> Iterator[str]:
        """A line for every cell that has ended since the last look."""
        before = {cell: self._now(state) for cell, state in self._states.items() if state.state != DONE}
        self._read(before)
        ended = [cell for cell, was in before.items() if self._now(self._states[cell]) in {DONE, FAILED} - {was}]
        for number, cell in enumerate(ended, 1):
            yield self._line(self._states[cell], self._ended() - len(ended) + number)

    def begin(self, path: str) -> None:
        """The job of the cell whose record is to be at `path` was started, perhaps once more."""
        if path in self._cells:
            self._begun.add(self._cells[path].path)

    def end(self, path: str) -> str:
        """The line of the cell whose job has ended and whose record is at `path`; empty where it is no cell's."""
        cell = self._cells.get(path)
        if cell is None:
            return ""
        self._read([cell])
        self._begun.discard(cell.path)
        return self._line(self._states[cell], self._ended())

    def _read(self, cells: Collection[AnyCell]) -> None:
        """By the cells as they are planned: that of the largest batch gets its number from those that find it."""
        cells = list(dict.fromkeys((*self._fits, *cells)))
        self._states |= zip(cells, states_of(cells, self._study.settings, self._results), strict=True)

    def _line(self, state: CellState, number: int) -> str:
        place = f"[{number}/{len(self._states)}] "
        if state.record is None:
            return place + self._failed(state)
        return ", ".join(filter(None, [f"{place}{self._name(state.cell)}: {outcome(state.record)}", self._time_left()]))

    def _failed(self, state: CellState) -> str:
        return f"{self._name(state.cell)}: failed: {state.reason.removeprefix('Error: ')}; log: {self._log(state.cell)}"

    def _now(self, state: CellState) -> str:
        """Whether a cell without a result runs: its log is there then, and has no end yet."""
        if state.state in (DONE, FAILED) and state.cell.path not in self._begun:
            return state.state
        latest_end = max(self._since, time.time() - self._study["cell_timeout_s"])
        return RUNNING if self._log_changed(state.cell) > latest_end else QUEUED

    def _ended(self) -> int:
        return len(self._states) - len(self._to_come())

    def _to_come(self) -> list[AnyCell]:
        """The cells that run or are queued."""
        return [cell for cell, state in self._states.items() if self._now(state) in (RUNNING, QUEUED)]

    def _log(self, cell: AnyCell) -> Path:
        return (self._results / "logs" / cell.path).with_suffix(".log")

    def _log_changed(self, cell: AnyCell) -> float:
        """When the cell's log was last written to, in seconds since 1970: at its start, mostly. 0 without a log."""
        try:
            return self._log(cell).stat().st_mtime
        except OSError:
            return 0.0

    def _time_left(self) -> str:
        """About how long the cells take that run or are queued, with as many at once as run now; without a queue.
        Empty where nothing is known of it."""
        start = time.monotonic()
        if start >= self._estimate_again:
            self._left = self._estimated()
            end = time.monotonic()
            self._estimate_again = end + (end - start) / _ESTIMATING
        return self._left

    def _estimated(self) -> str:
        costs = Costs(self._study, self._states.values(), self._recorded)
        to_come = self._to_come()
        known = [cost.gpu_s / cell.gpus for cell in to_come if (cost := costs.of(cell)).gpu_s is not None]
        if not known:
            return ""
        at_once = max(1, sum(self._now(self._states[cell]) == RUNNING for cell in to_come))
        return f"{'about' if len(known) == len(to_come) else 'at least'} {duration(sum(known) / at_once)} left"

    @property
    def _device(self) -> str:
        return "worker" if self._study["device"] == "cpu" else "GPU"

    def _name(self, cell: AnyCell) -> str:
        """A cell in a few words, such as `ddp, 2 GPUs, batch 128, run 1`."""
        devices = f"{cell.gpus} {self._device}{'' if cell.gpus == 1 else 's'}"
        if isinstance(cell, TrainingCell):
            return f"training of {cell.arm}, {devices}, seed {cell.seed}"
        if isinstance(cell, CollectivesCell):
            return f"collectives, {devices}, run {cell.run}"
        if isinstance(cell, FitCell):
            return f"largest batch of {cell.strategy}, {devices}"
        place = cell.configuration
        batch = f"{place.batch_per_gpu:,}" if place.batch_per_gpu else LARGEST
        name = f"{place.strategy}, {devices}, batch {batch}, run {cell.run}"
        if isinstance(cell, VariantCell):
            return f"{cell.variant}, {name}"
        return f"communication, {name}" if isinstance(cell, CommunicationCell) else name


def outcome(record: Record) -> str:
    """What a cell gave, in a few words: its epoch time, mostly."""
    if record.status == "oom":
        return "out of memory"
    return ", ".join(_figures(record))


def _figures(record: Record) -> Iterator[str]:
    if isinstance(record, TimingRecord):
        for scope, timed in record.scopes.items():
            yield f"{median(timed.slowest_rank_epoch_s):.3g} s {_WITH_WHAT[scope]}"
    elif isinstance(record, TrainingRecord):
        yield f"{median(epoch.epoch_s for epoch in record.epochs):.3g} s per epoch"
        accuracy = record.epochs[-1].test_accuracy
        yield "diverged" if accuracy is None else f"test accuracy {accuracy:.4f}"
    else:
        if isinstance(record, FitRecord):
            yield f"{record.largest:,}"
        yield f"took {duration(seconds_of(record))}"
