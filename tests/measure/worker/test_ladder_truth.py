"""The ladder finds a cause of slowness where it was injected, and nowhere else: on two CPU workers.

One process beside a worker: test_diagnosis_truth.py.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from dpscale.analyse.answer.claims import SLOW_DEVICE
from dpscale.analyse.communication.ladder import ladder_rows
from dpscale.plan.cells import CommunicationCell, Configuration
from dpscale.records.kinds import CommunicationRecord
from dpscale.schemas.settings import StepSettings, TimingSettings
from injected_ladder import SLEEP_S
from other_work import QUIET_CORES, OtherWork
from record_factory import communication_record, typed
from uneven_ladder import SLOW
from warm_workers import outcome_of_two

pytestmark = [pytest.mark.processes, pytest.mark.slow]

IMAGES = 128
ATTEMPTS = 3
BEFORE_IT = ("alone", "together", "no_sync", "no_op_hook")
CONFIGURATION = Configuration("ddp", 2, 2)


def ladder(module: str, dataset: Path) -> dict[str, Any]:
    """The `steps` of a record by two workers of a module."""
    settings = StepSettings(width=4, device="cpu", dataset_source="synthetic", epoch_images=IMAGES).to_json()
    job = {
        "configuration": ["ddp", 2, 2], "settings": settings, "seed": 1, "traces": None,
        "dataset": str(dataset), "timeout_s": 300,
    }  # fmt: skip
    steps: dict[str, Any] = outcome_of_two(module, job)["steps"]
    return steps


@pytest.mark.parametrize(("slow_rank", "named"), [("1", ["rank 1"]), ("", [])])
def test_a_rank_at_half_speed_is_named_and_no_other(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, slow_rank: str, named: list[str]
) -> None:
    monkeypatch.setenv(SLOW, slow_rank)
    cell = CommunicationCell(CONFIGURATION, 1)
    record = communication_record(cell, TimingSettings(device="cpu"), 1.0, 0.2, 0.1, 0.1)
    record["steps"] = ladder("uneven_ladder", dataset)
    slow = SLOW_DEVICE.of(list(ladder_rows(CONFIGURATION, "A", [typed(CommunicationRecord, record)]))).holding
    assert [row.slowest for row in slow] == named, record["steps"]["variants"]


def check(step_s: Mapping[str, Sequence[float]]) -> None:
    """The hook that sleeps is compared with the same hook without sleep, no closer than rounds repeat themselves. All
    others are compared by their fastest rounds: other processes only add to a step, and the sleep is in every round."""
    rounds = [slept - awake for slept, awake in zip(step_s["training"], step_s["allreduce_hook"], strict=True)]
    spread_s = median(abs(difference - median(rounds)) for difference in rounds)
    print(f"{median(rounds) * 1e3:.2f} ms, rounds differ by {spread_s * 1e3:.2f} ms")
    assert SLEEP_S / 2 < median(rounds) < 2 * SLEEP_S
    assert abs(median(rounds) - SLEEP_S) < 0.1 * SLEEP_S + 2 * spread_s
    before = [min(step_s[rung]) - min(step_s[rung_before]) for rung_before, rung in pairwise(BEFORE_IT)]
    assert max(before) < 0.8 * SLEEP_S, before


@pytest.mark.alone
def test_a_hook_that_sleeps_shows_in_the_whole_step_alone(dataset: Path) -> None:
    """Up to three measurements: a ladder that is wrong is wrong in all of them. One that was measured while this
    machine worked for others decides nothing."""
    failures = []
    for attempt in range(ATTEMPTS):
        with OtherWork().watched() as other_work:
            variants = ladder("injected_ladder", dataset)["variants"]
        print(f"attempt {attempt + 1}: other processes used {other_work.cores:.2f} cores")
        try:
            return check({name: blocks["step_s"] for name, blocks in variants.items()})
        except AssertionError as error:
            if other_work.cores < QUIET_CORES:
                failures.append(error)
    if not failures:
        pytest.skip(f"this machine worked for others in all of {ATTEMPTS} measurements")
    raise failures[-1]
