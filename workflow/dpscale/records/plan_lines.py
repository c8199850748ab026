"""What `dpscale plan` prints: how far a study is, what is not run and why, and what the rest will cost."""

from collections import Counter
from collections.abc import Iterator, Sequence

from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, MISSING, STATES, CellState
from dpscale.records.cost import gpu_seconds, mean_seconds

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
