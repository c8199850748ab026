"""Cells on two nodes of two workers, really measured: every node is a launcher of its own on this machine."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import warm
from dpscale.measure.launch.nodes import port_of_job
from dpscale.records.files import JsonRecord
from json_records import read_json
from processes import OWN_JOB
from warm_workers import QUICK

pytestmark = [pytest.mark.processes, pytest.mark.slow]

IMAGES, NODES = 64, 2
CELL = (
    "--strategy ddp --gpus 4 --batch-per-gpu 8 --device cpu --width 4 --dataset-source synthetic "
    f"--epoch-images {IMAGES}"
)
ARM = f"{CELL} --arm wide --epochs 2"


def measured(kind: str, command: str, options: str, dataset: Path, out: Path, nodes: int = NODES) -> JsonRecord:
    """The record of a cell whose command runs once on every node."""
    words = [*options.split(), "--dataset", str(dataset), "--out", str(out)]
    port = port_of_job(os.getpid())
    places = [f"--nodes {nodes} --node-rank {rank} --rendezvous localhost:{port}".split() for rank in range(nodes)]
    commands = [["-c", QUICK, command, *words, *(place if nodes > 1 else [])] for place in places]
    environment = {**os.environ, **OWN_JOB}
    with ThreadPoolExecutor() as threads:
        for done in threads.map(lambda words: warm.python(words, out.parent, environment), commands):
            assert done.returncode == 0, done.stdout
    return read_json(kind, out)


def test_the_ladder_of_two_nodes_has_a_rung_of_one_node(dataset: Path, tmp_path: Path) -> None:
    record = measured("communication", "communication", CELL, dataset, tmp_path / "record.json")
    assert record["cell"]["nodes"] == len(record["nodes"]) == NODES
    variants = record["steps"]["variants"]
    assert list(variants) == ["alone", "one_node", "together", "no_sync", "no_op_hook", "allreduce_hook", "training"]
    busy = {
        name: [step_s is not None for step_s in blocks["rank_block_step_s"][0]] for name, blocks in variants.items()
    }
    assert busy.pop("alone") == [True, False, False, False]
    assert busy.pop("one_node") == [True, True, False, False]
    assert set(map(all, busy.values())) == {True}


def test_two_nodes_train_as_one_does(dataset: Path, tmp_path: Path) -> None:
    """Four workers have the same images and weights; only their nodes differ."""
    apart = measured("training", "train", ARM, dataset, tmp_path / "apart.json")
    together = measured("training", "train", ARM, dataset, tmp_path / "together.json", nodes=1)
    assert apart["cell"]["nodes"] == len(apart["nodes"]) == NODES
    assert "nodes" not in together["cell"]
    for name in ("training_loss", "test_loss", "test_accuracy"):
        on_two, on_one = ([epoch[name] for epoch in record["epochs"]] for record in (apart, together))
        assert on_two == pytest.approx(on_one, rel=1e-4), name
