"""The tables of two studies side by side, for reading. Columns of figures are named after the studies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpscale.analyse.comparison import SIDES, Compared
from dpscale.present import words
from dpscale.present.comparison_groups import Pair
from dpscale.present.view import Column, View, column_of, point, text, view_of
from dpscale.present.words import Row, Terms
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import EPOCH, GB_PER_S, MILLISECONDS, PERCENT, SPEEDUP, STEP, TIMES, Unit, quantity

# What `compared_environments` says of all records of a study; its other properties are columns of `environments`.
_PROPERTIES = {
    "gpu_uuids": "Devices by UUID",
    "git_commits": "Commits of the code that measured",
    "git_dirty": "Changes beyond the commit",
    "first_started_at": "First started, UTC",
    "last_finished_at": "Last finished, UTC",
}
_DIFFERS = {True: "differs", False: "same", None: ""}


@dataclass(frozen=True)
class Views:
    """The tables of two studies that the page shows."""

    compared: Compared
    terms: Terms

    def groups(self) -> View:
        pair = Pair(self.compared.first.name, self.compared.second.name)
        return groups_view(self.compared.tables["compared_groups"], pair, self.terms)

    def epoch_times(self) -> View:
        table = self._of("compared_times", "epoch_s")
        columns = [*self._point(table), *self._figures(EPOCH.unit), self._times_as_fast(), _OUTCOME]
        return self._view("epoch_times", "compared_times", EPOCH.heading, table, columns)

    def step_times(self) -> View:
        table = self._of("compared_times", "step_s")
        columns = [*self._point(table), *self._figures(STEP.unit), self._times_as_fast(), _OUTCOME]
        return self._view("step_times", "compared_times", "Time of a full step, ms", table, columns, linked=False)

    def speedup(self) -> View:
        table = self.compared.tables["compared_speedup"]
        columns = [
            column_of(quantity("scaling"), self.terms),
            *self._point(table),
            *self._figures(SPEEDUP.unit),
            self._over(),
            _OUTCOME,
        ]
        return self._view("speedup", "compared_speedup", f"Speedup over 1 {self.terms.device}, ×", table, columns)

    def communication(self) -> View:
        table = self.compared.tables["compared_communication"]
        less = self._less(lambda row: MILLISECONDS)
        columns = [*self._point(table), _QUANTITY, *self._figures(MILLISECONDS), less, _OUTCOME]
        caption = "Communication of one step, in ms, as it was estimated"
        return self._view("communication", "compared_communication", caption, table, columns)

    def bandwidth(self) -> View:
        table = self.compared.tables["compared_bandwidth"]
        columns = [*self._point(table), _QUANTITY, *self._figures(None), self._over(), _OUTCOME]
        return self._view("bandwidth", "compared_bandwidth", "Bandwidth of the ring's bytes", table, columns)

    def collectives(self) -> View:
        table = self.compared.tables["compared_collectives"]
        columns = [
            Column("Operation", operation, is_number=False),
            column_of(quantities.GPUS, self.terms),
            column_of(quantities.MESSAGE, self.terms),
            *self._figures(GB_PER_S),
            self._over(),
            _OUTCOME,
        ]
        caption = "Bus bandwidth of collectives and copies with nothing else running, GB/s"
        return self._view("collectives", "compared_collectives", caption, table, columns)

    def training(self) -> View:
        table = self.compared.tables["compared_training"]
        columns = [
            column_of(quantities.ARM, self.terms),
            _QUANTITY,
            *self._figures(None),
            self._less(_unit),
            _OUTCOME,
        ]
        caption = "Arms after their last epoch; brackets are t intervals over seeds, of differences Welch's"
        return self._view("training", "compared_training", caption, table, columns)

    def only_in_one(self) -> View:
        table = self._of("compared_times", "epoch_s")
        table = table[table["outcome"].isna()]
        columns = [*self._point(table), *self._figures(EPOCH.unit), Column("Reason", _reasons, is_number=False)]
        caption = "Configurations that one study alone has an epoch time of, s"
        return self._view("only_in_one", "compared_times", caption, table, columns, linked=False)

    def environments(self) -> View:
        table = self.compared.tables["compared_environments"]
        columns = [
            Column("Property", lambda row: property_name(row, self.terms), is_number=False),
            Column(self.compared.first.name, lambda row: _property(row, "first"), is_number=False),
            Column(self.compared.second.name, lambda row: _property(row, "second"), is_number=False),
            Column("Compared", lambda row: _DIFFERS[row["differs"]], is_number=False),
        ]  # fmt: skip
        return self._view("environments", "compared_environments", "What measured, where, when", table, columns)

    def _of(self, name: str, quantity: str) -> pd.DataFrame:
        table = self.compared.tables[name]
        return table[table["quantity"] == quantity]

    def _point(self, table: pd.DataFrame) -> list[Column]:
        return point(table, self.terms, with_environment=False)

    def _figures(self, unit: Unit | None) -> list[Column]:
        """Both figures in this unit, None for that of the row's quantity."""
        return [
            Column(self.compared.first.name, lambda row: _figure(row, "first", unit or _unit(row))),
            Column(self.compared.second.name, lambda row: _figure(row, "second", unit or _unit(row))),
        ]

    def _times_as_fast(self) -> Column:
        heading = f"Times as fast as {self.compared.first.name}, {TIMES.shown}"
        return Column(heading, lambda row: words.estimate(row, "ratio", TIMES))

    def _over(self) -> Column:
        heading = f"Over that of {self.compared.first.name}, {TIMES.shown}"
        return Column(heading, lambda row: words.estimate(row, "ratio", TIMES))

    def _less(self, unit: Callable[[Row], Unit]) -> Column:
        heading = f"Less that of {self.compared.first.name}"
        return Column(heading, lambda row: words.estimate(row, "difference", unit(row)))

    def _view(
        self,
        name: str,
        source: str,
        caption: str,
        table: pd.DataFrame,
        columns: Sequence[Column],
        linked: bool = True,
    ) -> View:
        whole = self.compared.tables[source] if linked else None
        return view_of(name, caption, table, columns, source=source, whole=whole)


