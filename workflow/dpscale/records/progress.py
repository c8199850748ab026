"""How far a study is, and what the rest costs: a line per cell of a run as it ends, and what `dpscale plan` prints."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from dpscale.plan.cells import AnyCell
from dpscale.plan.expected import costs, expected_s
from dpscale.plan.plan import Plan, plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, STATES, CellState, states_of
from dpscale.records.kinds import Record, TimingRecord
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.states import STATES as WORDS


class Progress:
    """A run that measures the cells `to_come` of a study on GPUs of a model."""

    def __init__(self, study: Study, results: Path, to_come: Iterable[AnyCell], gpu: str | None = None):
        self._study = study
        self._gpu = gpu
        self._results = results
        self._cells = {str(results / cell.path): cell for cell in plan(study).all_cells}
        self._states = {state.cell: state for state in self._read(self._cells.values())}
        self._to_come = set(to_come)
        self._failed: set[AnyCell] = set()
        self._since = time.time()

    def standing(self) -> str:
        """Return how many cells are to be measured, about how long that takes, and that a run may be interrupted."""
        cells = f"{len(self._to_come):,} of {len(self._cells):,} cells to be measured"
        stops = "; Ctrl-C stops, the same command goes on" if self._to_come else ""
        return f"{self._study.name}: {cells}{self._time_left()}{stops}"

    def begin(self, path: str) -> None:
        """The job of the cell whose record is to be at `path` was started, perhaps once more."""
        if path in self._cells:
            self._to_come.add(self._cells[path])
            self._failed.discard(self._cells[path])

    def end(self, path: str) -> str:
        """Return the line of the cell whose job has ended and whose record is at `path`; empty for other jobs."""
        if path not in self._cells:
            return ""
        cell = self._cells[path]
        (state,) = self._read([cell])
        self._states[cell] = state
        self._to_come.discard(cell)
        self._failed |= set() if state.record else {cell}
        failure = f"failed: {state.reason.removeprefix('Error: ')}; log: {self._log(cell)}"
        outcome = f"{outcome_of(state.record)}{self._time_left()}" if state.record else failure
        number, name = len(self._cells) - len(self._to_come | self._failed), cell.path.removesuffix(".json")
        return f"[{number}/{len(self._cells)}] {name}: {outcome}"

    def _read(self, cells: Iterable[AnyCell]) -> Iterator[CellState]:
        return states_of(cells, self._study.settings, self._results)

    def _log(self, cell: AnyCell) -> Path:
        return (self._results / "logs" / cell.path).with_suffix(".log")

    def _runs(self, cell: AnyCell) -> bool:
        """Whether a cell to come has begun: its log is there then. One that waits for Slurm has none of this run."""
        log = self._log(cell)
        return log.exists() and log.stat().st_mtime > self._since

    def _time_left(self) -> str:
        """Return about how long the cells to come take, with as many at once as run now; without a queue. Empty where
        none is to come."""
        times = JobTimes(self._study, self._states.values(), self._gpu)
        known_s = [seconds for cell in self._to_come if (seconds := times.of(cell)) is not None]
        if not known_s:
            return "; time left unknown" if self._to_come else ""
        about = "about" if len(known_s) == len(self._to_come) else "at least"
        running = sum(map(self._runs, self._to_come))
        return f"; {about} {duration(sum(known_s) / max(1, running))} left"


class JobTimes:
    """How long jobs to come take: as those of their kind that are done took on average, otherwise as expected."""

    def __init__(self, study: Study, states: Iterable[CellState], gpu: str | None):
        self._settings = study.settings
        self._chip = chip_named(gpu) if gpu else None
        self.means = mean_seconds(states)

    @property
    def model(self) -> str:
        """The GPU whose times are expected where none of a kind is done."""
        return self._chip.name if self._chip else costs().chip

    def of(self, cell: AnyCell) -> float | None:
        """Return the seconds of a cell's job. None where nothing is known of it."""
        if cell.kind in self.means:
            return self.means[cell.kind]
        return expected_s(cell, cell.settings_under(self._settings), self._chip)


def outcome_of(record: Record) -> str:
    """Return the result of a cell in a few words: its epoch time by scope, if it has one."""
    if record.status == "oom":
        return "out of memory"
    if isinstance(record, TimingRecord):
        times = [f"{scope} {median(timed.slowest_rank_epoch_s):.3g} s" for scope, timed in record.scopes.items()]
        return f"{', '.join(times)} per epoch"
    return f"took {duration(seconds_of(record))}"


def seconds_of(record: Record) -> float:
    """Return the time of a job from its start to its end; 0 where a clock was set back meanwhile."""
    return max(0.0, (record.finished_at - record.started_at).total_seconds())


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


def summary(study: Study, planned: Plan, states: Sequence[CellState], gpu: str | None = None) -> Iterator[str]:
    """Yield how far the study is, what the rest will cost, and what is not run and why, in lines for a terminal."""
    hours = f"{'worker' if study['device'] == 'cpu' else 'GPU'}-hours"
    times = JobTimes(study, states, gpu)
    in_all_s: list[float | None] = []
    is_expected = False
    for kind in dict.fromkeys(state.cell.kind for state in states):
        of_kind = [state for state in states if state.cell.kind == kind]
        numbers = Counter(state.state for state in of_kind)
        counts = ", ".join(f"{numbers[name]:,} {name}" for name in STATES if numbers[name])
        spent_s = sum(gpu_seconds(state.cell, state.record) for state in of_kind if state.record)
        to_come = [(state.cell.gpus, times.of(state.cell)) for state in of_kind if state.is_to_be_measured]
        in_all_s += [seconds for _, seconds in to_come]
        gpu_s = [gpus * seconds for gpus, seconds in to_come if seconds is not None]
        cost = f"{sum(gpu_s) / 3600:.3g}" if len(gpu_s) == len(to_come) else "unknown"
        about = "about " if gpu_s and kind not in times.means else ""
        is_expected |= bool(about)
        yield f"{kind}: {counts}; {hours}: {spent_s / 3600:.3g} spent, {about}{cost} to come"
    for (state, reason), number in Counter(planned.not_run.values()).items():
        yield f"{WORDS[state][0]}: {number:,} configuration{'' if number == 1 else 's'}: {reason}"
    for arm, (state, reason) in planned.arms_not_run.items():
        yield f"{WORDS[state][0]}: arm {arm}: {reason}"
    end = f"{len(in_all_s):,} of {len(states):,} cells are to be measured"
    known_s = [seconds for seconds in in_all_s if seconds is not None]
    if known_s and len(known_s) == len(in_all_s):
        end += f": about {duration(sum(known_s))}, one after the other"
    yield f"{end}."
    if is_expected:
        yield f"Where no job of a kind is done, the time is expected of a data sheet ({times.model}), not measured."
