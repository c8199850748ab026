"""How far a study is and what the rest will cost, as `dpscale plan`, a run and `dpscale watch` print it."""

import json
import os
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from command_line import must
from dpscale.plan.cells import AnyCell, CollectivesCell, TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records import collect
from dpscale.records.collect import CellState
from dpscale.records.kinds import RECORDS, TimingRecord, TrainingRecord
from dpscale.records.progress import Progress, outcome
from record_factory import any_record, training_record, typed, write

VALUES: dict[str, Any] = {
    "study": "s", "strategies": ["single", "ddp"], "gpus": [1, 2], "batch_per_gpu": [32, 128], "runs": 1,
    "baseline": "own_cells", "communication": {"runs": 0}, "dataset": {"source": "synthetic", "images": 50_000},
    "training": {"seeds": 1, "arms": {"a": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 64, "epochs": 2}}},
}  # fmt: skip
STUDY = Study(VALUES)
CELLS = plan(STUDY).all_cells
# Of ddp on two GPUs at batch 32.
TIMED, TRAINED = CELLS[0], CELLS[-1]
NAME = "ddp, 2 GPUs, batch 32, run 1"
LOG = f"logs/{TIMED.path.removesuffix('.json')}.log"


def record_of(cell: AnyCell, study: Study = STUDY, oom: bool = False, minutes: int = 1) -> dict[str, Any]:
    record = any_record(cell, study.settings, None if oom else [0.9, 1.2345, 1.3])
    return {**record, "started_at": "2026-01-01T00:00:00+00:00", "finished_at": f"2026-01-01T00:{minutes:02}:00+00:00"}


def start(results: Path, cell: AnyCell, says: str = "", ago_s: float = 0.0) -> None:
    """Write the log that a shell leaves when it begins a cell."""
    log = (results / "logs" / cell.path).with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(says)
    os.utime(log, (time.time() - ago_s,) * 2)


def standing(results: Path) -> str:
    return Progress(STUDY, results).standing()


def states_of(results: Path, study: Study = STUDY) -> list[CellState]:
    return list(collect.states_of(plan(study).all_cells, study.settings, results))


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
    states = {cell_state.cell: cell_state for cell_state in states_of(tmp_path, study)}
    assert list(states) == list(plan(study).all_cells)
    assert states[TIMED].state == state
    assert ("precision is bfloat16" in states[TIMED].reason) == ("bfloat16" in str(content))
    assert states[TIMED].is_to_be_measured == (state != "done")
    assert states[CollectivesCell(2, 1)].state == "missing", "it needs no dataset"


@pytest.mark.parametrize(
    ("says", "ago_s", "running"),
    [("", 0, 1), ("warming up\n", 0, 1), ("warming up\n", STUDY["cell_timeout_s"] + 1, 0)],
)
def test_a_cell_runs_from_the_start_of_its_log_for_as_long_as_its_time_allows(
    tmp_path: Path, says: str, ago_s: float, running: int
) -> None:
    assert standing(tmp_path) == "s: 0 done, 0 running, 0 failed, 5 queued; time left unknown"
    start(tmp_path, TIMED, says, ago_s)
    assert f"0 done, {running} running, 0 failed, {5 - running} queued" in standing(tmp_path)
    assert [line[24:] for line in Progress(STUDY, tmp_path).under_way()] == [NAME] * running


def test_the_time_left_is_the_mean_of_done_cells_by_kind_for_as_many_as_run_at_once(tmp_path: Path) -> None:
    write(tmp_path, TIMED, record_of(TIMED, minutes=2))
    start_line = "s: 1 done, 0 running, 0 failed, 4 queued; 0.0667 GPU-hours spent; "
    assert standing(tmp_path) == f"{start_line}at least 6 min left", "nothing is known of the training"
    write(tmp_path, CELLS[1], record_of(CELLS[1], minutes=4))
    write(tmp_path, TRAINED, record_of(TRAINED))
    assert standing(tmp_path).endswith("; about 6 min left")
    for cell in CELLS[2:4]:
        start(tmp_path, cell)
    assert standing(tmp_path).endswith("; about 3 min left"), "two at once"


def test_records_of_an_older_version_say_nothing_of_the_time_left(tmp_path: Path) -> None:
    write(tmp_path, TIMED, {**record_of(TIMED), "measurement_version": 1})
    assert standing(tmp_path).endswith("5 queued; 0.0333 GPU-hours spent; time left unknown")


