"""Communication on real GPUs: collectives are right, and the profiler sees no less than they take alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dpscale.analyse.communication import collectives_rows, from_steps, isolated_step_s
from dpscale.formulas import OnServer
from dpscale.plan.cells import Configuration
from dpscale.records.facts import NetworkRecord
from dpscale.records.kinds import CollectivesRecord, CommunicationRecord
from json_records import read_json
from on_gpus import measured, run_apart
from record_factory import typed

pytestmark = pytest.mark.gpu(2)

IMAGES = 4096
ALL = torch.cuda.device_count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("communication")
    run_apart("network", "--out", folder / "network.json")
    return folder


@pytest.fixture(scope="module")
def collectives(folder: Path) -> dict[str, Any]:
    out = folder / "collectives.json"
    run_apart("collectives", "--gpus", ALL, "--network-facts", folder / "network.json", "--out", out)
    return read_json("collectives", out)


def test_every_pair_of_gpus_is_copied_between(collectives: dict[str, Any]) -> None:
    assert len(collectives["peer_copies"]) == ALL * (ALL - 1)


@pytest.mark.parametrize("batch", [32, 512])
@pytest.mark.parametrize("strategy", ["dp", "ddp"])
def test_a_profiled_step_communicates_no_faster_than_its_messages_alone(
    folder: Path, dataset: Path, collectives: dict[str, Any], strategy: str, batch: int
) -> None:
    out = folder / f"{strategy}-{batch}.json"
    record = measured("communication", dataset, out, strategy, ALL, batch)
    for block in record["profile"]["blocks"]:
        assert [device["device"] for device in block["devices"]] == list(range(ALL))
        for device in block["devices"]:
            # Two sums of the same intervals, where all of it is exposed: equal but for their last digit.
            assert 0 < device["exposed_s"] <= device["communication_s"] * (1 + 1e-9)
            assert device["communication_s"] < block["step_s"]
            if strategy == "ddp":
                assert 0.5 < device["computing_s"] / device["silent_computing_s"] < 2
    place = {"environment": "A", "block": OnServer("run 1", 0)}
    estimates = from_steps([typed(CommunicationRecord, {**record, **place})])
    facts = typed(NetworkRecord, json.loads((folder / "network.json").read_text()))
    timed = list(collectives_rows({(ALL, "A"): [typed(CollectivesRecord, {**collectives, **place})]}, facts, ["ddp"]))
    isolated = isolated_step_s(Configuration(strategy, ALL, batch), facts, timed)
    assert isolated.is_known
    # Nothing communicates faster than alone; copies between GPUs are timed with large ones.
    assert estimates.profiler_step_s.value > 0.7 * isolated.value
