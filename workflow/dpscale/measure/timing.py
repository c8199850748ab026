"""A timing cell: how long an epoch takes. Free of torch."""

from pathlib import Path

from dpscale.measure.cell import Run, measure_training
from dpscale.measure.dataset import EPOCH_ARRAYS, TRAIN_ARRAYS
from dpscale.record import Record
from dpscale.study import Cell, Settings

ARRAYS_OF_SCOPE = {"compute": EPOCH_ARRAYS, "end_to_end": TRAIN_ARRAYS}


def time_cell(cell: Cell, settings: Settings, dataset: Path, run: Run) -> Record:
    """Measure `cell` on the images in the folder `dataset`, and write its record.

    Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    arrays = [name for scope in settings.scopes for name in ARRAYS_OF_SCOPE[scope]]
    return measure_training("dpscale.measure.timing_worker", cell, settings, dataset, arrays, run)
