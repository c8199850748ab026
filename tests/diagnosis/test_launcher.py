"""A script that is run as it is: what it writes is taken, its exit code is its own, and nothing of it is left."""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import dpscale
from dpscale.diagnosis import launcher
from dpscale.diagnosis.launcher import _on_one
from json_records import read_json
from script_factory import process

pytestmark = pytest.mark.processes

STUB = Path(__file__).with_name("stub_script.py")


@pytest.fixture(autouse=True)
def private(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Folders of their own for what is not to be left, neither a file nor a process."""
    folder = tmp_path_factory.mktemp("private")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(launcher, "GRACE_S", 0.5)
    yield
    assert list(folder.iterdir()) == []
    until = time.monotonic() + 5  # a process that was killed is there for a moment
    while left := [pid.name for pid in Path("/proc").glob("[0-9]*") if _is_in(folder, pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


def _is_in(folder: Path, process: Path) -> bool:
    try:
        return f"DPSCALE_ATTACH={folder}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def diagnosed(
    folder: Path, processes: Sequence[Any], code: int = 0, ended: str = "time", sleep_s: float = 0, options: str = ""
) -> Any:
    """Diagnose a stub of a script by the command, with its record in r.json."""
    (folder / "processes.json").write_text(json.dumps(processes))
    words = [sys.executable, STUB, folder / "processes.json", code, ended, sleep_s]
    return dpscale("diagnose", *options.split(), "--json", folder / "r.json", "--", *words, folder=folder)


def test_the_answer_is_printed_and_record_page_and_the_script_s_own_output_are_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "why.html"
    done = diagnosed(tmp_path, [process(0), process(1)], options=f"--page {page}")
    assert done.returncode == 0, done.stderr
    assert capfd.readouterr().out == "training diagnose offline\n"
    assert "Nothing wrong. A step takes 10.4" in done.stdout
    assert "dpscale: takes about 3 min and the script's starts: it runs twice" in done.stderr
    record = read_json("script", tmp_path / "r.json")
    assert [run["what"] for run in record["runs"]] == ["diagnosed", "paced"]
    assert [process["ended_by"] for run in record["runs"] for process in run["processes"]] == ["time"] * 4
    assert "Nothing wrong." in page.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"processes.json", "r.json", "why.html"}


@pytest.mark.parametrize(
    ("processes", "code", "ended", "sleep_s", "options", "message"),
    [
        ([], 7, "script", 0, "", "the script ended by itself with exit code 7; its own output is above"),
        ([process(0)], 3, "script", 0, "", "the script ended by itself with exit code 3"),
        ([], 0, "script", 0, "", "ended without an optimiser step: this is no training with torch"),
        ([], 0, "script", 60, "--first-step-within 1", "no optimiser step within 1 s: this is no training that can be"),
        ([process(0, status="few steps", steps=5)], 0, "script", 0, "", "made 5 optimiser steps, too few"),
        ([{}], 0, "time", 0, "", "the hooks wrote no record"),
    ],
)
def test_a_script_that_cannot_be_diagnosed_is_told_in_a_sentence_with_its_exit_code(
    tmp_path: Path, processes: list[Any], code: int, ended: str, sleep_s: float, options: str, message: str
) -> None:
    done = diagnosed(tmp_path, processes, code, ended, sleep_s, options)
    assert done.returncode == (code or 1)
    assert message in done.stderr
    assert not (tmp_path / "r.json").exists()


def test_a_script_that_cannot_be_interrupted_is_ended_from_outside(tmp_path: Path) -> None:
    done = diagnosed(tmp_path, [process(0), process(1)], sleep_s=60)
    assert "It could not be interrupted, and was ended from outside." in done.stdout


def test_a_command_that_does_not_exist_is_told(tmp_path: Path) -> None:
    done = dpscale("diagnose", "--", tmp_path / "nothing", folder=tmp_path)
    assert "nothing: cannot be started: No such file or directory" in done.stderr


@pytest.mark.parametrize(
    ("command", "on_one_device"),
    [
        ("torchrun --nproc-per-node 2 train.py --nproc 3", "torchrun --nproc-per-node=1 train.py --nproc 3"),
        ("torchrun --nproc_per_node=gpu train.py", "torchrun --nproc_per_node=1 train.py"),
        ("accelerate launch --num_processes 4 train.py", "accelerate launch --num_processes=1 train.py"),
        ("torchrun --nproc-per-node 1 train.py", None),
        ("python train.py", None),
    ],
)
def test_a_launcher_s_number_of_processes_is_set_to_one(command: str, on_one_device: str | None) -> None:
    words, unknown = _on_one(command.split())
    assert words == (on_one_device.split() if on_one_device else None)
    assert (unknown is not None) == command.startswith("python")
