"""Evidence for what workers share, from orders and statistics that are known."""

import math

import pytest
import torch

from dpscale.measure.model.networks import build_network
from dpscale.measure.watch.evidence import (
    Statistics,
    compare_statistics,
    order_of_samples,
    replicas_statistics,
    running_statistics,
)


def test_orders_are_told_apart_by_images_and_by_places() -> None:
    before = torch.tensor([0, 1, 2, 3])
    first, *unknown = order_of_samples(before, None)
    assert all(math.isnan(share) for share in unknown)
    assert order_of_samples(before, before) == (first, 1, 1)
    checksum, seen_before, same_place = order_of_samples(torch.tensor([0, 2, 5, 6]), before)
    assert checksum != first
    assert (seen_before, same_place) == (0.5, 0.25)


def statistics(*means: float, variance: float = 4.0) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(means), torch.full((len(means),), variance)


def test_the_distance_of_workers_is_in_standard_deviations_of_the_network_that_is_kept() -> None:
    comparison = compare_statistics([statistics(0, 1), statistics(0, 4), statistics(0.5, 2)], statistics(0, 4))
    assert comparison == {"difference": pytest.approx(1.5), "kept": [1]}
    assert compare_statistics([statistics(1, 2)], statistics(1, 2, variance=5))["kept"] == []


def test_a_replica_is_seen_with_the_statistics_of_its_forward_pass() -> None:
    """On a CPU the network is its own only replica; the hooks are gone afterwards."""
    network = build_network("cifar_resnet18", 4)
    seen: list[Statistics] = []
    with replicas_statistics(network, seen):
        network(torch.randn(8, 3, 32, 32))
    (replica,) = seen
    kept = running_statistics(network)
    channels = sum(layer.num_features for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d))
    assert len(kept[0]) == len(kept[1]) == channels
    assert compare_statistics(seen, kept) == {"difference": 0, "kept": [0]}
    network(torch.randn(8, 3, 32, 32))
    assert len(seen) == 1
    assert compare_statistics([replica], running_statistics(network))["kept"] == []
