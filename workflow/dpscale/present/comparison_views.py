"""The tables of two studies side by side, for reading. Columns of figures are named after the studies."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.analyse.comparison import SIDES, Compared
from dpscale.present import words
from dpscale.present.views import Column, View, estimate, text, view_of, whole
from dpscale.present.words import Row, Words

_MS = 1e3

# How a quantity is named where several stand in one table, and what it is multiplied by to be in that unit.
_QUANTITIES = {
    "epoch_s": ("Epoch time, s", 1.0),
    "step_s": ("Step time, ms", _MS),
    "communication_step_s": ("E1 subtraction", _MS),
    "ablation_step_s": ("E2 ablation", _MS),
    "no_sync_step_s": ("E2 no_sync", _MS),
    "profiler_exposed_step_s": ("E3 profiler, exposed", _MS),
    "profiler_step_s": ("E3 profiler, all", _MS),
    "profiler_least_step_s": ("E3 profiler, all, least waiting", _MS),
    "logger_exposed_step_s": ("E4 DDP's logger, exposed", _MS),
    "logger_step_s": ("E4 DDP's logger, all", _MS),
    "isolated_step_s": ("E5 isolated collectives", _MS),
    "bandwidth_gb_s": ("Bandwidth, GB/s", 1.0),
    "profiler_bandwidth_gb_s": ("Bandwidth from the profiler's time, GB/s", 1.0),
    "utilisation": ("Utilisation, %", 100.0),
    "test_accuracy": ("Test accuracy, %", 100.0),
    "training_accuracy": ("Training accuracy, %", 100.0),
    "test_loss": ("Test loss", 1.0),
    "training_loss": ("Training loss", 1.0),
}
_PROPERTIES = {
    "device_model": "Device",
    "cpu_model": "CPU",
    "links": "Links",
    "driver": "Driver",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "torch": "torch",
    "torchvision": "torchvision",
    "python": "Python",
    "dataset_sha256": "Images, SHA-256",
    "hosts": "Hosts",
    "gpu_uuids": "Devices by UUID",
    "git_commits": "Commits of the code that measured",
    "git_dirty": "Changes beyond the commit",
    "records": "Records",
    "first_started_at": "First started, UTC",
    "last_finished_at": "Last finished, UTC",
}
_DIFFERS = {True: "differs", False: "same", None: ""}


@dataclass(frozen=True)
class Views:
    """The tables of two studies that the page shows."""

    compared: Compared
    say: Words

    def epoch_times(self) -> View:
        table = self._of("compared_times", "epoch_s")
        columns = [*self._point(table), *self._figures(1.0), self._times_as_fast(), _OUTCOME]
        return self._view("epoch_times", "compared_times", "Epoch time, s", table, columns)

    def step_times(self) -> View:
        table = self._of("compared_times", "step_s")
        columns = [*self._point(table), *self._figures(_MS), self._times_as_fast(), _OUTCOME]
        return self._view("step_times", "compared_times", "Time of a full step, ms", table, columns, linked=False)

    def speedup(self) -> View:
        table = self.compared.tables["compared_speedup"]
        columns = [text("Scaling", "scaling"), *self._point(table), *self._figures(1.0), self._over(), _OUTCOME]
        return self._view("speedup", "compared_speedup", f"Speedup over 1 {self.say.device}, ×", table, columns)

    def communication(self) -> View:
        table = self.compared.tables["compared_communication"]
        less = estimate(f"Less that of {self.compared.first.name}", "difference", _MS)
        columns = [*self._point(table), _QUANTITY, *self._figures(_MS), less, _OUTCOME]
        caption = "Communication of one step, in ms, estimated in five ways"
        return self._view("communication", "compared_communication", caption, table, columns)

    def bandwidth(self) -> View:
        table = self.compared.tables["compared_bandwidth"]
        columns = [*self._point(table), _QUANTITY, *self._figures(None), self._over(), _OUTCOME]
        return self._view("bandwidth", "compared_bandwidth", "Bandwidth of the ring's bytes", table, columns)

    def collectives(self) -> View:
        table = self.compared.tables["compared_collectives"]
        columns = [
            Column("Operation", operation, is_number=False),
            whole(self.say.heading, "gpus"),
            whole("Bytes", "message_bytes"),
            *self._figures(1.0),
            self._over(),
            _OUTCOME,
        ]
        caption = "Bus bandwidth of collectives and copies with nothing else running, GB/s"
        return self._view("collectives", "compared_collectives", caption, table, columns)

    def training(self) -> View:
        table = self.compared.tables["compared_training"]
        less = Column(
            f"Less that of {self.compared.first.name}", lambda row: words.estimate(row, "difference", _scale(row))
        )
        columns = [text("Arm", "arm"), _QUANTITY, *self._figures(None), less, _OUTCOME]
        caption = "Arms after their last epoch; brackets are t intervals over seeds, of differences Welch's"
        return self._view("training", "compared_training", caption, table, columns)

    def only_in_one(self) -> View:
        table = self._of("compared_times", "epoch_s")
        table = table[table["outcome"].isna()]
        columns = [*self._point(table), *self._figures(1.0), Column("Reason", _reasons, is_number=False)]
        caption = "Configurations that one study alone has an epoch time of, s"
        return self._view("only_in_one", "compared_times", caption, table, columns, linked=False)

    def environments(self) -> View:
        table = self.compared.tables["compared_environments"]
        columns = [
            Column("Property", lambda row: _PROPERTIES[row["property"]], is_number=False),
            Column(self.compared.first.name, lambda row: _property(row, "first"), is_number=False),
            Column(self.compared.second.name, lambda row: _property(row, "second"), is_number=False),
            Column("Compared", lambda row: _DIFFERS[row["differs"]], is_number=False),
        ]  # fmt: skip
        return self._view("environments", "compared_environments", "What measured, where, when", table, columns)

    def _of(self, name: str, quantity: str) -> pd.DataFrame:
        table = self.compared.tables[name]
        return table[table["quantity"] == quantity]

    def _point(self, table: pd.DataFrame) -> list[Column]:
        several_scopes = table["scope"].nunique() > 1
        return [
            *([text("Scope", "scope")] if several_scopes else []),
            text("Strategy", "strategy"),
            whole(self.say.heading, "gpus"),
            whole(f"Batch per {self.say.device}, images", "batch_per_gpu"),
        ]

    def _figures(self, scale: float | None) -> list[Column]:
        """Both figures in the unit of `scale`, None for that of the row's quantity."""
        return [
            Column(self.compared.first.name, lambda row: _figure(row, "first", scale or _scale(row))),
            Column(self.compared.second.name, lambda row: _figure(row, "second", scale or _scale(row))),
        ]

    def _times_as_fast(self) -> Column:
        return estimate(f"Times as fast as {self.compared.first.name}, ×", "ratio")

    def _over(self) -> Column:
        return estimate(f"Over that of {self.compared.first.name}, ×", "ratio")

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


