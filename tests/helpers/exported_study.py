"""A small measured study with its tables, and what its CSV files say of a run: read without pandas."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import must
from dpscale.plan.cells import TimingCell, TrainingCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.tables import tables as all_tables
from record_factory import timing_record, training_record, write

VALUES: dict[str, Any] = {
    "study": "small", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [512, 8192], "runs": 2,
    "baseline": "own_cells", "communication": {"runs": 0}, "dataset": {"source": "synthetic", "images": 50_000},
    "variants": {"half+graph": {"precision": "bfloat16", "gpus": [1], "batch_per_gpu": [512], "runs": 1}},
    "training": {"seeds": 2, "arms": {
        "short": {"strategy": "single", "gpus": 1, "batch_per_gpu": 512, "epochs": 2},
        "wild": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 512, "epochs": 2, "seeds": 1},
    }},
}  # fmt: skip
TABLES = ("records", "runs", "times", "speedup", "communication", "bandwidth", "variants", "training_summary")
# What tells rows apart, and what of a row is no figure.
LABELS = ("path", "strategy", "gpus", "batch_per_gpu", "global_batch", "environment", "run", "arm", "seed", "variant")
NAMING = ("scope", "scaling")


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
        found: dict[str, Any] = json.loads((self.results / f"{key}.json").read_text())
        return found

    def export(self, *options: object) -> str:
        return must("export", "study.json", *options, folder=self.folder)

    def rewrite_tables(self) -> None:
        results = ("--results", self.results, "--out", self.results / "tables")
        must("tables", "--study", self.folder / "study.json", *results)

    @property
    def keys(self) -> set[str]:
        """The places of the records, without their ending, and the study's own."""
        return {cell.path.removesuffix(".json") for cell in plan(self.study).all_cells} | {"study"}


def measure(folder: Path) -> Measured:
    """The study in `folder`: one cell ran out of memory, and one training diverged."""
    (folder / "study.json").write_text(json.dumps(VALUES))
    made = Measured(folder, Study(VALUES))
    for number, cell in enumerate(plan(made.study).all_cells):
        if isinstance(cell, TrainingCell):
            record = training_record(cell, [0.4, 0.6], epoch_s=1.7 + 0.1 * number, diverged=cell.arm == "wild")
        else:
            assert isinstance(cell, TimingCell | VariantCell)
            epochs = [4.25 / cell.gpus + 0.013 * number + 0.001 * epoch for epoch in range(3)]
            ran_out = cell.gpus == 1 and cell.configuration.batch_per_gpu == 8192
            settings = cell.settings if isinstance(cell, VariantCell) else made.study.settings
            record = timing_record(cell, settings, None if ran_out else epochs)
        write(made.results, cell, record)
    made.rewrite_tables()
    made.page.parent.mkdir()
    made.page.write_text("<!DOCTYPE html><title>small</title>")
    return made


def figures(measured: Measured, key: str) -> dict[str, float]:
    """Every number that the CSV tables have of a run."""
    return dict(_figures(measured, key))


def _figures(measured: Measured, key: str) -> Iterator[tuple[str, float]]:
    own = next(row for row in rows(measured, "records") if row["path"] == f"{key}.json")
    cell = measured.record(key)["cell"]
    if "variant" in cell:
        tables = {"records", "variants"}
    else:
        tables = {"records", "training_summary"} if "arm" in cell else set(TABLES) - {"variants", "training_summary"}
    for table in TABLES if key != "study" else ():
        for row in rows(measured, table) if table in tables else ():
            said = {**own, **{name: str(value) for name, value in cell.items()}}
            if all(same(row[name], said.get(name)) for name in LABELS if name in row and said.get(name)):
                for name, text in row.items():
                    if name not in (*LABELS, *NAMING, *texts(table)) and is_number(text):
                        yield "/".join([table, *(row[part] for part in NAMING if part in row), name]), float(text)


def texts(table: str) -> list[str]:
    """The columns whose entries are no numbers, even where they look like one."""
    return [column.name for column in all_tables.TABLES[table].columns().values() if column.kind in ("text", "flag")]


def rows(measured: Measured, table: str) -> list[dict[str, str]]:
    with (measured.results / f"tables/{table}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def same(text: str, other: str | None) -> bool:
    return text == other or (is_number(text) and other is not None and is_number(other) and float(text) == float(other))


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
