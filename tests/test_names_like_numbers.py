"""Arms, variants and studies may be named as numbers and truth values are written: from records to the page.

Once, an arm named 128 was read back from its table as 128.0, matched nothing, and the report ended in a traceback.
"""

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import must
from dpscale.plan.cells import AnyCell, StepCell, TrainingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord
from made_study import records_of
from record_factory import on_gpus, training_record, write

pytestmark = pytest.mark.slow

STUDY: dict[str, Any] = {
    "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [128], "scopes": ["compute"],
    "baseline": "own_cells", "runs": 3, "communication": {"runs": 0},
    "variants": {"true": {"precision": "bfloat16"}, "007": {"fused_optimiser": True}, "nan": {"cuda_graph": True}},
    "training": {
        "baseline": "128",
        "arms": {
            "128": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128},
            "2048": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 1024},
            "1e5": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 1024, "optimiser": "lars"},
            "nan": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 1024, "warmup_epochs": 1},
            "true": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128, "precision": "bfloat16"},
        },
    },
}  # fmt: skip
LAST = {"128": 0.70, "2048": 0.50, "1e5": 0.60, "nan": 0.65, "true": 0.70}
EPOCH_S = {"base": 4.0, "true": 2.0, "007": 3.0, "nan": 5.0}


def epochs_of(cell: StepCell) -> list[float]:
    variant = cell.variant if isinstance(cell, VariantCell) else "base"
    return [EPOCH_S[variant] * (1 + 0.001 * cell.run) / cell.gpus] * 2


def on_its_server(cell: AnyCell, record: JsonRecord) -> JsonRecord | None:
    """Runs are on servers of their own. The arm `true` takes a quarter of the time."""
    if isinstance(cell, TrainingCell):
        last = LAST[cell.arm] + 0.001 * cell.seed
        return training_record(cell, [last - 0.1, last], 1.0 if cell.arm == "true" else 4.0)
    assert isinstance(cell, StepCell)
    uuids = (f"GPU-{cell.run}-{number}" for number in range(cell.gpus))
    return {**on_gpus(record, *uuids), "preparation_s": 3.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tables` and `page.html` are what the commands make of a study that is called 1e5."""
    folder = tmp_path_factory.mktemp("named")
    study = folder / "1e5.yaml"
    study.write_text(yaml.safe_dump({**STUDY, "study": "1e5"}))
    for cell, record in records_of(Study.read(study), on_its_server, epochs_of, lambda _: 0.5).items():
        write(folder / "1e5", cell, record)
    must("tables", "--study", study, "--results", folder / "1e5", "--out", folder / "tables")
    shown = ("--out", folder / "page.html", "--charts", folder / "charts")
    must("report", "--study", study, "--tables", folder / "tables", *shown)
    return folder


def column(folder: Path, table: str, key: str, name: str) -> dict[str, str]:
    with (folder / f"tables/{table}.csv").open() as file:
        return {row[key]: row[name] for row in csv.DictReader(file)}


def test_tables_hold_the_names_as_they_are(folder: Path) -> None:
    against = {"128": "", "2048": "128", "1e5": "128", "nan": "128", "true": "128"}
    assert column(folder, "training_summary", "arm", "compared_with") == against
    without = {"128": "", "2048": "", "1e5": "2048", "nan": "2048", "true": ""}
    assert column(folder, "training_summary", "arm", "without_remedies") == without
    assert set(column(folder, "variants", "variant", "status")) == set(EPOCH_S)
    assert set(column(folder, "one_gpu", "other_variant", "variant").values()) == {"true"}


def test_the_page_speaks_of_them(folder: Path) -> None:
    page = (folder / "page.html").read_text()
    for said in (
        "2048 at global batch 2,048 ends at ",
        " from 128 (",
        "Remedies help in 2 of 2 arms: 1e5, nan.",
        "<td>007",
    ):
        assert said in page, said
    assert "128.0" not in page and "Data-parallel scaling: nan" not in page
