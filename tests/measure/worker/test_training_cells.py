"""Training cells on the CPU: records, interruption, divergence, the same mathematics."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import cross_entropy

from command_line import dpscale, must
from dpscale.errors import MeasurementError
from dpscale.measure.worker.checkpoint import Checkpoint, Trained
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.worker.training import Figures, TrainingWorker
from dpscale.measure.workload.dataset import split_images
from dpscale.measure.workload.images import DeviceImages
from dpscale.plan.study import Study
from json_records import read_json
from warm_workers import outcome_of, single_workers_here

pytestmark = pytest.mark.processes

Record = dict[str, Any]

IMAGES = 65  # two workers pad it by one
TRAINING = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES}".split()
# Every remedy that has a state of its own, and a batch that grows.
REMEDIES = (
    "--optimiser lamb --momentum 0 --learning-rate 0.02 --averaging-decay 0.8 --label-smoothing 0.1 "
    "--gradient-clipping 1 --batch-growth-epochs 1 --warmup-epochs 1.5 --schedule cosine --bias-rate-factor 2 "
    "--weight-decay-on-norm-and-bias false"
)
DDP = "--strategy ddp --gpus 2 --batch-per-gpu 8"
SINGLE = "--strategy single --gpus 1 --batch-per-gpu 16"
TIMES = ("epoch_s", "images_per_s", "gpu_s")


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with single_workers_here():
        yield


def arguments(dataset: Path, out: Path, cell: str, more: str = "") -> list[str]:
    arm = f"train --arm a {cell} --epochs 3 {more}".split()
    return [*arm, *TRAINING, "--dataset", str(dataset), "--out", str(out)]


def trained(dataset: Path, out: Path, cell: str, more: str = "") -> Record:
    assert must(*arguments(dataset, out, cell, more)).splitlines()[-1] == f"record: {out}"
    assert [path.name for path in out.parent.iterdir()] == [out.name], "the checkpoint has done its work"
    return read_json("training", out)


def figures(record: Record) -> Record:
    """The parts of a record that must not depend on when and how fast it was trained."""
    epochs = [{key: value for key, value in epoch.items() if key not in TIMES} for epoch in record["epochs"]]
    return {"epochs": epochs, "diverged": record["diverged"]}


@pytest.fixture(scope="module")
def ddp(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return trained(dataset, tmp_path_factory.mktemp("ddp") / "seed-1.json", DDP, REMEDIES)


@pytest.fixture(scope="module")
def single(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return trained(dataset, tmp_path_factory.mktemp("single") / "seed-1.json", SINGLE)


class ColdWorker(TrainingWorker):
    """Starts its clock without a warm-up."""

    def _warm_up(self, timer: EpochTimer, trained: Trained, training: DeviceImages) -> None:
        pass


class KilledWorker(TrainingWorker):
    """Its rank 0 is killed after the first epoch, when the checkpoint is written."""

    def _report_epoch(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class SharedStatistics(nn.BatchNorm2d):
    """SyncBatchNorm on a CPU, where torch's does not compute: mean and variance of the whole global batch, with
    gradients through both."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        count: Tensor = all_reduce(torch.tensor(float(x.numel() // x.shape[1])))
        mean: Tensor = all_reduce(x.sum(dim=(0, 2, 3))) / count
        variance: Tensor = all_reduce(((x - mean[:, None, None]) ** 2).sum(dim=(0, 2, 3))) / count
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        scale = self.weight / (variance + self.eps).sqrt()
        output: Tensor = (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]
        return output


class Float64Worker(TrainingWorker):
    """Trains in float64: the kernels that a processor picks make no difference that could be seen after a few steps."""

    def _prepare_training(self, checkpoint: Checkpoint) -> Trained:
        with patch.object(nn.SyncBatchNorm, "convert_sync_batchnorm", with_shared_statistics):
            return super()._prepare_training(checkpoint)

    def build_network(self) -> nn.Module:
        network = super().build_network().double()
        network.register_forward_pre_hook(lambda _network, images: tuple(part.double() for part in images))
        return network


def with_shared_statistics(network: nn.Module) -> nn.Module:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.__class__ = SharedStatistics
    return network


