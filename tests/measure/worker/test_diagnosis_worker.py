"""What a diagnosis looks at beside the clock: other launches, numbers that are waited for, cores; and its command."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from command_line import dpscale, must
from dpscale.measure.watch.cores import on_all_cores
from dpscale.measure.watch.launches import launches, same_command
from dpscale.measure.watch.sensors import busy_cores
from dpscale.measure.watch.waits import NUMBERS, KeptNumbers, waits_of
from dpscale.measure.worker.diagnosis import _socket_rates
from dpscale.measure.workload.from_file import load_workload
from dpscale.schemas.validation import violations
from warm_workers import warm_workers

WORDS = ["diagnose", "--workload", "mine.py", "--gpus", "1", "--json", "here.json"]
LOSS = """
def helper(values):
    return values.sum().item()

def loss(network, batch):
    outputs = network(batch)
    worst = float(outputs.max())
    return outputs.mean() + 0 * (worst + helper(outputs))
"""


@pytest.fixture
def sleeping() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start(*words: str) -> subprocess.Popen[bytes]:
    """A process of a command with these words, once they are its own and not its parent's."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *words])
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes().endswith(f"{words[-1]}\0".encode()):
        time.sleep(0.001)
    return process


@pytest.mark.processes
def test_another_process_of_the_same_command_is_another_launch(sleeping: list[subprocess.Popen[bytes]]) -> None:
    unique = [*WORDS, "--page", f"{os.getpid()}.html"]
    assert same_command(unique, os.getpid()) == []
    elsewhere = [*WORDS[:-1], "there.json"]
    sleeping += [start(*elsewhere), start(*WORDS[:3], "--gpus", "2")]
    assert same_command(unique, os.getpid()) == [sleeping[0].pid], "they may write to places of their own"
    assert same_command(unique, sleeping[0].pid) == []


@pytest.mark.processes
def test_what_starts_the_command_is_no_launch(sleeping: list[subprocess.Popen[bytes]]) -> None:
    """As `timeout 60 dpscale diagnose ...`: the words of one are the end of the other's."""
    program = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import ctypes, time; ctypes.CDLL(None).prctl(1, 9); time.sleep(600)',"
        " *sys.argv[1:]])"
    )
    words = ["diagnose", f"of-{os.getpid()}"]
    sleeping.append(subprocess.Popen([sys.executable, "-c", program, *words]))
    children = Path(f"/proc/{sleeping[0].pid}/task/{sleeping[0].pid}/children")
    while not (pids := [int(pid) for pid in children.read_text().split()]) or not same_command(words, os.getpid()):
        time.sleep(0.01)
    assert same_command(words, os.getpid()) == pids
    assert same_command(words, pids[0]) == []


@pytest.mark.parametrize(
    ("environment", "processes", "variable"),
    [
        ({}, None, None),
        ({"WORLD_SIZE": "4", "RANK": "1"}, 4, "WORLD_SIZE"),
        ({"SLURM_STEP_NUM_TASKS": "2"}, 2, "SLURM_STEP_NUM_TASKS"),
        ({"SLURM_NTASKS": "2"}, None, None),  # a batch script has it that runs alone
    ],
)
def test_a_launcher_says_how_many_processes_it_started(
    environment: dict[str, str], processes: int | None, variable: str | None
) -> None:
    found = launches(["no such command"], os.getpid(), environment)
    assert (found["processes_of_launcher"], found["variable"]) == (processes, variable)


def test_the_lines_that_ask_for_a_number_are_found(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(LOSS)
    functions: dict[str, object] = {}
    exec(compile(LOSS, str(file), "exec"), functions)  # as importing the file would
    network, batch, loss = nn.Linear(3, 1), torch.ones(2, 3), functions["loss"]

    def step() -> None:
        torch.ones(1).item()  # not the user's
        loss(network, batch).backward()  # type: ignore[operator]

    found = {(wait["line"], wait["code"], wait["calls"]) for wait in waits_of(step, file, on_gpu=False)}
    assert found == {(3, "return values.sum().item()", 1), (7, "worst = float(outputs.max())", 1)}
    assert waits_of(lambda: None, file, on_gpu=False) == []
    assert waits_of(step, None, on_gpu=False) == []


def test_kept_numbers_are_those_of_the_step_before() -> None:
    kept, numbers = KeptNumbers("cpu"), [torch.tensor(1.5), torch.tensor(0)]
    before = [getattr(torch.Tensor, name) for name in NUMBERS]
    with kept.within():
        assert (numbers[0].item(), bool(numbers[1])) == (1.5, False)
        kept.begin()
        assert (torch.tensor(7.0).item(), bool(torch.tensor(1))) == (1.5, False)
    assert torch.tensor(7.0).item() == 7.0, "outside of the block everything is as it was"
    with pytest.raises(RuntimeError, match="a step"), kept.within():
        raise RuntimeError("a step that ends in an error")
    assert [getattr(torch.Tensor, name) for name in NUMBERS] == before


def test_all_cores_are_those_of_before_afterwards() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with on_all_cores():
            assert os.sched_getaffinity(0) >= before
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)


