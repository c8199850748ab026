"""What a run and `dpscale watch` print while a study is measured."""

import json
import os
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from command_line import must
from dpscale.plan.cells import AnyCell, TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
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
ONE, TRAINED = CELLS[0], CELLS[-1]
ONE_SAID = "ddp, 2 GPUs, batch 32, run 1"


def record_of(cell: AnyCell, oom: bool = False) -> dict[str, Any]:
    """It took a minute, and no part of it in the epochs of a timing cell."""
    record = any_record(cell, STUDY.settings, None if oom else [0.9, 1.2345, 1.3])
    return {**record, "epochs_total_s": 0.0} if cell.kind == "timing" else record


def start(results: Path, cell: AnyCell, says: str = "", ago_s: float = 0.0) -> Path:
    """What a shell leaves that begins a cell: its log."""
    log = (results / "logs" / cell.path).with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(says)
    os.utime(log, (time.time() - ago_s,) * 2)
    return log


def standing(results: Path) -> str:
    return Progress(STUDY, results, []).standing()


@pytest.mark.parametrize(
    ("says", "ago_s", "running"),
    [("", 0, 1), ("warming up\n", 0, 1), ("warming up\n", STUDY["cell_timeout_s"] + 1, 0)],
)
def test_a_cell_runs_from_the_start_of_its_log_for_as_long_as_its_time_allows(
    tmp_path: Path, says: str, ago_s: float, running: int
) -> None:
    assert standing(tmp_path) == "s: 0 done, 0 running, 0 failed, 5 queued"
    start(tmp_path, ONE, says, ago_s)
    assert f"0 done, {running} running, 0 failed, {5 - running} queued" in standing(tmp_path)
    lines = list(Progress(STUDY, tmp_path, []).under_way())
    assert [line[24:] for line in lines] == [ONE_SAID] * running


def test_what_was_spent_and_what_is_left_follow_from_the_records(tmp_path: Path) -> None:
    """A record on two GPUs took a minute; so will the other cells of its kind. Of a training nothing is known."""
    assert ONE.gpus == 2
    write(tmp_path, ONE, record_of(ONE))
    said = standing(tmp_path)
    assert said == "s: 1 done, 0 running, 0 failed, 4 queued; 0.0333 GPU-hours spent; at least 3 min left"
    write(tmp_path, TRAINED, record_of(TRAINED))
    assert standing(tmp_path).endswith("; 0.0667 GPU-hours spent; about 3 min left")
    start(tmp_path, CELLS[1])
    start(tmp_path, CELLS[2])
    assert standing(tmp_path).endswith("about 2 min left"), "two at once"


def test_a_line_per_cell_as_it_ends(tmp_path: Path) -> None:
    """Those who look at records, and a run that knows which job has ended, say the same."""
    watched, run = Progress(STUDY, tmp_path, []), Progress(STUDY, tmp_path, [], CELLS)
    start(tmp_path, ONE)
    assert list(watched.look()) == [], "it runs"
    write(tmp_path, ONE, record_of(ONE))
    said = f"[1/5] {ONE_SAID}: 1.23 s per epoch, 1.23 s with loading, at least 3 min left"
    assert list(watched.look()) == [said] == [run.end(str(tmp_path / ONE.path))]
    assert list(watched.look()) == [], "once"
    assert run.end("report/s.html") == ""


def test_a_failed_cell_that_is_tried_again_and_ends_has_a_line(tmp_path: Path) -> None:
    start(tmp_path, ONE, says="Error: no such GPU\n", ago_s=10)
    watched, run = Progress(STUDY, tmp_path, []), Progress(STUDY, tmp_path, [], CELLS)
    assert run.standing() == "s: 0 done, 0 running, 0 failed, 5 queued"
    write(tmp_path, ONE, record_of(ONE))
    for line in (next(iter(watched.look())), run.end(str(tmp_path / ONE.path))):
        assert line.startswith(f"[1/5] {ONE_SAID}: 1.23 s")


def test_it_is_over_when_no_cell_runs_or_waits(tmp_path: Path) -> None:
    for cell in CELLS[1:]:
        write(tmp_path, cell, record_of(cell))
    watched = Progress(STUDY, tmp_path, [])
    assert not watched.is_over
    start(tmp_path, ONE, says="Error: no such GPU\n")
    (line,) = watched.look()
    assert line.startswith(f"[5/5] {ONE_SAID}: failed: no such GPU; log: ")
    assert "1 failed" in watched.standing()
    assert watched.is_over
    assert "left" not in watched.standing()


def test_what_cells_gave() -> None:
    both = Study({**VALUES, "communication": {"runs": 1}})
    cells = {cell.kind: cell for cell in plan(both).all_cells}
    assert outcome(typed(TimingRecord, record_of(ONE, oom=True))) == "out of memory"
    assert isinstance(TRAINED, TrainingCell)
    assert (
        outcome(typed(TrainingRecord, training_record(TRAINED, [0.5, 0.71]))) == "2 s per epoch, test accuracy 0.7100"
    )
    assert outcome(typed(TrainingRecord, training_record(TRAINED, [0.5], diverged=True))) == "2 s per epoch, diverged"
    for kind in ("collectives", "communication"):
        assert outcome(typed(RECORDS[kind], any_record(cells[kind], both.settings, None))) == "took 60 s"


def test_the_command_follows_a_run_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps(VALUES))
    results = tmp_path / "there"
    start(results, ONE)
    command = "watch", "study.json", "--results", "there"
    first, running = must(*command, "--once", folder=tmp_path).splitlines()
    assert first == "s: 0 done, 1 running, 0 failed, 4 queued"
    assert running.startswith("running since ") and running.endswith(ONE_SAID)

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
