"""Studies beside each other: what measured each, and every figure of the others against the first one's."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import nan

from dpscale.compare.figures import side_by_side
from dpscale.compare.groups import compared_groups
from dpscale.compare.rows import (
    COMPARED_TABLES,
    ComparedFiguresRow,
    ComparedGroupsRow,
    ComparedStudiesRow,
)
from dpscale.compare.studies import Differing, Side, refuse_other_settings, refuse_several_environments, study_row
from dpscale.present.text.words import Terms
from dpscale.tables.tables import written


@dataclass(frozen=True)
class Pair:
    """A study by its name, held against the `first` one: pooled changes, and figures."""

    first: str
    study: str
    groups: Sequence[ComparedGroupsRow]
    figures: Sequence[ComparedFiguresRow] = ()

    @property
    def name(self) -> str:
        return f"{self.study} against {self.first}"


@dataclass(frozen=True)
class ComparedStudies:
    """Studies, of which the others are held against the first: what measured each, the pairs, and the settings that
    differ."""

    sides: Sequence[Side]
    studies: Sequence[ComparedStudiesRow]
    pairs: Sequence[Pair]
    differing: Sequence[Differing]

    @property
    def first(self) -> str:
        return self.sides[0].name

    @property
    def terms(self) -> Terms:
        """How the studies speak together: of synthetic images, where one of them has such."""
        return max((side.terms for side in self.sides), key=lambda terms: terms.synthetic)

    @property
    def groups(self) -> list[ComparedGroupsRow]:
        return [row for pair in self.pairs for row in pair.groups]

    @property
    def figures(self) -> list[ComparedFiguresRow]:
        return [row for pair in self.pairs for row in pair.figures]

    def files(self) -> dict[str, str]:
        """The text of every table's file."""
        return {f"compared_{name}.csv": written(kind, getattr(self, name)) for name, kind in COMPARED_TABLES.items()}


def compare(sides: Sequence[Side], may_differ: Collection[str] = (), tolerance: float = nan) -> ComparedStudies:
    """The figures of all studies but the first against it; pure. `tolerance` is the share by which a
    group may be slower.

    Raises ComparisonError where they differ in a setting that `may_differ` does not name, and where one of them has
    records of several environments, or none.
    """
    differing = refuse_other_settings({side.name: side.study for side in sides}, may_differ)
    for side in sides:
        refuse_several_environments(side)
    first, *others = sides
    pairs = [
        Pair(
            first.name,
            side.name,
            list(compared_groups(first.tables.runs, side.tables.runs, side.name, tolerance)),
            list(side_by_side(first, side)),
        )
        for side in others
    ]
    return ComparedStudies(sides, list(map(study_row, sides)), pairs, differing)
