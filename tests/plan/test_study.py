"""A study file: what follows from what it leaves out, and what is refused in one line before any GPU is used;
and a workload's file as a study names it, which the plan does not run."""

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

ARM = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


def refusal(values: dict[Any, Any]) -> str:
    with pytest.raises(StudyError) as error:
        Study({"study": "s", **values}, source="my.yaml")
    file, line = str(error.value).split(": ", 1)
    assert file == "my.yaml" and "\n" not in line
    return line


@pytest.mark.parametrize(
    ("values", "line"),
    cases(__file__, "refused"),
)
def test_a_bad_study_is_one_line_that_begins_with_the_key(values: dict[Any, Any], line: str) -> None:
    assert refusal(values).startswith(line)


@pytest.mark.parametrize(
    ("values", "hint"),
    cases(__file__, "hints"),
)
def test_a_slip_of_the_pen_has_a_hint(values: dict[str, Any], hint: str) -> None:
    assert hint in refusal(values)


def test_a_file_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        Study.read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("study: [")
    with pytest.raises(StudyError, match="is not YAML"):
        Study.read(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *cases(__file__, "hostile"),
        (f"runs: {'9' * 5_000}", "is not YAML: no int"),
        (f"runs: {'9' * 4_000}", "runs: a number beyond 1e+15"),
        (f"runs: {'[' * 3_000}", "is nested too deeply"),
        (f"gpus: [{', '.join(map(str, range(1, 60)))}]", "gpus: "),
        (f"study: {'a' * 300}", "study: "),
        (f"published: [{'a, ' * 100_000}]", "cannot be read: it has more than 0.2 MB"),
    ],
)
def test_a_hostile_file_is_one_line_at_once(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text if text.startswith("study") else f"study: s\nbatch_per_gpu: [32]\n{text}")
    with pytest.raises(StudyError) as error:
        plan(Study.read(path))
    message = str(error.value)
    assert message.startswith(f"{path}: {line}") and "\n" not in message and len(message) < 700


def test_what_a_name_stands_for_may_be_changed_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("""study: s
training:
  arms:
    first: &first {strategy: ddp, gpus: 2, batch_per_gpu: 64}
    second: {<<: *first, gpus: 4}
""")
    assert [arm.gpus for arm in Study.read(path).arms.values()] == [2, 4]


def test_settings_that_an_arm_leaves_out_are_the_studys() -> None:
    arms = {"a": {**ARM, "learning_rate": 0.4, "weight_decay": 0.0}, "b": ARM, "c": {**ARM, "optimiser": "lamb"}}
    half: dict[str, Any] = {"ddp": {"gradient_dtype": "bfloat16"}, "communication": {"runs": 0}}
    study = Study({"study": "s", "training": {"arms": arms}, "optimiser": {"momentum": 0.8}, **half})
    a, b, c = study.arms.values()
    assert (a.learning_rate, a.weight_decay, a.momentum) == (0.4, 0.0, 0.8)
    assert (b.learning_rate, b.weight_decay) == (0.1, 0.0005)
    assert c.momentum == 0
    assert {arm.ddp_gradient_dtype for arm in (a, b, c)} == {"bfloat16"}


def test_a_variant_has_its_own_settings_and_otherwise_the_studys() -> None:
    changes = {"precision": "bfloat16", "memory_format": "channels_last", "loader_workers": 5}
    study = Study({"study": "s", "variants": {"half": changes}})
    settings, varied = study.settings, study.variants["half"].settings
    assert varied.to_json() == {**settings.to_json(), **changes}


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
    cases(__file__, "refused_with_a_file"),
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
