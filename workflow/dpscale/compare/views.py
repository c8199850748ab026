"""The tables of a comparison, for reading. Of two studies, columns of figures are named after them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.figures import SUBJECTS, Subject
from dpscale.compare.rows import (
    ComparedEnvironmentsRow,
    ComparedFiguresRow,
    ComparedGroupsRow,
    ComparedRow,
    ComparedStudiesRow,
)
from dpscale.compare.sentences import groups_in_order, operation
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import ABSENT, estimate, whole
from dpscale.present.text.view import ShownColumn, View, shown, view_of
from dpscale.present.text.words import Terms, listed, state, text
from dpscale.tables.column import TIMES, Unit
from dpscale.tables.quantities import ESTIMATES_OF_STEP
from dpscale.tables.row import Row

# Of UUIDs so many are named; of checksums and UUIDs so many characters.
_NAMED, _CHARACTERS = 4, 12
# Told by another column, or not told.
_KEYS_NOT_SHOWN = ("global_batch", "source", "target")


@dataclass(frozen=True)
class Views:
    """The tables that the page shows."""

    comparison: ComparedStudies
    terms: Terms

    def studies(self) -> View:
        """A row per study: its machine."""
        columns = self._columns(
            ComparedStudiesRow, "study", "device_model", "hosts", "gpus", "first_started_at", "records"
        )
        return view_of("studies", "The studies", self.comparison.studies, columns, "compared_studies")

    def answers(self) -> View:
        """What every study answers of itself."""
        figures = self.comparison.figures
        columns = self._columns(
            ComparedFiguresRow, *(name for name in ComparedFiguresRow.columns() if name != "one_machine")
        )
        link = [*figures] or None
        return view_of("answers", "The answer of every study", [*figures], columns, "compared_figures", link)

    def groups(self) -> View:
        groups = [row for pair in self.comparison.pairs for row in pair.groups]
        columns = [
            *self._columns(ComparedGroupsRow, *self._study, "scope", "strategy", "gpus", "batches"),
            ShownColumn[Any](f"Runs of {self.comparison.first}", lambda row: whole(row.first_runs)),
            ShownColumn[Any](f"Runs of {self._other}", lambda row: whole(row.second_runs)),
            *self._columns(ComparedGroupsRow, "change", "outcome", "batches_left_out"),
        ]
        pooled = groups_in_order(row for row in groups if row.status == "ok")
        caption = "Change of the epoch time, pooled over batches"
        return view_of("groups", caption, pooled, columns, "compared_groups", groups or None)

    def environments(self) -> View:
        """A row per property of where the studies were measured, and a column per study."""
        pairs = self.comparison.pairs
        properties = list(zip(*(pair.environments for pair in pairs), strict=True))

        def second(place: int) -> ShownColumn[Sequence[ComparedEnvironmentsRow]]:
            return _text(pairs[place].study, lambda rows: _property(rows[place].property, rows[place].second))

        columns = [
            _text("Property", lambda rows: self.terms.heading_of(ComparedStudiesRow.column(rows[0].property))),
            _text(self.comparison.first, lambda rows: _property(rows[0].property, rows[0].first)),
            *map(second, range(len(pairs))),
            _text("Compared", _compared),
        ]
        all_rows = [row for pair in pairs for row in pair.environments]
        return view_of(
            "environments", "What measured, where, when", properties, columns, "compared_environments", all_rows
        )

    def figures(self, name: str, table: str, caption: str, quantity: str = "", linked: bool = True) -> View:
        """Figures of both with what they differ by: all quantities of a table, or one."""
        subject = SUBJECTS[table]
        all_rows = self._rows(table)
        rows = [row for row in all_rows if quantity in ("", row.quantity)]
        several = not quantity and len(subject.quantities) > 1
        columns = [
            *self._places(subject, rows),
            *([_text("Figure", lambda row: _quantity(subject, row))] if several else []),
            *self._both(subject),
            self._effect(table, subject),
            *self._columns(subject.kind, "outcome"),
        ]
        return view_of(name, caption, rows, columns, f"compared_{table}", all_rows if linked and all_rows else None)

    def only_in_one(self) -> View:
        subject = SUBJECTS["times"]
        rows = [row for row in self._rows("times") if row.quantity == "measured_epoch_s" and not row.outcome]
        columns = [*self._places(subject, rows), *self._both(subject), _text("Reason", _reasons)]
        caption = "Configurations that one study alone has an epoch time of, s"
        return view_of("only_in_one", caption, rows, columns, "compared_times")

    def _rows(self, table: str) -> list[ComparedRow]:
        return [row for pair in self.comparison.pairs for row in pair.figures[table]]

    @property
    def _study(self) -> Sequence[str]:
        """The column that says which study is held against the first one, where there are several."""
        return ("study",) if len(self.comparison.pairs) > 1 else ()

    @property
    def _other(self) -> str:
        """What is held against it."""
        return "the study" if self._study else self.comparison.pairs[0].study

    def _columns(self, kind: type[Row], *names: str) -> list[ShownColumn[Any]]:
        return [shown(kind.column(name), self.terms) for name in names]

    def _places(self, subject: Subject, rows: Sequence[ComparedRow]) -> list[ShownColumn[Any]]:
        """What tells the rows apart; the scope where there are several."""
        hidden = set(_KEYS_NOT_SHOWN)
        if len({getattr(row, "scope", "") for row in rows}) < 2:
            hidden.add("scope")
        first = ("scaling", "scope")
        keys = sorted(subject.keys, key=lambda name: name not in first)
        columns = self._columns(subject.kind, *self._study, *(name for name in keys if name not in hidden))
        return [_text("Operation", operation) if column.heading == "Operation" else column for column in columns]

    def _both(self, subject: Subject) -> list[ShownColumn[Any]]:
        def unit(row: ComparedRow) -> Unit:
            return subject.quantity(row.quantity).unit

        return [
            ShownColumn(self.comparison.first, lambda row: _or_state(row.first, unit(row), row.first_status)),
            ShownColumn(self._other, lambda row: _or_state(row.second, unit(row), row.second_status)),
        ]

    def _effect(self, table: str, subject: Subject) -> ShownColumn[Any]:
        first = self.comparison.first
        if subject.is_ratio:
            over = "Times as fast as" if table == "times" else "Over that of"
            return ShownColumn(f"{over} {first}, {TIMES.shown}", lambda row: estimate(row.effect, TIMES))
        return ShownColumn(
            f"Less that of {first}", lambda row: estimate(row.effect, subject.quantity(row.quantity).unit)
        )


def _text(heading: str, cell: Callable[[Any], str]) -> ShownColumn[Any]:
    return ShownColumn(heading, cell, is_number=False)


def _or_state(figure: Figure, unit: Unit, status: str) -> str:
    """Where there is no figure, the word for why, if its state says so."""
    if figure.is_known:
        return estimate(figure, unit)
    return ABSENT if status == "ok" else state(status)


def _quantity(subject: Subject, row: ComparedRow) -> str:
    """With its unit where rows of several units stand in one table: estimates of a step are all in ms."""
    column = subject.quantity(row.quantity)
    return column.label if column.name in ESTIMATES_OF_STEP else column.heading


def _reasons(row: ComparedRow) -> str:
    return text("; ".join(filter(None, (row.first_reason, row.second_reason))))


def _compared(rows: Sequence[ComparedEnvironmentsRow]) -> str:
    if rows[0].differs is None:
        return ""
    return "differs" if any(row.differs for row in rows) else "same"


def _property(name: str, value: str) -> str:
    """As it is read: checksums and long lists are cut."""
    if name == "dataset_sha256":
        return text(value[:_CHARACTERS])
    if name == "gpu_uuids" and value:
        uuids = value.split("; ")
        return f"{len(uuids)}: {listed([uuid[:_CHARACTERS] for uuid in uuids], _NAMED)}"
    return text(value)
