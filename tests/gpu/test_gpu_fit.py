"""The largest batch on a real GPU whose memory is kept small: it trains, and twice as many samples do not fit.

Tries share a process here, which saves minutes.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import must
from dpscale.measure.launch import fit
from dpscale.measure.launch.fit import find_largest_batch, largest_of, smallest_too_large
from dpscale.schemas.settings import StepSettings
from json_records import read_json
from warm_workers import WorkerHere, single_workers_here

pytestmark = pytest.mark.gpu

# A timing cell's matrix product and copy take 3.
MEMORY_GB = {"cifar_resnet18": 3.2, "examples/gpt.py": 6.0, "examples/resnet50.py": 6.0}


class InTurn(WorkerHere):
    """The memory of a try is free again for the next one."""

    def __init__(self, module: str, job: dict[str, Any], *_: int):
        super().__init__(module, job)

    def __exit__(self, *_: object) -> None:
        super().__exit__(*_)
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every try runs in this process, which sees one GPU, as the worker of a cell of one GPU does."""
    monkeypatch.setattr(fit, "Workers", InTurn)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.parametrize("workload", MEMORY_GB)
def test_the_found_batch_fits_and_twice_as_many_do_not(root: Path, workload: str) -> None:
    is_file = workload.endswith(".py")
    chosen = {"workload": str(root / workload)} if is_file else {"network": workload, "dataset_source": "synthetic"}
    settings = StepSettings.from_json(chosen)
    tries = find_largest_batch("single", 1, settings, MEMORY_GB[workload], 60, end_with_parent=False)
    assert smallest_too_large(tries) == 2 * largest_of(tries).batch_per_gpu, tries


def test_a_cell_at_the_found_batch_fits_in_the_same_memory(dataset_of: Callable[[int], Path], tmp_path: Path) -> None:
    """With an epoch's smaller last step, in the memory that the search had."""
    chosen = {"dataset_source": "synthetic", "epoch_images": 1001}
    memory_gb = MEMORY_GB["cifar_resnet18"]
    tries = find_largest_batch("single", 1, StepSettings.from_json(chosen), memory_gb, 60, end_with_parent=False)
    images = dataset_of(1001)
    torch.cuda.set_per_process_memory_fraction(memory_gb * 1e9 / torch.cuda.mem_get_info()[1])
    batch = largest_of(tries).batch_per_gpu
    cell = ["--strategy", "single", "--gpus", 1, "--batch-per-gpu", batch, "--scopes", "compute"]
    source = ["--dataset-source", "synthetic", "--epoch-images", 1001, "--dataset", images]
    try:
        with single_workers_here():
            must("time", *cell, *source, "--out", tmp_path / "cell.json")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    timed = read_json("timing", tmp_path / "cell.json")
    assert (timed["status"], timed["cell"]["batch_per_gpu"]) == ("ok", batch)
