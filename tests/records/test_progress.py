"""How far a study is, what the rest of it will cost, and what `dpscale plan` prints of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import must
from dpscale.plan.cells import AnyCell, CollectivesCell, Configuration, TimingCell, TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records import collect
from dpscale.records.collect import CellState
from dpscale.records.cost import SAME, UNKNOWN, Costs
from dpscale.records.plan_lines import cell_lines, summary
from record_factory import any_record, write

VALUES: dict[str, Any] = {
    "study": "s", "device": "cuda", "strategies": ["single", "dp", "ddp"], "gpus": [1, 2, 4],
    "batch_per_gpu": [32, 128, 65536], "runs": 2, "dataset": {"source": "synthetic", "images": 50_000},
    "training": {"seeds": 1, "arms": {
        "short": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 64, "epochs": 2},
        "long": {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 64, "epochs": 10},
    }},
}  # fmt: skip
STUDY = Study(VALUES)
# From its start to its end, as the factory makes records.
RECORD_S = 60.0


def timing(strategy: str, gpus: int, batch: int, run: int = 1) -> TimingCell:
    return TimingCell(Configuration(strategy, gpus, batch), run)


def record_of(cell: AnyCell, study: Study = STUDY, oom: bool = False, seconds: int = 60) -> dict[str, Any]:
    """From start to end it took so many seconds; none of them in the epochs of a timing cell."""
    return {
        **any_record(cell, study.settings, None if oom else [1.0, 1.0]),
        **({"epochs_total_s": 0.0} if cell.kind == "timing" else {}),
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": f"2026-01-01T00:{seconds // 60:02}:00+00:00",
    }


def states_of(results: Path, study: Study = STUDY) -> list[CellState]:
    return list(collect.states_of(plan(study).all_cells, study.settings, results))


def costs_of(results: Path, study: Study = STUDY, recorded: list[Path] | None = None) -> Costs:
    return Costs(study, states_of(results, study), recorded or [])


CELL = timing("ddp", 2, 32)
LOG = f"logs/{CELL.path.removesuffix('.json')}.log"


@pytest.mark.parametrize(
    ("file", "content", "state"),
    [
        ("elsewhere", "", "missing"),
        (CELL.path, record_of(CELL), "done"),
        (CELL.path, record_of(CELL, oom=True), "done"),
        (CELL.path, record_of(CELL, Study({**VALUES, "precision": "bfloat16"})), "rejected"),
        (CELL.path, "{", "rejected"),
        (LOG, "Error: no GPU\n", "failed"),
        (LOG, "12:00:01 warm-up epoch 1\n", "unfinished"),
        ("logs/dataset.log", "Error: disk full\n", "failed"),
    ],
)
def test_the_state_of_a_cell_is_what_its_files_say(tmp_path: Path, file: str, content: Any, state: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    states = {known.cell: known for known in states_of(tmp_path)}
    assert list(states) == list(plan(STUDY).all_cells)
    assert states[CELL].state == state
    assert ("precision is bfloat16" in states[CELL].reason) == ("bfloat16" in str(content))
    assert states[CELL].is_to_be_measured == (state != "done")
    assert states[CollectivesCell(2, 1)].state == "missing", "it needs no dataset"


@pytest.mark.parametrize(
    ("measured", "seconds"),
    [
        ({("ddp", 2, 32): 60, ("ddp", 4, 32): 180}, 180),  # two doublings of the batch, and none of the GPUs
        ({("ddp", 2, 128): 60, ("ddp", 4, 32): 180}, 60),  # one doubling of the GPUs is less than two of the batch
        ({("dp", 4, 128): 60, ("ddp", 2, 32): 120}, 120),  # another strategy is further than three doublings
        ({("dp", 4, 128): 60}, 60),  # but better than nothing
        ({("ddp", 2, 128): 60, ("ddp", 4, 128): 240}, 240),
    ],
)
def test_otherwise_the_nearest_configuration_does(
    tmp_path: Path, measured: dict[tuple[str, int, int], int], seconds: int
) -> None:
    for place, one_s in measured.items():
        write(tmp_path, timing(*place), record_of(timing(*place), seconds=one_s))
    cost = costs_of(tmp_path).of(timing("ddp", 4, 128))
    assert cost.gpu_s == 4 * seconds
    same = ("ddp", 4, 128) in measured
    assert cost.basis == (SAME if same else "the nearest configuration of this study")


@pytest.mark.parametrize(
    ("values", "epochs"),
    [
        ({"baseline": "own_cells"}, 2 * (1 + 2)),  # of both scopes: one to warm up, two timed
        ({"baseline": "own_cells", "scopes": ["compute"], "epochs": {"warmup": 2, "timed": 5}}, 2 + 5),
        ({}, 2 * (1 + 2) + 4 * (1 + 2 * 2)),  # on one of four GPUs: one to warm up, and one before and after each scope
        ({"epochs": {"timed": 3}}, 2 * (1 + 3) + 4 * (1 + 2 * 4)),
    ],
)
def test_what_it_takes_in_epochs_grows_with_them(tmp_path: Path, values: dict[str, Any], epochs: int) -> None:
    """A record of four epochs on four GPUs, ten seconds each, and of twenty seconds outside; without a baseline."""
    record = record_of(timing("ddp", 4, 32), Study({**VALUES, "baseline": "own_cells", "epochs": {"timed": 1}}))
    record["scopes"] = {scope: {**found, "epoch_s": [10.0]} for scope, found in record["scopes"].items()}
    write(tmp_path / "recorded-x", timing("ddp", 4, 32), {**record, "epochs_total_s": 40.0})
    study = Study({**VALUES, **values})
    cost = costs_of(tmp_path / "none", study, [tmp_path / "recorded-x"]).of(timing("ddp", 4, 32))
    assert cost.gpu_s == pytest.approx(4 * (20 + 10 * epochs))


def test_a_job_that_ran_out_of_memory_says_nothing_of_others(tmp_path: Path) -> None:
    write(tmp_path, timing("ddp", 4, 128), record_of(timing("ddp", 4, 128), oom=True))
    assert costs_of(tmp_path).of(timing("ddp", 4, 128, run=2)).basis == UNKNOWN


def test_a_training_costs_by_its_epochs(tmp_path: Path) -> None:
    short, long = (TrainingCell(name, 1, STUDY.arms[name]) for name in ("short", "long"))
    write(tmp_path, short, record_of(short, seconds=60))
    assert costs_of(tmp_path).of(long).gpu_s == 2 * 60 * 10 / 2


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({}, True),
        ({"device": "cpu", "strategies": ["single", "ddp"]}, False),
        ({"network": {"width": 8}}, False),
        ({"dataset": {"source": "synthetic", "images": 256}, "batch_per_gpu": [32]}, False),
        ({"precision": "bfloat16"}, True),  # another time, but of the same order
    ],
)
def test_a_recorded_study_tells_where_this_one_knows_nothing(
    tmp_path: Path, values: dict[str, Any], known: bool
) -> None:
    write(tmp_path / "recorded-x", timing("ddp", 2, 32), record_of(timing("ddp", 2, 32)))
    other = Study({**VALUES, "training": {"arms": {}}, **values})
    cost = costs_of(tmp_path / "none", other, [tmp_path / "empty", tmp_path / "recorded-x"]).of(timing("ddp", 2, 32))
    assert cost.gpu_s == (2 * RECORD_S if known else None)
    assert cost.basis == (f"the nearest configuration of {tmp_path / 'recorded-x'} (NVIDIA H200)" if known else UNKNOWN)


def test_the_summary_adds_up(tmp_path: Path) -> None:
    for batch in (32, 128):
        write(tmp_path, timing("single", 1, batch), record_of(timing("single", 1, batch), seconds=3600 - 60))
    states, planned = states_of(tmp_path), plan(STUDY)
    lines = list(summary(STUDY, planned, states, costs_of(tmp_path)))
    row = next(line for line in lines if line.startswith("timing")).split()
    assert row[1:3] == ["2", "18"]
    assert float(row[3]) == pytest.approx(2 * 3540 / 3600, rel=1e-2)
    cells = [known.cell for known in states if known.state == "missing"]
    gpu_s = sum(3540 * cell.gpus for cell in cells if isinstance(cell, TimingCell))
    assert float(row[4]) == pytest.approx(gpu_s / 3600, rel=1e-2)
    assert any(line.startswith(f"To be measured: {len(cells)} cells, at least ") for line in lines)
    others = sum(not isinstance(cell, TimingCell) for cell in cells)
    assert any(f"unknown for {others} cells: nothing like it was measured" in line for line in lines)
    assert sum("capped" in line for line in lines) == len({item.reason for item in planned.not_run})


def test_every_cell_has_a_line_and_so_has_what_is_not_run(tmp_path: Path) -> None:
    planned = plan(STUDY)
    lines = list(cell_lines(planned, states_of(tmp_path), costs_of(tmp_path)))
    assert len(lines) == len(planned.all_cells) + len(planned.not_run)
    assert lines[0].startswith(f"{planned.all_cells[0].path}  missing  ")
    assert "ddp on 2 GPUs at batch 65536  capped  global batch 131072 > 50000 images: no full step" in lines


def test_a_laptop_study_that_was_never_run(root: Path, tmp_path: Path) -> None:
    command = "plan", root / "config/laptop.yaml"
    text = must(*command, folder=tmp_path)
    planned = plan(Study.read(root / "config/laptop.yaml"))
    assert text.startswith(f"laptop: {len(planned.all_cells)} cells\n")
    assert f"To be measured: {len(planned.all_cells)} cells, worker-hours unknown." in text
    assert "run-1.json" not in text
    assert f"{planned.all_cells[0].path}  missing" in must(*command, "--cells", folder=tmp_path)


@pytest.mark.parametrize("place", ["Makefile", "config/assignment.yaml", "docs/cluster.md"])
def test_what_the_assignment_costs_is_what_the_plan_says(root: Path, tmp_path: Path, place: str) -> None:
    """Within a fifth, as far as the recorded studies know."""
    study = Study.read(root / "config/assignment.yaml")
    costs = costs_of(tmp_path, study, sorted((root / "results").glob("recorded*")))
    known = [costs.of(cell).gpu_s for cell in plan(study).all_cells]
    (said,) = re.findall(r"([\d.]+) GPU-hours (?:on|of an) H200", (root / place).read_text())
    assert study["runs"] == 3
    if None not in known:
        assert float(said) == pytest.approx(sum(filter(None, known)) / 3600, rel=0.2)
    assert said == "3.3"
