"""The search for the largest batch that fits: which batches are tried, and when it is known. Free of torch."""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from dpscale.errors import MeasurementError
from dpscale.formulas.scaling import AS_FAST
from dpscale.measure.launch.cells import require_given
from dpscale.measure.launch.workers import Workers, machine_alone
from dpscale.measure.watch.nvml import gpus_there
from dpscale.plan.cells import Configuration
from dpscale.plan.study import contradiction, of_its_file
from dpscale.schemas.settings import StepSettings
from dpscale.strategies.known import strategy as strategy_named

TRIES = 6
FIRST, SECOND = 32, 128


@dataclass(frozen=True)
class Try:
    """A batch per GPU, trained for some steps in new processes. Bytes are those of the fullest GPU; a batch that did
    not fit has no peak and no images per second."""

    batch_per_gpu: int
    limit_bytes: float
    peak_bytes: float | None
    images_per_s: float | None

    @property
    def fits(self) -> bool:
        return self.peak_bytes is not None


def power_of_two(batch: float) -> int:
    """Return a batch rounded down to a power of two; 0 below 1."""
    return 1 << int(batch).bit_length() - 1 if batch >= 1 else 0


def next_batch(tries: Collection[Try], at_most: float = inf) -> int | None:
    """Return the batch to try next, `at_most` so large; None where the largest is known or no try is left.

    Memory grows by as much per sample as between the two largest that fit. The first such guess is tried at its half:
    small batches say little of large ones.
    """
    fitting = sorted(
        (attempt.batch_per_gpu, attempt.peak_bytes or 0.0, attempt.limit_bytes) for attempt in tries if attempt.fits
    )
    too_large = smallest_too_large(tries) or inf
    if len(tries) >= TRIES or too_large == 1:
        return None
    if not fitting:
        return max(int(too_large) // 8, 1) if tries else power_of_two(min(FIRST, at_most))
    largest, peak, limit = fitting[-1]
    guess = float(SECOND)
    if len(fitting) > 1:
        before, peak_before, _ = fitting[-2]
        guess = largest + (limit - peak) * (largest - before) / max(peak - peak_before, 1.0)
        guess = guess / 2 if len(tries) == 2 else guess
    candidate = max(power_of_two(min(guess, at_most, too_large / 2)), largest * 2)
    return candidate if candidate < too_large and candidate <= at_most else None


def search(measure: Callable[[int], Try], at_most: float = inf) -> list[Try]:
    """Return the tries that find the largest batch, then its half, and so on, as long as it is as fast as the fastest.

    Raises MeasurementError where not even a batch of 1 fits.
    """
    tries: dict[int, Try] = {}
    while batch := next_batch(tries.values(), at_most):
        tries[batch] = measure(batch)
    if not any(attempt.fits for attempt in tries.values()):
        smallest = min(tries.values(), key=lambda attempt: attempt.batch_per_gpu)
        raise MeasurementError(
            f"a batch of {smallest.batch_per_gpu} does not fit in {smallest.limit_bytes / 1e9:.1f} GB"
        )
    batch = largest_of(tries.values()).batch_per_gpu // 2
    while batch:
        tries[batch] = tries.get(batch) or measure(batch)
        if tries[batch] not in as_fast(tries.values()):
            break
        batch //= 2
    return [tries[batch] for batch in sorted(tries)]


def largest_of(tries: Collection[Try]) -> Try:
    """Return the try of the largest batch that fits."""
    return max((attempt for attempt in tries if attempt.fits), key=lambda attempt: attempt.batch_per_gpu)


def smallest_too_large(tries: Collection[Try]) -> int | None:
    """Return the smallest batch that does not fit; None where all do."""
    return min((attempt.batch_per_gpu for attempt in tries if not attempt.fits), default=None)


def as_fast(tries: Collection[Try]) -> list[Try]:
    """Return the tries within 2 % of the best throughput."""
    best = max(attempt.images_per_s or 0.0 for attempt in tries)
    return [attempt for attempt in tries if (attempt.images_per_s or 0.0) >= AS_FAST * best]


def find_largest_batch(
    strategy: str, gpus: int, settings: StepSettings, memory_gb: float | None, timeout_s: float, end_with_parent: bool
) -> list[Try]:
    """Search for at most `timeout_s`, and return what was tried. Raises MeasurementError or WorkloadError."""
    settings = of_its_file(settings)
    if gpus_there(os.environ) == 0:
        raise MeasurementError("the largest batch needs a CUDA GPU: on a CPU the host's memory says nothing")
    require_given(gpus, os.environ)
    if obstacle := contradiction(settings) or Configuration(strategy, gpus, 1).obstacle(settings):
        raise MeasurementError(": ".join(obstacle))
    processes = strategy_named(strategy).processes(gpus)

    def measure(batch: int) -> Try:
        job = {
            "configuration": [strategy, gpus, batch],
            "settings": replace(settings, epoch_images=gpus * batch).to_json(),
            "seed": 1,
            "dataset": str(Path.cwd()),
            "timeout_s": timeout_s,
            "memory_bytes": memory_gb and memory_gb * 1e9,
        }
        with Workers("dpscale.measure.worker.fit", job, processes, gpus) as workers:
            outcome = workers.outcome(deadline - time.monotonic(), end_with_parent)
        rate = gpus * batch / outcome["step_s"] if outcome["step_s"] else None
        return Try(batch, outcome["limit_bytes"], outcome["peak_bytes"], rate)

    with machine_alone(end_with_parent):
        deadline = time.monotonic() + timeout_s
        return search(measure, settings.epoch_images // gpus)
