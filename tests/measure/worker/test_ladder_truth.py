"""The ladder finds a cause of slowness where it was injected, and nowhere else: on two CPU workers."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from command_line import must
from dpscale.measure.launch.workers import Workers
from dpscale.schemas.settings import StepSettings
from injected_ladder import SLEEP_S
from signals import signals_as_they_were
from stub_cell import helpers_for_workers

pytestmark = [pytest.mark.processes, pytest.mark.slow]

IMAGES = 512
LADDER = ("alone", "together", "no_sync", "no_op_hook", "training")
Variants = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ladder") / "dataset"
    must("dataset", "--source", "synthetic", "--images", IMAGES, "--out", folder)
    return folder


def measured(dataset: Path, injected: str, batch: int) -> Variants:
    settings = StepSettings(width=4, device="cpu", dataset_source="synthetic", epoch_images=IMAGES)
    job = {
        "configuration": ["ddp", 2, batch], "settings": settings.to_json(), "seed": 1, "traces": None,
        "dataset": str(dataset), "timeout_s": 300, "injected": injected,
    }  # fmt: skip
    with (
        signals_as_they_were(),
        helpers_for_workers(),
        Workers("injected_ladder", job, 2, 0) as workers,
    ):
        variants: Variants = workers.outcome(300, end_with_parent=False)["steps"]["variants"]
    print({name: f"{median(blocks['step_s']) * 1e3:.2f} ms" for name, blocks in variants.items()})
    return variants


def differences(variants: Variants, names: Sequence[str]) -> dict[str, float]:
    steps = [median(variants[name]["step_s"]) for name in names]
    return {name: step - before for name, before, step in zip(names[1:], steps, steps[1:], strict=False)}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each worker needs a core of its own")
def test_a_busy_process_beside_one_worker_is_contention_and_nothing_else(dataset: Path) -> None:
    variants = measured(dataset, "busy", 64)
    found = differences(variants, LADDER)
    assert found["together"] > 0.5 * median(variants["alone"]["step_s"]), "it takes half of that worker's core"
    others = {name: seconds for name, seconds in found.items() if name != "together"}
    assert max(others.values()) < 0.5 * found["together"], others
    first, second = (median(ranks[rank] for ranks in variants["together"]["rank_step_s"]) for rank in range(2))
    assert second > 1.3 * first, "the record says which worker it is"


def test_a_hook_that_sleeps_shows_in_the_whole_step_alone(dataset: Path) -> None:
    """Beside `allreduce_hook`, the same hook without sleep; no closer than rounds repeat themselves."""
    sleep_s = SLEEP_S["cpu"]
    variants = measured(dataset, "sleep", 2)
    rounds = [
        slept - awake
        for slept, awake in zip(variants["training"]["step_s"], variants["allreduce_hook"]["step_s"], strict=True)
    ]
    spread_s = median(abs(one - median(rounds)) for one in rounds)
    print(f"{median(rounds) * 1e3:.2f} ms, rounds differ by {spread_s * 1e3:.2f} ms")
    assert sleep_s / 2 < median(rounds) < 2 * sleep_s
    assert abs(median(rounds) - sleep_s) < 0.1 * sleep_s + 2 * spread_s
    before = differences(variants, LADDER[:-1])
    assert max(before.values()) < 0.8 * sleep_s, before
