"""The tables of a comparison, for reading. Of two studies, columns of figures are named after them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.figures import SUBJECTS, Subject
from dpscale.compare.rows import ComparedFiguresRow, ComparedGroupsRow, ComparedStudiesRow
from dpscale.compare.sentences import effect, groups_in_order, operation, tally
from dpscale.compare.studies import PROPERTIES
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate
from dpscale.present.text.view import ShownColumn, View, shown, view_of
from dpscale.present.text.words import Terms, listed, state, text
from dpscale.tables.row import grouped

# Of UUIDs so many are named; of checksums and UUIDs so many characters.
_NAMED, _CHARACTERS = 4, 12
# Told by another column, or not told.
_TOLD_ELSEWHERE = ("global_batch", "source", "target")
_OF_GROUP = (
    "scope", "strategy", "gpus", "batches", "first_runs", "second_runs", "change", "outcome", "batches_left_out",
)  # fmt: skip
# What says when and how much was measured. Many machines have one name: that of the host says nothing of whether they
# are the same.
_EXTENT = ("hosts", "records", "not_used", "first_started_at", "last_finished_at")


@dataclass(frozen=True)
class Views:
    """The tables that the page shows."""

    comparison: ComparedStudies

    @property
    def _terms(self) -> Terms:
        return self.comparison.terms

    def groups(self) -> View:
        columns = [shown(ComparedGroupsRow.column(name), self._terms) for name in (*self._study, *_OF_GROUP)]
        groups = self.comparison.groups
        pooled = groups_in_order(row for row in groups if row.status == "ok")
        caption = "Change of the epoch time, pooled over batches"
        return view_of("groups", caption, pooled, columns, "compared_groups", groups)

    def environments(self) -> View:
        """A row per property of where the studies were measured, and a column per study."""
        studies = self.comparison.studies

        def of_study(study: ComparedStudiesRow) -> ShownColumn[str]:
            return _text(study.study, lambda name: _property(name, str(getattr(study, name))))

        def compared(name: str) -> str:
            values = {getattr(study, name) for study in studies}
            return "" if name in _EXTENT else "differs" if len(values) > 1 else "same"

        columns = [
            _text("Property", lambda name: self._terms.heading_of(ComparedStudiesRow.column(name))),
            *map(of_study, studies),
            _text("Compared", compared),
        ]
        return view_of("studies", "What measured, where, when", PROPERTIES, columns, "compared_studies", studies)

    def figures(self) -> list[tuple[str, View]]:
        """Of every table the sentence on it, and the figures of both with what they differ by. The first links to
        all."""
        found = grouped(self.comparison.figures, lambda row: row.table)
        rows = [found.get(subject.table, []) for subject in SUBJECTS]
        return [(tally(*of), self._figures(*of)) for of in zip(SUBJECTS, rows, strict=True)]

    def _figures(self, subject: Subject, rows: Sequence[ComparedFiguresRow]) -> View:
        columns = [
            *self._places(subject, rows),
            _text("Figure", lambda row: self._terms.heading_of(row.described)),
            ShownColumn(self.comparison.first, lambda row: _both(row, row.first, row.first_status)),
            ShownColumn(self._other, lambda row: _both(row, row.second, row.second_status)),
            ShownColumn("Change" if subject.is_change else "Difference", effect),
            shown(ComparedFiguresRow.column("outcome"), self._terms),
        ]
        caption = self._terms.filled(subject.caption)
        link = self.comparison.figures if subject is SUBJECTS[0] else None
        return view_of(subject.table, caption, rows, columns, "compared_figures", link)

    @property
    def _study(self) -> Sequence[str]:
        """The column that says which study is held against the first one, where there are several."""
        return ("study",) if len(self.comparison.pairs) > 1 else ()

    @property
    def _other(self) -> str:
        """What is held against it."""
        return "the study" if self._study else self.comparison.pairs[0].study

    def _places(self, subject: Subject, rows: Sequence[ComparedFiguresRow]) -> list[ShownColumn[Any]]:
        """What tells the rows apart; the scope where there are several."""
        hidden = _TOLD_ELSEWHERE if len({row.scope for row in rows}) > 1 else (*_TOLD_ELSEWHERE, "scope")
        names = [*self._study, *(name for name in subject.keys if name not in hidden)]
        cells = {"operation": operation}
        return [shown(ComparedFiguresRow.column(name), self._terms, cells.get(name)) for name in names]


def _text(heading: str, cell: Callable[[Any], str]) -> ShownColumn[Any]:
    return ShownColumn(heading, cell, is_number=False)


def _both(row: ComparedFiguresRow, figure: Figure, status: str) -> str:
    """Where there is no figure, the word for why, if its state says so."""
    return estimate(figure, row.described.unit) if figure.is_known or status == "ok" else state(status)


def _property(name: str, value: str) -> str:
    """As it is read: of checksums and UUIDs as much as tells them apart."""
    if name in ("dataset_sha256", "gpu_uuids"):
        value = listed([number[:_CHARACTERS] for number in value.split("; ")], _NAMED)
    return text(value)
