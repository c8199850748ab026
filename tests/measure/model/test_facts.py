"""The facts of a network that communication rests on."""

from pathlib import Path

import pytest
import torch
from torch import nn

from command_line import must
from dpscale.measure.model.facts import ExampleStep, traffic_elements_per_image
from dpscale.measure.workload.images import classification_loss, made_up_images
from dpscale.records.files import read_record


def test_the_reference_network_has_the_facts_of_the_method(tmp_path: Path) -> None:
    must("network", "--out", tmp_path / "network.json")
    facts = read_record("network", tmp_path / "network.json")
    assert facts["parameters"] == 11_173_962
    assert facts["gradient_bytes"] == 44_695_848
    assert facts["tensors"] == 62
    assert facts["buffer_bytes"] == 38_560
    assert facts["flop_per_image"]["forward"] == pytest.approx(1.1108e9, rel=1e-4)
    assert facts["flop_per_image"]["forward_backward"] == pytest.approx(3.3290e9, rel=1e-4)
    assert [bucket["bytes"] for bucket in facts["ddp_buckets"]] == [9_461_800, 26_494_976, 8_739_072]
    assert sum(facts["dp_reduce_bytes"]) == facts["gradient_bytes"]
    assert sum(facts["dp_broadcast_bytes"]) == facts["gradient_bytes"] + facts["buffer_bytes"]
    assert max(facts["dp_broadcast_bytes"]) <= 10 * 2**20
    assert facts["ddp_broadcast_bytes"] == [38_400, 160], "float32 and int64"


def test_gradients_are_ready_in_order(tmp_path: Path) -> None:
    must("network", "--width", 4, "--out", tmp_path / "network.json")
    shares = [bucket["ready_share"] for bucket in read_record("network", tmp_path / "network.json")["ddp_buckets"]]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_traffic_is_counted_layer_by_layer() -> None:
    """A convolution of the images (no gradient), a batch-norm, a second convolution, and a linear layer, by hand."""
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1), nn.Flatten(), nn.Linear(2048, 10)
    )
    images, first, second = 3 * 32 * 32, 4 * 32 * 32, 2 * 32 * 32
    expected = 2 * (images + first) + 8 * first + 3 * (first + second) + 3 * (second + 10)
    batch = made_up_images(2, torch.device("cpu"))
    assert traffic_elements_per_image(ExampleStep(network, classification_loss, batch)) == expected
