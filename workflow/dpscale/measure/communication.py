"""A communication cell: training steps of one configuration taken apart, in a process of its own. Free of torch."""

from pathlib import Path

from dpscale.measure.cell import Run, measure_training
from dpscale.measure.dataset import EPOCH_ARRAYS
from dpscale.record import Record
from dpscale.study import CommunicationCell, TrainingSettings


def take_apart(
    cell: CommunicationCell, settings: TrainingSettings, dataset: Path, keep_traces: bool, run: Run
) -> Record:
    """Measure `cell` on the images in the folder `dataset`, and write its record; with `keep_traces`, the profiler's
    traces lie compressed beside it.

    Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    traces = str(run.out.resolve().with_suffix("")) if keep_traces else None
    module = "dpscale.measure.communication_worker"
    return measure_training(module, cell, settings, dataset, EPOCH_ARRAYS, run, traces=traces)
