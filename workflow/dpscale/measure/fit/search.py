"""Which batches are tried, until the largest one that fits is known. Free of torch."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from dpscale.errors import MeasurementError
from dpscale.formulas.scaling import AS_FAST
from dpscale.measure.launch.cells import now, provenance, require_given
from dpscale.measure.launch.workers import Workers
from dpscale.measure.watch.nvml import gpus_there
from dpscale.plan.cells import Configuration, FitCell, contradiction
from dpscale.plan.workload_file import of_its_file
from dpscale.records.files import JsonRecord
from dpscale.records.versions import VERSIONS
from dpscale.schemas.settings import FitSettings
from dpscale.strategies.known import strategy as known

TRIES = 6
FIRST, SECOND = 32, 128
# Batches are multiples of it, or powers of two; smaller ones are any number.
MULTIPLE = 8
# The part of a batch below which fragments of memory are not to blame that it does not fit.
SURELY = 0.96
# By so much the free memory may be less than at the first try.
TAKEN = 0.02


@dataclass(frozen=True)
class Try:
    """A batch per GPU, trained for some steps in new processes. Bytes are of the fullest GPU; what did not fit has no
    peak and no images per second."""

    batch_per_gpu: int
    limit_bytes: float
    peak_bytes: float | None
    images_per_s: float | None
    seconds: float

    @property
    def fits(self) -> bool:
        return self.peak_bytes is not None


def rounded(batch: float, to_power: bool) -> int:
    """Down to a power of two, or to a multiple of 8."""
    whole = int(batch)
    if to_power:
        return 1 << whole.bit_length() - 1 if whole else 0
    return whole - whole % MULTIPLE if whole >= MULTIPLE else whole


def next_batch(tries: Sequence[Try], to_power: bool, at_most: float = inf) -> int | None:
    """What to try next, `at_most` so large; None where the largest is known or no try is left.

    Memory grows by as much per sample as between the two largest that fit. The first such guess is tried at its half:
    small batches say little of large ones.
    """
    fitting = sorted((one.batch_per_gpu, one.peak_bytes or 0.0, one.limit_bytes) for one in tries if one.fits)
    too_large = min((one.batch_per_gpu for one in tries if not one.fits), default=inf)
    if len(tries) >= TRIES or too_large == 1:
        return None
    if not fitting:
        return max(int(too_large) // 8, 1) if tries else rounded(min(FIRST, at_most), to_power)
    largest, peak, limit = fitting[-1]
    guess, sure = float(SECOND), 0.0
    if len(fitting) > 1:
        before, peak_before, _ = fitting[-2]
        guess = largest + (limit - peak) * (largest - before) / max(peak - peak_before, 1.0)
        guess, sure = guess / 2 if len(tries) == 2 else guess, SURELY
    if guess >= too_large:
        guess = (max(largest, sure * too_large) + too_large) / 2
    one_more = largest * 2 if to_power else largest + (MULTIPLE if largest >= MULTIPLE else 1)
    candidate = max(rounded(min(guess, at_most), to_power), one_more)
    return candidate if candidate < too_large and candidate <= at_most else None


def search(attempt: Callable[[int], Try], to_power: bool, at_most: float = inf) -> list[Try]:
    """The tries that find the largest batch, then its half, and so on, as long as it is as fast as the fastest.

    Raises MeasurementError where not even a batch of 1 fits, and where others took memory meanwhile.
    """
    tries: list[Try] = []

    def made(batch: int) -> Try:
        tries.append(attempt(batch))
        first, last = tries[0].limit_bytes, tries[-1].limit_bytes
        if last < (1 - TAKEN) * first:
            raise MeasurementError(
                f"memory was taken by others meanwhile: {first / 1e9:.1f} GB were free at first, {last / 1e9:.1f} GB "
                f"at batch {batch}. Search again when nothing else uses the GPUs"
            )
        return tries[-1]

    while batch := next_batch(tries, to_power, at_most):
        made(batch)
    if not any(one.fits for one in tries):
        room = f"{tries[0].limit_bytes / 1e9:.1f} GB"
        raise MeasurementError(f"a batch of {tries[-1].batch_per_gpu} does not fit in {room}")
    batch = largest_of(tries).batch_per_gpu
    while (batch := rounded(batch / 2, to_power)) and (
        next((one for one in tries if one.batch_per_gpu == batch), None) or made(batch)
    ) in as_fast(tries):
        pass
    return sorted(tries, key=lambda one: one.batch_per_gpu)


def largest_of(tries: Sequence[Try]) -> Try:
    return max((one for one in tries if one.fits), key=lambda one: one.batch_per_gpu)


def as_fast(tries: Sequence[Try]) -> list[Try]:
    """Those within 2 % of the best throughput."""
    best = max(one.images_per_s or 0.0 for one in tries)
    return [one for one in tries if (one.images_per_s or 0.0) >= AS_FAST * best]


def find_largest_batch(
    strategy: str, gpus: int, settings: FitSettings, memory_gb: float | None, timeout_s: float, end_with_parent: bool
) -> JsonRecord:
    """Search for at most `timeout_s`, and say what was tried. Raises MeasurementError or WorkloadError; there is then
    no record."""
    settings, row = of_its_file(settings), known(strategy)
    if gpus_there(os.environ) == 0:
        raise MeasurementError("the largest batch needs a CUDA GPU: on a CPU the host's memory says nothing")
    require_given(gpus, os.environ)
    if obstacle := contradiction(settings) or Configuration(strategy, gpus, 1).obstacle(settings):
        raise MeasurementError(": ".join(obstacle))
    where: dict[str, Any] = {"started_at": now(), "provenance": provenance()}
    deadline = time.monotonic() + timeout_s

    def attempt(batch: int) -> Try:
        start = time.monotonic()
        job = {
            "configuration": [strategy, gpus, batch],
            "settings": replace(settings, epoch_images=gpus * batch).to_json(),
            "seed": 1,
            "dataset": str(Path.cwd()),
            "timeout_s": timeout_s,
            "memory_bytes": memory_gb and memory_gb * 1e9,
        }
        with Workers("dpscale.measure.fit.worker", job, row.processes(gpus), gpus) as workers:
            outcome = workers.outcome(deadline - start, end_with_parent)
        where.update({name: outcome[name] for name in ("hardware", "software", "sensors")})
        rate = gpus * batch / outcome["step_s"] if outcome["step_s"] else None
        return Try(batch, outcome["limit_bytes"], outcome["peak_bytes"], rate, time.monotonic() - start)

    tries = search(attempt, settings.round_to == "power_of_two", settings.epoch_images // gpus)
    return {
        "kind": "fit",
        "measurement_version": VERSIONS["fit"].current,
        "status": "ok",
        "cell": FitCell(strategy, gpus, settings).coordinates,
        "settings": settings.to_json(),
        **where,
        "finished_at": now(),
        "tries": [asdict(one) for one in tries],
        "largest": largest_of(tries).batch_per_gpu,
        "too_large": min((one.batch_per_gpu for one in tries if not one.fits), default=None),
        "enough": as_fast(tries)[0].batch_per_gpu,
    }
