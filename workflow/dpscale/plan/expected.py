"""How long jobs are expected to take before any of them has run, on any GPU with a data sheet. An estimate, no result.

A step takes what the host needs to begin its work or what the GPU needs to do it, whichever is longer. The host's part
and what a job takes beside its steps are those of jobs on record (costs.yaml); the GPU's part is its arithmetic over
the peak and its memory traffic over the bandwidth of the data sheet, one after the other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from dpscale.plan.cells import AnyCell, StepCell, TrainingCell
from dpscale.schemas.settings import CollectivesSettings, NetworkSettings, TimingSettings, TrainingSettings
from dpscale.strategies.known import BASELINE
from dpscale.strategies.known import strategy as row
from dpscale.vocabulary import own_yaml
from dpscale.vocabulary.chips import Chip, chip_named


@dataclass(frozen=True)
class Costs:
    """Times of jobs on record, in seconds: of whole jobs by kind, or of one beside its steps by kind and strategy; of a
    step that waits for the host by strategy; images that a process of the loader gives per second; and FLOP and bytes
    of memory traffic per image of the network, forward and backward."""

    chip: str
    whole_job_s: Mapping[str, float]
    beside_steps_s: Mapping[str, Mapping[str, float]]
    host_step_s: Mapping[str, float]
    loader_images_per_s: float
    flop_per_image: float
    bytes_per_image: float


@cache
def costs() -> Costs:
    return Costs(**own_yaml(__file__, "costs.yaml"))


def expected_s(cell: AnyCell, settings: NetworkSettings, chip: Chip | None = None) -> float | None:
    """Return the seconds that a cell's job is expected to take, by default on the GPU of the jobs on record.

    None where they say nothing: on a CPU, of another network or strategy.
    """
    recorded = costs()
    is_same_network = all(map(settings.is_default, ("network", "width", "workload")))
    if not is_same_network or (isinstance(settings, CollectivesSettings) and settings.device == "cpu"):
        return None
    if cell.kind in recorded.whole_job_s:
        return recorded.whole_job_s[cell.kind]
    if not isinstance(cell, StepCell | TrainingCell) or not isinstance(settings, TimingSettings | TrainingSettings):
        return None
    point, beside_s = cell.configuration, recorded.beside_steps_s[cell.kind]
    if point.strategy not in beside_s or point.strategy not in recorded.host_step_s:
        return None
    gpu = chip or chip_named(recorded.chip)
    assert gpu

    def epoch_s(strategy: str, gpus: int, is_loaded: bool) -> float:
        image_s = recorded.flop_per_image / gpu.most(settings.precision).flop_s
        image_s += recorded.bytes_per_image / (gpu.memory_gb_s * 1e9)
        pieces = settings.accumulate
        step_s = pieces * max(recorded.host_step_s[strategy], point.batch_per_gpu / pieces * image_s)
        if is_loaded and isinstance(settings, TimingSettings):
            loaders = max(1, settings.loader_workers) * row(strategy).processes(gpus)
            step_s = max(step_s, gpus * point.batch_per_gpu / (loaders * recorded.loader_images_per_s))
        return math.ceil(settings.epoch_images / (gpus * point.batch_per_gpu)) * step_s

    seconds = beside_s[point.strategy]
    if isinstance(settings, TrainingSettings):
        return seconds + settings.epochs * epoch_s(point.strategy, point.gpus, is_loaded=False)
    for scope in settings.scopes:
        is_loaded = scope == "end_to_end"
        seconds += (settings.warmup_epochs + settings.timed_epochs) * epoch_s(point.strategy, point.gpus, is_loaded)
        if point.gpus > 1 and settings.baseline == "in_job":  # before and after, warmed up once
            seconds += (1 + 2 * settings.timed_epochs) * epoch_s(BASELINE, 1, is_loaded)
    return seconds
