"""A small measured study with its tables and its page, and the runs that are exported of it."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from command_line import must
from dpscale.export.runs import TrackedRun, runs_of
from dpscale.plan.cells import AnyCell, StepCell, TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from dpscale.records.files import JsonRecord
from dpscale.tables.tables import Tables
from made_study import records_of
from record_factory import training_record, write

# A training of two epochs.
SHORT = "training/short/seed-1"

VALUES: dict[str, Any] = {
    "study": "small", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [512, 8192], "runs": 2,
    "baseline": "own_cells", "communication": {"runs": 0}, "dataset": {"source": "synthetic", "images": 50_000},
    "variants": {"half+graph": {"precision": "bfloat16", "gpus": [1], "batch_per_gpu": [512], "runs": 1}},
    "training": {"seeds": 2, "arms": {
        "short": {"strategy": "single", "gpus": 1, "batch_per_gpu": 512, "epochs": 2},
        "wild": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 512, "epochs": 2, "seeds": 1},
    }},
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A project's folder with the study in it, measured, with tables and a page."""

    folder: Path
    study: Study

    @property
    def results(self) -> Path:
        return self.folder / self.study.results

    @property
    def page(self) -> Path:
        return self.folder / self.study.page

    def record(self, key: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.results / f"{key}.json").read_text())
        return record

    def export(self, *options: object) -> str:
        return must("export", "study.json", *options, folder=self.folder)

    def rewrite_tables(self) -> None:
        results = ("--results", self.results, "--out", self.results / "tables")
        must("tables", "--study", self.folder / "study.json", *results)

    def runs_by(self, tables: Tables) -> dict[str, TrackedRun]:
        """The runs that are exported with these tables, by the place of the record without its ending, or `study`."""
        collected = collect(self.results, plan(self.study).all_cells, self.study.settings)
        return {run.key: run for run in runs_of(self.study, collected, tables, [self.page])}

    @cached_property
    def runs(self) -> dict[str, TrackedRun]:
        return self.runs_by(Tables.read(self.results / "tables"))


def epochs_of(cell: StepCell) -> list[float] | None:
    """None where memory runs out."""
    if (cell.gpus, cell.configuration.batch_per_gpu) == (1, 8192):
        return None
    return [4.25 / cell.gpus + 0.013 * cell.run + 0.001 * epoch for epoch in range(3)]


def diverging(cell: AnyCell, _: JsonRecord) -> JsonRecord | None:
    if isinstance(cell, TrainingCell) and cell.arm == "wild":
        return training_record(cell, [0.4, 0.6], diverged=True)
    return None


def measure(folder: Path) -> Measured:
    """The study in `folder`: one cell ran out of memory, and one training diverged."""
    (folder / "study.json").write_text(json.dumps(VALUES))
    measured = Measured(folder, Study(VALUES))
    for cell, record in records_of(measured.study, diverging, epochs_of, accuracy=lambda _: 0.6).items():
        write(measured.results, cell, record)
    measured.rewrite_tables()
    measured.page.parent.mkdir()
    measured.page.write_text("<!DOCTYPE html><title>small</title>")
    return measured
