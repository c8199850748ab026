"""Ladders on record end at the step of the timing cell that ran on the same GPUs."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from json_records import read_json

# Where the GPU decides what a step takes, not the host, whose speed changes from process to process.
GPU_BOUND = (("ddp", 512), ("ddp", 2048), ("dp", 2048))
STEP = 0.02


def gpus(record: Mapping[str, Any]) -> list[str]:
    return [gpu["uuid"] for gpu in record["hardware"]["gpus"]]


@pytest.mark.parametrize(("strategy", "batch"), GPU_BOUND)
def test_a_ladder_ends_at_the_step_of_the_clock_on_the_same_gpus(root: Path, strategy: str, batch: int) -> None:
    results, cell = root / "results/recorded-h200-2", f"{strategy}/gpus-2/batch-{batch}"
    timed = [read_json("timing", path) for path in (results / "cells" / cell).glob("run-*.json")]
    compared = 0
    for path in (results / "communication" / cell).glob("run-*.json"):
        ladder = read_json("communication", path)
        clock = [fmean(at["scopes"]["compute"]["step_s_median"]) for at in timed if gpus(at) == gpus(ladder)]
        if clock:
            assert median(ladder["steps"]["variants"]["training"]["step_s"]) == pytest.approx(fmean(clock), rel=STEP)
            compared += 1
    assert compared
