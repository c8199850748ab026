"""Studies beside each other: what measured each, its figures at a point that all have, and every figure of the others
against the first one's."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan

from dpscale.compare.figures import SUBJECTS, outcome_rows, side_by_side
from dpscale.compare.groups import compared_groups
from dpscale.compare.rows import (
    COMPARED_TABLES,
    ComparedEnvironmentsRow,
    ComparedFiguresRow,
    ComparedGroupsRow,
    ComparedOutcomesRow,
    ComparedRecordsRow,
    ComparedRow,
    ComparedStudiesRow,
    ComparedTimesRow,
)
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
from dpscale.tables.row import Row
from dpscale.tables.tables import written
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.vocabulary.states import NOT_PLANNED

_Point = tuple[str, int, int, str]  # strategy, devices, batch, scope


@dataclass(frozen=True)
class Pair:
    """A study by its name, held against the `first` one: pooled changes; figures by the name of their table, and how
    often they came to which outcome; what measured both; and the settings that differ."""

    first: str
    study: str
    groups: Sequence[ComparedGroupsRow]
    figures: Mapping[str, Sequence[ComparedRow]]
    outcomes: Sequence[ComparedOutcomesRow] = ()
    environments: Sequence[ComparedEnvironmentsRow] = ()
    differing: Sequence[Differing] = ()

    @property
    def name(self) -> str:
        return f"{self.study} against {self.first}"

    def table(self, name: str) -> Sequence[Row]:
        rows: Sequence[Row] = self.figures[name] if name in self.figures else getattr(self, name)
        return rows

    @property
    def epochs(self) -> list[ComparedTimesRow]:
        """The epoch times that both have."""
        times = (row for row in self.figures["times"] if isinstance(row, ComparedTimesRow))
        return [row for row in times if row.quantity == "measured_epoch_s" and row.outcome]


@dataclass(frozen=True)
class ComparedStudies:
    """Studies, of which the first is what the others are held against: what measured each, its own figures at the point
    that all have, its records, and the pairs."""

    sides: Sequence[Side]
    studies: Sequence[ComparedStudiesRow]
    figures: Sequence[ComparedFiguresRow]
    records: Sequence[ComparedRecordsRow]
    pairs: Sequence[Pair]

    @property
    def first(self) -> str:
        return self.sides[0].name

    def table(self, name: str) -> Sequence[Row]:
        """The rows of a table, those of all pairs together."""
        if name in ("studies", "figures", "records"):
            rows: Sequence[Row] = getattr(self, name)
            return rows
        return [row for pair in self.pairs for row in pair.table(name)]

    def files(self) -> dict[str, str]:
        """The text of every table's file."""
        return {f"compared_{name}.csv": written(kind, self.table(name)) for name, kind in COMPARED_TABLES.items()}


def compare(sides: Sequence[Side], may_differ: Collection[str] = (), tolerance: float = nan) -> ComparedStudies:
    """Every study's figures, and those of all but the first against it; pure. `tolerance` is the share by which a group
    may be slower.

    Raises ComparisonError where they differ in a setting that `may_differ` does not name, and where one of them has
    records of several environments, or none.
    """
    differing = refuse_other_settings([side.study for side in sides], may_differ)
    for side in sides:
        refuse_several_environments(side)
    pairs = [_pair(sides[0], side, found, tolerance) for side, found in zip(sides[1:], differing, strict=True)]
    return ComparedStudies(
        sides, list(map(study_row, sides)), list(_figures(sides)), list(map(records_row, sides)), pairs
    )


def _pair(first: Side, side: Side, differing: Sequence[Differing], tolerance: float) -> Pair:
    figures = {name: list(side_by_side(subject, first, side)) for name, subject in SUBJECTS.items()}
    return Pair(
        first.name,
        side.name,
        list(compared_groups(first.tables.runs, side.tables.runs, side.name, tolerance)),
        figures,
        list(outcome_rows(side.name, figures)),
        list(environment_rows(study_row(first), study_row(side))),
        differing,
    )


def _figures(sides: Sequence[Side]) -> Iterator[ComparedFiguresRow]:
    """Of every study, one device and the most that all have, at one batch and in every scope there is."""
    timed = [{_point(row): row for row in side.tables.times} for side in sides]
    shared = _shared_point(timed)
    if not shared:
        return
    strategy, gpus, batch, _ = shared
    scopes = sorted({row.scope for times in timed for row in times.values()})
    for side, times in zip(sides, timed, strict=True):
        speedups = {_point(row): row for row in side.tables.speedup if row.scaling == "weak"}
        for scope in scopes:
            for at in dict.fromkeys([(BASELINE, 1, batch, scope), (strategy, gpus, batch, scope)]):
                row = times.get(at, TimesRow(status=NOT_PLANNED))
                yield _figures_at(side.name, at, row, speedups.get(at, SpeedupRow()))


def _point(row: TimesRow | SpeedupRow) -> _Point:
    return row.strategy, row.gpus, row.batch_per_gpu, row.scope


def _shared_point(timed: Sequence[Mapping[_Point, TimesRow]]) -> _Point | None:
    """The point that speaks for the studies: of those that all have an epoch time of, in the first scope there is.

    It has the most devices, of the last strategy in the order of `STRATEGIES`, at the largest batch: one whose epochs
    have steps enough to speak of, if there is such a batch.
    """
    shared = set.intersection(*({at for at, row in times.items() if row.status == "ok"} for times in timed))
    order = list(STRATEGIES)

    def weight(point: _Point) -> tuple[int, int, bool, int]:
        strategy, gpus, batch, _ = point
        return gpus, order.index(strategy), all(times[point].is_headline for times in timed), batch

    first_scope = min((scope for *_, scope in shared), default="")
    return max((point for point in shared if point[-1] == first_scope), key=weight, default=None)


def _figures_at(study: str, point: _Point, times: TimesRow, speedup: SpeedupRow) -> ComparedFiguresRow:
    """The figures of a study at a point, or why it has none."""
    strategy, gpus, batch, scope = point
    return ComparedFiguresRow(
        study=study,
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
