"""Events of GPUs during an epoch, and the error where GPUs are missing."""

import pytest
import torch

from dpscale.errors import MeasurementError
from dpscale.measure.watch import hardware
from dpscale.measure.watch.sensors import _reasons, on_all_nodes
from dpscale.records.kinds import Watched, WatchedGpu


def test_nodes_are_joined_with_all_gpus_and_the_most_processes() -> None:
    gpus = [WatchedGpu(["power cap"], {"power": 0.5}), WatchedGpu(None, None)]
    first = Watched(gpus[:1], None)
    second = Watched(gpus[1:], 1)
    assert on_all_nodes([first, second]) == Watched(gpus, 1)


def test_reasons_are_known_where_every_sample_has_them() -> None:
    assert _reasons([["power cap"], [], ["thermal", "power cap"]]) == ["power cap", "thermal"]
    assert _reasons([["power cap"], None]) is _reasons([]) is None


def test_missing_gpus_are_counted_and_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_driver", lambda: "535.104.05")
    missing = torch.cuda.device_count() + 1
    with pytest.raises(MeasurementError, match=rf"asked for {missing} GPUs, {missing - 1} visible .*535\.104\.05"):
        hardware.require_gpus(missing)
