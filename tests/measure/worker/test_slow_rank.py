"""A rank at half speed is named, from what a real record holds; where both are alike, none is."""

from pathlib import Path
from typing import Any

import pytest

from dpscale.analyse.answer.claims import SLOW_DEVICE
from dpscale.analyse.communication.ladder import ladder_rows
from dpscale.plan.cells import CommunicationCell, Configuration
from dpscale.records.kinds import CommunicationRecord
from dpscale.schemas.settings import StepSettings, TimingSettings
from record_factory import communication_record, typed
from uneven_ladder import SLOW
from warm_workers import outcome_of_two

IMAGES = 128
pytestmark = [pytest.mark.processes, pytest.mark.slow]

CONFIGURATION = Configuration("ddp", 2, 2)


@pytest.mark.parametrize(("slow_rank", "named"), [("1", ["rank 1"]), ("", [])])
def test_a_rank_at_half_speed_is_named_and_no_other(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, slow_rank: str, named: list[str]
) -> None:
    monkeypatch.setenv(SLOW, slow_rank)
    settings = StepSettings(width=4, device="cpu", dataset_source="synthetic", epoch_images=IMAGES).to_json()
    job: dict[str, Any] = {
        "configuration": ["ddp", 2, 2], "settings": settings, "seed": 1, "traces": None,
        "dataset": str(dataset), "timeout_s": 300,
    }  # fmt: skip
    cell = CommunicationCell(CONFIGURATION, 1)
    record = communication_record(cell, TimingSettings(device="cpu"), 1.0, 0.2, 0.1, 0.1)
    record["steps"] = outcome_of_two("uneven_ladder", job)["steps"]
    slow = SLOW_DEVICE.of(list(ladder_rows(CONFIGURATION, "A", [typed(CommunicationRecord, record)]))).holding
    assert [row.slowest for row in slow] == named, record["steps"]["variants"]
