"""The tables of a comparison, for reading. Of two studies, columns of figures are named after them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpscale.compare.comparison import Comparison
from dpscale.compare.figures import SUBJECTS, Subject
from dpscale.compare.rows import ComparedFiguresRow, ComparedGroupsRow, ComparedRow, ComparedStudiesRow
from dpscale.compare.sentences import groups_in_order, operation
from dpscale.compare.studies import PROPERTIES
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import ABSENT, estimate, whole
from dpscale.present.text.view import ShownColumn, View, point, shown, view_of
from dpscale.present.text.words import Terms, listed, scope, state, text
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import TIMES, Unit
from dpscale.tables.quantities import EPOCH, ESTIMATES_OF_STEP
from dpscale.tables.row import Row

# Of UUIDs so many are named; of checksums and UUIDs so many characters.
_NAMED, _CHARACTERS = 4, 12
_DIFFERS = {True: "differs", False: "same", None: ""}


@dataclass(frozen=True)
class Views:
    """The tables that the page shows."""

    comparison: Comparison
    terms: Terms

    def studies(self) -> View:
        """A row per study: its machine, and its figures at the point that all have."""
        tables = self.comparison.tables
        machine = self._columns(ComparedStudiesRow, "study", "device_model", "hosts", "gpus")
        columns = [*machine, *self._own_figures(), *self._columns(ComparedStudiesRow, "first_started_at", "records")]
        return view_of("studies", "The studies", tables.studies, columns, "compared_figures", tables.figures or None)

    def groups(self) -> View:
        groups = self.comparison.tables.groups
        columns = [
            *self._study(ComparedGroupsRow),
            *self._columns(ComparedGroupsRow, "scope", "strategy", "gpus", "batches"),
            ShownColumn[ComparedGroupsRow](f"Runs of {self._first}", lambda row: whole(row.first_runs)),
            ShownColumn[ComparedGroupsRow](f"Runs of {self._other}", lambda row: whole(row.second_runs)),
            *self._columns(ComparedGroupsRow, "change", "outcome", "batches_left_out"),
        ]
        pooled = groups_in_order(row for row in groups if row.status == "ok")
        caption = "Change of the epoch time, pooled over batches"
        return view_of("groups", caption, pooled, columns, "compared_groups", groups or None)

    def environments(self) -> View:
        """A row per property of where the studies were measured, and a column per study."""
        tables = self.comparison.tables
        differs = {row.property: row.differs for row in tables.environments}
        differs |= {row.property: True for row in tables.environments if row.differs}

        def column(study: ComparedStudiesRow) -> ShownColumn[str]:
            return ShownColumn(study.study, lambda name: _property(study, name), is_number=False)

        columns = [
            ShownColumn[str]("Property", lambda name: self._heading(ComparedStudiesRow, name), is_number=False),
            *map(column, tables.studies),
            ShownColumn[str]("Compared", lambda name: _DIFFERS[differs[name]], is_number=False),
        ]
        caption = "What measured, where, when"
        return view_of("environments", caption, PROPERTIES, columns, "compared_environments", tables.environments)

    def epoch_times(self) -> View:
        return self._figures("epoch_times", "times", EPOCH.heading, "epoch_s")

    def step_times(self) -> View:
        return self._figures("step_times", "times", "Time of a full step, ms", "step_s", linked=False)

    def speedup(self) -> View:
        return self._figures("speedup", "speedup", f"Speedup over 1 {self.terms.device}, ×")

    def communication(self) -> View:
        return self._figures("communication", "communication", "Communication of one step, in ms, as it was estimated")

    def bandwidth(self) -> View:
        return self._figures("bandwidth", "bandwidth", "Bandwidth of the ring's bytes")

    def collectives(self) -> View:
        caption = "Bus bandwidth of collectives and copies with nothing else running, GB/s"
        return self._figures("collectives", "collectives", caption)

    def training(self) -> View:
        caption = "Arms after their last epoch; brackets are t intervals over seeds, of differences Welch's"
        return self._figures("training", "training", caption)

    def only_in_one(self) -> View:
        subject = SUBJECTS["times"]
        rows = [row for row in self.comparison.tables.times if row.quantity == "epoch_s" and not row.outcome]
        columns = [
            *self._study(subject.kind),
            *point(subject.kind, rows, self.terms),
            *self._both(subject),
            ShownColumn[Any]("Reason", _reasons, is_number=False),
        ]
        caption = "Configurations that one study alone has an epoch time of, s"
        return view_of("only_in_one", caption, rows, columns, "compared_times")

    def _figures(self, name: str, table: str, caption: str, quantity: str = "", linked: bool = True) -> View:
        """Figures of both with what they differ by: all quantities of a table, or one."""
        subject = SUBJECTS[table]
        whole_table: Sequence[ComparedRow] = getattr(self.comparison.tables, table)
        rows = [row for row in whole_table if quantity in ("", row.quantity)]
        several = not quantity and len(subject.quantities) > 1
        columns = [
            *self._study(subject.kind),
            *self._places(subject, rows),
            *([ShownColumn[Any]("Figure", lambda row: _quantity(subject, row), is_number=False)] if several else []),
            *self._both(subject),
            self._effect(subject),
            *self._columns(subject.kind, "outcome"),
        ]
        all_rows = whole_table if linked and whole_table else None
        return view_of(name, caption, rows, columns, f"compared_{table}", all_rows)

    def _places(self, subject: Subject, rows: Sequence[ComparedRow]) -> list[ShownColumn[Any]]:
        """What tells the rows apart."""
        if "arm" in subject.keys:
            return self._columns(subject.kind, "arm")
        if "operation" in subject.keys:
            named = ShownColumn[Any]("Operation", operation, is_number=False)
            return [named, *self._columns(subject.kind, "gpus", "message_bytes")]
        scaling = self._columns(subject.kind, "scaling") if "scaling" in subject.keys else []
        return [*scaling, *point(subject.kind, rows, self.terms)]

    def _study(self, kind: type[Row]) -> list[ShownColumn[Any]]:
        """Which study is held against the first one, where there are several."""
        return self._columns(kind, "study") if len(self.comparison.others) > 1 else []

    @property
    def _first(self) -> str:
        return self.comparison.first.name

    @property
    def _other(self) -> str:
        """What is held against it."""
        others = self.comparison.others
        return others[0].name if len(others) == 1 else "the study"

    def _both(self, subject: Subject) -> list[ShownColumn[Any]]:
        def unit(row: ComparedRow) -> Unit:
            return subject.quantity(row.quantity).unit

        return [
            ShownColumn(self._first, lambda row: _or_state(row.first, unit(row), row.first_status)),
            ShownColumn(self._other, lambda row: _or_state(row.second, unit(row), row.second_status)),
        ]

    def _effect(self, subject: Subject) -> ShownColumn[Any]:
        if not subject.is_ratio:
            return ShownColumn(
                f"Less that of {self._first}",
                lambda row: estimate(row.effect, subject.quantity(row.quantity).unit),
            )
        over = "Times as fast as" if subject is SUBJECTS["times"] else "Over that of"
        return ShownColumn(f"{over} {self._first}, {TIMES.shown}", lambda row: estimate(row.effect, TIMES))

    def _columns(self, kind: type[Row], *names: str) -> list[ShownColumn[Any]]:
        return [shown(kind.column(name), self.terms) for name in names]

    def _heading(self, kind: type[Row], name: str) -> str:
        return self.terms.heading_of(kind.column(name))

    def _own_figures(self) -> Iterator[ShownColumn[ComparedStudiesRow]]:
        """Images per second of one device and of several, and the speedup, in every scope."""
        rows = self.comparison.tables.figures
        for at in dict.fromkeys((row.scope, row.strategy, row.gpus) for row in rows):
            of_study = {row.study: row for row in rows if (row.scope, row.strategy, row.gpus) == at}
            yield self._own_figure("images_per_s", of_study)
            if at[1] != BASELINE:
                yield self._own_figure("speedup", of_study)

    def _own_figure(self, name: str, of_study: Mapping[str, ComparedFiguresRow]) -> ShownColumn[ComparedStudiesRow]:
        def cell(study: ComparedStudiesRow) -> str:
            row = of_study[study.study]
            return _or_state(getattr(row, name), ComparedFiguresRow.column(name).unit, row.status)

        row = next(iter(of_study.values()))
        place = f"{self.terms.group(row)}, {scope(row.scope)}"
        return ShownColumn(f"{self._heading(ComparedFiguresRow, name)}: {place}", cell)


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


def _property(study: ComparedStudiesRow, name: str) -> str:
    """As it is read: checksums and long lists are cut."""
    value = getattr(study, name)
    if name == "dataset_sha256":
        return text(value[:_CHARACTERS])
    if name == "gpu_uuids" and value:
        uuids = value.split("; ")
        return f"{len(uuids)}: {listed([uuid[:_CHARACTERS] for uuid in uuids], _NAMED)}"
    return text(str(value))
