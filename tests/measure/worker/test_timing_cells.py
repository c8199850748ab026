"""Timing cells in real processes on the CPU: records, out of memory, refusals.

How cells end that fail, hang or are killed: launch/test_workers.py.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import torch

import warm
from command_line import dpscale, must
from dpscale.measure.launch import cells
from dpscale.measure.worker import epoch_timer, timing
from dpscale.measure.worker.timing import BaselineHalves, TimingWorker
from dpscale.records.files import JsonRecord
from dpscale.records.kinds import Alone
from dpscale.schemas.settings import TimingSettings
from json_records import read_json

pytestmark = pytest.mark.processes

Records = dict[str, JsonRecord]

IMAGES = 64
BATCH = 25
STEPS = 3  # in an epoch
SETTINGS = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES} --loader-workers 1"
DDP = "--strategy ddp --gpus 2"
SINGLE = "--strategy single --gpus 1"
# One of a variant. Of four channels in channels_last, torch 2.14 on a CPU with AVX2 ends in a crash.
WITHOUT_BASELINE = (
    f"{DDP} --batch-per-gpu {IMAGES // 2} --scopes compute --baseline own_cells --timed-epochs 1 "
    "--variant strict --precision float32-strict"
)


def arguments(dataset: Path, out: Path, cell: str) -> list[str]:
    words = f"time --timed-epochs 2 --batch-per-gpu {BATCH} {SETTINGS} {cell}".split()
    return [*words, "--dataset", str(dataset), "--out", str(out)]


@pytest.fixture(scope="module")
def records(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A single and a ddp cell, and one without a baseline, measured once for all tests that look at a record.

    They run at once, as the cells of several jobs on one node; the single one with its own programs, the others with
    some that have loaded torch already.
    """
    folder = tmp_path_factory.mktemp("records")
    kinds = {"single": SINGLE, "ddp": f"{DDP} --baseline-at-global-batch", "without": WITHOUT_BASELINE}

    def run(name: str) -> subprocess.CompletedProcess[str]:
        words = arguments(dataset, folder / f"{name}.json", kinds[name])
        if name != "single":
            return warm.dpscale(words, folder, os.environ)
        command = [sys.executable, "-m", "dpscale", *words]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    with ThreadPoolExecutor() as threads:
        for done in threads.map(run, kinds):
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
    assert record["hardware"]["threads_per_worker"] == 1
    assert record["network"]["gradient_bytes"] == 4 * record["network"]["parameters"]


