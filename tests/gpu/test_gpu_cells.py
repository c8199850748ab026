"""Cells on real GPUs: every strategy, out of memory as a result, and the wrong number of GPUs."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dpscale.strategies.known import parallel_strategies
from on_gpus import measured

IMAGES = 4096
# GPU memory that training takes per image, about: seen at large batches in float32.
BYTES_PER_IMAGE = 4.9e6


@pytest.mark.gpu
@pytest.mark.parametrize(
    "strategy", ["single", *(pytest.param(name, marks=pytest.mark.gpu(2)) for name in parallel_strategies())]
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_cell_on_gpus(tmp_path: Path, dataset: Path, strategy: str, precision: str) -> None:
    gpus = 1 if strategy == "single" else torch.cuda.device_count()
    layout = "channels_last" if precision == "bfloat16" and strategy != "fsdp" else "contiguous"
    more = f"--timed-epochs 2 --precision {precision} --memory-format {layout}"
    record = measured("time", dataset, tmp_path / "record.json", strategy, gpus, 128, more)
    hardware = record["hardware"]
    assert len({gpu["uuid"] for gpu in hardware["gpus"]}) == gpus
    assert len(hardware["links"]) == gpus * (gpus - 1) // 2
    assert len(record["sensors"]["before"]) == len(record["sensors"]["after"]) == gpus
    for result in record["scopes"].values():
        assert len(result["peak_memory_bytes"]) == gpus
        # Steps seen by the device's events add up to the epoch seen by the host's clock.
        steps_s = min(result["step_s_median"]) * result["full_steps_per_epoch"]
        assert steps_s <= 1.1 * max(result["epoch_s"])
        assert_watched(result, gpus)
    for baseline in record["alone"] or []:
        for halves in baseline["scopes"].values():
            for half in halves.values():
                assert len(half["peak_memory_bytes"]) == 1
                assert_watched(half, gpus)
    assert (record["alone"] is None) == (strategy == "single")


def assert_watched(result: dict[str, Any], gpus: int) -> None:
    """The GPUs of the whole cell were sampled, and nobody else was on them."""
    watched = result["watched"]
    assert len(watched) == len(result["epoch_s"])
    assert all(len(epoch["gpus"]) == gpus for epoch in watched)
    sampled = [epoch for epoch in watched if epoch["other_processes"] is not None]
    assert sampled
    assert all(gpu["clock_event_reasons"] is not None for epoch in sampled for gpu in epoch["gpus"])
    assert all(epoch["other_processes"] == 0 for epoch in sampled)


@pytest.mark.gpu
def test_another_process_on_the_gpu_is_seen_during_the_clock(tmp_path: Path, dataset: Path) -> None:
    program = "import torch; a = torch.ones(4096, 4096, device='cuda')\nwhile True: (a @ a).sum().item()"
    with subprocess.Popen([sys.executable, "-c", program]) as busy:
        try:
            more = "--timed-epochs 2 --scopes compute"
            record = measured("time", dataset, tmp_path / "record.json", "single", 1, 128, more)
        finally:
            busy.kill()
    assert max(epoch["other_processes"] for epoch in record["scopes"]["compute"]["watched"]) >= 1


@pytest.mark.gpu(2)
def test_a_baseline_that_does_not_fit_at_the_global_batch_is_a_result(
    tmp_path: Path, dataset_of: Callable[[int], Path]
) -> None:
    """One GPU holds the batch once, and not twice."""
    batch = int(0.7 * torch.cuda.get_device_properties(0).total_memory / BYTES_PER_IMAGE)
    more = "--timed-epochs 2 --scopes compute --baseline-at-global-batch"
    record = measured("time", dataset_of(50_000), tmp_path / "record.json", "ddp", 2, batch, more)
    assert record["status"] == "ok", record["oom"]
    assert [(item["batch_per_gpu"], item["status"]) for item in record["alone"]] == [(batch, "ok"), (2 * batch, "oom")]


@pytest.mark.gpu(2)
def test_fsdp_takes_less_memory_than_ddp(tmp_path: Path, dataset: Path) -> None:
    """Weights, gradients and momenta of this network are most of it."""
    more = "--timed-epochs 2 --width 256 --scopes compute --baseline own_cells"
    peaks = {}
    for strategy in ("ddp", "fsdp"):
        record = measured("time", dataset, tmp_path / f"{strategy}.json", strategy, torch.cuda.device_count(), 8, more)
        peaks[strategy] = max(record["scopes"]["compute"]["peak_memory_bytes"])
    assert peaks["fsdp"] < 0.8 * peaks["ddp"]
