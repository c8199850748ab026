"""A checkpoint goes on being one when a setting is added: what it does not name has its default."""

from pathlib import Path

import pytest
import torch

from dpscale.errors import MeasurementError
from dpscale.measure.worker.checkpoint import Checkpoint

CPU = torch.device("cpu")
OLDER = {"arm": "small", "seed": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "seed-1.checkpoint"
    Checkpoint(path, OLDER, {}).write({"epochs": [1, 2]}, CPU)
    return path


def test_a_setting_that_a_checkpoint_does_not_name_has_its_default(path: Path) -> None:
    state = Checkpoint(path, {**OLDER, "rotors": 0}, {"rotors": 0}).read(CPU)
    assert state is not None
    assert state["epochs"] == [1, 2]


def test_another_value_of_such_a_setting_is_another_training(path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"of another training: rotors is 0, here it is 2\."):
        Checkpoint(path, {**OLDER, "rotors": 2}, {"rotors": 0}).read(CPU)
    assert path.exists()
