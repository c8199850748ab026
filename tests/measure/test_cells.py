"""Timing cells in real processes on the CPU: what a record holds, and every way in which a cell can end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpscale.records.files import read_record
from project import wait_for

pytestmark = pytest.mark.processes

IMAGES = 256
SETTINGS = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES} --loader-workers 1".split()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    command = f"dataset --source synthetic --images {IMAGES} --out {folder}"
    subprocess.run([sys.executable, "-m", "dpscale", *command.split()], check=True, capture_output=True)
    return folder


def command(
    dataset: Path, out: Path, strategy: str = "ddp", gpus: int = 2, batch: int = 100, more: str = ""
) -> list[str]:
    cell = f"time --strategy {strategy} --gpus {gpus} --batch-per-gpu {batch} --timed-epochs 2".split()
    return [
        sys.executable,
        "-m",
        "dpscale",
        *cell,
        *SETTINGS,
        *more.split(),
        "--dataset",
        str(dataset),
        "--out",
        str(out),
    ]


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments, **options), capture_output=True, text=True)


def workers_of(process: subprocess.Popen[Any]) -> set[int]:
    """Processes that a cell started, and all that those started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = {process.pid}
    while True:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        if not children:
            return found - {process.pid}
        found |= children


def alive(pids: set[int]) -> set[int]:
    """Those that still run; a zombie waits only for its parent to look."""
    running = set()
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                running.add(pid)
        except OSError:
            continue
    return running


@pytest.fixture(scope="module")
def records(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One single and one ddp cell, measured once for all tests that look at a record."""
    folder = tmp_path_factory.mktemp("records")
    for strategy, gpus in (("single", 1), ("ddp", 2)):
        done = run(dataset, folder / f"{strategy}.json", strategy, gpus)
        assert done.returncode == 0, done.stderr
    return {name: read_record("timing", folder / f"{name}.json") for name in ("single", "ddp")}


@pytest.mark.parametrize(("strategy", "workers", "steps", "full"), [("single", 1, 3, 2), ("ddp", 2, 2, 1)])
def test_a_record_holds_every_epoch_and_step(
    records: dict[str, dict[str, Any]], strategy: str, workers: int, steps: int, full: int
) -> None:
    record = records[strategy]
    assert record["status"] == "ok"
    for scope in ("compute", "end_to_end"):
        result = record["scopes"][scope]
        assert len(result["epoch_s"]) == len(result["step_s_median"]) == 2
        assert all(len(ranks) == workers for ranks in result["rank_epoch_s"])
        assert (result["steps_per_epoch"], result["full_steps_per_epoch"]) == (steps, full)
        assert result["step_s_quantiles"]["n"] == 2 * full
        # The slowest rank's time is the epoch's, and its steps fill it.
        for epoch_s, ranks, step_s in zip(
            result["epoch_s"], result["rank_epoch_s"], result["step_s_median"], strict=True
        ):
            assert max(ranks) <= epoch_s
            assert full * step_s <= 1.05 * epoch_s
    timed = sum(sum(result["epoch_s"]) for result in record["scopes"].values())
    assert record["epochs_total_s"] > timed  # the warm-up is inside
    assert record["hardware"]["threads_per_worker"] == 1
    assert record["network"]["gradient_bytes"] == 4 * record["network"]["parameters"]


def test_where_and_by_which_code_it_was_measured(records: dict[str, dict[str, Any]], root: Path) -> None:
    provenance = records["ddp"]["provenance"]
    if (root / ".git").exists():
        head = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
        assert provenance["git_commit"] == head.strip()
        assert provenance["git_dirty"] in (True, False)
    assert "--strategy ddp" in provenance["command"]
    assert records["ddp"]["software"]["nccl"] is None  # no guess for what was not used


def test_the_command_in_a_record_measures_the_same_cell(
    records: dict[str, dict[str, Any]], dataset: Path, tmp_path: Path
) -> None:
    import shlex

    again = shlex.split(records["single"]["provenance"]["command"])[1:]
    again[again.index("--out") + 1] = str(tmp_path / "again.json")
    subprocess.run([sys.executable, "-m", "dpscale", *again], check=True, capture_output=True)
    record = read_record("timing", tmp_path / "again.json")
    assert record["settings"] == records["single"]["settings"]
    assert record["cell"] == records["single"]["cell"]


def test_a_time_budget_still_allows_one_epoch(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    done = run(dataset, out, "single", 1, more="--scopes compute --timed-epochs 9 --budget-s 0.0001")
    assert done.returncode == 0, done.stderr
    assert len(read_record("timing", out)["scopes"]["compute"]["epoch_s"]) == 1


@pytest.mark.parametrize(("strategy", "gpus"), [("single", 1), ("ddp", 2)])
def test_out_of_memory_is_a_result(dataset: Path, tmp_path: Path, strategy: str, gpus: int) -> None:
    """On the CPU torch's own allocator reports it, here under a limit that a network of 2.9 GB is above."""
    out = tmp_path / "r.json"
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))"
    program = f"{limit}; sys.argv = ['dpscale'] + sys.argv[1:]; from dpscale.cli import main; main()"
    wide = [argument if argument != "4" else "512" for argument in command(dataset, out, strategy, gpus, 128)[3:]]
    done = subprocess.run([sys.executable, "-c", program, *wide], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = read_record("timing", out)
    assert record["status"] == "oom"
    assert "can't allocate memory" in record["oom"]["message"]
    assert record["scopes"] == {}
    assert "out of memory in setup" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dp", 2, 32), "dp is not available on a CPU"),
        (("single", 2, 32), "single does not go with 2 GPUs"),
        (("ddp", 2, 32, "--network torchvision_resnet18"), "torchvision_resnet18 has width 64 and no other"),
        (("ddp", 1, 32), "ddp does not go with 1 GPUs"),
        (("ddp", 2, 200), "capped: global batch 400 > 256 images"),
        (("ddp", 0, 32), "0 is not in the range x>=1"),
        (("ddp", 2, -1), "-1 is not in the range x>=1"),
        (("horovod", 2, 32), "'horovod' is not one of"),
    ],
)
def test_a_cell_that_cannot_be_is_one_line(
    dataset: Path, tmp_path: Path, arguments: tuple[str | int, ...], message: str
) -> None:
    done = run(dataset, tmp_path / "r.json", *arguments)
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()


