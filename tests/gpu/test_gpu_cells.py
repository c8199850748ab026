"""Cells on real GPUs: every strategy, out of memory as a result, and the wrong number of GPUs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import run_apart
from dpscale.strategies.known import parallel_strategies

IMAGES = 4096
LARGE = 50_000
# What training takes of a GPU's memory per image, about: seen at large batches in float32.
BYTES_PER_IMAGE = 4.9e6


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    return made(tmp_path_factory.mktemp("dataset"), IMAGES)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("large"), LARGE)


def made(folder: Path, images: int) -> Path:
    run_apart("dataset", "--source", "synthetic", "--images", images, "--out", folder)
    return folder


def time_cell(
    dataset: Path, out: Path, strategy: str, gpus: int, batch: int, *more: str, images: int = IMAGES
) -> subprocess.CompletedProcess[str]:
    cell = f"--strategy {strategy} --gpus {gpus} --batch-per-gpu {batch} --timed-epochs 2".split()
    source = f"--dataset-source synthetic --epoch-images {images}".split()
    words = ["time", *cell, *source, *more, "--dataset", str(dataset), "--out", str(out)]
    return subprocess.run([sys.executable, "-m", "dpscale", *words], capture_output=True, text=True)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "strategy", ["single", *(pytest.param(name, marks=pytest.mark.gpu(2)) for name in parallel_strategies())]
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_cell_on_gpus(tmp_path: Path, dataset: Path, strategy: str, precision: str) -> None:
    gpus = 1 if strategy == "single" else torch.cuda.device_count()
    out = tmp_path / "record.json"
    layout = "channels_last" if precision == "bfloat16" and strategy != "fsdp" else "contiguous"
    more = ["--precision", precision, "--memory-format", layout]
    done = time_cell(dataset, out, strategy, gpus, 128, *more)
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
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
    print(json.dumps({key: record[key] for key in ("hardware", "software", "sensors")}))


def assert_watched(result: dict[str, Any], gpus: int) -> None:
    """The GPUs of the whole cell were sampled, and nobody else was on them."""
    watched = result["watched"]
    assert len(watched) == len(result["epoch_s"])
    assert all(len(epoch["gpus"]) == gpus for epoch in watched)
    sampled = [epoch for epoch in watched if epoch["samples"]]
    assert sampled
    assert all(gpu["clock_event_reasons"] is not None for epoch in sampled for gpu in epoch["gpus"])
    assert all(epoch["other_processes"] == 0 for epoch in sampled)


@pytest.mark.gpu
def test_another_process_on_the_gpu_is_seen_during_the_clock(tmp_path: Path, dataset: Path) -> None:
    program = "import torch; a = torch.ones(4096, 4096, device='cuda')\nwhile True: (a @ a).sum().item()"
    with subprocess.Popen([sys.executable, "-c", program]) as busy:
        out = tmp_path / "record.json"
        done = time_cell(dataset, out, "single", 1, 128, "--scopes", "compute")
        busy.kill()
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert max(epoch["other_processes"] for epoch in record["scopes"]["compute"]["watched"]) >= 1


@pytest.mark.gpu(2)
def test_a_baseline_that_does_not_fit_at_the_global_batch_is_a_result(tmp_path: Path, large: Path) -> None:
    """At a batch of which one GPU holds one, and not two."""
    batch = int(0.7 * torch.cuda.get_device_properties(0).total_memory / BYTES_PER_IMAGE)
    out = tmp_path / "record.json"
    more = ["--scopes", "compute", "--baseline-at-global-batch"]
    done = time_cell(large, out, "ddp", 2, batch, *more, images=LARGE)
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert record["status"] == "ok", record["oom"]
    assert [(item["batch_per_gpu"], item["status"]) for item in record["alone"]] == [(batch, "ok"), (2 * batch, "oom")]
