"""The job of a diagnosis: a process per GPU, whatever the strategy that is asked about."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dpscale.measure.data.arrays import TRAIN_ARRAYS
from dpscale.measure.launch.job import Run, Samples, measure, require_given
from dpscale.plan.diagnosis import Diagnosed
from dpscale.plan.workload_file import of_its_file
from dpscale.records.files import Record
from dpscale.schemas.settings import BUILT_IN, StepSettings
from dpscale.strategies.known import BASELINE

SEED = 1
# So small that no network diverges in thousands of steps: a step takes as long with any other.
LEARNING_RATE = 1e-6


def measure_diagnosis(asked: Diagnosed, settings: StepSettings, run: Run) -> Record:
    """Measure what tells why the step is not faster, and write the record.

    The built-in workload trains on made-up images. Raises WorkloadError, RecordError or MeasurementError; there is then
    no record.
    """
    asked.require_measurable(settings.device)
    gpus = asked.configuration.gpus
    require_given(gpus if settings.device == "cuda" else 0, os.environ)  # before images are made, which takes seconds
    settings = replace(of_its_file(settings), learning_rate=LEARNING_RATE)
    print(
        "dpscale: takes up to 3 min on GPUs, mostly 1 min on a CPU; every round of steps says what is left",
        file=sys.stderr,
    )
    with _images_of(settings) as folder:
        job = {
            # The ladder that is taken apart is DDP's. DataParallel is one more step, which the first rank drives.
            "configuration": ["ddp" if gpus > 1 else BASELINE, gpus, asked.configuration.batch_per_gpu],
            "asked": asked.coordinates,
            "seed": SEED,
            "dataset": str(folder or Path.cwd()),
            "words": sys.argv[1:],
            "launcher_pid": os.getpid(),
        }
        images = Samples.of(settings, folder, TRAIN_ARRAYS) if folder else None
        return measure("dpscale.measure.worker.diagnosis", asked, settings, job, gpus, gpus, run, images)


@contextmanager
def _images_of(settings: StepSettings) -> Iterator[Path | None]:
    """The folder with images of the built-in workload for as long as it is measured; None for a user's file."""
    if settings.workload != BUILT_IN:
        yield None
        return
    from dpscale.measure.data.dataset import make_dataset

    with tempfile.TemporaryDirectory(prefix="dpscale-images-") as name:
        folder = Path(name)
        make_dataset(settings.dataset_source, folder, False, settings.epoch_images, folder)
        yield folder
