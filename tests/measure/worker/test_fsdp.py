"""fsdp on two processes of a CPU: it trains as ddp does, sends what its formula says, and has a ladder of its own."""

import os
from pathlib import Path

import pytest
from torch import nn

import warm
from dpscale.analyse.communication import ladder_rows
from dpscale.measure.workload.networks import Autocast, CifarResNet18
from dpscale.plan.cells import Configuration
from dpscale.records.kinds import CommunicationRecord
from dpscale.schemas.settings import StepSettings, WholeStepSettings
from dpscale.strategies.fsdp import STRATEGY
from dpscale.strategies.fsdp.in_torch import unit_bytes
from dpscale.strategies.strategy import NetworkSize
from dpscale.strategies.units import units
from json_records import read_json
from record_factory import typed, typed_facts
from sharded_worker import ShardedWorker
from warm_workers import QUICK, outcome_of

IMAGES = 64
GPUS, BATCH = 2, 4
SETTINGS = StepSettings(device="cpu", width=4, dataset_source="synthetic", epoch_images=IMAGES)


@pytest.mark.processes
def test_it_trains_as_ddp_does_and_sends_what_the_formula_says(tmp_path: Path) -> None:
    job = {"configuration": ["fsdp", GPUS, BATCH], "seed": 1, "dataset": str(tmp_path), "timeout_s": 300}
    outcome = outcome_of(ShardedWorker, {**job, "settings": SETTINGS.to_json()})
    assert outcome["losses"]["fsdp"] == pytest.approx(outcome["losses"]["ddp"], rel=1e-5)
    sizes = unit_bytes(CifarResNet18(SETTINGS.width))
    sent = [(operation, size) for operation, size, _ in outcome["sent"]]
    assert sorted(sent) == sorted(STRATEGY.messages_of_step(typed_facts(SETTINGS, fsdp_unit_bytes=sizes)))
    moved = sum(size for _, size in sent) * (GPUS - 1) / GPUS
    assert moved == STRATEGY.sent_bytes(GPUS, NetworkSize(0, sum(sizes)), WholeStepSettings())


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
