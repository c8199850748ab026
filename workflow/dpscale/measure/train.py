"""A training cell: one arm with one seed, from its first epoch or from where it was interrupted. Free of torch."""

from pathlib import Path

from dpscale.measure.cell import Run, measure_training
from dpscale.measure.dataset import TEST_ARRAYS, TRAIN_ARRAYS
from dpscale.record import Record
from dpscale.study import TrainingCell

CHECKPOINT_SUFFIX = ".checkpoint"


def train(cell: TrainingCell, dataset: Path, run: Run) -> Record:
    """Train the arm of `cell` on the images in the folder `dataset`, and write its record.

    After every epoch a checkpoint lies beside the record's place; the same command goes on from it, and it is gone when
    the record is written. Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    checkpoint = run.out.resolve().with_suffix(CHECKPOINT_SUFFIX)
    module = "dpscale.measure.train_worker"
    arrays = (*TRAIN_ARRAYS, *TEST_ARRAYS)
    more = {"arm": cell.arm, "checkpoint": str(checkpoint)}
    record = measure_training(module, cell, cell.settings, dataset, arrays, run, **more)
    checkpoint.unlink(missing_ok=True)
    return record
