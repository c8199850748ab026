"""Ranks on several nodes agree on the world before they measure: real ranks, two to a cell, on this machine."""

import pytest

from dpscale.errors import MeasurementError
from warm_workers import outcome_of_two
from wrong_world import SAME_GPU

pytestmark = pytest.mark.processes


def outcome(wrong: str) -> dict[str, object]:
    return outcome_of_two("wrong_world", {"timeout_s": 60, "wrong": wrong})


def test_ranks_that_agree_measure_and_name_both_nodes() -> None:
    found = outcome("nothing")
    assert found["status"] == "ok"
    nodes = found["nodes"]
    assert isinstance(nodes, list) and len(nodes) == 2


def test_ranks_that_disagree_on_the_world_measure_nothing() -> None:
    expected = r"the ranks disagree on the world: \[\[0, 2, 2, 0, 2, 0\], \[1, 2, 2, 1, 2, 1\]\], expected"
    with pytest.raises(MeasurementError, match=expected):
        outcome("rank")


def test_two_nodes_with_the_same_gpu_measure_nothing() -> None:
    with pytest.raises(MeasurementError, match=f"two nodes were given the same GPUs: {SAME_GPU}"):
        outcome("gpus")
