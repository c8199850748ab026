"""Training cells in real processes on the CPU: what a record holds, interruption, divergence, the same mathematics."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from dpscale.errors import MeasurementError
from dpscale.measure.launch.workers import Workers
from dpscale.measure.worker.checkpoint import Checkpoint
from dpscale.plan.study import Study
from dpscale.records.files import read_record
from project import wait_for

pytestmark = pytest.mark.processes

IMAGES = 257  # two workers pad it by one
TRAINING = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES}".split()
# Every remedy that has a state of its own, and a batch that grows.
REMEDIES = (
    "--optimiser lars --averaging-decay 0.8 --label-smoothing 0.1 --gradient-clipping 1 --batch-growth-epochs 1 "
    "--warmup-epochs 1.5 --schedule cosine --bias-rate-factor 2 --weight-decay-on-norm-and-bias false"
)
TIMES = ("epoch_s", "images_per_s", "gpu_s")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    command = f"dataset --source synthetic --images {IMAGES} --out {folder}"
    subprocess.run([sys.executable, "-m", "dpscale", *command.split()], check=True, capture_output=True)
    return folder


def command(
    dataset: Path, out: Path, strategy: str = "ddp", gpus: int = 2, batch: int = 32, more: str = ""
) -> list[str]:
    arm = f"train --arm a --strategy {strategy} --gpus {gpus} --batch-per-gpu {batch} --epochs 3 {more}".split()
    paths = ["--dataset", str(dataset), "--out", str(out)]
    return [sys.executable, "-m", "dpscale", *arm, *TRAINING, *paths]


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments, **options), capture_output=True, text=True)


def trained(*arguments: Any, **options: Any) -> dict[str, Any]:
    done = run(*arguments, **options)
    assert done.returncode == 0, done.stderr
    out = arguments[1]
    assert done.stdout.splitlines()[-1] == f"record: {out}"
    assert [path.name for path in out.parent.iterdir()] == [out.name], "the checkpoint has done its work"
    return read_record("training", out)


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """All of a record that must not depend on when and how fast it was trained."""
    epochs = [{key: value for key, value in epoch.items() if key not in TIMES} for epoch in record["epochs"]]
    return {"step_loss": record["step_loss"], "epochs": epochs, "diverged": record["diverged"]}


@pytest.fixture(scope="module")
def ddp(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return trained(dataset, tmp_path_factory.mktemp("ddp") / "seed-1.json", more=REMEDIES)


@pytest.fixture(scope="module")
def single(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return trained(dataset, tmp_path_factory.mktemp("single") / "seed-1.json", "single", 1, 64)


def test_an_epoch_has_its_loss_accuracy_rate_and_cost(ddp: dict[str, Any]) -> None:
    assert [epoch["epoch"] for epoch in ddp["epochs"]] == [1, 2, 3]
    assert [epoch["global_batch"] for epoch in ddp["epochs"]] == [64, 128, 128]
    # 129 images a worker, the sampler's padding among them: 5 steps of 32, 3 of 64.
    assert [epoch["steps"] for epoch in ddp["epochs"]] == [5, 3, 3]
    assert len(ddp["step_loss"]) == 11
    for epoch in ddp["epochs"]:
        assert epoch["images_per_s"] == pytest.approx(IMAGES / epoch["epoch_s"])
        assert epoch["gpu_s"] == pytest.approx(2 * epoch["epoch_s"])
        assert epoch["energy_j"] is None
        assert (epoch["test_accuracy"] * (IMAGES // 5)) % 1 == pytest.approx(0, abs=1e-9)
    assert ddp["continued_after_epochs"] == []


@pytest.mark.parametrize("kind", ["ddp", "single"])
def test_no_image_counts_twice(kind: str, request: pytest.FixtureRequest) -> None:
    """Right answers are a whole number of the 257 images, where workers trained on 258."""
    for epoch in request.getfixturevalue(kind)["epochs"]:
        right = epoch["training_accuracy"] * IMAGES
        assert right == pytest.approx(round(right), abs=1e-9)


def test_the_training_loss_is_the_mean_over_the_images_of_all_steps(single: dict[str, Any]) -> None:
    first = single["epochs"][0]
    losses = single["step_loss"][: first["steps"]]
    sizes = [64] * 4 + [1]
    mean = sum(loss * size for loss, size in zip(losses, sizes, strict=True)) / IMAGES
    assert first["training_loss"] == pytest.approx(mean, rel=1e-4)


def test_workers_take_other_images_every_epoch_and_keep_statistics_of_their_own(ddp: dict[str, Any]) -> None:
    checksums = [order["checksum"] for epoch in ddp["epochs"] for order in epoch["orders"]]
    assert len(set(checksums)) == 6
    for epoch in ddp["epochs"][1:]:
        for order in epoch["orders"]:
            assert 0.3 < order["seen_before"] < 0.7
            assert order["same_place"] < 0.05
    for epoch in ddp["epochs"]:
        assert epoch["batch_norm"]["kept"] == [0]
        assert epoch["batch_norm"]["difference"] > 0


def test_without_set_epoch_every_epoch_has_the_order_of_the_first(dataset: Path, tmp_path: Path) -> None:
    record = trained(dataset, tmp_path / "seed-1.json", more="--set-epoch false")
    for rank in range(2):
        orders = [epoch["orders"][rank] for epoch in record["epochs"]]
        assert len({order["checksum"] for order in orders}) == 1
        assert [(order["seen_before"], order["same_place"]) for order in orders] == [(None, None), (1, 1), (1, 1)]


def test_another_seed_gives_other_figures(dataset: Path, tmp_path: Path, single: dict[str, Any]) -> None:
    other = trained(dataset, tmp_path / "seed-2.json", "single", 1, 64, more="--seed 2")
    assert not set(other["step_loss"]) & set(single["step_loss"])
    assert other["epochs"][0]["orders"][0]["checksum"] not in {
        epoch["orders"][0]["checksum"] for epoch in single["epochs"]
    }, "torch's sampler adds the epoch to its seed: seeds must be further apart"


def test_a_killed_training_goes_on_and_gives_the_same_figures_bit_for_bit(
    dataset: Path, tmp_path: Path, ddp: dict[str, Any]
) -> None:
    out = tmp_path / "seed-1.json"
    checkpoint = out.with_suffix(".checkpoint")
    process = subprocess.Popen(
        command(dataset, out, more=REMEDIES), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr
    for line in process.stderr:
        if "epoch 1 of 3" in line:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    assert not out.exists()
    assert checkpoint.exists()
    saved_after = len(torch.load(checkpoint, weights_only=True)["state"]["epochs"])
    assert saved_after < 3
    continued = trained(dataset, out, more=REMEDIES)
    assert continued["continued_after_epochs"] == [saved_after]
    assert figures(continued) == figures(ddp)


def test_a_checkpoint_of_another_training_is_refused_with_the_keys_and_left_alone(
    dataset: Path, tmp_path: Path
) -> None:
    out = tmp_path / "seed-1.json"
    checkpoint = out.with_suffix(".checkpoint")
    slow = subprocess.Popen(command(dataset, out, "single", 1, 1), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(checkpoint.exists)
    slow.kill()
    slow.wait()
    before = checkpoint.read_bytes()
    done = run(dataset, out, "single", 1, 64, more="--label-smoothing 0.1")
    assert done.returncode == 1
    assert "batch_per_gpu is 1, here it is 64; label_smoothing is 0.0, here it is 0.1. Delete it" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"Error: {checkpoint}: is of another training: ")
    assert checkpoint.read_bytes() == before
    assert not out.exists()


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04cut off"])
def test_a_damaged_checkpoint_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "seed-1.checkpoint"
    path.write_bytes(content)
    with pytest.raises(MeasurementError, match=r"seed-1\.checkpoint: is no checkpoint, or damaged"):
        Checkpoint(path, {}).read(torch.device("cpu"))
    assert path.read_bytes() == content


@dataclass
class Evil:
    path: Path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return (Path.touch, (self.path,))


def test_a_checkpoint_that_would_run_code_runs_none(tmp_path: Path) -> None:
    path = tmp_path / "seed-1.checkpoint"
    torch.save({"identity": {}, "state": Evil(tmp_path / "was here")}, path)
    with pytest.raises(MeasurementError, match="is no checkpoint, or damaged"):
        Checkpoint(path, {}).read(torch.device("cpu"))
    assert not (tmp_path / "was here").exists()


def test_divergence_is_a_result_and_ends_the_training_early(dataset: Path, tmp_path: Path) -> None:
    record = trained(dataset, tmp_path / "seed-1.json", "single", 1, 64, more="--learning-rate 1e30")
    assert record["status"] == "ok"
    assert record["diverged"]
    assert len(record["epochs"]) == 1
    assert None in record["step_loss"]
    assert record["epochs"][0]["training_loss"] is record["epochs"][0]["test_accuracy"] is None


def test_what_cannot_be_trained_is_one_line(dataset: Path, tmp_path: Path) -> None:
    done = run(dataset, tmp_path / "seed-1.json", more="--optimiser lamb --momentum 0.9")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: momentum: lamb has none: its moments are Adam's"


def outcome(
    dataset: Path, folder: Path, module: str, strategy: str, gpus: int, batch: int, **remedies: Any
) -> dict[str, Any]:
    """What the worker `module` comes to, started as a cell starts it, but for what a CPU is refused."""
    arm = {"strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, "epochs": 1, **remedies}
    values = {"source": "synthetic", "images": IMAGES}
    study = Study({"study": "s", "training": {"arms": {"a": arm}}, "dataset": values, "network": {"width": 4}})
    settings = {**study.arms["a"].to_json(), "device": "cpu"}
    job = {
        "configuration": [strategy, gpus, batch], "seed": 1, "arm": "a", "settings": settings, "timeout_s": 60,
        "dataset": str(dataset), "checkpoint": str(folder / f"{strategy}.checkpoint"),
    }  # fmt: skip
    with Workers(module, job, gpus, 0) as workers:
        return workers.outcome(60, end_with_parent=False)


def test_two_workers_that_share_statistics_train_as_one_does(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same global batch, order and augmentation: the losses of the first steps agree to float32's precision."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    remedies = {"learning_rate": 0.01}
    single = outcome(dataset, tmp_path, "dpscale.measure.worker.training", "single", 1, 64, **remedies)
    for name in ("shared", "apart"):
        (tmp_path / name).mkdir()
    shared, apart = (
        outcome(dataset, tmp_path / name, "synchronised_worker", "ddp", 2, 32, sync_batch_norm=sync, **remedies)
        for name, sync in (("shared", True), ("apart", False))
    )
    steps = 4  # the fifth has one image, and the sampler's padding
    assert shared["step_loss"][:steps] == pytest.approx(single["step_loss"][:steps], rel=1e-4)
    assert shared["epochs"][0]["batch_norm"] == {"difference": 0, "kept": [0, 1]}
    assert apart["step_loss"][:steps] != pytest.approx(single["step_loss"][:steps], rel=1e-3)
    assert apart["epochs"][0]["batch_norm"]["kept"] == [0]
