"""The error where GPUs are missing."""

import pytest
import torch

from dpscale.errors import MeasurementError
from dpscale.measure.watch import hardware


def test_missing_gpus_are_counted_and_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_driver", lambda: "535.104.05")
    missing = torch.cuda.device_count() + 1
    with pytest.raises(MeasurementError, match=rf"asked for {missing} GPUs, {missing - 1} visible .*535\.104\.05"):
        hardware.require_gpus(missing)
