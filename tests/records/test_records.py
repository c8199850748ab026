"""The contract: nothing half-written, nothing foreign used, nothing lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpscale.errors import RecordError
from dpscale.plan.cells import Configuration, TimingCell
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from dpscale.records.files import set_aside, write_text
from json_records import read_json
from record_factory import timing_record, write

STUDY = Study({"study": "s", "batch_per_gpu": [32]})
CELL = TimingCell(Configuration("ddp", 2, 32), 1)


def record(**changes: Any) -> dict[str, Any]:
    return {**timing_record(CELL, STUDY.settings, [1.0, 1.1]), **changes}


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path, CELL, record())
    assert read_json("timing", path) == record()
    assert [file.name for file in path.parent.iterdir()] == ["run-1.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"},
        {"surprise": 1},
        {"started_at": None},
        {"scopes": {"compute": {}}},
        {"epochs_total_s": float("nan")},
    ],
)
def test_what_the_schema_forbids_is_not_written(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises((RecordError, ValueError)):
        write(tmp_path, CELL, record(**change))
    assert not list(tmp_path.rglob("*.json*"))


@given(st.integers(0, 3000))
def test_a_truncated_record_is_never_taken_for_one(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = write(tmp_path_factory.mktemp("r"), CELL, record())
    whole = path.read_text()
    path.write_text(whole[: min(cut, len(whole) - 3)])
    with pytest.raises(RecordError, match=r"run-1\.json: is damaged"):
        read_json("timing", path)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"measurement_version": 0}, "measurement_version is 0"),
        (
            {"settings": STUDY.changed(precision="bfloat16").settings.to_json()},
            "precision is bfloat16, the study says float32",
        ),
        ({"cell": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 32, "run": 1}}, "gpus is 4, the study says 2"),
    ],
)
def test_records_of_another_study_are_named_and_not_used(
    tmp_path: Path, change: dict[str, Any], difference: str
) -> None:
    write(tmp_path, CELL, record(**change))
    collected = collect(tmp_path, [CELL], STUDY.settings)
    assert not collected.records
    assert difference in collected.rejected[CELL]


def test_setting_aside_never_overwrites(tmp_path: Path) -> None:
    names = []
    for content in "abc":
        (tmp_path / "run-1.json").write_text(content)
        names.append(set_aside(tmp_path / "run-1.json").name)
    assert names == [f"run-1.json.set-aside-{n}" for n in (1, 2, 3)]
    assert [(tmp_path / name).read_text() for name in names] == ["a", "b", "c"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot be written: .*\. Free space or fix permissions"):
        write_text(tmp_path / "file" / "record.json", "x")


@pytest.mark.parametrize("name", ["study", "cluster", "published"])
def test_what_people_write_has_no_unknown_keys(root: Path, name: str) -> None:
    schema = yaml.safe_load((root / f"workflow/dpscale/schemas/{name}.schema.yaml").read_text())
    for node in objects(schema):
        assert node.get("additionalProperties") is False, sorted(node["properties"])


def objects(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "properties" in node and isinstance(node["properties"], dict) and "type" in node:
            yield node
        for value in node.values():
            yield from objects(value)
