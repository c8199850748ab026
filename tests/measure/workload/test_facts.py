"""The facts of a network that communication rests on."""

from pathlib import Path

import pytest
import torch
from torch import nn

from command_line import dpscale, must
from dpscale.measure.workload.facts import facts_of
from dpscale.measure.workload.from_file import load_workload
from dpscale.measure.workload.images import classification_loss, made_up_images
from dpscale.measure.workload.networks import cifar_resnet50, network_size
from dpscale.measure.workload.work import work_of
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import read_record
from dpscale.records.kinds import StepWork
from dpscale.schemas.settings import NetworkSettings
from dpscale.strategies.strategy import Bucket, FlopPerImage, NetworkFacts
from json_records import read_json
from record_factory import network_facts
from workload_file import HALF_USED, written


@pytest.mark.slow
def test_the_reference_network_has_the_facts_of_the_method(tmp_path: Path) -> None:
    """Made-up records have the same facts, and the tests of bandwidths use them."""
    must("network", "--out", tmp_path / "network.json")
    facts = read_json("network", tmp_path / "network.json")
    expected = network_facts(NetworkSettings())
    assert {name: facts[name] for name in expected} == expected
    assert facts["ddp_broadcast_bytes"] == [38_400, 160], "float32 and int64"


def test_the_resnet_50_is_as_large_as_the_papers() -> None:
    """Bottlenecks of He et al. with a 3x3 stem and 10 classes, as kuangliu/pytorch-cifar has them."""
    network = cifar_resnet50()
    assert network_size(network)["parameters"] == 23_520_842
    assert classification_loss(network, made_up_images(2, torch.device("cpu"))).isfinite()


def test_the_work_of_a_step_is_what_its_operators_compute_and_move() -> None:
    """By hand, in numbers of 4 bytes. Forward: a product with its bias, 2 + 32 + 8 + 16, and a sum, 16 + 1. Backward:
    ones, 2, of which views are made; gradients of weights, 16 + 32 + 8, and of biases, 16 + 2. The update of ten
    weights: decay 30, momentum 20 + 40, weights 40; what returns nothing counts twice."""
    layer, samples = nn.Linear(4, 2), torch.ones(8, 4)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True)

    def step() -> None:
        optimiser.zero_grad()
        layer(samples).sum().backward()
        optimiser.step()

    step()
    assert work_of(layer, step) == StepWork(2 * 2 * 8 * 4 * 2, 4 * (58 + 17 + 2 + 56 + 18 + 130))
    recurrent = nn.LSTM(4, 4)
    assert work_of(recurrent, lambda: recurrent(samples)) is None


def facts_of_file(folder: Path, more: str) -> NetworkFacts:
    return facts_of(load_workload(written(folder, more)))


def test_facts_of_a_file_come_from_two_of_its_samples(tmp_path: Path) -> None:
    must("network", "--workload", written(tmp_path), "--out", tmp_path / "network.json")
    facts = read_record(NetworkRecord, tmp_path / "network.json")
    assert (facts.parameters, facts.buffer_bytes, facts.ddp_broadcast_bytes) == (10, 0, [])
    # 4 x 2 products with their additions; backward those of the weights, for the samples need no gradient.
    assert facts.flop_per_image == FlopPerImage(16, 32)
    assert (facts.input_bytes_per_image, facts.output_bytes_per_image) == (4 * 4, 2 * 4)
    assert facts.ddp_buckets == [Bucket(40)]


RECURRENT = """
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[0])

def network():
    return Recurrent()
"""
WITHOUT_PRODUCTS = """
def network():
    return nn.Sequential(nn.LayerNorm(4), nn.Unflatten(1, (2, 2)))

def loss(network, batch):
    return network(batch["x"]).mean()
"""


@pytest.mark.parametrize("more", [RECURRENT, WITHOUT_PRODUCTS])
def test_work_that_cannot_be_counted_is_unknown(tmp_path: Path, more: str) -> None:
    assert facts_of_file(tmp_path, more).flop_per_image is None


def test_attention_is_counted_as_its_two_products(tmp_path: Path) -> None:
    """8 tokens of width 4: 8 x 8 x 4 products with additions, twice; the linear layer before has 8 x 4 x 4."""
    more = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        x = self.mix(x[:, None, :].expand(-1, 8, -1))
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).mean(1)[:, :2]

def network():
    return Attention()
"""
    facts = facts_of_file(tmp_path, more)
    assert facts.flop_per_image is not None
    assert facts.flop_per_image.forward == 2 * (8 * 4 * 4 + 2 * 8 * 8 * 4)


def test_parameters_without_a_part_in_the_loss_are_found_before_any_measurement(tmp_path: Path) -> None:
    done = dpscale("network", "--workload", written(tmp_path, HALF_USED), "--out", tmp_path / "network.json")
    assert done.returncode == 1
    assert "some parameters of network() take no part in the loss" in done.stderr
    assert "Traceback" in done.stderr
