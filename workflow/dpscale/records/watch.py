"""What `dpscale watch` prints: how far a run is, and a line per cell as it ends. It reads records and logs alone."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, FAILED, MISSING, UNFINISHED, CellState, states_of
from dpscale.records.cost import Costs, gpu_seconds, seconds_of
from dpscale.records.files import Record

RUNNING, WAITING = "running", "waiting"


class Watch:
    """A study that is being measured, as far as it was at the last look."""

    def __init__(self, study: Study, results: Path, recorded: Sequence[Path]):
        self._study = study
        self._results = results
        self._recorded = [folder for folder in recorded if folder.resolve() != results.resolve()]
        self._cells = plan(study).all_cells
        self._states = {state.cell: state for state in states_of(self._cells, study.settings, results)}

    @property
    def is_over(self) -> bool:
        """Whether no cell runs or waits."""
        return all(self._now(state) in (DONE, FAILED) for state in self._states.values())

    def standing(self) -> str:
        """How many cells are done, running, failed and waiting, what was spent, and about how long the rest takes."""
        counted = dict.fromkeys((DONE, RUNNING, FAILED, WAITING), 0)
        for state in self._states.values():
            counted[self._now(state)] += 1
        cells = ", ".join(f"{number:,} {name}" for name, number in counted.items())
        unit = "worker" if self._study["device"] == "cpu" else "GPU"
        left = "" if self.is_over else f", {self._time_left(max(1, counted[RUNNING]))}"
        return f"{self._study.name}: {cells}; {self._spent_s() / 3600:.3g} {unit}-hours spent{left}"

    def under_way(self) -> Iterator[str]:
        """A line for every cell that runs, and for every one that has failed."""
        for state in self._states.values():
            now = self._now(state)
            if now == RUNNING:
                since = datetime.fromtimestamp(self._log_changed(state.cell) or time.time())
                yield f"{since:%H:%M:%S}  running  {_name(state.cell)}"
            elif now == FAILED:
                yield f"{'':8}  failed   {_name(state.cell)}  {state.reason}"

    def look(self) -> Iterator[str]:
        """A line for every cell that has ended since the last look, with its epoch time; then how far the run is."""
        waited_for = [cell for cell, state in self._states.items() if state.state != DONE]
        before = {cell: self._now(self._states[cell]) for cell in waited_for}
        self._states |= {state.cell: state for state in states_of(waited_for, self._study.settings, self._results)}
        ended = [
            state
            for state in (self._states[cell] for cell in waited_for)
            if self._now(state) in (DONE, FAILED) and self._now(state) != before[state.cell]
        ]
        for state in sorted(ended, key=self._ended_at):
            at = datetime.fromtimestamp(self._ended_at(state))
            yield f"{at:%H:%M:%S}  {state.state:<7}  {_name(state.cell)}  {outcome(state)}"
        if ended:
            yield self.standing()

    def _now(self, state: CellState) -> str:
        """Of a cell that is to be measured: whether it runs. Its log is there then, and has no end yet."""
        if state.state in (DONE, FAILED):
            return state.state
        changed = self._log_changed(state.cell) if state.state in (UNFINISHED, MISSING) else None
        is_running = changed is not None and time.time() - changed < self._study["cell_timeout_s"]
        return RUNNING if is_running else WAITING

    def _log_changed(self, cell: AnyCell) -> float | None:
        """When the cell's log was last written to, in seconds since 1970: at its start, mostly."""
        try:
            return (self._results / "logs" / cell.path).with_suffix(".log").stat().st_mtime
        except OSError:
            return None

    def _ended_at(self, state: CellState) -> float:
        if state.record is not None:
            return datetime.fromisoformat(state.record["finished_at"]).timestamp()
        return self._log_changed(state.cell) or time.time()

    def _spent_s(self) -> float:
        return sum(gpu_seconds(state.cell, state.record) for state in self._states.values() if state.record)

    def _time_left(self, at_once: int) -> str:
        """About how long the cells take that run or wait, with so many at once; without a queue."""
        costs = Costs(self._study, self._states.values(), self._recorded)
        to_come = [state.cell for state in self._states.values() if self._now(state) in (RUNNING, WAITING)]
        known = [cost.gpu_s / cell.gpus for cell in to_come if (cost := costs.of(cell)).gpu_s is not None]
        if not known:
            return "time left unknown"
        return f"{'about' if len(known) == len(to_come) else 'at least'} {_duration(sum(known) / at_once)} left"


def outcome(state: CellState) -> str:
    """What a cell that has ended gave, in a few words: its epoch time, or why there is none."""
    if state.record is None:
        return state.reason
    if state.record["status"] == "oom":
        return "out of memory"
    return ", ".join(_figures(state.record))


def _figures(record: Record) -> Iterator[str]:
    if record["kind"] == "timing":
        for scope, timed in record["scopes"].items():
            yield f"{scope} {median(timed['epoch_s']):.4g} s per epoch"
    elif record["kind"] == "training":
        yield f"{median(epoch['epoch_s'] for epoch in record['epochs']):.4g} s per epoch"
        accuracy = record["epochs"][-1]["test_accuracy"]
        yield "diverged" if accuracy is None else f"test accuracy {accuracy:.4f}"
    else:
        yield f"took {_duration(seconds_of(record))}"


def _name(cell: AnyCell) -> str:
    return cell.path.removesuffix(".json")


def _duration(seconds: float) -> str:
    """`48 s`, `12 min` or `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