def test_more_gpus_than_are_visible(dataset: Path, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs; tests/gpu asks for one more than it has")
    done = run(dataset, tmp_path / "r.json", "ddp", 2, more="--device cuda")
    assert done.returncode == 1
    assert "asked for 2 GPUs, 0 visible" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()


def test_another_dataset_than_asked_for(dataset: Path, tmp_path: Path) -> None:
    done = run(dataset, tmp_path / "r.json", more="--epoch-images 300")
    assert "its images is 256, the cell asks for 300" in done.stderr


def test_a_tampered_dataset_stops_the_cell(dataset: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "dataset"
    shutil.copytree(dataset, copy)
    path = copy / "epoch_images.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    done = run(copy, tmp_path / "r.json")
    assert done.returncode == 1
    assert "truncated or changed since it was written" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.json").exists()


def test_a_results_folder_that_cannot_be_written(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "cells").write_text("a file where the folder should be")
    done = run(dataset, tmp_path / "cells" / "r.json", "single", 1)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr.splitlines()[-1]


@contextmanager
def endless_cell(
    dataset: Path, tmp_path: Path, scope: str, more: str = ""
) -> Iterator[tuple[subprocess.Popen[bytes], set[int], Path]]:
    """A ddp cell in the middle of its second epoch: its process, its workers, and its log. It must end in here."""
    log = tmp_path / "log"
    long = f"--timed-epochs 10000 --budget-s 10000 --scopes {scope} {more}"
    with log.open("w") as file:
        process = subprocess.Popen(command(dataset, tmp_path / "r.json", more=long), stderr=file, stdout=file)
        try:
            wait_for(lambda: f"{scope} epoch 2" in log.read_text())
            workers = workers_of(process)
            assert len(workers) >= 2
            yield process, workers, log
            assert process.wait(40) != 0
        finally:
            process.kill()
    wait_for(lambda: not alive(workers), timeout_s=30)
    assert not list(tmp_path.glob("*r.json*"))


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_killed_cell_leaves_neither_a_record_nor_a_worker(
    dataset: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    with endless_cell(dataset, tmp_path, "end_to_end") as (process, _, _):
        process.send_signal(ending)


def test_a_dead_worker_ends_the_others(dataset: Path, tmp_path: Path) -> None:
    with endless_cell(dataset, tmp_path, "compute") as (_, workers, log):
        os.kill(max(workers), signal.SIGKILL)
    assert "was killed by SIGKILL (out of host memory?)" in log.read_text()


def test_a_hanging_worker_is_stopped_after_the_timeout(dataset: Path, tmp_path: Path) -> None:
    with endless_cell(dataset, tmp_path, "compute", "--timeout-s 25") as (_, workers, log):
        os.kill(max(workers), signal.SIGSTOP)
    assert "stopped after 25 s (cell_timeout_s): 2 of 2 workers were still running" in log.read_text()


def test_two_cells_at_once_do_not_meet(dataset: Path, tmp_path: Path) -> None:
    """No fixed port: cells of other jobs may share the node."""
    processes = [
        subprocess.Popen(
            command(dataset, tmp_path / f"{number}.json", more="--scopes compute"), stderr=subprocess.DEVNULL
        )
        for number in range(2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert json.loads((tmp_path / "0.json").read_text())["status"] == "ok"
