"""One worker of a timing cell."""

from typing import Any

import numpy as np
import torch

from dpscale.measure.data.batches import LoadedEpochs, images_per_rank
from dpscale.measure.ranks import gather
from dpscale.measure.worker.epoch_timer import EpochTimer, Step, training_step
from dpscale.measure.worker.step_worker import StepWorker
from dpscale.schemas.settings import TimingSettings

QUANTILES = {"min": 0.0, "p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


class TimingWorker(StepWorker):
    """Warms up and times every scope. Finished scopes are kept where memory then runs out."""

    settings_type = TimingSettings
    settings: TimingSettings

    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank)
        self.scopes: dict[str, Any] = {}
        self.epochs_total_s = 0.0

    def measure(self) -> None:
        """Fill `scopes`."""
        step = training_step(*self.build(), self.device, self.memory_format)
        timer = EpochTimer(self.devices, self.workers)
        for scope in self.settings.scopes:
            self.phase = f"loading the dataset for {scope}"
            batches = self.batches(scope)
            if not self.scopes:
                self._warm_up(timer, step, batches)
            self.scopes[scope] = self._time_scope(scope, timer, step, batches)
        self.epochs_total_s = timer.total_s

    def results(self, finished: bool) -> dict[str, Any]:
        return {"epochs_total_s": self.epochs_total_s if finished else None, "scopes": self.scopes}

    def batches(self, scope: str) -> Any:
        """The batches of one epoch of `scope` on this rank. Their length is the number of steps."""
        if scope == "compute":
            return self.preloaded()
        return LoadedEpochs(
            self.dataset, self.rank, self.workers, self.batch, self.settings.loader_workers, self.on_gpu
        )

    def _warm_up(self, timer: EpochTimer, step: Step, batches: Any) -> None:
        self.phase = "warm-up"
        for epoch in range(self.settings.warmup_epochs):
            result = timer.time(step, batches, len(batches))
            self.report(f"warm-up epoch {epoch + 1}: {result['epoch_s']:.3f} s (not reported)")

    def _time_scope(self, scope: str, timer: EpochTimer, step: Step, batches: Any) -> dict[str, Any]:
        settings = self.settings
        for device in self.devices:
            torch.cuda.reset_peak_memory_stats(device)
        epochs: list[dict[str, Any]] = []
        energy_j: list[float | None] = []
        while not epochs or (
            len(epochs) < settings.timed_epochs and sum(epoch["epoch_s"] for epoch in epochs) < settings.budget_s
        ):
            self.phase = f"{scope} epoch {len(epochs) + 1}"
            before = self.sensors.energy_j() if self.rank == 0 else None
            epochs.append(timer.time(step, batches, len(batches)))
            after = self.sensors.energy_j() if self.rank == 0 else None
            energy_j.append(None if before is None or after is None else after - before)
            self.report(f"{self.phase} of at most {settings.timed_epochs}: {epochs[-1]['epoch_s']:.3f} s")
        peaks = [float(torch.cuda.max_memory_allocated(device)) for device in self.devices]
        return {
            "epoch_s": [epoch["epoch_s"] for epoch in epochs],
            "rank_epoch_s": [epoch["rank_epoch_s"] for epoch in epochs],
            **self._steps(epochs),
            "steps_per_epoch": len(batches),
            "images_per_epoch": images_per_rank(settings.epoch_images, self.workers) * self.workers,
            "peak_memory_bytes": self._peak_memory(peaks),
            "energy_j": None if None in energy_j else energy_j,
        }

    def _steps(self, epochs: list[dict[str, Any]]) -> dict[str, Any]:
        """Times of full steps of the slowest rank. The partial last step is left out."""
        full = images_per_rank(self.settings.epoch_images, self.workers) // self.batch
        full_step_s = np.array([epoch["step_s"][:full] for epoch in epochs])
        medians = [gather(float(median), self.workers) for median in np.median(full_step_s, axis=1)]
        quantiles = [gather(float(value), self.workers) for value in np.quantile(full_step_s, list(QUANTILES.values()))]
        slowest = int(np.argmax(quantiles[list(QUANTILES).index("median")]))
        return {
            "full_steps_per_epoch": full,
            "step_s_median": [max(ranks) for ranks in medians],
            "step_s_quantiles": {
                "n": full_step_s.size,
                **{name: ranks[slowest] for name, ranks in zip(QUANTILES, quantiles, strict=True)},
            },
        }

    def _peak_memory(self, peaks: list[float]) -> list[int] | None:
        if not self.on_gpu:
            return None
        if self.workers > 1:
            peaks = gather(peaks[0], self.workers)
        return [int(peak) for peak in peaks]


WORKER = TimingWorker
