"""A workload's file as a study names it: its checksum is a setting, and the plan does not run it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from dpscale.errors import StudyError, WorkloadError
from dpscale.plan.plan import plan
from dpscale.plan.study import Study, checksum, of_its_file
from dpscale.records.collect import differences
from dpscale.records.kinds import RECORDS
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


def test_a_home_folder_is_in_no_study_and_no_record(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(file.absolute().parent))
    mine = study(file.absolute())
    assert mine["workload"] == mine.settings.workload == f"~/{file.name}"
    assert mine.settings.workload_sha256 == checksum(Path(mine["workload"]))


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
    ("more", "key"),
    cases(__file__, "refused"),
)
def test_keys_that_do_not_go_with_a_file_are_refused_in_one_line(file: Path, more: dict[str, Any], key: str) -> None:
    with pytest.raises(StudyError) as error:
        study(file, **more)
    assert str(error.value).removeprefix("study: ").startswith(key)
    assert "\n" not in str(error.value)


def test_a_file_that_changed_since_it_was_planned_is_refused(file: Path) -> None:
    planned = NetworkSettings(workload=str(file), workload_sha256="0" * 64)
    with pytest.raises(WorkloadError, match="has changed since this was planned"):
        of_its_file(planned)
