"""A user's file measured by real workers on the CPU: what the record says, and the one line that a fault is told in."""

import re
from pathlib import Path
from typing import Any

import pytest

from command_line import dpscale
from dpscale.plan.workload_file import checksum
from json_records import read_json
from warm_workers import warm_workers
from workers_here import single_workers_here
from workload_file import HALF_USED, SAMPLES, written

pytestmark = pytest.mark.processes

BATCH = 5


def cell(path: Path, out: Path, gpus: int = 1, batch: int = BATCH, more: str = "") -> list[str]:
    where = f"time --strategy {'ddp' if gpus > 1 else 'single'} --gpus {gpus} --batch-per-gpu {batch} --device cpu"
    settings = f"--epoch-images {SAMPLES} --loader-workers 0 --timed-epochs 1 --baseline own_cells --workload {path}"
    return f"{where} {settings} {more} --out {out}".split()


def timed(path: Path, folder: Path, **options: Any) -> tuple[dict[str, Any], str]:
    """The record of a cell, and its log."""
    out = folder / "record.json"
    with single_workers_here(), warm_workers():
        done = dpscale(*cell(path, out, **options))
    assert done.returncode == 0, done.stderr
    return read_json("timing", out), done.stderr


def refusal(folder: Path, text: str = "", **options: Any) -> tuple[str, str]:
    """The line that a cell of a workload with `text` in it ends with, and the log above. It leaves no record."""
    with single_workers_here(), warm_workers():
        done = dpscale(*cell(written(folder, text), folder / "record.json", **options))
    return line_of_refusal(folder, done.returncode, done.stderr)


def line_of_refusal(folder: Path, code: int, printed: str) -> tuple[str, str]:
    assert code == 1 and not (folder / "record.json").exists()
    *log, line = printed.splitlines()
    assert line.startswith(f"Error: workload: {folder / 'mine.py'}")
    return line.removeprefix(f"Error: workload: {folder / 'mine.py'}"), "\n".join(log)


def test_a_record_says_what_was_trained_and_on_what(tmp_path: Path) -> None:
    path = written(tmp_path)
    record, _ = timed(path, tmp_path)
    sha256 = checksum(path)
    settings = record["settings"]
    assert (settings["workload"], settings["workload_sha256"], settings["network"]) == (str(path), sha256, "workload")
    assert record["dataset"] == {"source": "workload", "synthetic": False, "images": SAMPLES, "sha256": sha256}
    assert record["network"] == {"parameters": 10, "gradient_bytes": 40}
    compute, loaded = (record["scopes"][scope] for scope in ("compute", "end_to_end"))
    assert compute["steps_per_epoch"] == loaded["steps_per_epoch"] == 5
    assert compute["full_steps_per_epoch"] == 4


def test_where_memory_is_short_fewer_batches_are_used_in_turn(tmp_path: Path) -> None:
    """A batch has 5 x (4 x 4 + 8) = 120 bytes: two fit in 300. The smaller last one is always there."""
    record, log = timed(written(tmp_path), tmp_path, more="--batch-memory-gb 0.0000003")
    compute = record["scopes"]["compute"]
    assert compute["steps_per_epoch"] == 5
    assert "3 different batches fit in 3e-07 GB (dataset.batch_memory_gb), the 5 steps" in log


def test_more_samples_than_there_are(tmp_path: Path) -> None:
    line, _ = refusal(tmp_path, "def dataset(): return [(torch.zeros(4), 0)] * 7\n")
    assert line == f": its dataset has 7 samples, an epoch is to have {SAMPLES}: set dataset.images to at most 7"


def test_a_batch_that_an_epoch_does_not_have(tmp_path: Path) -> None:
    with single_workers_here():
        done = dpscale(*cell(written(tmp_path), tmp_path / "record.json", batch=SAMPLES + 1))
    assert f"global batch {SAMPLES + 1} > {SAMPLES} samples: no full step" in done.stderr


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            "def loss(network, batch):\n    return batch['z']",
            r", line \d+, in loss: KeyError: 'z'. Its traceback is in",
        ),
        ("def dataset(): return [object()] * 24", r": torch's collate cannot make a batch of the dataset's items"),
    ],
)
def test_a_fault_of_the_file_is_one_line(tmp_path: Path, more: str, line: str) -> None:
    assert re.match(line, refusal(tmp_path, more)[0])


def test_weights_that_are_no_numbers_any_more(tmp_path: Path) -> None:
    line, _ = refusal(tmp_path, "def optimiser(parameters): return torch.optim.SGD(parameters, lr=1e38)\n")
    assert line.startswith(": weights are not finite after some epochs: lower optimiser.learning_rate, or define")


def test_a_fused_optimiser_beside_one_of_its_own(tmp_path: Path) -> None:
    text = "def optimiser(parameters): return torch.optim.Adam(parameters)\n"
    line, _ = refusal(tmp_path, text, more="--fused-optimiser true")
    assert line.startswith(": has an optimiser of its own: ask for a fused one there")


def test_parameters_that_ddp_waits_for_in_vain(tmp_path: Path) -> None:
    """A parameter that is not trained stands before them: ddp does not count it."""
    frozen = """
half = network

def network():
    whole = half()
    whole.used.frozen = nn.Parameter(torch.zeros(3), requires_grad=False)
    return whole
"""
    line, _ = refusal(tmp_path, HALF_USED + frozen, gpus=2)
    assert line == (
        ": 2 parameters of network() (unused.weight, unused.bias) take no part in the loss, and ddp waits for the "
        "gradients of all: leave them out, or set their requires_grad to False"
    )


def test_a_file_that_changes_after_it_was_planned(tmp_path: Path) -> None:
    assert "has changed since this was planned" in refusal(tmp_path, more=f"--workload-sha256 {'0' * 64}")[0]
