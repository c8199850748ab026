"""Checkpoints: older ones without a setting, those of other trainings, damaged ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    with pytest.raises(MeasurementError, match=r"of another training: rotors is 0, here it is 2\."):
        Checkpoint(path, {**OLDER, "rotors": 2}, {"rotors": 0}).read(CPU)


@dataclass
class Evil:
    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04cut off", Evil])
def test_a_damaged_checkpoint_is_left_alone_and_runs_no_code(path: Path, content: Any) -> None:
    if content is Evil:
        torch.save({"identity": OLDER, "state": Evil(path.with_name("touched"))}, path)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(MeasurementError, match=r"seed-1\.checkpoint: is no checkpoint, or damaged"):
        Checkpoint(path, OLDER, {}).read(CPU)
    assert path.read_bytes() == before
    assert not path.with_name("touched").exists()
