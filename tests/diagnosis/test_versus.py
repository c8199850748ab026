"""Two scripts whose steps take turns: never both at once, and nothing of them is left."""

import json
import os
import signal
import subprocess
import sys
from itertools import groupby
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import pytest

from command_line import dpscale, must
from dpscale.diagnosis import versus
from dpscale.records.script import VersusBlock
from json_records import read_json

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("private")]

STUB = str(Path(__file__).with_name("turns_stub.py"))
TRAINING = """
import os, sys, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
data = torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=int(sys.argv[2]))
with open(sys.argv[1] + os.environ["RANK"], "w", buffering=1) as log:
    while True:
        for batch in data:
            print(time.monotonic(), file=log)
            optimizer.zero_grad()
            net(batch).sum().backward()
            optimizer.step()
"""


def stub(step_s: float, blocks: int = 10**6, code: int = 0, *lock: object) -> list[str]:
    return [sys.executable, STUB, str(step_s), str(blocks), str(code), *map(str, lock)]


def test_ranks_of_two_scripts_step_in_turns_and_never_at_once(tmp_path: Path) -> None:
    """Both launchers have torch's default port."""
    (tmp_path / "train.py").write_text(TRAINING)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", tmp_path / "train.py"]
    record_file = tmp_path / "r.json"
    commands = [*launch, tmp_path / "A", 4, "---", *launch, tmp_path / "B", 8]
    must("versus", "--minutes", 0.05, "--json", record_file, "--", *commands)
    record = read_json("versus", record_file)
    assert (record["turns"], record["why"]) == ("blocks", None)
    began = sorted(
        (float(line), script)
        for script in "AB"
        for rank in (0, 1)
        for line in (tmp_path / f"{script}{rank}").read_text().split()
    )
    turns = [script for script, _ in groupby(script for _, script in began)]
    asked = ["A", "B", *(block["script"] for block in record["blocks"])]  # each warms up when it starts
    assert turns == [script for script, _ in groupby(asked)]
    assert {(block["script"], block["samples"]) for block in record["blocks"]} == {("A", 8.0), ("B", 16.0)}


def test_a_script_that_fails_beside_the_other_one_takes_turns_by_whole_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versus, "LEAST_PAIRS", 2)
    memory, record_file = tmp_path / "memory", tmp_path / "r.json"
    commands = [*stub(0.001, 10**6, 0, memory), "---", *stub(0.002, 10**6, 0, memory)]
    said = must("versus", "--minutes", 0.01, "--json", record_file, "--", *commands)
    record = read_json("versus", record_file)
    assert record["turns"] == "runs"
    assert "B ended by itself with exit code 1" in record["why"] and record["why"] in said
    assert [(block["pair"], block["script"]) for block in record["blocks"]] == [(0, "B"), (0, "A"), (1, "A"), (1, "B")]


@pytest.mark.parametrize(("a_s", "b_s", "kept"), [(0.002, 0.001, "keep B"), (0.001, 0.002, "keep A")])
def test_the_one_with_the_faster_step_is_kept(a_s: float, b_s: float, kept: str) -> None:
    said = must("versus", "--minutes", 0.01, "--", *stub(a_s), "---", *stub(b_s))
    ratio, start = b_s / a_s, 2.06 * versus.START_SPREAD
    assert f"{ratio:.3f} [{ratio * (1 - start):.3f}, {ratio * (1 + start):.3f}]" in said
    assert kept in said


def test_a_script_that_ends_early_leaves_an_answer_of_the_pairs_so_far(tmp_path: Path) -> None:
    record_file = tmp_path / "r.json"
    must("versus", "--minutes", 1, "--json", record_file, "--", *stub(0.001), "---", *stub(0.001, 9))
    record = read_json("versus", record_file)
    assert len(record["blocks"]) == 2 * 8
    assert record["why"] == "B ended by itself with exit code 0 before the time was up"


READING = """
import os, sys
folder, python, *words = sys.argv[1:]
lines = sys.stdin.read()
open(folder + f"/read{sum(name.startswith('read') for name in os.listdir(folder))}", "w").write(lines)
os.execv(python, [python, *words])
"""


def test_both_scripts_read_all_of_a_file(tmp_path: Path, private: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(30_000))
    (tmp_path / "input").write_text(lines)
    script = [sys.executable, "-c", READING, str(tmp_path), *stub(0.001)]
    words = [sys.executable, "-m", "dpscale", "versus", "--minutes", "0.01", "--", *script, "---", *script]
    with (tmp_path / "input").open() as file:
        subprocess.run(words, check=True, env={**os.environ, "TMPDIR": str(private)}, stdin=file)
    assert [file.read_text() == lines for file in tmp_path.glob("read*")] == [True, True]


SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (stub(0.001), 2, "give two commands"),
        ([*stub(0.001), "---"], 2, "give two commands"),
        ([*stub(0.001, 0, 7), "---", *stub(0.001)], 1, "A ended by itself with exit code 7"),
        ([*stub(0.001), "---", *stub(0.001, 0, 3)], 1, "B ended by itself with exit code 3"),  # alone too
        ([*stub(0.001), "---", *stub(0.001, 1)], 1, "B ended by itself with exit code 0"),
        ([*stub(0.001), "---", *SLEEPING], 1, "B made no optimiser steps within 1 s"),
        ([*stub(0.001), "---", "/no/such/script"], 1, "cannot be started"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(words: list[Any], code: int, message: str) -> None:
    done = dpscale("versus", "--minutes", 0.01, "--first-step-within", 1, "--", *words)
    assert done.returncode == code
    assert message in done.stderr


def test_ctrl_c_leaves_nothing_running(private: Path) -> None:
    command = [sys.executable, "-m", "dpscale", "versus", "--", *stub(0.001), "---", *stub(0.001)]
    variables = {**os.environ, "TMPDIR": str(private)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as asked:
        assert asked.stderr is not None
        assert "both are there" in asked.stderr.readline()
        asked.send_signal(signal.SIGINT)
        assert asked.wait() != 0


def test_the_interval_is_as_wide_as_two_starts_of_a_script_differ(root: Path) -> None:
    """On record: the same script twice, and one with 2 % more work."""
    recorded = json.loads((root / "results/recorded-diagnosis/versus-gpu.json").read_text())["answers"]
    answers = [(row["case"], versus.step_ratio(msgspec.convert(row["blocks"], list[VersusBlock]))) for row in recorded]
    same = [ratio for case, ratio in answers if case == "same"]
    apart = sqrt(fmean((ratio.value - 1) ** 2 for ratio in same))
    assert 0.8 * versus.START_SPREAD < apart <= versus.START_SPREAD
    assert all(ratio.low <= 1 <= ratio.high for ratio in same if ratio.has_interval)
    longer = [ratio for case, ratio in answers if case == "longer"]
    assert longer and all(ratio.low > 1.01 and ratio.low < 1.02 < ratio.high for ratio in longer)


def test_pairs_of_whole_runs_hold_what_starts_differ_by() -> None:
    blocks = [VersusBlock(pair, name, 10, 1.0, None) for pair in range(6) for name in ("A", "B")]
    assert versus.step_ratio(blocks).high == pytest.approx(1 + 2.06 * versus.START_SPREAD)
    assert versus.step_ratio(blocks, is_started_anew=True).high == 1
