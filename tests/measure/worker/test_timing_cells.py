"""Timing cells in real processes on the CPU: records, out of memory, refusals, a killed cell.

How cells end whose workers fail, hang or are killed: launch/test_workers.py.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
import torch

import warm
from command_line import dpscale, must
from dpscale.measure.launch import cells
from dpscale.measure.worker import timing
from dpscale.measure.worker.timing import BaselineHalves, TimingWorker
from dpscale.records.kinds import Alone
from dpscale.schemas.settings import TimingSettings
from json_records import read_json
from processes import alive, started_by
from project import wait_for

pytestmark = pytest.mark.processes

Records = dict[str, dict[str, Any]]

IMAGES = 64
BATCH = 25
SETTINGS = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES} --loader-workers 1".split()
WITHOUT_BASELINE = "--scopes compute --baseline own_cells --timed-epochs 1"
# Of four channels in channels_last, torch 2.14 on a CPU with AVX2 ends in a crash.
VARIANT = "--variant strict --precision float32-strict"


def arguments(
    dataset: Path, out: Path, strategy: str = "ddp", gpus: int = 2, batch: int = BATCH, more: str = ""
) -> list[str]:
    cell = f"time --strategy {strategy} --gpus {gpus} --batch-per-gpu {batch} --timed-epochs 2".split()
    return [*cell, *SETTINGS, *more.split(), "--dataset", str(dataset), "--out", str(out)]


def started(*arguments_of_cell: Any, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "dpscale", *arguments(*arguments_of_cell, **options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def records(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A single and a ddp cell, and one without a baseline, measured once for all tests that look at a record.

    They run at once, as the cells of several jobs on one node; the single one with its own programs, the others with
    some that have loaded torch already. One is of a variant.
    """
    folder = tmp_path_factory.mktemp("records")
    kinds = {
        "single": ("single", 1, BATCH, ""),
        "ddp": ("ddp", 2, BATCH, "--baseline-at-global-batch"),
        "without": ("ddp", 2, IMAGES // 2, f"{WITHOUT_BASELINE} {VARIANT}"),
    }
    words = {name: arguments(dataset, folder / f"{name}.json", *cell) for name, cell in kinds.items()}
    with ThreadPoolExecutor() as threads:
        warmed = [threads.submit(warm.dpscale, words[name], folder, os.environ) for name in ("ddp", "without")]
        cold = [sys.executable, "-m", "dpscale", *words["single"]]
        single = subprocess.run(cold, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for done in (single, *(future.result() for future in warmed)):
        assert done.returncode == 0, done.stdout
    return {name: read_json("timing", folder / f"{name}.json") for name in kinds}


@pytest.mark.parametrize(("strategy", "workers", "steps", "full"), [("single", 1, 3, 2), ("ddp", 2, 2, 1)])
def test_a_record_holds_every_epoch_and_step(
    records: Records, strategy: str, workers: int, steps: int, full: int
) -> None:
    record = records[strategy]
    for scope in ("compute", "end_to_end"):
        result = record["scopes"][scope]
        assert len(result["epoch_s"]) == len(result["step_s_median"]) == 2
        assert all(len(ranks) == workers for ranks in result["rank_epoch_s"])
        assert (result["steps_per_epoch"], result["full_steps_per_epoch"]) == (steps, full)
        for number, (lower, upper) in enumerate(result["step_s_quartiles"]):
            epoch_s, step_s = result["epoch_s"][number], result["step_s_median"][number]
            assert 0 < lower <= step_s <= upper
            assert max(result["rank_epoch_s"][number]) == epoch_s
            assert full * step_s <= 1.05 * epoch_s
            assert result["watched"][number]["host"]["busy_cores"] > 0
    timed = sum(sum(result["epoch_s"]) for result in record["scopes"].values())
    assert record["epochs_total_s"] > timed  # the warm-up is inside
    assert record["hardware"]["threads_per_worker"] == 1
    assert record["network"]["gradient_bytes"] == 4 * record["network"]["parameters"]


def test_the_median_and_the_quartiles_of_steps_are_those_of_the_slowest_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank with the longest median in each epoch, however its steps scatter."""
    even, scattered = [2.0, 2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.5, 9.0, 9.0]

    def beside(steps_s: Sequence[float]) -> Any:
        lower, middle, upper = np.quantile(steps_s, (0.25, 0.5, 0.75)).tolist()
        return lambda values, workers: [list(values), [middle, lower, upper]]

    monkeypatch.setattr(timing, "gather_lists", beside(even))
    assert timing.full_steps([scattered], 2) == ([2.0], [[2.0, 2.0]])
    monkeypatch.setattr(timing, "gather_lists", beside(scattered))
    assert timing.full_steps([[1.0, 1.1, 1.2], [2.0, 2.0, 2.0]], 2) == ([1.5, 2.0], [[1.0, 9.0], [2.0, 2.0]])


@pytest.mark.parametrize("name", ["single", "ddp", "without"])
def test_the_command_in_a_record_measures_the_same_cell(
    records: Records, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    time_cell = Mock(return_value=records[name])
    monkeypatch.setattr(cells, "time_cell", time_cell)
    program, *command = shlex.split(records[name]["provenance"]["command"])
    assert program == "dpscale"
    must(*command)
    cell, settings, *_ = time_cell.call_args.args
    assert cell.coordinates == records[name]["cell"]
    assert settings.to_json() == records[name]["settings"]


def test_a_parallel_cell_holds_its_own_baseline_before_and_after(records: Records) -> None:
    """At its own batch, with the steps of one worker, and at the global batch."""
    baselines = records["ddp"]["alone"]
    assert [(item["batch_per_gpu"], item["status"]) for item in baselines] == [(BATCH, "ok"), (2 * BATCH, "ok")]
    for baseline, full_steps in zip(baselines, (2, 1), strict=True):
        assert baseline["scopes"].keys() == {"compute", "end_to_end"}
        for scope, halves in baseline["scopes"].items():
            assert halves.keys() == {"before", "after"}
            for half in halves.values():
                assert len(half["epoch_s"]) == 1  # half of two
                assert half["rank_epoch_s"] == [half["epoch_s"]]
                assert half["full_steps_per_epoch"] == full_steps
                assert half["loader_processes"] == (1 if scope == "end_to_end" else 0)
    assert records["ddp"]["scopes"]["end_to_end"]["loader_processes"] == 2
    assert records["single"]["alone"] is records["without"]["alone"] is None


def test_a_cell_of_a_variant_says_which(records: Records) -> None:
    record = records["without"]
    assert (record["cell"]["variant"], record["settings"]["precision"]) == ("strict", "float32-strict")
    ((scope, result),) = record["scopes"].items()
    assert (scope, len(result["epoch_s"]), result["steps_per_epoch"]) == ("compute", 1, 1)


def test_memory_that_a_baseline_lacks_at_the_global_batch_is_a_result(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell itself goes on: its own baseline fits."""
    build = TimingWorker.build_alone
    builds = count(1)
    monkeypatch.setattr(
        TimingWorker, "build_alone", lambda worker: torch.empty(2**60) if next(builds) == 2 else build(worker)
    )
    outcome = outcome_of_one(dataset, tmp_path, BATCH, 2 * BATCH)
    measured, too_large = outcome["alone"]
    assert (outcome["status"], measured["status"], too_large["status"]) == ("ok", "ok", "oom")
    assert measured["scopes"]["compute"].keys() == {"before", "after"}
    assert too_large["scopes"] == {}
    assert len(outcome["scopes"]["compute"]["epoch_s"]) == 1


@pytest.mark.parametrize(
    ("method", "phase"), [("build_alone", f"alone at batch {BATCH}, before: setup"), ("build", "setup")]
)
def test_memory_that_runs_out_before_or_after_the_first_half_of_the_baseline_is_a_record(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, phase: str
) -> None:
    """A record knows whole halves alone."""
    monkeypatch.setattr(TimingWorker, method, lambda _worker: torch.empty(2**60))
    outcome = outcome_of_one(dataset, tmp_path, BATCH)
    assert (outcome["status"], outcome["oom"]["phase"]) == ("oom", phase)
    assert msgspec.convert(outcome["alone"], list[Alone]) == [Alone(BATCH, "ok", {})]


def outcome_of_one(dataset: Path, folder: Path, *baselines: int) -> dict[str, Any]:
    """The outcome of a worker in this process, of a cell with one scope and one epoch, and baselines at these
    batches."""
    settings = TimingSettings(
        device="cpu", width=4, dataset_source="synthetic", epoch_images=IMAGES, scopes=("compute",), timed_epochs=1
    )
    job = {"configuration": ["single", 1, BATCH], "seed": 1, "dataset": dataset, "folder": folder, "timeout_s": 60}
    worker = TimingWorker({**job, "settings": settings.to_json(), "baseline_at_global_batch": False}, 0)
    worker.alone = [BaselineHalves(batch) for batch in baselines]
    worker.run()
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return outcome


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (("dp", 2, 32), "not available: DataParallel needs CUDA GPUs; it is not emulated on a CPU"),
        (("ddp", 2, 32, "--network torchvision_resnet18"), "torchvision_resnet18 has width 64 and no other"),
        (("ddp", 2, 50), "capped: global batch 100 > 64 images"),
        (("ddp", 0, 32), "0 is not in the range x>=1"),
        (("ddp", 2, BATCH, "--epoch-images 100"), "its images are 64, the cell asks for 100"),
    ],
)
def test_a_cell_that_cannot_be_is_one_line(dataset: Path, tmp_path: Path, cell: tuple[Any, ...], message: str) -> None:
    done = dpscale(*arguments(dataset, tmp_path / "r.json", *cell))
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()


def test_a_tampered_dataset_stops_the_cell(dataset: Path, tmp_path: Path) -> None:
    copy = tmp_path / "dataset"
    shutil.copytree(dataset, copy)
    path = copy / "epoch_images.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    done = dpscale(*arguments(copy, tmp_path / "r.json"))
    assert done.returncode == 1
    assert "truncated or changed since it was written" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()


def test_a_killed_cell_leaves_neither_a_record_nor_a_worker(dataset: Path, tmp_path: Path) -> None:
    """With a real worker and its loader, in the middle of an epoch; all other endings: launch/test_workers.py."""
    more = "--timed-epochs 10000 --scopes end_to_end"
    cell = started(dataset, tmp_path / "r.json", "single", 1, more=more)
    assert cell.stdout is not None
    try:
        assert any("end_to_end epoch 2" in line for line in cell.stdout)
        wait_for(lambda: len(started_by(cell.pid)) >= 2)  # the worker and its loader
        family = started_by(cell.pid)
        os.kill(cell.pid, signal.SIGKILL)
        assert cell.wait(40) != 0
    finally:
        cell.kill()
    wait_for(lambda: not alive(family), timeout_s=30)
    assert not list(tmp_path.glob("*r.json*"))
