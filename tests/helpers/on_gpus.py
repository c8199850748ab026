"""Cells on GPUs in processes of their own, on synthetic images."""

from pathlib import Path

from command_line import run_apart
from dpscale.measure.workload.arrays import read_manifest
from dpscale.records.files import JsonRecord
from json_records import read_json

KINDS = {"time": "timing", "communication": "communication", "train": "training"}


def measured(
    command: str, dataset: Path, out: Path, strategy: str, gpus: int, batch: int, more: str = ""
) -> JsonRecord:
    """The record of a cell, which must be measured."""
    images = f"--dataset-source synthetic --epoch-images {read_manifest(dataset).images}"
    cell = f"--strategy {strategy} --gpus {gpus} --batch-per-gpu {batch}"
    run_apart(command, *f"{cell} {images} {more}".split(), "--dataset", dataset, "--out", out)
    return read_json(KINDS[command], out)
