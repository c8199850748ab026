"""Every figure of two studies side by side, with its change or difference, and what the interval of that tells."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpscale.compare.rows import ComparedFiguresRow
from dpscale.compare.studies import Side
from dpscale.formulas.figure import UNKNOWN, Figure, less, ratio
from dpscale.formulas.statistics import ratio_of_blocks, units_of, welch_difference
from dpscale.tables.column import Column
from dpscale.tables.quantities import ESTIMATES_OF_STEP
from dpscale.tables.row import Row
from dpscale.tables.tables import TABLES
from dpscale.vocabulary.states import NOT_PLANNED

# Outcomes beside those of `Subject`: the interval holds what no change would give; there is no interval.
NO_DIFFERENCE, NO_INTERVAL = "no difference shown", "no interval"
# An interval without a width lies beside the effect of equal studies by the last digit of its computation.
_LAST_DIGITS = 1e-12
_POINT = ("scope", "strategy", "gpus", "batch_per_gpu", "global_batch")
_MESSAGE = ("operation", "gpus", "message_bytes", "source", "target")


@dataclass(frozen=True)
class Subject:
    """The `quantities` of a study's `table` that are compared; the `keys` tell its rows apart.

    `effect` is that of the first study's figure and the second's: a share of the first where `is_change`. `above` and
    `below` are the words for what it can come to. The first quantity, called `noun`, speaks for the table.
    """

    noun: str
    table: str
    keys: Sequence[str]
    quantities: Sequence[str]
    effect: Callable[[Figure, Figure], Figure]
    is_change: bool
    above: str
    below: str

    def quantity(self, name: str) -> Column:
        """What the table says of a quantity."""
        return TABLES[self.table].column(name)


def _over(first: Figure, second: Figure) -> Figure:
    return ratio(second, first).map(lambda times: times - 1)


def _over_runs(first: Figure, second: Figure) -> Figure:
    """Over the independent units of both, which are servers or the runs of one."""
    return ratio_of_blocks(units_of(second.blocks), units_of(first.blocks)).map(lambda times: times - 1)


def _less(first: Figure, second: Figure) -> Figure:
    return less(second, first)


def _less_over_seeds(first: Figure, second: Figure) -> Figure:
    return welch_difference(units_of(second.blocks, "linear"), units_of(first.blocks, "linear"))


SUBJECTS = (
    Subject(
        "Epoch time", "times", _POINT, ("measured_epoch_s", "measured_step_s"), _over_runs, True, "slower", "faster"
    ),
    Subject("Speedup", "speedup", ("scaling", *_POINT), ("speedup",), _over, True, "higher", "lower"),
    Subject(
        "Communication of a step by subtraction (E1)", "communication", _POINT, ESTIMATES_OF_STEP, _less, False,
        "longer", "shorter",
    ),
    Subject(
        "Inferred bandwidth", "bandwidth", _POINT, ("bandwidth_gb_s", "profiler_bandwidth_gb_s", "utilisation"),
        _over, True, "higher", "lower",
    ),
    Subject(
        "Bus bandwidth alone", "collectives", _MESSAGE, ("bus_bandwidth_gb_s",), _over, True, "higher", "lower"
    ),
    Subject(
        "Test accuracy", "training_summary", ("arm",),
        ("test_accuracy", "test_loss", "training_accuracy", "training_loss"),
        _less_over_seeds, False, "higher", "lower",
    ),
)  # fmt: skip


def side_by_side(first: Side, second: Side) -> Iterator[ComparedFiguresRow]:
    """A row for every figure that at least one of two studies has; each is of one environment.

    Changes of times have Welch's 95 % intervals over servers, differences of arms over seeds. Others have intervals
    from both figures' own.
    """
    for subject in SUBJECTS:
        rows = [{_key(subject, row): row for row in getattr(side.tables, subject.table)} for side in (first, second)]
        keys = sorted({*rows[0], *rows[1]}, key=lambda key: [(part is None, part) for part in key])
        for quantity in subject.quantities:
            for key in keys:
                row = _row(subject, quantity, *(of_side.get(key) for of_side in rows))
                if row.first.is_known or row.second.is_known:
                    place: dict[str, Any] = dict(zip(subject.keys, key, strict=True))
                    yield replace(row, study=second.name, **place)


def _key(subject: Subject, row: Row) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in subject.keys)


def _row(subject: Subject, quantity: str, first: Row | None, second: Row | None) -> ComparedFiguresRow:
    figures: list[Figure] = [getattr(row, quantity, UNKNOWN) for row in (first, second)]
    effect = subject.effect(figures[0], figures[1]) if all(figure.is_known for figure in figures) else UNKNOWN
    if effect.has_interval and any(figure.is_one_machine for figure in figures):
        effect = replace(effect, kind="one machine")
    return ComparedFiguresRow(
        table=subject.table,
        quantity=quantity,
        first=figures[0],
        second=figures[1],
        **_state("first", first),
        **_state("second", second),
        change=effect if subject.is_change else UNKNOWN,
        difference=UNKNOWN if subject.is_change else effect,
        outcome=outcome(effect, subject.above, subject.below),
    )


def _state(side: str, row: Row | None) -> dict[str, Any]:
    """Collectives have no status: they are there or not."""
    status = "ok" if row else NOT_PLANNED
    return {f"{side}_status": getattr(row, "status", status), f"{side}_reason": getattr(row, "reason", "")}


def outcome(effect: Figure, above: str, below: str) -> str:
    """What is told of an effect, which is zero where nothing differs; nothing where it is not known."""
    if not effect.has_interval:
        return NO_INTERVAL if effect.is_known else ""
    if effect.is_above(_LAST_DIGITS):
        return above
    return below if effect.is_below(-_LAST_DIGITS) else NO_DIFFERENCE
