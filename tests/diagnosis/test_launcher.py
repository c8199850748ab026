"""A script that is run as it is: what it writes is taken, its exit code is its own, and nothing of it is left."""

import json
import os
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from command_line import dpscale
from dpscale.diagnosis import launcher
from dpscale.diagnosis import script as started
from json_records import read_json
from script_factory import process

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("private")]

STUB = Path(__file__).with_name("stub_script.py")


TRAINS = """
import torch
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter])
for _ in range(9):
    parameter.sum().backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "GRACE_S", 0.5)


def stub(
    folder: Path, processes: Sequence[Any], first: str = "", code: int = 0, ended: str = "time", sleep_s: float = 0
) -> list[str]:
    """Return the command of a stub that does something first; `mode` is that of its run. Its record is of all runs."""
    (folder / "processes.json").write_text(json.dumps(processes))
    lines = [
        "import json, os, runpy, signal, subprocess, sys",
        "mode = json.load(open(os.environ['DPSCALE_ATTACH'] + '/job.json'))['mode']",
        "here = os.path.dirname(os.path.abspath(__file__))",
        "note = lambda text: print(text, file=open(here + '/notes', 'a'))",
        first,
        f"runpy.run_path({str(STUB)!r}, run_name='__main__')",
    ]
    (folder / "script.py").write_text("\n".join(lines))
    return [sys.executable, *map(str, (folder / "script.py", folder / "processes.json", code, ended, sleep_s))]


def diagnosed(folder: Path, command: Sequence[str], *options: str) -> Any:
    """Diagnose a command, with its record in r.json."""
    return dpscale("diagnose", *options, "--json", folder / "r.json", "--", *command, folder=folder)


def test_the_answer_is_printed_and_record_page_and_the_script_s_own_output_are_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The record has no secret of the script's lines."""
    second = process(1, waits=[{"file": "train.py", "line": 7, "code": 'log(key="XYZZY")', "calls": 1, "seconds": 1}])
    done = diagnosed(tmp_path, stub(tmp_path, [process(0), second]), "--page", "why.html")
    assert done.returncode == 0, done.stderr
    assert capfd.readouterr().out == "training diagnose offline\n"
    assert done.stdout.startswith("\n"), "a progress bar may have left its line open"
    assert "Nothing wrong. A step takes 10.4" in done.stdout
    assert "dpscale: takes about 3 min and the script's starts: it runs twice" in done.stderr
    record = read_json("script", tmp_path / "r.json")
    assert [run["what"] for run in record["runs"]] == ["diagnosed", "paced"]
    assert [process["ended_by"] for run in record["runs"] for process in run["processes"]] == ["time"] * 4
    assert record["runs"][0]["processes"][1]["waits"][0]["code"] == 'log(key="[secret]")'
    assert "Nothing wrong." in (tmp_path / "why.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"processes.json", "script.py", "r.json", "why.html"}


@pytest.mark.parametrize(
    ("processes", "code", "ended", "sleep_s", "message"),
    [
        ([], 7, "script", 0, "the script ended by itself with exit code 7"),
        ([process(0)], 3, "script", 0, "the script ended by itself with exit code 3"),
        ([], 0, "script", 0, "ended, and no optimiser step was seen. Does it call step()"),
        ([], 0, "script", 60, "no optimiser step was seen within 1 s. Does it call step()"),
        ([process(0, status="few steps", steps=5)], 0, "script", 0, "made 5 optimiser steps, too few"),
        ([{}], 0, "time", 0, "the hooks wrote no record"),
    ],
)
def test_a_script_that_cannot_be_diagnosed_is_told_in_a_sentence_with_its_exit_code(
    tmp_path: Path, processes: list[Any], code: int, ended: str, sleep_s: float, message: str
) -> None:
    command = stub(tmp_path, processes, "", code, ended, sleep_s)
    done = diagnosed(tmp_path, command, "--first-step-within", "1" if sleep_s else "60")
    assert done.returncode == (code or 1)
    assert message in done.stderr
    assert not (tmp_path / "r.json").exists()


def test_a_script_without_the_path_to_the_hooks_is_told_about_it(tmp_path: Path) -> None:
    """It trains, and nothing sees that."""
    (tmp_path / "train.py").write_text(TRAINS)
    done = diagnosed(tmp_path, ["env", f"PYTHONPATH={tmp_path}", sys.executable, "train.py"])
    assert "it has to add to it: PYTHONPATH=src:$PYTHONPATH." in done.stderr


def test_a_script_that_fails_while_it_is_profiled_is_answered(tmp_path: Path) -> None:
    """All its blocks are there by then, and what looks at its last steps may break it."""
    done = diagnosed(tmp_path, stub(tmp_path, [process(0), process(1)], code=1, ended="profiling"))
    assert "Nothing wrong." in done.stdout, done.stderr
    assert "ended by itself" not in done.stdout


def test_a_script_whose_steps_take_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It steps, and its hooks have written nothing down when it is ended."""
    monkeypatch.setattr(launcher, "OVERDUE_S", 0.0)
    tell = "open(os.environ['DPSCALE_ATTACH'] + '/progress-here-0.json', 'w').write('{\"phase\": \"warm-up\"}')"
    done = diagnosed(tmp_path, stub(tmp_path, [], tell, sleep_s=60), "--minutes", "0.01")
    assert "its steps take too long for 0.0085 min of measuring: give more --minutes" in done.stderr


def test_a_command_that_does_not_exist_is_told(tmp_path: Path) -> None:
    assert "nothing: cannot be started: No such file or directory" in diagnosed(tmp_path, ["/nothing"]).stderr


@pytest.mark.parametrize("option", ["--json", "--page"])
def test_nothing_is_measured_where_its_result_could_not_be_written(tmp_path: Path, option: str) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit(9)")
    for place in ("mine.py", "mine.py/below.json"):
        done = dpscale("diagnose", option, place, "--", sys.executable, "mine.py", folder=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"Error: {place.partition('/')[0]}") and done.stderr.count("\n") == 1


def in_a_process(folder: Path, command: Sequence[str], **streams: Any) -> "subprocess.Popen[bytes]":
    """`dpscale diagnose` of a command, with standard streams of its own."""
    words = [sys.executable, "-m", "dpscale", "diagnose", "--", *command]
    private = {**os.environ, "TMPDIR": str(tempfile.tempdir)}
    return subprocess.Popen(words, cwd=folder, env=private, **{"stdout": PIPE, "stderr": PIPE, **streams})


LONG_INPUT = b"".join(b"%d\n" % number for number in range(100_000))


def test_every_run_reads_a_file_from_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"read before\n" + LONG_INPUT)
    first = "note(sys.stdin.read() == open(here + '/expected').read())"
    (tmp_path / "expected").write_bytes(LONG_INPUT)
    with (tmp_path / "input").open("rb", buffering=0) as file:
        file.readline()
        run = in_a_process(tmp_path, stub(tmp_path, [process(0)], first), stdin=file)
        _, errors = run.communicate()
    assert run.returncode == 0, errors
    assert (tmp_path / "notes").read_text() == "True\nTrue\n"


def test_the_run_that_is_shown_has_the_lines_of_a_pipe_that_stays_open(tmp_path: Path) -> None:
    run = in_a_process(tmp_path, stub(tmp_path, [process(0)], "note(input())"), stdin=PIPE)
    assert run.stdin and run.stderr
    run.stdin.write(b"yes\n")
    run.stdin.flush()
    assert run.wait() == 0
    assert b"what watching costs is not known" in run.stderr.read()
    run.communicate()
    assert (tmp_path / "notes").read_text() == "yes\n"


def test_on_a_terminal_every_run_has_one_of_the_same_size(tmp_path: Path) -> None:
    """The run that is shown has what is typed; the next one has an input that has ended, and does not wait."""
    first = (
        "rows, columns = os.popen('stty size', 'r').read().split()\n"
        "print('shown as', mode)\n"
        "note([rows, columns, sys.stdin.isatty(), sys.stdout.isatty(), sys.stdin.readline()])"
    )
    ours, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (33, 77))
    os.write(ours, b"yes\n")
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    run = in_a_process(tmp_path, stub(tmp_path, [process(0)], first), start_new_session=True, **streams)
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # nobody has it any more
        while text := os.read(ours, 4096):
            shown += text
    os.close(ours)
    assert run.wait() == 0, shown
    assert (tmp_path / "notes").read_text() == ("['33', '77', True, True, 'yes\\n']\n['33', '77', True, False, '']\n")
    assert b"shown as diagnose\r\n" in shown and b"shown as pace" not in shown
    assert b"A step takes" in shown


def test_of_a_run_that_is_not_shown_only_the_end_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And only where it fails: the answer is there without it."""
    first = (
        "if mode == 'pace':\n"
        "    for _ in range(200): os.write(1, bytes(1 << 20))\n"
        "    note(os.fstat(1).st_size)\n"
        "    sys.exit('the end')"
    )
    done = diagnosed(tmp_path, stub(tmp_path, [process(0)], first))
    assert done.returncode == 0
    assert "what watching costs is not known: without it, the script ended by itself with exit code 1" in done.stderr
    assert (tmp_path / "notes").read_text() == "0\n", "nothing of it lies on a disk"
    shown = capfd.readouterr().err
    assert shown.endswith("the end\n") and len(shown) == started.KEPT_BYTES


def test_nothing_is_left_of_a_script_that_ignores_signals_and_leaves_processes(tmp_path: Path) -> None:
    """Also of one in another folder, and of a daemon that has neither an environment nor a parent."""
    first = (
        "for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(ending, signal.SIG_IGN)\n"
        "note(subprocess.Popen(['sleep', '600'], env={}, start_new_session=True).pid)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    signal.pause()\n"
        "note(os.getpid())\n"
        "os.chdir('/')"
    )
    done = diagnosed(tmp_path, stub(tmp_path, [process(0)], first, sleep_s=600))
    assert done.returncode == 0, done.stderr
    assert "It could not be interrupted, and was ended from outside." in done.stdout
    pids = (tmp_path / "notes").read_text().split()
    assert len(pids) == 4
    assert not [
        pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


GPUS = [process(rank, device="cuda") for rank in range(2)]
DATA_PARALLEL = [process(0, 1, device="cuda", devices=2, strategy="dp")]
ON_ONE = "if os.environ['CUDA_VISIBLE_DEVICES'] == 'GPU-b': "


@pytest.mark.parametrize(
    ("processes", "first", "runs", "unknown"),
    [
        (GPUS, ON_ONE + "sys.argv[1] = here + '/one.json'", ["diagnosed", "one", "paced", "one"], None),
        (DATA_PARALLEL, ON_ONE + "sys.argv[1] = here + '/one.json'", ["diagnosed", "one", "paced", "one"], None),
        (GPUS, ON_ONE + "sys.exit(5)", ["diagnosed", "paced"], "there, the script ended by itself with exit code 5"),
        (GPUS, "", ["diagnosed", "paced"], "there it still trained on several"),
        (GPUS[:1], "", ["diagnosed", "paced"], None),
        ([process(0), process(1)], "", ["diagnosed", "paced"], "its command does not say how many processes"),
    ],
    ids=["ranks", "DataParallel", "fails there", "chooses devices itself", "one GPU", "CPU"],
)
def test_a_script_on_several_devices_is_run_on_one_beside(
    processes: list[Any],
    first: str,
    runs: list[str],
    unknown: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the first of the GPUs that the user gives it, where its command does not say how many processes it starts."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-a")
    (tmp_path / "one.json").write_text(json.dumps([process(0, 1, device="cuda", devices=1)]))
    done = diagnosed(tmp_path, stub(tmp_path, processes, first))
    assert done.returncode == 0, done.stderr
    record = read_json("script", tmp_path / "r.json")
    assert [run["what"] for run in record["runs"]] == runs
    assert (record["one_unknown"] or "").startswith(unknown or "")
    assert (record["one_unknown"] is None) == (unknown is None)


def test_secrets_of_the_command_line_are_in_no_record_and_on_no_page(tmp_path: Path) -> None:
    command = [*stub(tmp_path, [process(0)], "note(sys.argv[-1])"), "--api-key", "XYZZY"]
    done = diagnosed(tmp_path, command, "--page", "why.html")
    assert (tmp_path / "notes").read_text() == "XYZZY\n" * 2
    texts = [done.stdout, *((tmp_path / name).read_text() for name in ("r.json", "why.html"))]
    assert "XYZZY" not in "".join(texts)


def test_another_program_on_the_gpu_is_named_without_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that names this script, a program beside it, one on another GPU, and one that it does not know."""
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat {tmp_path}/rows\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "other.py").write_text("import sys; print(flush=True); sys.stdin.read()")
    words = [sys.executable, str(tmp_path / "other.py"), "--token", "XYZZY"]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout and other.stdout.readline()
        rows = f"GPU-a, {other.pid}, 512\\nGPU-b, 1, 7\\nGPU-a, [N/A], [N/A]\\n"
        first = f"open(here + '/rows', 'w').write(f'GPU-a, {{os.getpid()}}, 9\\n{rows}')"
        done = diagnosed(tmp_path, stub(tmp_path, [process(0)], first, ended="script", sleep_s=1))
        other.communicate()
    program = Path(sys.executable).name
    strangers = read_json("script", tmp_path / "r.json")["runs"][0]["others_on_gpu"]
    assert strangers == [{"pid": other.pid, "name": program, "bytes": 512 << 20}]
    assert f"Other programs are on its GPUs: {program} (process {other.pid}, 0.5 GB)." in done.stdout
