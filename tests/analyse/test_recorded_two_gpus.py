"""Two H100s and two H200s, as they are on record: docs/results.md has their speedups. Their ladders end at the step of
the timing cell that ran on the same GPUs."""

import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from dpscale.records.files import read_record
from recorded import in_documents, recorded_tables
from rows import picked

KINDS = ("recorded-h100-2", "recorded-h200-2")
# Where the GPU decides what a step takes, not the host, whose speed changes from process to process.
GPU_BOUND = (("ddp", 512), ("ddp", 2048), ("dp", 2048))
STEP = 0.02


def gpus(record: Mapping[str, Any]) -> list[str]:
    return [gpu["uuid"] for gpu in record["hardware"]["gpus"]]


def speedups_by_place(root: Path, study: str) -> dict[tuple[str, int], str]:
    """Weak speedups as documents have them, by strategy and batch per GPU."""
    weak = picked(recorded_tables(root, study).speedup, scaling="weak")
    return {(row.strategy, row.batch_per_gpu): in_documents(row.speedup, 2) for row in weak}


def test_the_results_has_the_speedups_of_both_kinds(root: Path) -> None:
    text = (root / "docs/results.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+\]) \|$", text, re.MULTILINE)
    told = {int(batch.replace(",", "")): speedups for batch, *speedups in rows}
    weak = {study: speedups_by_place(root, study) for study in KINDS}
    assert {("ddp", batch) for batch in told} | {("dp", batch) for batch in told} == set(weak[KINDS[0]])
    for batch, speedups in told.items():
        assert speedups == [weak[study][strategy, batch] for strategy in ("ddp", "dp") for study in KINDS]


@pytest.mark.parametrize("study", KINDS)
def test_the_results_says_how_many_machines_that_were(root: Path, study: str) -> None:
    timed = [read_record("timing", path) for path in (root / "results" / study / "cells").glob("d*p/**/run-*.json")]
    machines = {tuple(sorted(gpus(record))) for record in timed}
    runs = {record["cell"]["run"] for record in timed}
    kind = study.removeprefix("recorded-").removesuffix("-2").upper()
    said = " ".join((root / "docs/results.md").read_text().split())
    assert f"{len(runs)} runs on {len(machines)} machines with two {kind}s" in said


def test_the_results_say_how_often_one_gpu_drifted(root: Path) -> None:
    rows = [row for study in KINDS for row in picked(recorded_tables(root, study).speedup, scaling="weak")]
    small, large = ([row for row in rows if (row.batch_per_gpu < 512) == is_small] for is_small in (True, False))
    assert sum(row.drifted or 0 for row in large) == 0
    drifted, runs = (sum(getattr(row, name) for row in small) for name in ("drifted", "blocks"))
    most = max(abs(row.drift) for row in small)
    said = " ".join((root / "docs/results.md").read_text().split())
    assert f"by more than 2 %, and by up to {100 * most:.0f} %, during {drifted} of {runs} runs; at larger" in said


@pytest.mark.parametrize(("strategy", "batch"), GPU_BOUND)
def test_a_ladder_ends_at_the_step_of_the_clock_on_the_same_gpus(root: Path, strategy: str, batch: int) -> None:
    results, cell = root / "results/recorded-h200-2", f"{strategy}/gpus-2/batch-{batch}"
    timed = [read_record("timing", path) for path in (results / "cells" / cell).glob("run-*.json")]
    compared = 0
    for path in (results / "communication" / cell).glob("run-*.json"):
        ladder = read_record("communication", path)
        clock = [fmean(at["scopes"]["compute"]["step_s_median"]) for at in timed if gpus(at) == gpus(ladder)]
        if clock:
            assert median(ladder["steps"]["variants"]["training"]["step_s"]) == pytest.approx(fmean(clock), rel=STEP)
            compared += 1
    assert compared
