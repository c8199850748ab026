"""A workload's file as a study names it: its checksum is a setting, and the plan runs none of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpscale.errors import StudyError, WorkloadError
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.plan.workload_file import checksum, of_its_file
from dpscale.records.collect import differences
from dpscale.records.kinds import RECORDS
from dpscale.scheduler import cluster
from dpscale.schemas.settings import NetworkSettings
from record_factory import any_record, typed

# Running it would fail.
TEXT = "raise SystemExit('a plan runs no file')\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("my own.py")
    path.write_text(TEXT)
    return path


def study(file: Path, **more: Any) -> Study:
    return Study({"study": "s", "workload": str(file), "dataset": {"images": 64}, "batch_per_gpu": [8], **more})


def test_a_study_knows_its_file_by_its_checksum(file: Path) -> None:
    settings = study(file).settings
    assert (settings.workload, settings.workload_sha256) == ("my own.py", checksum(file))
    assert (settings.network, settings.dataset_source) == ("workload", "workload")
    assert of_its_file(settings) == settings


def test_a_changed_file_is_a_changed_setting_of_every_cell(file: Path) -> None:
    before = study(file)
    file.write_text(f"{TEXT}# changed\n")
    after = study(file)
    assert before.settings != after.settings
    for cell in plan(before).all_cells:
        record = typed(RECORDS[cell.kind], any_record(cell, before.settings, [1.0]))
        assert any("workload_sha256" in reason for reason in differences(record, cell, after.settings))


def test_a_complete_study_needs_the_file_no_more(file: Path) -> None:
    complete = study(file)
    file.unlink()
    assert Study(json.loads(complete.to_json())).values == complete.values
    assert complete.changed(runs=1).settings == complete.settings


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dataset": {}}, "dataset.images: say how many samples of my own.py an epoch has"),
        ({"network": {"name": "cifar_resnet18"}}, "network.name: my own.py has its own: leave this key out"),
        ({"network": {"width": 8}}, "network.width: my own.py has its own network"),
        ({"dataset": {"images": 64, "source": "synthetic"}}, "dataset.source: my own.py has its own"),
        ({"images_on": "device"}, "images_on: samples of a workload's file lie on the host"),
        (
            {"training": {"arms": {"small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 8}}}},
            "training.arms.small.workload: arms train the built-in classification of images",
        ),
        ({"workload": "nowhere.py"}, "workload: nowhere.py: there is no such file"),
        ({"workload": "mine.txt"}, "workload: "),
        ({"workload": "built-in", "network": {"name": "workload"}}, "network.name: workload is that of a file"),
        (
            {"workload": "built-in", "dataset": {"source": "workload"}},
            "dataset.source: workload is that of a file: name the file under workload",
        ),
    ],
)
def test_what_does_not_go_with_a_file_is_one_line(file: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(file, **more)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_changed_since_it_was_planned_is_refused(file: Path) -> None:
    planned = NetworkSettings(workload=str(file), workload_sha256="0" * 64)
    with pytest.raises(WorkloadError, match="has changed since this was planned"):
        of_its_file(planned)


def test_memory_of_a_cell_counts_its_gathered_batches(file: Path) -> None:
    (one, two) = (study(file, dataset={"images": 64, "batch_memory_gb": size}).settings for size in (1, 2))
    (configuration,) = {cell.configuration for cell in plan(study(file, gpus=[2], strategies=["ddp"])).timing}
    assert cluster.memory_mb(two, configuration, 1) - cluster.memory_mb(one, configuration, 1) == 2 * 1000