def test_cores_are_busy_or_idle() -> None:
    core = {min(os.sched_getaffinity(0))}
    before, start = busy_cores(core), time.monotonic()
    while time.monotonic() - start < 0.2:
        pass
    after = busy_cores(core)
    assert before
    assert after
    assert sum(after.values()) > sum(before.values())
    assert min(after[name] - before[name] for name in after) >= 0


def test_a_socket_has_a_rate() -> None:
    rates = _socket_rates()
    assert len(rates) == 7
    assert 0.01 < min(rates) < 1000


def diagnosed(file: Path, folder: Path, *options: object) -> str:
    """What the command prints of one worker; its record is d.json."""
    cell = ("--workload", file, "--gpus", 1, "--loader-workers", 0, "--device", "cpu")
    return must("diagnose", *cell, *options, "--json", folder / "d.json", folder=folder)


@pytest.mark.processes
@pytest.mark.slow
def test_the_command_writes_a_record_an_answer_and_a_page(root: Path, tmp_path: Path) -> None:
    file = root / "bench/injected/waiting.py"
    with warm_workers():
        printed = diagnosed(file, tmp_path, "--batch-per-gpu", 64, "--page", "d.html")
    record = json.loads((tmp_path / "d.json").read_text())
    assert violations("diagnosis", record) == []
    assert record["settings"]["epoch_images"] == 8192
    (wait,) = record["synchronisations"]
    assert wait["file"] == str(file)
    assert wait["code"].endswith(".item()")
    assert wait["calls"] == 2
    assert {"bfloat16", "alone_unsynchronised"} <= set(record["probes"])
    assert "computing in bfloat16: measured" in printed
    assert "A step takes" in printed
    assert "Where the time of a step goes" in (tmp_path / "d.html").read_text()


ONLY_FLOAT32 = """
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset


def network() -> nn.Module:
    return nn.Linear(4, 2)


def dataset() -> Dataset:
    return TensorDataset(torch.randn(64, 4))


def loss(network, batch):
    outputs = network(batch[0])
    if getattr(network, "network", None):
        raise ValueError("only in float32\\nand a second line")
    return outputs.square().mean()
"""


@pytest.mark.processes
@pytest.mark.slow
def test_what_a_step_cannot_do_is_left_out_of_its_diagnosis(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ONLY_FLOAT32)
    diagnosed(file, tmp_path, "--batch-per-gpu", 8)
    assert "bfloat16" not in json.loads((tmp_path / "d.json").read_text())["probes"]
    told = "left out: the whole step in bfloat16, batches in memory: ValueError: only in float32\n"
    assert told in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", 2], "give either --batch-per-gpu or --global-batch"),
        (["--gpus", 2, "--global-batch", 3], "a global batch of 3 does not fill 2 GPUs evenly"),
        (["--gpus", 2, "--batch-per-gpu", 3, "--strategy", "dp"], "DataParallel needs CUDA GPUs"),
        (["--gpus", 1, "--batch-per-gpu", 3], "no.py: there is no such file"),
    ],
)
def test_what_cannot_be_diagnosed_is_said_in_one_line(options: list[object], message: str, tmp_path: Path) -> None:
    done = dpscale("diagnose", "--workload", "no.py", "--device", "cpu", *options, folder=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_file_of_the_document_is_a_workload(root: Path, tmp_path: Path) -> None:
    section = (root / "docs/diagnose.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(section.split("```python\n")[1].split("```")[0])
    workload = load_workload(file)
    images, label = workload.dataset()[0]
    loss = workload.loss(workload.network(), (images[None], torch.tensor([label])))
    assert loss.item() > 0
