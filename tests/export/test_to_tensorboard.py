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


def test_figures_are_those_of_the_csv_files(measured: Measured, place: Path) -> None:
    """TensorBoard keeps seven digits."""
    for key in measured.runs.keys() - {"study"}:
        events = read(place / key)
        for name, value in measured.runs[key].figures.items():
            (event,) = events.Scalars(name)
            assert event.value == np.float32(value), name


def test_a_training_has_its_history(measured: Measured, place: Path) -> None:
    record, events = measured.record(SHORT), read(place / SHORT)
    losses = [(event.step, event.value) for event in events.Scalars("training/step_loss")]
    assert losses == [(step, np.float32(loss)) for step, loss in enumerate(record["step_loss"], 1)]
    accuracy = events.Scalars("training/test_accuracy")
    assert [event.value for event in accuracy] == [np.float32(value) for value in (0.5, 0.6)]
    assert accuracy[1].wall_time - accuracy[0].wall_time == pytest.approx(record["epochs"][1]["epoch_s"])


def test_settings_stand_as_text(place: Path) -> None:
    for run, setting in ((SHORT, "| arm | short |"), ("study", "| dataset.source | synthetic |")):
        assert setting in read(place / run).Tensors("settings")[0].tensor_proto.string_val[0].decode()


def test_a_second_export_changes_nothing(measured: Measured, place: Path) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    measured.export("--to", "tensorboard", "--out", place)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
