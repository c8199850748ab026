"""Every figure of two studies side by side, with its ratio or difference, and what the interval of that tells."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import Any

from dpscale.compare.rows import (
    ComparedBandwidthRow,
    ComparedCollectivesRow,
    ComparedCommunicationRow,
    ComparedOutcomesRow,
    ComparedRow,
    ComparedSpeedupRow,
    ComparedTimesRow,
    ComparedTrainingRow,
)
from dpscale.compare.studies import Side
from dpscale.formulas.figure import INTERVAL, UNKNOWN, Figure, less, ratio
from dpscale.formulas.statistics import ratio_of_blocks, units_of, welch_difference
from dpscale.tables.column import Column
from dpscale.tables.quantities import ESTIMATES_OF_STEP
from dpscale.tables.row import Row
from dpscale.tables.tables import TABLES
from dpscale.vocabulary.states import NOT_PLANNED

# Outcomes beside those of `Subject`: the interval holds what no change would give; there is no interval.
NOT_APART, NO_INTERVAL = "not apart", "no interval"
# In the table of outcomes: every scope together, or a table that has none.
ALL_SCOPES = "all"
# The share of comparisons of things that are the same that lies beyond its interval by chance.
BEYOND_BY_CHANCE = 1 - (INTERVAL[1] - INTERVAL[0])
# An interval without a width lies beside the effect of equal studies by the last digit of its computation.
_LAST_DIGITS = 1e-12

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Subject:
    """The `quantities` of a study's `table` that are compared; the columns of `kind` before the quantity tell its rows
    apart.

    `effect` is that of the first study's figure and the second's. `above` and `below` are the words for what it can
    come to.
    """

    kind: type[ComparedRow]
    table: str
    quantities: Sequence[str]
    effect: Callable[[Figure, Figure], Figure]
    above: str
    below: str

    @property
    def keys(self) -> Sequence[str]:
        _, *keys = takewhile(lambda name: name != "quantity", self.kind.columns())
        return keys

    @property
    def is_ratio(self) -> bool:
        return "ratio" in self.kind.columns()

    def quantity(self, name: str) -> Column:
        """What the table says of a quantity."""
        return TABLES[self.table].column(name)


def _second_over_first(first: Figure, second: Figure) -> Figure:
    return ratio(second, first)


def _second_less_first(first: Figure, second: Figure) -> Figure:
    return less(second, first)


def _over_runs(first: Figure, second: Figure) -> Figure:
    """The first study's time over the second's; runs are blocks."""
    return ratio_of_blocks(units_of(first.blocks), units_of(second.blocks))


def _over_seeds(first: Figure, second: Figure) -> Figure:
    return welch_difference(units_of(second.blocks, "linear"), units_of(first.blocks, "linear"))


# By the name of their table.
SUBJECTS: Mapping[str, Subject] = {
    "times": Subject(
        ComparedTimesRow, "times", ("measured_epoch_s", "measured_step_s"), _over_runs, "faster", "slower"
    ),
    "speedup": Subject(ComparedSpeedupRow, "speedup", ("speedup",), _second_over_first, "higher", "lower"),
    "communication": Subject(
        ComparedCommunicationRow, "communication", ESTIMATES_OF_STEP, _second_less_first, "longer", "shorter"
    ),
    "bandwidth": Subject(
        ComparedBandwidthRow, "bandwidth", ("bandwidth_gb_s", "profiler_bandwidth_gb_s", "utilisation"),
        _second_over_first, "higher", "lower",
    ),
    "collectives": Subject(
        ComparedCollectivesRow, "collectives", ("bus_bandwidth_gb_s",), _second_over_first, "higher", "lower"
    ),
    "training": Subject(
        ComparedTrainingRow, "training_summary", ("training_loss", "training_accuracy", "test_loss", "test_accuracy"),
        _over_seeds, "higher", "lower",
    ),
}  # fmt: skip


def settled(effect: Figure, unchanged: float) -> Figure:
    """The effect whose ends are where equal studies have them, if they are but for their last digits."""
    return effect.map(lambda end: unchanged if abs(end - unchanged) < _LAST_DIGITS else end)


def side_by_side(subject: Subject, first: Side, second: Side) -> Iterator[Any]:
    """A row for every figure that at least one of two studies has; each is of one environment.

    Ratios of times have Welch's 95 % intervals over runs, differences of arms over seeds. Other ratios and differences
    have intervals from both figures' own.
    """
    by_key = [{_key(subject, row): row for row in getattr(side.tables, subject.table)} for side in (first, second)]
    keys = sorted({*by_key[0], *by_key[1]}, key=lambda key: [(part is None, part) for part in key])
    for quantity in subject.quantities:
        for key in keys:
            rows = [of_side.get(key) for of_side in by_key]
            figures = [_figure(row, quantity) for row in rows]
            known = [figure.is_known for figure in figures]
            if any(known):
                effect = subject.effect(*figures) if all(known) else UNKNOWN
                yield subject.kind(
                    study=second.name,
                    **dict(zip(subject.keys, key, strict=True)),
                    quantity=quantity,
                    first=figures[0],
                    second=figures[1],
                    **_state("first", rows[0]),
                    **_state("second", rows[1]),
                    **_effects(subject, effect),
                    outcome=_outcome(subject, effect),
                )


def _key(subject: Subject, row: Row) -> Key:
    return tuple(getattr(row, name) for name in subject.keys)


def _figure(row: Row | None, quantity: str) -> Figure:
    """With its interval, if it has one."""
    figure: Figure = getattr(row, quantity, UNKNOWN)
    return figure if figure.has_interval else Figure(figure.value, blocks=figure.blocks)


def _state(side: str, row: Row | None) -> dict[str, Any]:
    """Collectives have no status: they are there or not."""
    status = "ok" if row else NOT_PLANNED
    return {f"{side}_status": getattr(row, "status", status), f"{side}_reason": getattr(row, "reason", "")}


def _effects(subject: Subject, effect: Figure) -> dict[str, Any]:
    """In the columns of the table; of a ratio of times with the change of the time."""
    if not subject.is_ratio:
        return {"difference": effect}
    change = effect.map(lambda times: (1 / times if times else math.inf) - 1)
    return {"ratio": effect, "change": change} if "change" in subject.kind.columns() else {"ratio": effect}


def _outcome(subject: Subject, effect: Figure) -> str:
    """What is told of a figure; nothing where one study lacks it."""
    if not effect.has_interval:
        return NO_INTERVAL if effect.is_known else ""
    unchanged = 1 if subject.is_ratio else 0
    near = settled(effect, unchanged)
    if near.is_above(unchanged):
        return subject.above
    return subject.below if near.is_below(unchanged) else NOT_APART


def outcome_rows(study: str, compared: Mapping[str, Sequence[ComparedRow]]) -> Iterator[ComparedOutcomesRow]:
    """How often every quantity came to which outcome: over all, and of every scope that there is."""
    for name, subject in SUBJECTS.items():
        told = [row for row in compared[name] if row.outcome]
        for quantity in subject.quantities:
            of_quantity = [row for row in told if row.quantity == quantity]
            scopes = sorted({getattr(row, "scope", ALL_SCOPES) for row in of_quantity} - {ALL_SCOPES})
            for scope in (ALL_SCOPES, *scopes):
                part = [row for row in of_quantity if scope in (ALL_SCOPES, getattr(row, "scope", ALL_SCOPES))]
                yield _counted(subject, part, study=study, table=f"compared_{name}", quantity=quantity, scope=scope)


def _counted(subject: Subject, rows: Sequence[ComparedRow], **of: str) -> ComparedOutcomesRow:
    found = Counter(row.outcome for row in rows)
    with_interval = len(rows) - found[NO_INTERVAL]
    ratios = [row.effect.value for row in rows if subject.is_ratio] or [math.nan]
    return ComparedOutcomesRow(
        **of,
        number=len(rows),
        above=found[subject.above],
        below=found[subject.below],
        not_apart=found[NOT_APART],
        no_interval=found[NO_INTERVAL],
        with_interval=with_interval,
        by_chance=with_interval * BEYOND_BY_CHANCE,
        ratio_median=median(ratios),
        ratio_least=min(ratios),
        ratio_most=max(ratios),
    )