def test_a_line_per_cell_as_it_ends(tmp_path: Path) -> None:
    """Whoever looks at records, and a run that knows which job has ended, say the same."""
    watched, run = Progress(STUDY, tmp_path), Progress(STUDY, tmp_path, CELLS)
    start(tmp_path, TIMED)
    assert list(watched.look()) == [], "it runs"
    write(tmp_path, TIMED, record_of(TIMED))
    line = f"[1/5] {NAME}: 1.23 s per epoch, 1.23 s with loading, at least 3 min left"
    assert list(watched.look()) == [line] == [run.end(str(tmp_path / TIMED.path))]
    assert list(watched.look()) == [], "once"
    assert run.end("report/s.html") == ""


def test_a_failed_cell_that_is_tried_again_and_ends_has_a_line(tmp_path: Path) -> None:
    start(tmp_path, TIMED, says="Error: no such GPU\n", ago_s=10)
    watched, run = Progress(STUDY, tmp_path), Progress(STUDY, tmp_path, CELLS)
    assert "0 failed, 5 queued" in run.standing()
    write(tmp_path, TIMED, record_of(TIMED))
    for line in (next(watched.look()), run.end(str(tmp_path / TIMED.path))):
        assert line.startswith(f"[1/5] {NAME}: 1.23 s")


def test_it_is_over_when_no_cell_runs_or_waits(tmp_path: Path) -> None:
    for cell in CELLS[1:]:
        write(tmp_path, cell, record_of(cell))
    watched = Progress(STUDY, tmp_path)
    assert not watched.is_over
    start(tmp_path, TIMED, says="Error: no such GPU\n")
    (line,) = watched.look()
    assert line.startswith(f"[5/5] {NAME}: failed: no such GPU; log: ")
    assert watched.is_over
    assert "1 failed" in watched.standing() and "left" not in watched.standing()


def test_outcomes_of_every_kind_of_cell() -> None:
    study = Study({**VALUES, "communication": {"runs": 1}})
    cells = {cell.kind: cell for cell in plan(study).all_cells}
    assert outcome(typed(TimingRecord, record_of(TIMED, oom=True))) == "out of memory"
    assert isinstance(TRAINED, TrainingCell)
    trained, diverged = training_record(TRAINED, [0.5, 0.71]), training_record(TRAINED, [0.5], diverged=True)
    assert outcome(typed(TrainingRecord, trained)) == "2 s per epoch, test accuracy 0.7100"
    assert outcome(typed(TrainingRecord, diverged)) == "2 s per epoch, diverged"
    for kind in ("collectives", "communication"):
        assert outcome(typed(RECORDS[kind], any_record(cells[kind], study.settings, None))) == "took 60 s"


def test_watch_follows_a_run_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps(VALUES))
    results = tmp_path / "there"
    start(results, TIMED)
    command = "watch", "study.json", "--results", "there"
    first, running = must(*command, "--once", folder=tmp_path).splitlines()
    assert first == "s: 0 done, 1 running, 0 failed, 4 queued; time left unknown"
    assert running.startswith("running since ") and running.endswith(NAME)

    def measure() -> None:
        for cell in CELLS:
            start(results, cell)
            time.sleep(0.1)
            write(results, cell, record_of(cell))

    run = Thread(target=measure)
    run.start()
    lines = must(*command, "--every", "0.02", folder=tmp_path).splitlines()
    run.join()
    assert [line[:6] for line in lines if " s per epoch" in line] == [f"[{number}/5] " for number in range(1, 6)]


def test_plan_says_what_is_done_what_is_to_come_and_what_is_not_run(tmp_path: Path) -> None:
    study = Study({**VALUES, "batch_per_gpu": [32, 65536]})
    (tmp_path / "study.json").write_text(study.to_json())
    write(tmp_path / "results/s", TIMED, record_of(TIMED, study, minutes=45))
    printed = must("plan", "study.json", folder=tmp_path)
    words = " ".join(printed.split())
    assert "timing 1 1 1.5 0.75 training 0 1 0 unknown" in words
    assert "To be measured: 2 cells, at least 0.75 GPU-hours. unknown for 1 cell: " in words
    lines = must("plan", "study.json", "--cells", folder=tmp_path).removeprefix(printed).strip().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["done", "missing", "missing", "capped", "capped"]
    assert lines[0].startswith(TIMED.path)
    assert lines[1].endswith("no record yet  2.7e+03 GPU-seconds")
    assert lines[2] == f"{TRAINED.path}  missing  no record yet  cost unknown"
    assert lines[3] == "ddp on 2 GPUs at batch 65536  capped  global batch 131072 > 50000 images: no full step"
