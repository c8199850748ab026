"""Records of a run in one file: the same records, read one by one, and measured again where they answer no cell."""

import json
from pathlib import Path

import pytest
from bench.one_file_per_run import put_together, take_apart

from dpscale.errors import RecordError
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import collect, paths_of_own_files
from dpscale.records.outdated import find_outdated
from record_factory import any_record, write

VALUES = {
    "study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32, 128], "runs": 2,
    "variants": {"half": {"precision": "bfloat16"}},
    "communication": {"runs": 1},
    "training": {"seeds": 2, "arms": {"small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}}},
}  # fmt: skip
STUDY = Study(VALUES)
CELLS = plan(STUDY).all_cells
OF_RUN, OWN = "cells/run-2.jsonl", "cells/ddp/gpus-2/batch-128/run-2.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for number, cell in enumerate(CELLS):
        write(tmp_path, cell, any_record(cell, STUDY.settings, [1.0 + number]))
    return tmp_path


def contents(results: Path) -> dict[str, str]:
    return {path.relative_to(results).as_posix(): path.read_text() for path in results.rglob("*") if path.is_file()}


def test_put_together_records_are_the_same_and_taken_apart_files_too(results: Path) -> None:
    before, files = collect(results, CELLS, STUDY.settings), contents(results)
    assert len(before.records) == len(CELLS) == len(files)
    put_together(results)
    assert collect(results, CELLS, STUDY.settings) == before
    assert {*contents(results)} == {
        *(f"{folder}/run-{run}.jsonl" for folder in ("cells", "variants") for run in (1, 2)),
        *(f"{folder}/run-1.jsonl" for folder in ("communication", "collectives")),
        *(f"training/seed-{seed}.jsonl" for seed in (1, 2)),
    }
    assert not [folder for folder in results.glob("*/*") if folder.is_dir()]
    take_apart(results)
    assert {name: json.loads(text) for name, text in contents(results).items()} == {
        name: json.loads(text) for name, text in files.items()
    }


def test_nothing_is_missing_and_only_what_a_change_concerns_is_measured(results: Path) -> None:
    put_together(results)
    assert not find_outdated(STUDY, plan(STUDY), results).paths
    assert paths_of_own_files(results, CELLS, STUDY.settings) == []
    changed = Study({**VALUES, "runs": 3, "communication": {"runs": 1, "batch_per_gpu": [32]}})
    added = [cell.path for cell in plan(changed).all_cells if cell.path.endswith("run-3.json")]
    assert paths_of_own_files(results, plan(changed).all_cells, changed.settings) == added != []
    other = Study({**VALUES, "optimiser": {"momentum": 0.8}})
    outdated = find_outdated(other, plan(other), results)
    assert results / OWN in outdated.rejected_records
    assert f"{results / OF_RUN}: momentum is 0.9, the study says 0.8" in outdated.reasons
    assert OWN in paths_of_own_files(results, plan(other).all_cells, other.settings)


def test_a_file_of_its_own_goes_before_that_of_its_run(results: Path) -> None:
    put_together(results)
    cell = next(cell for cell in CELLS if cell.path == OWN)
    write(results, cell, any_record(cell, STUDY.settings, [1234.5]))
    assert "1234.5" in str(collect(results, CELLS, STUDY.settings).records[cell])
    assert paths_of_own_files(results, CELLS, STUDY.settings) == [OWN]


@pytest.mark.parametrize("damage", ['{"kind": "timing"', "[]", '{"kind": "timing", "cell": {"run": []}}', "\0"])
def test_a_line_that_is_damaged_is_named(results: Path, damage: str) -> None:
    put_together(results)
    file = results / OF_RUN
    first, *lines = file.read_text().splitlines()
    file.write_text("\n".join([first, damage, *lines]))
    with pytest.raises(RecordError, match=r"cells/run-2\.jsonl: line 2 is damaged: "):
        collect(results, CELLS, STUDY.settings)
