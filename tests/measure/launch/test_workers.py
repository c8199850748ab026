"""A cell from the outside, with workers that measure nothing: every way in which it can end, and its record,
which has nothing private."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpscale.errors import MeasurementError, RecordError
from dpscale.measure.launch.cells import git_state
from dpscale.measure.parent import PRELOADED
from processes import alive, started_by, workers_of
from project import wait_for
from stub_cell import helpers_for_workers, measure_stub, start_stub

pytestmark = pytest.mark.processes

# Starts the cell, prints its process, and ends when it is killed.
PARENT = """
import sys, time
from pathlib import Path
from stub_cell import start_stub
print(start_stub(Path(sys.argv[1]), "wait", end_with_parent=True).pid, flush=True)
time.sleep(1000)
"""

# The same of a cell that waits for another one.
PARENT_OF_WAITING = """
import sys, time
from pathlib import Path
from stub_cell import start_stub
cell = start_stub(Path(sys.argv[1]), "wait", end_with_parent=True)
cell.stderr.readline()
print(cell.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture(params=["started", "forked"])
def kin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The process whose children the workers are: this one, which starts them, or one that is preloaded."""
    if request.param == "started":
        yield os.getpid()
        return
    path = str(tmp_path_factory.mktemp("preloaded") / "workers")
    code = f"from dpscale.measure.worker import preloaded as p; p.KINDS = (); p.serve({path!r})"
    with helpers_for_workers():
        process = subprocess.Popen([sys.executable, "-c", code])
    with process, pytest.MonkeyPatch.context() as patch:
        wait_for(Path(path).exists)
        patch.setenv(PRELOADED, path)
        yield process.pid
        process.kill()


def test_the_outcome_of_the_workers_is_the_record(tmp_path: Path, kin: int) -> None:
    record = measure_stub(tmp_path / "r.json")
    assert (record["status"], record["cell"]["strategy"]) == ("ok", "ddp")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("refuse", "this cannot be measured"),
        ("fail", "worker 1 of 2 ended with exit code 3; see its traceback above"),
        ("die", r"worker 1 of 2 was killed by SIGKILL \(out of host memory\?\)"),
    ],
)
def test_a_cell_that_fails_is_one_line_and_leaves_neither_a_record_nor_a_worker(
    tmp_path: Path, behaviour: str, message: str, kin: int
) -> None:
    with pytest.raises(MeasurementError, match=message):
        measure_stub(tmp_path / "r.json", behaviour)
    assert not list(tmp_path.iterdir())
    workers = set(workers_of(kin).values()) if kin == os.getpid() else started_by(kin)
    assert not alive(workers), "this process has started others, too"


def test_forked_workers_end_with_their_launcher(tmp_path: Path, kin: int) -> None:
    launcher = start_stub(tmp_path / "r.json", "wait")
    parent = launcher.pid if kin == os.getpid() else kin
    wait_for(lambda: len(started_by(parent)) == 2)
    workers = started_by(parent)
    launcher.kill()
    launcher.wait()
    wait_for(lambda: not alive(workers))


@contextmanager
def waiting_cell(out: Path, timeout_s: float = 60) -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    """A cell in a process of its own that waits for ever, and its two workers. It must fail within the context."""
    process = start_stub(out, "wait", timeout_s=timeout_s)
    try:
        wait_for(lambda: len(workers_of(process.pid)) == 2)
        workers = set(workers_of(process.pid).values())
        yield process, workers
        assert process.wait(240) != 0
    finally:
        process.kill()
    wait_for(lambda: not alive(workers))
    assert not list(out.parent.glob("*r.json*"))


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_cell_leaves_neither_a_record_nor_a_worker(tmp_path: Path, ending: signal.Signals) -> None:
    with waiting_cell(tmp_path / "r.json") as (process, _):
        process.send_signal(ending)
    if ending == signal.SIGTERM:
        assert process.stderr is not None
        *_waited_for_another_test, last = process.stderr.read().splitlines()
        assert last.startswith("Error: stopped by SIGTERM")


def test_a_hanging_worker_is_stopped_after_the_timeout(tmp_path: Path) -> None:
    with waiting_cell(tmp_path / "r.json", timeout_s=4) as (process, workers):
        os.kill(max(workers), signal.SIGSTOP)
    assert process.stderr is not None
    assert "stopped after 4 s (cell_timeout_s): 2 of 2 workers were still running" in process.stderr.read()


def test_a_cell_that_is_to_end_with_its_parent_does(tmp_path: Path) -> None:
    with helpers_for_workers():
        words = [sys.executable, "-c", PARENT, str(tmp_path / "r.json")]
        parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    cell = int(parent.stdout.readline())
    wait_for(lambda: len(workers_of(cell)) == 2)
    family = {cell, *started_by(cell)}
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(family))
    assert not list(tmp_path.iterdir())


def test_the_state_of_the_code_is_read_without_a_lock(tmp_path: Path) -> None:
    """A cell that is killed while git holds a lock would leave it behind. Git takes one to store the new time of a file
    that is otherwise as it was."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    code, index = tmp_path / "code.py", tmp_path / ".git/index"
    code.write_text("number = 1\n")
    for words in ("init --quiet", "add code.py", "commit --quiet --message first"):
        subprocess.run([*git, *words.split()], check=True)
    os.utime(code, (1, 1))
    before = index.read_bytes()
    assert git_state(tmp_path)[1] is False
    assert index.read_bytes() == before
    code.write_text("number = 2\n")
    assert git_state(tmp_path)[1] is True


def test_what_is_in_the_way_of_a_record_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: mine\n")
    with pytest.raises(RecordError, match=r"study\.yaml: holds something else"):
        measure_stub(tmp_path / "study.yaml", "wait")


def test_a_machine_measures_one_cell_at_a_time(tmp_path: Path) -> None:
    """Whichever folder it is of; and a cell that waits ends with the process that started it."""
    with waiting_cell(tmp_path / "r.json") as (first, _):
        second = start_stub(tmp_path / "second.json", "finish")
        assert second.stderr is not None
        assert second.stderr.readline() == "waiting: another process measures on this machine\n"
        with helpers_for_workers():
            words = [sys.executable, "-c", PARENT_OF_WAITING, str(tmp_path / "third.json")]
            parent = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert parent.stdout is not None
        third = int(parent.stdout.readline())
        with parent:
            parent.kill()
        wait_for(lambda: not alive({third}))
        assert not workers_of(second.pid)
        first.kill()
    with second:
        assert second.wait() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["second.json"]


SECRET, HOME = "planted", "/home/planteduser"
VARIABLES = {
    "TORCH_TOKEN": SECRET, "CUDA_API_KEY": SECRET, "NCCL_AUTH": SECRET, "CUDA_VISIBLE_DEVICES_OF": SECRET,
    "NCCL_NET_PLUGIN": f"https://me:{SECRET}@host/x", "NCCL_TOPO_FILE": f"{HOME}/topology.xml", "HOME": HOME,
}  # fmt: skip
COMMAND = f"dpscale time --wandb-key {SECRET} --password={SECRET} --db postgres://me:{SECRET}@host/x --out {HOME}/x"


@pytest.mark.processes
def test_no_secret_that_is_planted_reaches_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", COMMAND.split())
    origin = measure_stub(tmp_path / "run-1.json")["provenance"]
    assert SECRET not in (tmp_path / "run-1.json").read_text()
    assert "--wandb-key" in origin["command"]
    assert origin["environment"]["NCCL_TOPO_FILE"] == "[home]/topology.xml"
