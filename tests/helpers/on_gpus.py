"""Commands in processes of their own, where the tests' process uses the GPUs too."""

import subprocess
import sys
from pathlib import Path

from dpscale.measure.workload.dataset import read_manifest
from dpscale.records.files import JsonRecord
from json_records import read_json

KINDS = {"time": "timing", "communication": "communication", "train": "training"}


def run_apart(*arguments: object) -> None:
    """Run `dpscale`, which must succeed."""
    done = subprocess.run([sys.executable, "-m", "dpscale", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def measured(
    command: str, dataset: Path, out: Path, strategy: str, gpus: int, batch: int, more: str = ""
) -> JsonRecord:
    """The record of a cell on synthetic images, which must be measured."""
    images = f"--dataset-source synthetic --epoch-images {read_manifest(dataset).images}"
    cell = f"--strategy {strategy} --gpus {gpus} --batch-per-gpu {batch}"
    run_apart(command, *f"{cell} {images} {more}".split(), "--dataset", dataset, "--out", out)
    return read_json(KINDS[command], out)
