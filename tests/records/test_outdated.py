"""What is measured again and what is not, whatever changes: a pure function of a study and of what stands there.

That Snakemake then runs just that: workflow/test_reruns.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from dpscale.plan.plan import plan
from dpscale.plan.study import DATASET_MANIFEST, MISSING_TABLE, NETWORK_FACTS, STUDY_FILE, Study
from dpscale.records.files import write_record
from dpscale.records.outdated import find_outdated
from project import STUDY
from record_factory import any_record, network_facts, write

WHOLE = {**STUDY, **cases(__file__, "whole")}
ALL = {"time": 4, "collectives": 1, "communication": 1, "train": 2}
STUDY_ALONE = {"study.json": 1}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Everything that the whole study makes and that decides what is made again."""
    study = Study(WHOLE)
    (tmp_path / STUDY_FILE).write_text(study.to_json())
    write_record("network", tmp_path / NETWORK_FACTS, network_facts(study.settings))
    write_record("dataset", tmp_path / DATASET_MANIFEST, manifest())
    (tmp_path / MISSING_TABLE).parent.mkdir()
    (tmp_path / MISSING_TABLE).write_text("state,reason\n")
    for cell in plan(study).all_cells:
        write(tmp_path, cell, any_record(cell, study.settings, [1.0]))
    return tmp_path


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "dataset", "source": "synthetic", "synthetic": True, "root": "data", "images": 128, "test_images": 25,
        "classes": [str(number) for number in range(10)], "sha256": "0" * 64, "files": {},
        **changes,
    }  # fmt: skip


def made_again(results: Path, **changes: Any) -> dict[str, int]:
    """How many cells of every rule, and which other files, are made where the study is changed so."""
    study = Study({**WHOLE, **changes})
    planned = plan(study)
    outdated = find_outdated(study, planned, results)
    rules = {str(results / cell.path): cell.rule for cell in planned.all_cells}
    again: dict[str, int] = {}
    for path in sorted(outdated.paths):
        name = rules.get(path, Path(path).name)
        again[name] = again.get(name, 0) + 1
    return again


def test_of_nothing_everything_is_missing_and_of_a_finished_study_nothing(results: Path) -> None:
    assert made_again(results / "elsewhere") == ALL
    assert made_again(results) == {}


@pytest.mark.parametrize(("changes", "again"), cases(__file__, "changed"))
def test_a_changed_study_measures_what_depends_on_the_change(
    results: Path, changes: dict[str, Any], again: dict[str, int]
) -> None:
    assert made_again(results, **changes) == again
    assert made_again(results) == {}, "looking changes nothing"


def test_a_variant_with_other_settings_is_measured_again_and_no_other(results: Path) -> None:
    def variants(precision: str) -> dict[str, Any]:
        return {"variants": {"half": {"precision": precision}, "last": {"memory_format": "channels_last"}}}

    study = Study({**WHOLE, **variants("bfloat16")})
    for cell in plan(study).variants:
        write(results, cell, any_record(cell, study.variants[cell.variant].settings, [1.0]))
    assert made_again(results, **variants("bfloat16")) == STUDY_ALONE
    assert made_again(results, **variants("float32-strict")) == {**STUDY_ALONE, "time_variant": 4}


def test_a_deleted_record_is_missing_and_only_that(results: Path) -> None:
    for cell in plan(Study(WHOLE)).all_cells:
        content = (results / cell.path).read_bytes()
        (results / cell.path).unlink()
        assert made_again(results) == {cell.rule: 1}
        (results / cell.path).write_bytes(content)


def test_how_a_root_is_written_is_no_reason_to_make_the_dataset_again(results: Path) -> None:
    (results / DATASET_MANIFEST).write_text(json.dumps(manifest(source="imagefolder", synthetic=False)))
    dataset = {**STUDY["dataset"], "source": "imagefolder"}
    assert "manifest.json" not in made_again(results, dataset={**dataset, "root": "./data/"})
    in_home = manifest(source="imagefolder", synthetic=False, root="~/data")
    (results / DATASET_MANIFEST).write_text(json.dumps(in_home))
    assert "manifest.json" not in made_again(results, dataset={**dataset, "root": str(Path.home() / "data")})
    assert made_again(results, dataset={**dataset, "root": "other"})["manifest.json"] == 1


def test_only_what_is_measured_again_is_set_aside(results: Path) -> None:
    study = Study({**WHOLE, "network": {"width": 6}})
    outdated = find_outdated(study, plan(study), results)
    assert len(outdated.rejected_records) == sum(ALL.values())
    assert not list(outdated.set_aside([]))
    first, *_ = outdated.rejected_records
    assert [path.name for path in outdated.set_aside([str(first)])] == [f"{first.name}.set-aside-1"]
    assert len(list(results.rglob("*set-aside*"))) == 1


def test_tables_that_list_missing_cells_are_made_again(results: Path) -> None:
    (results / MISSING_TABLE).write_text("state,reason\nmissing,x\n")
    assert made_again(results) == {Path(MISSING_TABLE).name: 1}