_OUTCOME = Column("Beyond the intervals", lambda row: words.text(row["outcome"]), is_number=False)
_QUANTITY = Column("Figure", lambda row: _QUANTITIES[row["quantity"]][0], is_number=False)


def operation(row: Row) -> str:
    """`all gather`, `peer copy from 0 to 1`."""
    name = str(row["operation"]).replace("_", " ")
    return f"{name} from {int(row['source'])} to {int(row['target'])}" if words.is_known(row["source"]) else name


def _scale(row: Row) -> float:
    return _QUANTITIES[row["quantity"]][1]


def _figure(row: Row, name: str, scale: float) -> str:
    """A study's figure; where it has none, the word for why, if its state says so."""
    if words.is_known(row[name]):
        return words.estimate(row, name, scale)
    return words.ABSENT if row[f"{name}_status"] == "ok" else words.state(str(row[f"{name}_status"]))


def _reasons(row: Row) -> str:
    known = [row[f"{name}_reason"] for name in SIDES if words.is_known(row[f"{name}_reason"])]
    return words.text("; ".join(filter(None, known)))


def _property(row: Row, name: str) -> str:
    text = words.text(row[name])
    if row["property"] == "dataset_sha256":
        return text[:12]
    if row["property"] == "gpu_uuids" and words.is_known(row[name]):
        uuids = text.split("; ")
        return f"{len(uuids)}: {words.listed([uuid[:12] for uuid in uuids], 4)}"
    return text
