"""A user's file measured by real workers on the CPU: what the record says, and the one line that a fault is told in."""

import re
from pathlib import Path

import pytest

from cases import cases
from command_line import dpscale
from dpscale.plan.study import checksum
from json_records import read_json
from warm_workers import single_workers_here
from workload_file import SAMPLES, written

pytestmark = pytest.mark.processes


def cell(path: Path, out: Path, more: str = "") -> list[str]:
    where = "time --strategy single --gpus 1 --batch-per-gpu 5 --device cpu"
    settings = f"--epoch-images {SAMPLES} --loader-workers 0 --timed-epochs 1 --baseline own_cells --workload {path}"
    return f"{where} {settings} {more} --out {out}".split()


def refusal(folder: Path, text: str, more: str) -> str:
    """The line that a cell of a workload with `text` in it ends with. It leaves no record."""
    with single_workers_here():
        done = dpscale(*cell(written(folder, text), folder / "record.json", more))
    assert done.returncode == 1 and not (folder / "record.json").exists()
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"Error: workload: {folder / 'mine.py'}")
    return line.removeprefix(f"Error: workload: {folder / 'mine.py'}")


def test_a_record_says_what_was_trained_and_on_what(tmp_path: Path) -> None:
    """A batch has 5 x (4 x 4 + 8) = 120 bytes: two fit in 300. The smaller last one is always there."""
    path, out = written(tmp_path), tmp_path / "record.json"
    with single_workers_here():
        done = dpscale(*cell(path, out, more="--batch-memory-gb 0.0000003"))
    assert done.returncode == 0, done.stderr
    assert "3 different batches fit in 3e-07 GB (dataset.batch_memory_gb), the 5 steps" in done.stderr
    record = read_json("timing", out)
    sha256 = checksum(path)
    settings = record["settings"]
    assert (settings["workload"], settings["workload_sha256"], settings["network"]) == (str(path), sha256, "workload")
    assert record["dataset"] == {"source": "workload", "synthetic": False, "images": SAMPLES, "sha256": sha256}
    assert record["network"] == {"parameters": 10, "gradient_bytes": 40}
    compute, loaded = (record["scopes"][scope] for scope in ("compute", "end_to_end"))
    assert compute["steps_per_epoch"] == loaded["steps_per_epoch"] == 5
    assert compute["full_steps_per_epoch"] == 4


def test_cudnns_search_is_switched_before_the_first_step(tmp_path: Path) -> None:
    """The network is built, and so takes every step, with the switch as the cell's settings have it."""
    text = "def network():\n    assert torch.backends.cudnn.benchmark\n    return nn.Linear(4, 2)\n"
    with single_workers_here():
        done = dpscale(*cell(written(tmp_path, text), tmp_path / "record.json", "--cudnn-benchmark true"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "record.json").unlink()
    assert "AssertionError" in refusal(tmp_path, text, "")


@pytest.mark.parametrize(("text", "more", "line"), cases(__file__, "faults"))
def test_a_fault_of_the_file_is_one_line(tmp_path: Path, text: str, more: str, line: str) -> None:
    assert re.match(line, refusal(tmp_path, text, more))
