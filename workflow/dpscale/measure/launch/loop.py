"""A workload as a script: a plain loop of DDP or DataParallel over its network and dataset, on so many devices.

`dpscale diagnose --workload` runs that script as it runs any other. Free of torch.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpscale.errors import MeasurementError
from dpscale.measure.launch.cells import require_given
from dpscale.measure.launch.workers import Workers
from dpscale.plan.cells import Configuration
from dpscale.plan.study import of_its_file
from dpscale.schemas.settings import BUILT_IN, TimingSettings
from dpscale.strategies.known import BASELINE
from dpscale.strategies.known import strategy as strategy_of

SEED = 1
# So small that no network diverges in thousands of steps: a step takes as long with any other.
LEARNING_RATE = 1e-6
# An epoch of made-up images for a built-in network.
IMAGES = 8192
# It is ended from outside long before.
LIMIT_S = 86_400.0


def loop_command(asked: Mapping[str, Any], gpus: int) -> list[str]:
    """The command that trains as `asked` on so many devices, until it is ended. A launcher's option says how many.

    Raises WorkloadError or MeasurementError where that can be told at once not to work.
    """
    settings = _settings(asked)
    configuration = configuration_of(gpus, **asked["step"])
    row = strategy_of(configuration.strategy)
    if row.needs_cuda and settings.device == "cpu":
        raise MeasurementError(f"{row.label} needs CUDA GPUs; it is not emulated on a CPU")
    require_given(gpus if settings.device == "cuda" else 0, os.environ)
    return [sys.executable, "-m", "dpscale", "loop", json.dumps(asked), "--num-processes", str(gpus)]


def train_in_loop(asked: Mapping[str, Any], gpus: int) -> None:
    """Train until hooks in the ranks end it. Raises MeasurementError where they cannot train."""
    settings, configuration = _settings(asked), configuration_of(gpus, **asked["step"])
    processes = strategy_of(configuration.strategy).processes(gpus)
    with _images_of(settings) as folder:
        job = {
            "configuration": list(configuration.coordinates.values()),
            "settings": settings.to_json(),
            "seed": SEED,
            "dataset": str(folder),
            "timeout_s": LIMIT_S,
        }
        module = "dpscale.measure.worker.loop"
        with Workers(module, job, processes, gpus if settings.device == "cuda" else 0) as workers:
            workers.outcome(LIMIT_S, end_with_parent=True)


def configuration_of(gpus: int, strategy: str, batch_per_gpu: int | None, global_batch: int | None) -> Configuration:
    """On one device the strategy is the plain module, whatever `strategy` says.

    Raises MeasurementError where not exactly one of the batches is given, or it does not fill the devices evenly.
    """
    if (batch_per_gpu is None) == (global_batch is None):
        raise MeasurementError("give either --batch-per-gpu or --global-batch")
    if global_batch is not None and global_batch % gpus:
        raise MeasurementError(f"a global batch of {global_batch} does not fill {gpus} GPUs evenly")
    return Configuration(strategy if gpus > 1 else BASELINE, gpus, batch_per_gpu or (global_batch or 0) // gpus)


def _settings(asked: Mapping[str, Any]) -> TimingSettings:
    return replace(of_its_file(TimingSettings.from_json(asked["settings"])), learning_rate=LEARNING_RATE)


@contextmanager
def _images_of(settings: TimingSettings) -> Iterator[Path]:
    """A folder with images of a built-in network for as long as it trains; with nothing for a user's file."""
    with tempfile.TemporaryDirectory(prefix="dpscale-images-") as name:
        folder = Path(name)
        if settings.workload == BUILT_IN:
            from dpscale.measure.workload.dataset import make_dataset

            make_dataset(settings.dataset_source, folder, False, IMAGES, folder)
        yield folder
