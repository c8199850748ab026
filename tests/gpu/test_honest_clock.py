"""The cell's `compute` epoch against a bare loop: fresh processes of both in turn, medians compared."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
import torch

BARE_LOOP = Path(__file__).with_name("bare_loop.py")
DP_IN_TURNS = Path(__file__).with_name("dp_in_turns.py")
IMAGES = {32: 8_000, 512: 25_600}  # an epoch of about a second on a fast GPU
EPOCHS = 3
REPEATS = 3

ALL = torch.cuda.device_count()
CASES = [
    pytest.param("single", 1, 32, 0.02, id="single-32"),
    pytest.param("single", 1, 512, 0.01, id="single-512"),
    pytest.param("ddp", ALL, 512, 0.01, id="ddp-512", marks=pytest.mark.gpu(2)),
]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folders = {batch: tmp_path_factory.mktemp(f"dataset-{batch}") for batch in IMAGES}
    for batch, folder in folders.items():
        source = ["--source", "synthetic", "--images", str(IMAGES[batch])]
        run("-m", "dpscale", "dataset", *source, "--out", str(folder))
    return folders


def run(*arguments: str, gpus: int | None = None) -> str:
    environment = dict(os.environ)
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(gpus)))
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cell_epochs(strategy: str, gpus: int, batch: int, dataset: Path, out: Path) -> list[float]:
    cell = f"--strategy {strategy} --gpus {gpus} --batch-per-gpu {batch} --scopes compute --baseline own_cells"
    images = f"--dataset-source synthetic --epoch-images {IMAGES[batch]} --timed-epochs {EPOCHS}"
    run("-m", "dpscale", "time", *cell.split(), *images.split(), "--dataset", str(dataset), "--out", str(out))
    epochs: list[float] = json.loads(out.read_text())["scopes"]["compute"]["epoch_s"]
    return epochs


def bare_epochs(strategy: str, gpus: int, batch: int, dataset: Path) -> list[float]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"] if strategy == "ddp" else []
    arguments = [str(BARE_LOOP), strategy, str(gpus), str(batch), str(dataset), str(EPOCHS)]
    epochs: list[float] = json.loads(run(*launcher, *arguments, gpus=gpus).splitlines()[-1])
    return epochs


@pytest.mark.gpu
@pytest.mark.parametrize(("strategy", "gpus", "batch", "tolerance"), CASES)
def test_the_cell_takes_as_long_as_a_bare_loop(
    tmp_path: Path, datasets: dict[int, Path], strategy: str, gpus: int, batch: int, tolerance: float
) -> None:
    dataset = datasets[batch]
    cell: list[float] = []
    bare: list[float] = []
    for repeat in range(REPEATS):
        bare += bare_epochs(strategy, gpus, batch, dataset)
        cell += cell_epochs(strategy, gpus, batch, dataset, tmp_path / f"{repeat}.json")
    ratio = median(cell) / median(bare)
    print(f"{strategy} {gpus} GPUs batch {batch}: cell {median(cell):.4f} s, bare {median(bare):.4f} s, {ratio:.4f}")
    print(f"  cell epochs {[f'{epoch:.4f}' for epoch in cell]}\n  bare epochs {[f'{epoch:.4f}' for epoch in bare]}")
    assert abs(ratio - 1) <= tolerance


@pytest.mark.gpu(2)
def test_a_dp_epoch_takes_as_long_as_a_bare_one_in_turn_with_it(datasets: dict[int, Path]) -> None:
    cell: list[float] = []
    bare: list[float] = []
    for _ in range(REPEATS):
        arguments = [str(ALL), "512", str(IMAGES[512]), str(datasets[512]), "12"]
        epochs = json.loads(run(str(DP_IN_TURNS), *arguments, gpus=ALL).splitlines()[-1])
        print(f"one process: {median(epochs['cell']) / median(epochs['bare']):.4f} {epochs}")
        cell += epochs["cell"]
        bare += epochs["bare"]
    ratio = median(cell) / median(bare)
    print(f"dp {ALL} GPUs batch 512: cell {median(cell):.4f} s, bare {median(bare):.4f} s, {ratio:.4f}")
    assert abs(ratio - 1) <= 0.01
