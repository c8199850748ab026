"""Studies beside each other: what measured each, its own answer, and every figure of the others
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
from dpscale.tables.row import Row
from dpscale.tables.tables import written


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
    """Studies, of which the first is what the others are held against: what measured each, its own answer, its
    records, and the pairs."""

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
        sides,
        list(map(study_row, sides)),
        [row for side in sides for row in _figures(side)],
        list(map(records_row, sides)),
        pairs,
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


def _figures(side: Side) -> Iterator[ComparedFiguresRow]:
    """The answer of a study, of the numbers of devices that have a speedup."""
    for row in side.tables.answer:
        if row.speedup.is_known:
            own = {
                name: getattr(row, name)
                for name in ComparedFiguresRow.columns()
                if name not in ("study", "one_machine")
            }
            yield ComparedFiguresRow(study=side.name, **own)
