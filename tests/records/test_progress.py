"""How far a study is and what the rest will cost, as `dpscale plan` and a run print it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from command_line import must
from dpscale.plan.cells import AnyCell, CollectivesCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import states_of
from dpscale.records.progress import Progress
from record_factory import any_record, write

VALUES: dict[str, Any] = cases(__file__, "study")
STUDY = Study(VALUES)
CELLS = plan(STUDY).all_cells
# Of ddp on two GPUs at batch 32.
TIMED, TRAINED = CELLS[0], CELLS[-1]
NAME = "cells/ddp/gpus-2/batch-32/run-1"
LOG = f"logs/{NAME}.log"


def record_of(cell: AnyCell, study: Study = STUDY, oom: bool = False, minutes: int = 1) -> dict[str, Any]:
    record = any_record(cell, study.settings, None if oom else [0.9, 1.2345, 1.3])
    return {**record, "started_at": "2026-01-01T00:00:00+00:00", "finished_at": f"2026-01-01T00:{minutes:02}:00+00:00"}


def start(results: Path, cell: AnyCell, says: str = "") -> None:
    """Write the log that a shell leaves when it begins a cell."""
    log = (results / "logs" / cell.path).with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(says)


@pytest.mark.parametrize(
    ("file", "content", "state"),
    [
        ("elsewhere", "", "missing"),
        (TIMED.path, record_of(TIMED), "done"),
        (TIMED.path, record_of(TIMED, Study({**VALUES, "precision": "bfloat16"})), "rejected"),
        (TIMED.path, "{", "rejected"),
        (LOG, "Error: no GPU\n", "failed"),
        (LOG, "12:00:01 warm-up epoch 1\n", "unfinished"),
        ("logs/dataset.log", "Error: disk full\n", "failed"),
    ],
)
def test_the_state_of_a_cell_is_what_its_files_say(tmp_path: Path, file: str, content: Any, state: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    study = Study({**VALUES, "communication": {"runs": 1}})
    states = {cell_state.cell: cell_state for cell_state in states_of(plan(study).all_cells, study.settings, tmp_path)}
    assert states[TIMED].state == state
    assert ("precision is bfloat16" in states[TIMED].reason) == ("bfloat16" in str(content))
    assert states[TIMED].is_to_be_measured == (state != "done")
    assert states[CollectivesCell(2, 1)].state == "missing", "it needs no dataset"


def test_the_time_left_is_the_mean_of_done_cells_by_kind_for_as_many_as_run_at_once(tmp_path: Path) -> None:
    assert Progress(STUDY, tmp_path, CELLS).standing() == (
        "s: 5 of 5 cells to be measured; time left unknown; Ctrl-C stops, the same command goes on"
    )
    start(tmp_path, CELLS[1])  # in an earlier run
    run = Progress(STUDY, tmp_path, CELLS)
    assert run.end("report/s.html") == ""
    write(tmp_path, TIMED, record_of(TIMED, minutes=2))
    assert run.end(str(tmp_path / TIMED.path)) == (
        f"[1/5] {NAME}: compute 1.23 s, end_to_end 1.23 s per epoch; at least 6 min left"
    ), "nothing is known of the training"
    for cell in CELLS[1:3]:
        start(tmp_path, cell)
    assert "; at least 3 min left; " in run.standing(), "two at once"
    write(tmp_path, TRAINED, record_of(TRAINED, minutes=3))
    assert run.end(str(tmp_path / TRAINED.path)).endswith("seed-1: took 3 min; about 3 min left")


def test_a_failed_cell_has_its_reason_and_may_be_tried_again(tmp_path: Path) -> None:
    run = Progress(STUDY, tmp_path, [TIMED])
    place = str(tmp_path / TIMED.path)
    start(tmp_path, TIMED, says="Error: no such GPU\n")
    assert run.end(place) == f"[4/5] {NAME}: failed: no such GPU; log: {tmp_path / LOG}"
    run.begin(place)
    assert "1 of 5 cells" in run.standing()
    write(tmp_path, TIMED, record_of(TIMED, oom=True))
    assert run.end(place) == f"[5/5] {NAME}: out of memory"


def test_plan_says_what_is_done_what_is_to_come_and_what_is_not_run(tmp_path: Path) -> None:
    study = Study({**VALUES, "batch_per_gpu": [32, 65536]})
    (tmp_path / "study.json").write_text(study.to_json())
    write(tmp_path / "results/s", TIMED, record_of(TIMED, study, minutes=45))
    printed = must("plan", "study.json", folder=tmp_path)
    assert printed.splitlines()[:2] == [
        "timing: 1 done, 1 missing; GPU-hours: 1.5 spent, 0.75 to come",
        "training: 1 missing; GPU-hours: 0 spent, unknown to come",
    ]
    assert printed.endswith("\n2 of 3 cells are to be measured.\n")
    cells = json.loads(must("plan", "study.json", "--json", folder=tmp_path))
    assert [cell["state"] for cell in cells] == ["done", "missing", "missing"]
    assert cells[1]["reason"] == "no record yet"
    assert "larger than the dataset: 1 configuration: global batch 131072 > 50000 images: no full step\n" in printed


def test_plan_expects_times_on_a_gpu_that_nobody_here_has(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: s\ngpus: [1, 2]\nbatch_per_gpu: [512]\n")
    hours = {}
    for gpu in ("H200", "RTX 8000"):
        lines = must("plan", "study.yaml", "--gpu", gpu, folder=tmp_path).splitlines()
        hours[gpu] = float(lines[0].removesuffix(" to come").split("about ")[1])
        assert f"({gpu}), not measured" in lines[-1]
    assert hours["RTX 8000"] > 1.5 * hours["H200"]
