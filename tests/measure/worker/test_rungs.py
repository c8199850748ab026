"""The rungs of a communication cell of dp: each does its part of the step, and leaves the rest out."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpscale.measure.worker.communication import CommunicationWorker
from dpscale.schemas.settings import StepSettings
from dpscale.strategies.dp import STRATEGY, in_torch
from dpscale.strategies.dp.in_torch import PersistentReplicas, rungs
from dpscale.strategies.in_torch import StepVariant

CPU = torch.device("cpu")
BATCH = 4
GPUS = 2


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommunicationWorker:
    """A worker of dp whose two devices are both the CPU; its threads run one after the other."""
    settings = StepSettings(width=4, dataset_source="synthetic", epoch_images=64).to_json()
    job = {
        "configuration": ["dp", GPUS, BATCH], "settings": {**settings, "device": "cpu"}, "seed": 1,
        "dataset": str(tmp_path), "folder": str(tmp_path), "timeout_s": 60,
    }  # fmt: skip
    worker = CommunicationWorker(job, 0)
    worker.devices = [CPU] * GPUS
    torch.manual_seed(3)
    worker.full_batches = [(torch.randn(GPUS * BATCH, 3, 32, 32), torch.randint(10, (GPUS * BATCH,))) for _ in range(2)]
    monkeypatch.setattr(in_torch, "until_all_devices_are_done", lambda steps, step: step)
    monkeypatch.setattr(PersistentReplicas, "parallel_apply", one_after_the_other)
    return worker


def one_after_the_other(_: Any, replicas: Sequence[nn.Module], inputs: Any, kwargs: Any) -> list[Tensor]:
    assert len(replicas) == len(inputs) == len(kwargs)
    return [replica(*arguments) for replica, arguments in zip(replicas, inputs, strict=True)]


def as_if_on_gpus(network: PersistentReplicas) -> PersistentReplicas:
    """DataParallel's own forward pass, with moves between devices that stay on the CPU."""
    network.device_ids, network.output_device, network.src_device_obj = [0, 1], 0, CPU
    moves: dict[str, Callable[..., Any]] = {
        "scatter": lambda inputs, kwargs, ids: ([(chunk,) for chunk in inputs[0].chunk(len(ids))], [{} for _ in ids]),
        "gather": lambda outputs, device: torch.cat(list(outputs)),
    }
    for name, move in moves.items():
        setattr(network, name, move)
    return network


def gradients(network: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]


def weights(network: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters()]


def plain_gradients(worker: CommunicationWorker, images: Tensor, labels: Tensor, images_in_mean: int) -> list[Tensor]:
    """The gradients of a network with the cell's weights."""
    network = worker.build_network()
    (functional.cross_entropy(network(images), labels, reduction="sum") / images_in_mean).backward()
    return gradients(network)


def assert_equal(actual: list[Tensor], expected: list[Tensor]) -> None:
    assert actual
    torch.testing.assert_close(actual, expected)


def replicas_of(variant: StepVariant) -> tuple[PersistentReplicas, nn.Module, nn.Module]:
    network = variant.network
    assert isinstance(network, PersistentReplicas)
    first, second = network._replicas
    return network, first, second


def test_in_threads_the_first_device_does_the_step_of_one_that_is_alone(worker: CommunicationWorker) -> None:
    images, labels = worker.full_batches[0]
    of_first = plain_gradients(worker, images[:BATCH], labels[:BATCH], BATCH)
    of_second = plain_gradients(worker, images[BATCH:], labels[BATCH:], BATCH)
    variant = rungs(worker)["threads"]
    network, first, second = replicas_of(variant)
    assert [*map(id, network.parameters())] == [*map(id, first.parameters())], "the second replica is not trained"
    before = weights(first)
    assert_equal(weights(second), before)
    assert [len(images_of_one) for images_of_one, _ in variant.batches] == [BATCH, BATCH]

    variant.step(variant.batches[0])
    assert_equal(gradients(first), of_first)
    assert_equal(gradients(second), of_second)
    assert_equal(weights(second), before)
    assert all(not torch.equal(a, b) for a, b in zip(weights(first), before, strict=True))

    variant.step(variant.batches[0])
    assert_equal(gradients(second), of_second)  # those of one step, not of both: its weights are as they were


def test_scattered_divides_images_and_gathers_outputs_but_adds_no_gradients(worker: CommunicationWorker) -> None:
    images, labels = worker.full_batches[0]
    of_first = plain_gradients(worker, images[:BATCH], labels[:BATCH], GPUS * BATCH)
    of_second = plain_gradients(worker, images[BATCH:], labels[BATCH:], GPUS * BATCH)
    variant = rungs(worker)["scattered"]
    network, first, second = replicas_of(variant)
    as_if_on_gpus(network)
    assert [len(all_images) for all_images, _ in variant.batches] == [GPUS * BATCH, GPUS * BATCH]
    for _ in range(2):
        before = weights(second)
        variant.step((images, labels))
        assert_equal(weights(second), before)
        assert_equal(gradients(second), of_second)
    first.load_state_dict(second.state_dict())
    variant.step((images, labels))
    assert_equal(gradients(first), of_first)


def test_rungs_have_their_weights_and_momenta_in_common(worker: CommunicationWorker) -> None:
    plain, threads, *_ = rungs(worker).values()
    plain.step(plain.batches[0])
    assert all(parameter.grad is None for parameter in threads.network.parameters())
    threads.step(threads.batches[0])
    for first, second in zip(plain.network.parameters(), threads.network.parameters(), strict=True):
        assert first.data_ptr() == second.data_ptr()
        assert plain.optimiser.state[first]["momentum_buffer"] is threads.optimiser.state[second]["momentum_buffer"]


def test_a_ladder_goes_from_alone_to_the_whole_step(worker: CommunicationWorker) -> None:
    names = [*rungs(worker)]
    assert (names[0], names[-1]) == ("alone", "training")
    assert set(STRATEGY.adds) == set(pairwise(names))
