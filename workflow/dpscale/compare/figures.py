"""Every figure of two studies side by side, with its change or difference, and what the interval of that tells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpscale.compare.rows import ComparedFiguresRow
from dpscale.compare.studies import Side
from dpscale.formulas.figure import UNKNOWN, Figure, less, ratio
from dpscale.formulas.statistics import ratio_of_blocks, units_of
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

    What they differ by is a share of the first study's figure where `is_change`, and otherwise a difference; `above`
    and `below` are the words for what it can come to. The first quantity, called `noun`, speaks for the table.
    """

    noun: str
    table: str
    keys: Sequence[str]
    quantities: Sequence[str]
    is_change: bool
    above: str
    below: str

    def quantity(self, name: str) -> Column:
        """What the table says of a quantity."""
        return TABLES[self.table].column(name)


def change(first: Figure, second: Figure) -> Figure:
    """The second over the first, less 1, with Welch's interval over the servers of both, or the runs of one; of what
    has no logarithm in every block from both intervals."""
    units = [units_of(figure.blocks) if figure.blocks else [] for figure in (second, first)]
    if not all(units) or min(map(min, units)) <= 0:
        return ratio(second, first).map(lambda times: times - 1)
    found = ratio_of_blocks(*units).map(lambda times: times - 1)
    is_one_machine = found.has_interval and (first.is_one_machine or second.is_one_machine)
    return replace(found, kind="one machine") if is_one_machine else found


SUBJECTS = (
    Subject("Epoch time", "times", _POINT, ("measured_epoch_s", "measured_step_s"), True, "slower", "faster"),
    Subject("Speedup", "speedup", ("scaling", *_POINT), ("speedup",), True, "higher", "lower"),
    Subject(
        "Communication of a step by subtraction (E1)", "communication", _POINT, ESTIMATES_OF_STEP, False,
        "longer", "shorter",
    ),
    Subject(
        "Inferred bandwidth", "bandwidth", _POINT, ("bandwidth_gb_s", "profiler_bandwidth_gb_s", "utilisation"),
        True, "higher", "lower",
    ),
    Subject("Bus bandwidth alone", "collectives", _MESSAGE, ("bus_bandwidth_gb_s",), True, "higher", "lower"),
    Subject(
        "Test accuracy", "training_summary", ("arm",),
        ("test_accuracy", "test_loss", "training_accuracy", "training_loss"), False, "higher", "lower",
    ),
)  # fmt: skip


def side_by_side(first: Side, second: Side) -> Iterator[ComparedFiguresRow]:
    """A row for every figure that at least one of two studies has; each is of one environment.

    Changes of figures over blocks have Welch's 95 % intervals, others and differences those from both figures' own.
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
    effect = UNKNOWN
    if all(figure.is_known for figure in figures):
        effect = change(*figures) if subject.is_change else less(figures[1], figures[0])
    return ComparedFiguresRow(
        table=subject.table,
        quantity=quantity,
        first=figures[0],
        second=figures[1],
        first_status=_state(first),
        second_status=_state(second),
        change=effect if subject.is_change else UNKNOWN,
        difference=UNKNOWN if subject.is_change else effect,
        outcome=outcome(effect, subject.above, subject.below),
    )


def _state(row: Row | None) -> str:
    """Collectives have no status: they are there or not."""
    return getattr(row, "status", "ok" if row else NOT_PLANNED)


def outcome(effect: Figure, above: str, below: str) -> str:
    """What is told of an effect, which is zero where nothing differs; nothing where it is not known."""
    if not effect.has_interval:
        return NO_INTERVAL if effect.is_known else ""
    if effect.is_above(_LAST_DIGITS):
        return above
    return below if effect.is_below(-_LAST_DIGITS) else NO_DIFFERENCE