def job_as_ddp(dataset: Path, ddp: Record, checkpoint: Path) -> dict[str, Any]:
    """The job of the training of `ddp`."""
    return {
        "configuration": ["ddp", 2, 8], "seed": 1, "arm": "a", "settings": ddp["settings"], "timeout_s": 60,
        "dataset": str(dataset), "checkpoint": str(checkpoint),
    }  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(dataset: Path, ddp: Record, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of the training of `ddp`, killed after its first epoch. Tests work on copies."""
    checkpoint = tmp_path_factory.mktemp("killed") / "seed-1.checkpoint"
    with pytest.raises(MeasurementError, match="was killed by SIGKILL"):
        outcome_of(KilledWorker, job_as_ddp(dataset, ddp, checkpoint))
    assert list(checkpoint.parent.iterdir()) == [checkpoint]
    return checkpoint


def float64_job(dataset: Path, checkpoint: Path, strategy: str, gpus: int, batch: int, **arm: Any) -> dict[str, Any]:
    """The job of a worker that computes in float64, with settings that a cell on a CPU may not have."""
    arm = {"strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, "learning_rate": 0.01, **arm}
    images = {"source": "synthetic", "images": IMAGES - 1}  # no padding
    study = Study({"study": "s", "training": {"arms": {"a": arm}}, "dataset": images, "network": {"width": 4}})
    settings = {**study.arms["a"].to_json(), "device": "cpu"}
    return {
        "configuration": [strategy, gpus, batch], "seed": 1, "arm": "a", "settings": settings, "timeout_s": 60,
        "dataset": str(dataset), "checkpoint": str(checkpoint),
    }  # fmt: skip


def test_an_epoch_has_its_loss_accuracy_rate_and_cost(ddp: Record) -> None:
    assert [epoch["epoch"] for epoch in ddp["epochs"]] == [1, 2, 3]
    assert [epoch["global_batch"] for epoch in ddp["epochs"]] == [16, 32, 32]
    # 33 images per worker, the sampler's padding among them: 5 steps of 8, 3 of 16.
    assert [epoch["steps"] for epoch in ddp["epochs"]] == [5, 3, 3]
    for epoch in ddp["epochs"]:
        assert epoch["images_per_s"] == pytest.approx(IMAGES / epoch["epoch_s"])
        assert epoch["gpu_s"] == pytest.approx(2 * epoch["epoch_s"])
        assert epoch["energy_j"] is None
        # Of the 66 images that workers trained on, none counts twice.
        assert is_whole(epoch["training_accuracy"] * IMAGES)
        assert is_whole(epoch["test_accuracy"] * (IMAGES // 5))


def is_whole(answers: float) -> bool:
    return answers == pytest.approx(round(answers), abs=1e-9)


def test_figures_are_sums_over_images_without_padding_and_smoothing() -> None:
    logits, labels = torch.randn(12, 10), torch.randint(10, (12,))
    figures = Figures()
    for step, real in ((slice(0, 8), 8), (slice(8, 12), 1)):
        smoothed = cross_entropy(logits[step], labels[step], reduction="none", label_smoothing=0.1)
        figures.add(logits[step], labels[step], smoothed, real, smoothed=True)
    correct = int((logits.argmax(dim=1) == labels)[:9].sum())
    assert figures.read() == pytest.approx([float(cross_entropy(logits[:9], labels[:9], reduction="sum")), correct])


@pytest.mark.parametrize(("set_epoch", "orders"), [(True, 3), (False, 1)])
def test_without_set_epoch_every_epoch_has_the_order_of_the_first(set_epoch: bool, orders: int) -> None:
    settings = SimpleNamespace(set_epoch=set_epoch, training_images=IMAGES)
    worker: Any = SimpleNamespace(settings=settings, seed=1, rank=1, workers=2)
    assert len({tuple(TrainingWorker._order_of(worker, epoch).tolist()) for epoch in range(3)}) == orders


def test_another_seed_gives_other_figures(dataset: Path, tmp_path: Path, single: Record) -> None:
    second = trained(dataset, tmp_path / "seed-2.json", SINGLE, "--seed 2 --epochs 1")
    assert second["epochs"][0]["training_loss"] != single["epochs"][0]["training_loss"]


def test_weights_in_bfloat16_stay_so(dataset: Path, tmp_path: Path, single: Record) -> None:
    half = trained(dataset, tmp_path / "seed-1.json", SINGLE, "--precision bfloat16-pure --epochs 1")
    assert half["network"]["gradient_bytes"] == 2 * half["network"]["parameters"]
    loss, full_loss = (record["epochs"][0]["training_loss"] for record in (half, single))
    assert loss != full_loss
    assert loss == pytest.approx(full_loss, rel=0.1)


def test_a_killed_training_goes_on_and_gives_the_same_figures_bit_for_bit(
    dataset: Path, tmp_path: Path, checkpoint: Path, ddp: Record
) -> None:
    (first,) = torch.load(shutil.copy(checkpoint, tmp_path), weights_only=True)["state"]["epochs"]
    continued = trained(dataset, tmp_path / "seed-1.json", DDP, REMEDIES)
    assert continued["epochs"][0]["epoch_s"] == first["epoch_s"]
    assert figures(continued) == figures(ddp)


def test_a_checkpoint_of_another_training_is_refused_with_the_keys_and_left_alone(
    dataset: Path, tmp_path: Path, checkpoint: Path
) -> None:
    copy = Path(shutil.copy(checkpoint, tmp_path))
    remedies = REMEDIES.replace("--label-smoothing 0.1", "")
    done = dpscale(*arguments(dataset, tmp_path / "seed-1.json", SINGLE, remedies))
    assert done.returncode == 1
    assert "strategy is ddp, here" in done.stderr and "label_smoothing is 0.1, here it is 0.0" in done.stderr
    assert copy.read_bytes() == checkpoint.read_bytes()
    assert not (tmp_path / "seed-1.json").exists()


def test_warm_up_leaves_no_trace_in_any_figure(dataset: Path, tmp_path: Path, ddp: Record) -> None:
    """Bit for bit, with LAMB, averaged weights, clipping and batch-norm statistics of each worker's own."""
    cold = outcome_of(ColdWorker, job_as_ddp(dataset, ddp, tmp_path / "checkpoint"))
    assert figures(cold) == figures(ddp)


def test_images_that_are_held_out_are_tested_and_never_trained_on(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, held_out = np.load(dataset / "train_labels.npy"), 14
    trained_on, expected = split_images(labels, held_out)
    images: dict[str, DeviceImages] = {}
    read_images = TrainingWorker.read_images

    def read_and_keep(worker: TrainingWorker) -> dict[str, DeviceImages]:
        images.update(read_images(worker))
        return images

    monkeypatch.setattr(TrainingWorker, "read_images", read_and_keep)
    more = f"--epochs 1 --validation-images {held_out}"
    record = trained(dataset, tmp_path / "seed-1.json", SINGLE, more)
    assert images["training"].labels.tolist() == labels[trained_on].tolist()
    assert images["validation"].labels.tolist() == labels[expected].tolist()
    (epoch,) = record["epochs"]
    assert is_whole(epoch["validation_accuracy"] * held_out) and is_whole(epoch["training_accuracy"] * 51)
    assert epoch["images_per_s"] == pytest.approx(51 / epoch["epoch_s"])


def test_divergence_is_a_result_and_ends_the_training_early(dataset: Path, tmp_path: Path) -> None:
    record = trained(dataset, tmp_path / "seed-1.json", SINGLE, "--learning-rate 1e30")
    assert (record["status"], record["diverged"]) == ("ok", True)
    (epoch,) = record["epochs"]
    assert epoch["training_loss"] is epoch["test_accuracy"] is None


def test_two_workers_that_share_statistics_train_as_one_does(dataset: Path, tmp_path: Path) -> None:
    """With one global batch, order and augmentation."""

    def loss(name: str, *cell: Any, **arm: Any) -> float:
        job = float64_job(dataset, tmp_path / name, *cell, epochs=1, **arm)
        (epoch,) = outcome_of(Float64Worker, job, cell[1])["epochs"]
        training_loss: float = epoch["training_loss"]
        return training_loss

    single = loss("single", "single", 1, 16)
    assert loss("shared", "ddp", 2, 8, sync_batch_norm=True) == pytest.approx(single, rel=1e-7)
    assert loss("apart", "ddp", 2, 8) != pytest.approx(single, rel=1e-4)
