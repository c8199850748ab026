"""Studies beside each other: what measured each, its figures at a point that all have, and every figure of the others
against the first one's."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpscale.compare.figures import SUBJECTS, outcome_rows, side_by_side
from dpscale.compare.groups import compared_groups
from dpscale.compare.rows import ComparedFiguresRow, ComparedTables
from dpscale.compare.studies import (
    Differing,
    Side,
    environment_rows,
    records_row,
    refuse_other_settings,
    refuse_several_environments,
    study_row,
)
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.vocabulary.states import NOT_PLANNED

_Point = tuple[str, int, int, str]  # strategy, devices, batch, scope


@dataclass(frozen=True)
class Comparison:
    """Studies; the settings of every one but the first that differ from the first one's; and the tables."""

    sides: Sequence[Side]
    differing: Mapping[str, Sequence[Differing]]
    tables: ComparedTables

    @property
    def first(self) -> Side:
        """What the others are held against."""
        return self.sides[0]

    @property
    def others(self) -> Sequence[Side]:
        return self.sides[1:]


def compare(sides: Sequence[Side], may_differ: Collection[str] = (), tolerance: float | None = None) -> Comparison:
    """Every study's figures, and those of all but the first against it; pure. `tolerance` is the share by which a group
    may be slower.

    Raises ComparisonError where they differ in a setting that `may_differ` does not name, and where one of them has
    records of several environments, or none.
    """
    first, *others = sides
    differing = refuse_other_settings([side.study for side in sides], may_differ)
    for side in sides:
        refuse_several_environments(side)
    studies = [study_row(side) for side in sides]
    pairs = [{name: list(side_by_side(subject, first, side)) for name, subject in SUBJECTS.items()} for side in others]
    of_subjects: dict[str, Any] = {name: [row for pair in pairs for row in pair[name]] for name in SUBJECTS}
    tables = ComparedTables(
        studies=studies,
        figures=list(_figures(sides)),
        groups=[
            group
            for side in others
            for group in compared_groups(first.tables.runs, side.tables.runs, side.name, tolerance)
        ],
        **of_subjects,
        outcomes=[row for side, pair in zip(others, pairs, strict=True) for row in outcome_rows(side.name, pair)],
        environments=[row for study in studies[1:] for row in environment_rows(studies[0], study)],
        records=[records_row(side) for side in sides],
    )
    return Comparison(sides, {side.name: found for side, found in zip(others, differing, strict=True)}, tables)


def _figures(sides: Sequence[Side]) -> Iterator[ComparedFiguresRow]:
    """Of every study, one device and the most that all have, at one batch and in every scope there is."""
    shared = _shared_point(sides)
    if shared is None:
        return
    strategy, gpus, batch, _ = shared
    scopes = sorted({row.scope for side in sides for row in side.tables.times})
    for side in sides:
        for scope in scopes:
            for configuration in dict.fromkeys([(BASELINE, 1), (strategy, gpus)]):
                yield _figures_at(side, (*configuration, batch, scope))


def _shared_point(sides: Sequence[Side]) -> _Point | None:
    """The point that speaks for the studies: of those that all have an epoch time of, in the first scope there is.

    It has the most devices, of the last strategy in the order of `STRATEGIES`, at the largest batch: one whose epochs
    have steps enough to speak of, if there is such a batch.
    """
    timed = [{_point(row): row for row in side.tables.times if row.status == "ok"} for side in sides]
    shared = set.intersection(*map(set, timed))
    first_scope = min((scope for *_, scope in shared), default="")
    order = list(STRATEGIES)

    def weight(point: _Point) -> tuple[int, int, bool, int]:
        strategy, gpus, batch, _ = point
        return gpus, order.index(strategy), all(of_side[point].is_headline for of_side in timed), batch

    return max((point for point in shared if point[-1] == first_scope), key=weight, default=None)


def _point(row: TimesRow | SpeedupRow) -> _Point:
    return row.strategy, row.gpus, row.batch_per_gpu, row.scope


def _figures_at(side: Side, point: _Point) -> ComparedFiguresRow:
    """The figures of a study at a point, or why it has none."""
    times = next((row for row in side.tables.times if _point(row) == point), TimesRow(status=NOT_PLANNED))
    weak = (row for row in side.tables.speedup if row.scaling == "weak")
    speedup = next((row for row in weak if _point(row) == point), SpeedupRow())
    strategy, gpus, batch, scope = point
    return ComparedFiguresRow(
        study=side.name,
        strategy=strategy,
        gpus=gpus,
        batch_per_gpu=batch,
        scope=scope,
        status=times.status,
        reason=times.reason,
        runs=times.runs,
        blocks=speedup.blocks,
        epoch_s=times.epoch_s,
        images_per_s=times.images_per_s,
        speedup=speedup.speedup,
        efficiency=speedup.efficiency,
    )
