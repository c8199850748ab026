"""Every figure of two studies side by side, with its change or difference, and what the interval of that tells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from dpscale.compare.rows import ComparedFiguresRow
from dpscale.compare.studies import Side
from dpscale.formulas.figure import UNKNOWN, Figure, less, ratio
from dpscale.formulas.statistics import ratio_of_blocks, units_of
from dpscale.tables.quantities import ESTIMATES_OF_STEP
from dpscale.tables.row import Row
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
    and `below` are the words for what it can come to. The first quantity, called `noun`, speaks for the table, whose
    caption names devices as labels of columns do.
    """

    noun: str
    caption: str
    table: str
    quantities: Sequence[str]
    keys: Sequence[str] = _POINT
    is_change: bool = True
    above: str = "higher"
    below: str = "lower"


def change(first: Figure, second: Figure) -> Figure:
    """The second over the first, less 1, with Welch's interval over the servers of both, or the runs of one; of what
    has no logarithm in every block from both intervals."""
    units = [units_of(figure.blocks) for figure in (second, first)]
    have_logarithms = all(units) and min(map(min, units)) > 0
    times = ratio_of_blocks(*units) if have_logarithms else ratio(second, first)
    is_one_machine = times.has_interval and (first.is_one_machine or second.is_one_machine)
    return replace(times.map(lambda times: times - 1), kind="one machine" if is_one_machine else times.kind)


SUBJECTS = (
    Subject(
        "Epoch time",
        "Epoch and step time",
        "times",
        ("epoch_s", "step_s"),
        above="slower",
        below="faster",
    ),
    Subject("Speedup", "Speedup over 1 {device}", "speedup", ("speedup",), ("scaling", *_POINT)),
    Subject(
        "Communication of a step by subtraction (E1)",
        "Communication of one step, as it was estimated",
        "communication",
        ESTIMATES_OF_STEP,
        is_change=False,
        above="longer",
        below="shorter",
    ),
    Subject(
        "Inferred bandwidth",
        "Bandwidth of a step",
        "bandwidth",
        ("bandwidth_gb_s", "profiler_bandwidth_gb_s", "utilisation"),
    ),
    Subject(
        "Bus bandwidth alone",
        "Bus bandwidth of collectives and copies with nothing else running",
        "collectives",
        ("bus_bandwidth_gb_s",),
        _MESSAGE,
    ),
    Subject(
        "Test accuracy",
        "Arms after their last epoch; brackets are t intervals over seeds",
        "training_summary",
        ("test_accuracy", "test_loss", "training_accuracy", "training_loss"),
        ("arm",),
        is_change=False,
    ),
)


def side_by_side(first: Side, second: Side) -> Iterator[ComparedFiguresRow]:
    """A row for every figure that at least one of two studies has; each is of one environment.

    Changes of figures over blocks have Welch's 95 % intervals, others and differences those from both figures' own.
    """
    for subject in SUBJECTS:
        rows = [{_key(subject, row): row for row in getattr(side.tables, subject.table)} for side in (first, second)]
        keys = sorted({*rows[0], *rows[1]}, key=lambda key: [(part is None, part) for part in key])
        for quantity, key in product(subject.quantities, keys):
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
