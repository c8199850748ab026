"""Collectives cells on the CPU: every size that the network needs, refusals, and results that are wrong."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch.distributed as dist

import warm
from command_line import dpscale, must
from dpscale.errors import MeasurementError
from dpscale.measure.launch import cells
from dpscale.measure.worker.collectives import HOLD_LIMIT_S, CollectivesWorker, TimedCall
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import read_record
from dpscale.strategies.known import STRATEGIES
from json_records import read_json
from warm_workers import QUICK, outcome_of

OPERATIONS = ("allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather")


@pytest.fixture(scope="module")
def network_facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("network") / "network.json"
    must("network", "--width", 4, "--out", out)
    return out


@pytest.fixture(scope="module")
def facts(network_facts: Path) -> NetworkRecord:
    return read_record(NetworkRecord, network_facts)


def cell(network_facts: Path) -> list[object]:
    return ["collectives", "--gpus", 2, "--device", "cpu", "--network-facts", network_facts]


@pytest.mark.processes
def test_every_message_of_the_network_is_timed(
    network_facts: Path, facts: NetworkRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "FACTOR", 32)  # as in QUICK
    out = network_facts.with_name("collectives.json")
    words = map(str, [*cell(network_facts), "--width", 4, "--out", out])
    done = warm.python(["-c", QUICK, *words], out.parent, os.environ)
    assert done.returncode == 0, done.stdout
    record = read_json("collectives", out)
    timed = {(result["operation"], result["bytes"]) for result in record["collectives"]}
    assert timed == set(cells.messages(facts, "cpu", STRATEGIES))
    assert all(3 <= len(result["seconds"]) <= 10 for result in record["collectives"])
    assert record["peer_copies"] == []


@pytest.mark.parametrize(("device", "powers"), [("cpu", 6), ("cuda", 10)])
@pytest.mark.parametrize("strategies", [["single", "ddp"], ["dp", "fsdp"]])
def test_a_study_times_every_collective_from_4_kib_to_4_mib_or_1_gib_in_steps_of_four(
    facts: NetworkRecord, device: str, powers: int, strategies: list[str]
) -> None:
    """And at no other sizes than those that its strategies send."""
    series = {(operation, 4 * 2**10 * 4**power) for operation in OPERATIONS for power in range(powers)}
    messages = cells.messages(facts, device, strategies)
    sent = {facts.gradient_bytes}
    if "ddp" in strategies:
        sent |= {bucket.bytes for bucket in facts.ddp_buckets} | {*(facts.ddp_broadcast_bytes or ())}
    else:
        sent |= {*facts.dp_broadcast_bytes, *facts.fsdp_unit_bytes}
    assert series <= set(messages)
    assert {size for _, size in set(messages) - series} <= sent
    assert len(set(messages)) == len(messages)


def test_facts_of_another_network_are_refused(network_facts: Path, tmp_path: Path) -> None:
    done = dpscale(*cell(network_facts), "--width", "8", "--out", tmp_path / "collectives.json")
    assert done.returncode == 1
    assert "is of another network. Make it with: dpscale network" in done.stderr


class WrongWorker(CollectivesWorker):
    """Its allreduce adds nothing up."""

    def run(self) -> None:
        with patch.object(dist, "all_reduce", lambda tensor: None):
            super().run()


@pytest.mark.processes
def test_a_collective_that_gives_a_wrong_result_is_an_error() -> None:
    job = {"gpus": 2, "settings": {"device": "cpu"}, "timeout_s": 60, "messages": [["allreduce", 4096]]}
    with pytest.raises(MeasurementError, match="allreduce of 4096 bytes gave a wrong result"):
        outcome_of(WrongWorker, job)


@pytest.mark.parametrize(
    ("enough_s", "first_s", "tried"),
    [
        (0.0, 0.004, [0.004]),
        (0.01, 0.004, [0.004, 0.008, 0.016]),
        (2.0, 0.4, [0.4, 0.8, HOLD_LIMIT_S]),
    ],
)
def test_the_gpu_is_held_longer_until_all_calls_are_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enough_s: float, first_s: float, tried: list[float]
) -> None:
    job = {"gpus": 2, "settings": {"device": "cpu"}, "timeout_s": 60, "messages": [], "folder": str(tmp_path)}
    worker = CollectivesWorker(job, 0)
    holds: list[float] = []

    def time_calls(call: Any, calls: int, hold_s: float) -> TimedCall:
        holds.append(hold_s)
        return TimedCall(1e-5, hold_s, held=hold_s >= enough_s)

    monkeypatch.setattr(worker, "_time_calls", time_calls)
    timed = worker._time_held(lambda: None, 20, first_s)
    assert holds == pytest.approx(tried)
    assert timed.hold_s == tried[-1]
    assert timed.held is (tried[-1] >= enough_s)
