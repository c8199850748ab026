"""What `dpscale plan` prints: how far a study is, what is not run and why, and what the rest will cost."""

from collections.abc import Iterator, Sequence

from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, MISSING, STATES, CellState
from dpscale.records.cost import UNKNOWN, Costs, gpu_seconds


def summary(study: Study, planned: Plan, states: Sequence[CellState], costs: Costs) -> Iterator[str]:
    """How far the study is, what is not run and why, and what the rest will cost, in lines for a terminal."""
    unit = f"{'worker' if study['device'] == 'cpu' else 'GPU'}-hours"
    kinds = list(dict.fromkeys(cell_state.cell.kind for cell_state in states))
    shown = [
        state for state in STATES if state in (DONE, MISSING) or any(cell_state.state == state for cell_state in states)
    ]
    yield f"{study.name}: {_plural(len(states), 'cell')}"
    yield ""
    yield "  ".join(
        [f"{'kind':<13}", *(f"{state:>{max(7, len(state))}}" for state in shown), f"{unit} spent", "to come"]
    )
    for kind in kinds:
        of_kind = [cell_state for cell_state in states if cell_state.cell.kind == kind]
        numbers = [sum(cell_state.state == state for cell_state in of_kind) for state in shown]
        spent_s = sum(gpu_seconds(cell_state.cell, cell_state.record) for cell_state in of_kind if cell_state.record)
        known, unknown_cells = _to_come([cell_state for cell_state in of_kind if cell_state.is_to_be_measured], costs)
        to_come = "unknown" if unknown_cells and not known else _hours(sum(known.values()))
        yield "  ".join([
            f"{kind:<13}",
            *(f"{number:>{max(7, len(state))}}" for number, state in zip(numbers, shown, strict=True)),
            f"{_hours(spent_s):>{len(unit) + 6}}",
            f"{to_come:>7}{' and more' if unknown_cells and known else ''}",
        ])  # fmt: skip
    yield ""
    yield from _not_run(planned)
    yield from _total([cell_state for cell_state in states if cell_state.is_to_be_measured], costs, unit)


def _to_come(states: Sequence[CellState], costs: Costs) -> tuple[dict[str, float], int]:
    """GPU-seconds by what they rest on, and of how many cells nothing is known."""
    known: dict[str, float] = {}
    unknown_cells = 0
    for cell_state in states:
        cost = costs.of(cell_state.cell)
        if cost.gpu_s is None:
            unknown_cells += 1
        else:
            known[cost.basis] = known.get(cost.basis, 0.0) + cost.gpu_s
    return known, unknown_cells


def _not_run(planned: Plan) -> Iterator[str]:
    reasons: dict[tuple[str, str], int] = {}
    for item in planned.not_run:
        reasons[item.state, item.reason] = reasons.get((item.state, item.reason), 0) + 1
    for (state, reason), number in reasons.items():
        yield f"{state}: {_plural(number, 'configuration')}: {reason}"
    for arm in planned.arms_not_run:
        yield f"{arm.state}: arm {arm.arm}: {arm.reason}"


def _total(states: Sequence[CellState], costs: Costs, unit: str) -> Iterator[str]:
    if not states:
        yield "Nothing is to be measured."
        return
    known, unknown_cells = _to_come(states, costs)
    estimate = f"about {_hours(sum(known.values()))} {unit}" if known else f"{unit} unknown"
    if known and unknown_cells:
        estimate = f"at least {estimate.removeprefix('about ')}"
    yield f"To be measured: {_plural(len(states), 'cell')}, {estimate}."
    for basis, gpu_s in known.items():
        yield f"  {_hours(gpu_s)} by {basis}"
    if unknown_cells:
        yield f"  unknown for {_plural(unknown_cells, 'cell')}: {UNKNOWN}"
    yield "Without waiting in a queue, and without making the dataset."


def cell_lines(planned: Plan, states: Sequence[CellState], costs: Costs) -> Iterator[str]:
    """A line per cell: its path, its state, what it will cost and by what; then what is not run."""
    for cell_state in states:
        parts = [cell_state.cell.path, cell_state.state, cell_state.reason]
        if cell_state.is_to_be_measured:
            cost = costs.of(cell_state.cell)
            gpu_s = "cost unknown" if cost.gpu_s is None else f"{cost.gpu_s:.3g} GPU-seconds"
            parts.append(f"{gpu_s}: {cost.basis}")
        yield "  ".join(filter(None, parts))
    for item in planned.not_run:
        place = item.configuration
        where = f"{place.strategy} on {_plural(place.gpus, 'GPU')} at batch {place.batch_per_gpu}"
        yield f"{where}  {item.state}  {item.reason}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g}"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
