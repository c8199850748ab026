"""Event files, read back with TensorBoard's own reader."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exported_study import SHORT, Measured


@pytest.fixture(scope="module")
def place(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("events")
    printed = measured.export("--to", "tensorboard", "--out", place)
    assert f"tensorboard --logdir {place}" in printed
    return place


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def test_every_run_has_its_figures_and_curves(measured: Measured, place: Path) -> None:
    """TensorBoard keeps seven digits."""
    for key, run in measured.runs.items():
        events = read(place / key)
        for name, value in run.figures.items():
            assert [event.value for event in events.Scalars(name)] == [np.float32(value)]
        for curve in run.curves:
            written = [(event.step, event.wall_time, event.value) for event in events.Scalars(curve.name)]
            assert written == [(number, clock_s, np.float32(value)) for number, clock_s, value in curve.points]


def test_settings_stand_as_text(place: Path) -> None:
    for run, setting in ((SHORT, "| arm | short |"), ("study", "| dataset.source | synthetic |")):
        assert setting in read(place / run).Tensors("settings")[0].tensor_proto.string_val[0].decode()


def test_a_second_export_changes_nothing(measured: Measured, place: Path) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    measured.export("--to", "tensorboard", "--out", place)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
