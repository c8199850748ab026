"""Cells on real GPUs: every strategy, out of memory as a result, and the wrong number of GPUs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

IMAGES = 4096


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    done = dpscale("dataset", "--source", "synthetic", "--images", str(IMAGES), "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def dpscale(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dpscale", *arguments], capture_output=True, text=True)


def time_cell(
    dataset: Path, out: Path, strategy: str, gpus: int, batch: int, *more: str, images: int = IMAGES
) -> subprocess.CompletedProcess[str]:
    cell = f"--strategy {strategy} --gpus {gpus} --batch-per-gpu {batch} --timed-epochs 2".split()
    source = f"--dataset-source synthetic --epoch-images {images}".split()
    return dpscale("time", *cell, *source, *more, "--dataset", str(dataset), "--out", str(out))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "strategy", ["single", pytest.param("dp", marks=pytest.mark.gpu(2)), pytest.param("ddp", marks=pytest.mark.gpu(2))]
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_cell_on_gpus(tmp_path: Path, dataset: Path, strategy: str, precision: str) -> None:
    gpus = 1 if strategy == "single" else torch.cuda.device_count()
    out = tmp_path / "record.json"
    more = ["--precision", precision, "--memory-format", "channels_last" if precision == "bfloat16" else "contiguous"]
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
        steps_s = result["step_s_quantiles"]["median"] * result["full_steps_per_epoch"]
        assert steps_s <= 1.1 * max(result["epoch_s"])
    print(json.dumps({key: record[key] for key in ("hardware", "software", "sensors")}))


@pytest.mark.gpu
def test_out_of_memory_is_a_result(tmp_path: Path) -> None:
    images = 50_000
    folder = tmp_path / "dataset"
    assert dpscale("dataset", "--source", "synthetic", "--images", str(images), "--out", str(folder)).returncode == 0
    out = tmp_path / "record.json"
    done = time_cell(folder, out, "single", 1, images, "--width", "128", images=images)
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert record["status"] == "oom"
    assert record["oom"]["phase"] == "warm-up"


@pytest.mark.gpu
def test_more_gpus_than_are_visible_are_refused(tmp_path: Path, dataset: Path) -> None:
    gpus = torch.cuda.device_count() + 1
    out = tmp_path / "record.json"
    done = time_cell(dataset, out, "ddp", gpus, 32)
    assert done.returncode != 0
    assert f"asked for {gpus} GPUs, {gpus - 1} visible" in done.stderr
    assert not out.exists()
