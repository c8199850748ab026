"""A step in micro-batches, and one in float16: what its update does, and when it makes none."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from dpscale.errors import MeasurementError
from dpscale.measure.workload.images import classification_loss
from dpscale.measure.workload.networks import CifarResNet18, in_precision, require_units
from dpscale.measure.workload.update import Update, training_step
from dpscale.schemas.settings import WholeStepSettings

CPU = torch.device("cpu")
STEPS = 20


def settings_of(**step: object) -> WholeStepSettings:
    return WholeStepSettings.from_json({"device": "cpu", "dataset_source": "synthetic", "epoch_images": 64, **step})


def network_of(precision: str) -> nn.Module:
    torch.manual_seed(0)
    return in_precision(CifarResNet18(4), precision, "cpu")


def batch_of(samples: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(samples, 3, 32, 32, generator=random), torch.randint(10, (samples,), generator=random)


def losses_in(precision: str) -> list[float]:
    """Of a few batches, again and again."""
    network = network_of(precision)
    optimiser = SGD(network.parameters(), lr=0.01, momentum=0.9)
    losses = []

    def loss(network: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        mean = classification_loss(network, batch)
        losses.append(mean.item())
        return mean

    update = Update(network, optimiser, settings_of(precision=precision))
    step = training_step(network, optimiser, loss, CPU, torch.contiguous_format, update)
    for number in range(STEPS):
        step(batch_of(8, number % 2))
    return losses


@pytest.mark.slow
def test_float16_trains_as_float32_does() -> None:
    """Numbers of float16 have 11 bits, and steps make differences larger."""
    in_float32, in_float16 = losses_in("float32"), losses_in("float16")
    assert in_float16[0] == pytest.approx(in_float32[0], rel=2**-9)
    assert in_float16 == pytest.approx(in_float32, rel=0.1)
    assert in_float32[-1] < 0.7 * in_float32[0]


def test_an_update_whose_gradients_overflow_is_skipped_and_said() -> None:
    network = network_of("float16")
    optimiser = SGD(network.parameters(), lr=0.02)
    skipped = []
    update = Update(network, optimiser, settings_of(precision="float16"), lambda: skipped.append(True))
    before = [weight.detach().clone() for weight in network.parameters()]
    update.make_gradients(batch_of(8), lambda batch: classification_loss(network, batch) * 1e36)
    update.step()
    assert skipped
    assert all(map(torch.equal, before, network.parameters()))
    update.make_gradients(batch_of(8), lambda batch: classification_loss(network, batch))
    update.step()
    assert len(skipped) == 1
    assert not all(map(torch.equal, before, network.parameters()))


@pytest.mark.parametrize("samples", [64, 61, 3])
def test_micro_batches_add_up_to_the_gradients_of_the_batch(samples: int) -> None:
    """Of a mean over all samples, also where they do not divide, and where there are fewer than micro-batches."""
    network = network_of("float32").double().eval()
    images, labels = batch_of(samples)
    batch = images.double(), labels
    gradients = []
    for accumulate in (1, 4):
        update = Update(network, SGD(network.parameters(), lr=0.1), settings_of(accumulate=accumulate))
        update.make_gradients(batch, lambda part: classification_loss(network, part))
        gradients.append(torch.cat([w.grad.flatten() for w in network.parameters() if w.grad is not None]))
    assert (gradients[0] - gradients[1]).norm() < 1e-12 * gradients[0].norm()


@pytest.mark.parametrize(
    ("precision", "capability", "is_refused"),
    [
        ("bfloat16", (7, 5), True),
        ("bfloat16-pure", (7, 0), True),
        ("bfloat16", (8, 0), False),
        ("float16", (7, 0), False),
    ],
)
def test_a_gpu_without_units_for_bfloat16_is_refused_it(
    precision: str, capability: tuple[int, int], is_refused: bool
) -> None:
    with pytest.raises(MeasurementError, match="set precision to float16") if is_refused else nullcontext():
        require_units(precision, "Tesla T4", capability)