def groups_view(groups: pd.DataFrame, pair: Pair, terms: Terms) -> View:
    """The pooled changes of all groups that two studies, or several and the first, have."""
    several = groups["study"].nunique() > 1
    columns = [
        *([text("Study", "study")] if several else []),
        column_of(quantities.SCOPE, terms),
        column_of(quantities.STRATEGY, terms),
        column_of(quantities.GPUS, terms),
        text("Batches", "batches"),
        Column(f"Runs of {pair.first}", lambda row: words.whole(row["first_runs"])),
        Column("Runs" if several else f"Runs of {pair.second}", lambda row: words.whole(row["second_runs"])),
        Column("Change of the epoch time, %", lambda row: words.estimate(row, "change", PERCENT)),
        text("Verdict", "outcome"),
        text("Batches left out", "batches_left_out"),
    ]
    ordered = words.in_order(groups[groups["status"] == "ok"])
    caption = "Change of the epoch time, pooled over batches"
    return view_of("groups", caption, ordered, columns, source="compared_groups", whole=groups)


_OUTCOME = Column("Beyond the intervals", lambda row: words.text(row["outcome"]), is_number=False)
_QUANTITY = Column("Figure", lambda row: _quantity_name(row), is_number=False)


def operation(row: Row) -> str:
    """`all gather`, `peer copy from 0 to 1`."""
    name = str(row["operation"]).replace("_", " ")
    return f"{name} from {int(row['source'])} to {int(row['target'])}" if words.is_known(row["source"]) else name


def _quantity_name(row: Row) -> str:
    """With its unit where rows of several units stand in one table: estimates of a step are all in ms."""
    compared = quantity(row["quantity"])
    return compared.label if compared.column in quantities.ESTIMATES_OF_STEP else compared.heading


def _unit(row: Row) -> Unit:
    return quantity(row["quantity"]).unit


def _figure(row: Row, name: str, unit: Unit) -> str:
    """A study's figure; where it has none, the word for why, if its state says so."""
    if words.is_known(row[name]):
        return words.estimate(row, name, unit)
    return words.ABSENT if row[f"{name}_status"] == "ok" else words.state(str(row[f"{name}_status"]))


def _reasons(row: Row) -> str:
    known = [row[f"{name}_reason"] for name in SIDES if words.is_known(row[f"{name}_reason"])]
    return words.text("; ".join(filter(None, known)))


def property_name(row: Row, terms: Terms) -> str:
    """The heading of a property of `compared_environments`."""
    name = str(row["property"])
    return _PROPERTIES[name] if name in _PROPERTIES else terms.heading_of(quantity(name, "environments"))


def _property(row: Row, name: str) -> str:
    return environment_text(str(row["property"]), row[name])


def environment_text(name: str, value: Any) -> str:
    """The property `name` of an environment as it is read: checksums and long lists are cut."""
    text = words.text(value)
    if name == "dataset_sha256":
        return text[:12]
    if name == "gpu_uuids" and words.is_known(value):
        uuids = text.split("; ")
        return f"{len(uuids)}: {words.listed([uuid[:12] for uuid in uuids], 4)}"
    return text
