"""The ladder on real GPUs: it finds what was injected where it was injected, adds up, and ends at the headline step."""

import json
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from command_line import run_apart
from dpscale.analyse.communication.estimators import from_steps
from dpscale.analyse.communication.ladder import ladder_rows, rungs_of
from dpscale.measure.launch.workers import Workers
from dpscale.plan.cells import Configuration
from dpscale.records.files import read_record
from dpscale.schemas.settings import StepSettings
from injected_ladder import SLEEP_S
from signals import signals_as_they_were
from stub_cell import helpers_for_workers

pytestmark = pytest.mark.gpu(2)

IMAGES = 25_600
GPUS = 2
BATCH = 2048  # the GPU decides, not the host; for dp too
STEP = 0.02
SLEEP = 0.1


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ladder") / "dataset"
    run_apart("dataset", "--source", "synthetic", "--images", IMAGES, "--out", folder)
    return folder


def cell(strategy: str, batch: int, dataset: Path) -> list[object]:
    images = ["--dataset-source", "synthetic", "--epoch-images", IMAGES, "--dataset", dataset]
    return ["--strategy", strategy, "--gpus", GPUS, "--batch-per-gpu", batch, *images]


@pytest.mark.parametrize("strategy", ["dp", "ddp", "fsdp"])
def test_the_ladder_adds_up_and_ends_at_the_timing_cells_step(dataset: Path, tmp_path: Path, strategy: str) -> None:
    apart, timed = tmp_path / "communication.json", tmp_path / "time.json"
    run_apart("communication", *cell(strategy, BATCH, dataset), "--out", apart)
    run_apart("time", *cell(strategy, BATCH, dataset), "--scopes", "compute", "--timed-epochs", 4, "--out", timed)
    record = read_record("communication", apart)
    headline_s = median(read_record("timing", timed)["scopes"]["compute"]["step_s_median"])
    rows = list(ladder_rows(Configuration(strategy, GPUS, BATCH), "A", [record], headline_s))
    for row in rows:
        print(strategy, row.rung, f"{row.step_s.value * 1e3:.3f} ms, repeated to {row.repeatability:.2%}")
    print(from_steps([{**record, "server": 0}]))
    total_s = sum(row.difference_s.value for row in rows[1:])
    assert total_s == pytest.approx(rows[-1].step_s.value - rows[0].step_s.value, rel=1e-9)
    assert rows[-1].step_s.value == pytest.approx(headline_s, rel=STEP)


@pytest.mark.parametrize("strategy", ["dp", "ddp"])
def test_every_batch_has_its_ladder(dataset: Path, tmp_path: Path, strategy: str) -> None:
    """Also where steps are short, and where one is longer than a block."""
    for batch in (32, 8192):
        out = tmp_path / f"{batch}.json"
        run_apart("communication", *cell(strategy, batch, dataset), "--out", out)
        record = read_record("communication", out)
        assert record["status"] == "ok"
        for name in rungs_of(record):
            ranks = record["steps"]["variants"][name]["rank_step_s"]
            print(
                strategy, batch, name, f"{median(record['steps']['variants'][name]['step_s']) * 1e3:.3f} ms", ranks[0]
            )


def injected(dataset: Path, what: str) -> dict[str, dict[str, Any]]:
    settings = StepSettings(dataset_source="synthetic", epoch_images=IMAGES)
    job = {
        "configuration": ["ddp", GPUS, BATCH], "settings": settings.to_json(), "seed": 1, "traces": None,
        "dataset": str(dataset), "timeout_s": 300, "injected": what,
    }  # fmt: skip
    with signals_as_they_were(), helpers_for_workers(), Workers("injected_ladder", job, GPUS, GPUS) as workers:
        variants: dict[str, dict[str, Any]] = workers.outcome(300, end_with_parent=False)["steps"]["variants"]
    print(json.dumps({name: [round(s * 1e3, 3) for s in blocks["step_s"]] for name, blocks in variants.items()}))
    return variants


def test_a_busy_process_on_the_second_gpu_is_contention_and_nothing_else(dataset: Path) -> None:
    variants = injected(dataset, "busy")
    steps = {name: median(blocks["step_s"]) for name, blocks in variants.items() if name != "allreduce_hook"}
    found = {name: steps[name] - steps[before] for before, name in pairwise(steps)}
    assert found["together"] > 0.3 * steps["alone"]
    assert max(seconds for name, seconds in found.items() if name != "together") < 0.5 * found["together"]


def test_a_hook_that_sleeps_shows_in_the_whole_step_alone(dataset: Path) -> None:
    """Beside `allreduce_hook`, the same hook without sleep."""
    variants = injected(dataset, "sleep")
    rounds = zip(variants["training"]["step_s"], variants["allreduce_hook"]["step_s"], strict=True)
    assert median(slept - awake for slept, awake in rounds) == pytest.approx(SLEEP_S["cuda"], rel=SLEEP)
    steps = [median(variants[name]["step_s"]) for name in ("alone", "together", "no_sync", "no_op_hook")]
    assert max(step - before for before, step in pairwise(steps)) < SLEEP_S["cuda"] / 2
