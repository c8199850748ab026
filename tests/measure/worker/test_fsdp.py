"""fsdp has a ladder of its own, and units of its own.

That it trains as one device does and sends what its formula says: workload/test_steps_of_strategies.py.
"""

import os
from pathlib import Path

import pytest
from torch import nn

import warm
from dpscale.analyse.communication import ladder_rows
from dpscale.measure.workload.networks import Autocast, CifarResNet18
from dpscale.plan.cells import Configuration
from dpscale.records.kinds import CommunicationRecord
from dpscale.strategies.fsdp import STRATEGY
from dpscale.strategies.fsdp.in_torch import unit_bytes
from dpscale.strategies.units import units
from json_records import read_json
from record_factory import typed
from warm_workers import QUICK

IMAGES = 64
GPUS, BATCH = 2, 4


@pytest.mark.processes
def test_its_ladder_takes_one_all_gather_away_after_the_other(tmp_path: Path, dataset: Path) -> None:
    point = Configuration("fsdp", GPUS, BATCH)
    cell = f"--strategy fsdp --gpus {GPUS} --batch-per-gpu {BATCH}"
    network = f"--device cpu --width 4 --dataset-source synthetic --epoch-images {IMAGES} --dataset {dataset}"
    words = f"communication {cell} {network} --out record.json".split()
    done = warm.python(["-c", QUICK, *words], tmp_path, os.environ)
    assert done.returncode == 0, done.stdout
    record = read_json("communication", tmp_path / "record.json")
    rows = list(ladder_rows(point, "A", [typed(CommunicationRecord, record)]))
    assert [row.adds for row in rows[1:]] == [*STRATEGY.adds.values()]


def block() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("network", "names"),
    [
        (CifarResNet18(4), ["stages.0", "stages.1", "stages.2", "stages.3"]),
        (Autocast(CifarResNet18(4), "cpu"), [f"network.stages.{number}" for number in range(4)]),
        (
            nn.ModuleDict({"in": nn.Embedding(8, 2), "blocks": nn.ModuleList([block(), block()])}),
            ["blocks.0", "blocks.1"],
        ),
        (nn.TransformerEncoderLayer(2, 1), ["self_attn"]),
    ],
)
def test_units(network: nn.Module, names: list[str]) -> None:
    """The last one calls no layer of its attention, and uses the weights of these."""
    assert [{unit: name for name, unit in network.named_modules()}[unit] for unit in units(network)] == names
    assert sum(unit_bytes(network)) == sum(4 * weight.numel() for weight in network.parameters())