def test_the_median_and_the_quartiles_of_steps_are_those_of_the_slowest_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank with the longest median in each epoch, however its steps scatter."""
    scattered = [1.0, 1.0, 1.5, 9.0, 9.0]

    def beside(median: float, *quartiles: float) -> None:
        monkeypatch.setattr(timing, "gather_objects", lambda values, _: [list(values), [median, *quartiles]])

    beside(2.0, 2.0, 2.0)
    assert timing.full_steps([scattered], 2) == ([2.0], [[2.0, 2.0]])
    beside(1.5, 1.0, 9.0)
    assert timing.full_steps([[1.0, 1.1, 1.2], [2.0, 2.0, 2.0]], 2) == ([1.5, 2.0], [[1.0, 9.0], [2.0, 2.0]])


@pytest.mark.parametrize("name", ["ddp", "without"])
def test_the_command_in_a_record_measures_the_same_cell(
    records: Records, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    measure_steps = Mock(return_value=records[name])
    monkeypatch.setattr(cells, "measure_steps", measure_steps)
    program, *command = shlex.split(records[name]["provenance"]["command"])
    assert program == "dpscale"
    must(*command)
    cell, settings, *_ = measure_steps.call_args.args
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
                assert half["rank_epoch_s"] == [half["epoch_s"]] and len(half["epoch_s"]) == 1, "half of two"
                assert half["full_steps_per_epoch"] == full_steps
                assert half["loader_processes"] == (1 if scope == "end_to_end" else 0)
    assert records["ddp"]["scopes"]["end_to_end"]["loader_processes"] == 2
    assert records["single"]["alone"] is records["without"]["alone"] is None
    assert records["without"]["cell"]["variant"] == "strict"
    assert records["without"]["scopes"].keys() == {"compute"}


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
    ("method", "phase"), [("build_alone", f"alone at batch {BATCH}, before: setup"), ("build", "memory of a step")]
)
def test_memory_that_runs_out_before_or_after_the_first_half_of_the_baseline_is_a_record(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, phase: str
) -> None:
    """A record knows whole halves alone."""
    monkeypatch.setattr(TimingWorker, method, lambda _worker: torch.empty(2**60))
    outcome = outcome_of_one(dataset, tmp_path, BATCH)
    assert (outcome["status"], outcome["oom"]["phase"]) == ("oom", phase)
    assert msgspec.convert(outcome["alone"], list[Alone]) == [Alone(BATCH, "ok", {})]


@pytest.mark.parametrize(("stalls", "timed", "is_disturbed"), [(1, 2, False), (9, 3, True)])
def test_an_epoch_that_stands_still_is_timed_again_and_says_so_where_it_stays(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stalls: int, timed: int, is_disturbed: bool
) -> None:
    """Of a machine that is busy otherwise, half a second of each epoch is no stall here."""
    monkeypatch.setattr(epoch_timer, "LEAST_STALL_S", 0.5)
    step_of, steps, stall_s = TimingWorker.step_of, count(), 1.2

    def stalling(worker: TimingWorker, *parts: Any) -> Callable[[Any], None]:
        step = step_of(worker, *parts)

        def in_turn(batch: Any) -> None:
            if "compute epoch" in worker.phase and (number := next(steps)) % STEPS == 2 and number < stalls * STEPS:
                time.sleep(stall_s)
            step(batch)

        return in_turn

    monkeypatch.setattr(TimingWorker, "step_of", stalling)
    scope = outcome_of_one(dataset, tmp_path)["scopes"]["compute"]
    assert next(steps) == timed * STEPS
    (epoch_s,), (stalled_s,) = scope["epoch_s"], scope["stalled_s"]
    assert (stalled_s > stall_s / 2) == is_disturbed
    assert epoch_s > stalled_s


def outcome_of_one(dataset: Path, folder: Path, *baselines: int) -> JsonRecord:
    """The outcome of a worker in this process, of a cell with one scope and one epoch, and baselines at these
    batches."""
    settings = TimingSettings(
        device="cpu", width=4, dataset_source="synthetic", epoch_images=IMAGES, scopes=("compute",), timed_epochs=1
    )
    job = {"configuration": ["single", 1, BATCH], "seed": 1, "dataset": dataset, "folder": folder, "timeout_s": 60}
    worker = TimingWorker({**job, "settings": settings.to_json(), "baseline_at_global_batch": False}, 0)
    worker.alone = [BaselineHalves(batch) for batch in baselines]
    worker.run()
    outcome: JsonRecord = json.loads((folder / "outcome.json").read_text())
    return outcome


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("--strategy dp --gpus 2", "not available: DataParallel needs CUDA GPUs"),
        (f"{DDP} --batch-per-gpu 50", "capped: global batch 100 > 64 images"),
        (f"{DDP} --epoch-images 100", "has 64 images of synthetic, the cell asks for 100"),
    ],
)
def test_a_cell_that_cannot_be_is_one_line(dataset: Path, tmp_path: Path, cell: str, message: str) -> None:
    done = dpscale(*arguments(dataset, tmp_path / "r.json", cell))
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()


def test_a_damaged_dataset_stops_the_cell(dataset: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(dataset, tmp_path / "dataset")
    array = copy / "epoch_images.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\xff")
    done = dpscale(*arguments(copy, tmp_path / "r.json", SINGLE))
    assert done.returncode == 1
    assert "truncated or changed since it was" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()
