"""Training cells on the CPU: records, divergence, the same mathematics."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from command_line import must
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.worker.training import Figures, Trained, TrainingWorker
from dpscale.measure.workload.images import DeviceImages
from json_records import read_json
from warm_workers import outcome_of, single_workers_here

pytestmark = pytest.mark.processes

Record = dict[str, Any]

IMAGES = 65  # two workers pad it by one
TRAINING = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES}".split()
# Every remedy that has a state of its own.
REMEDIES = (
    "--optimiser lamb --momentum 0 --learning-rate 0.02 --averaging-decay 0.8 --label-smoothing 0.1 "
    "--gradient-clipping 1 --warmup-epochs 1.5 --schedule cosine --bias-rate-factor 2 "
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
    arm = f"train --arm a {cell} --epochs 2 {more}".split()
    return [*arm, *TRAINING, "--dataset", str(dataset), "--out", str(out)]


def trained(dataset: Path, out: Path, cell: str, more: str = "") -> Record:
    assert must(*arguments(dataset, out, cell, more)).splitlines()[-1] == f"record: {out}"
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


def test_an_epoch_has_its_loss_accuracy_rate_and_cost(ddp: Record) -> None:
    assert [epoch["epoch"] for epoch in ddp["epochs"]] == [1, 2]
    assert [epoch["global_batch"] for epoch in ddp["epochs"]] == [16, 16]
    # 33 images per worker, the sampler's padding among them: 5 steps of 8.
    assert [epoch["steps"] for epoch in ddp["epochs"]] == [5, 5]
    for epoch in ddp["epochs"]:
        assert epoch["images_per_s"] == pytest.approx(IMAGES / epoch["epoch_s"])
        assert epoch["gpu_s"] == pytest.approx(2 * epoch["epoch_s"])
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


def order(rank: int, workers: int, epoch: int = 0, set_epoch: bool = True) -> list[int]:
    settings = SimpleNamespace(set_epoch=set_epoch, epoch_images=IMAGES - 1)
    worker: Any = SimpleNamespace(settings=settings, seed=1, rank=rank, workers=workers)
    return TrainingWorker._order_of(worker, epoch).tolist()


def test_two_workers_take_in_each_step_what_one_takes_with_twice_the_batch() -> None:
    single, *two = order(0, 1), order(0, 2), order(1, 2)
    for step in range(4):
        of_both = {image for images in two for image in images[8 * step : 8 * (step + 1)]}
        assert of_both == set(single[16 * step : 16 * (step + 1)])


@pytest.mark.parametrize(("set_epoch", "orders"), [(True, 3), (False, 1)])
def test_without_set_epoch_every_epoch_has_the_order_of_the_first(set_epoch: bool, orders: int) -> None:
    assert len({tuple(order(1, 2, epoch, set_epoch)) for epoch in range(3)}) == orders


def test_weights_in_bfloat16_stay_so(dataset: Path, tmp_path: Path, single: Record) -> None:
    half = trained(dataset, tmp_path / "seed-1.json", SINGLE, "--precision bfloat16-pure --epochs 1")
    assert half["network"]["gradient_bytes"] == 2 * half["network"]["parameters"]
    assert half["epochs"][0]["training_loss"] == pytest.approx(single["epochs"][0]["training_loss"], rel=0.1)


def test_warm_up_leaves_no_trace_in_any_figure(dataset: Path, ddp: Record) -> None:
    """Bit for bit, with LAMB, averaged weights, clipping and batch-norm statistics of each worker's own."""
    settings, configuration = ddp["settings"], ["ddp", 2, 8]
    job = {"configuration": configuration, "seed": 1, "settings": settings, "timeout_s": 60, "dataset": str(dataset)}
    cold = outcome_of(ColdWorker, job)
    assert figures(cold) == figures(ddp)


def test_divergence_is_a_result_and_ends_the_training_early(dataset: Path, tmp_path: Path) -> None:
    record = trained(dataset, tmp_path / "seed-1.json", SINGLE, "--learning-rate 1e30")
    assert (record["status"], record["diverged"]) == ("ok", True)
    (epoch,) = record["epochs"]
    assert epoch["training_loss"] is epoch["test_accuracy"] is None
