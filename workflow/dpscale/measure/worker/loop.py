"""One rank of a workload in a plain loop, as a user would write it, for `dpscale diagnose --workload`."""

from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from torch.utils.data import Dataset

from dpscale.errors import MeasurementError
from dpscale.measure.worker.epoch_timer import let_gloo_settle
from dpscale.measure.worker.step_worker import StepWorker
from dpscale.measure.workload.loading import LoadedEpochs
from dpscale.records.files import JsonRecord
from dpscale.schemas.settings import TimingSettings


class LoopWorker(StepWorker):
    """Trains until the hooks in this process end it, as they end any script: by SystemExit in a step."""

    settings_type = TimingSettings
    settings: TimingSettings

    def measure(self) -> None:
        samples, batch = len(self.samples), self.configuration.global_batch  # type: ignore[arg-type]
        if samples < batch:
            raise MeasurementError(
                f"the dataset has {samples} samples, and a step of all devices takes {batch}: choose a smaller batch"
            )
        share = self.rank, self.workers, self.batch
        epochs = LoadedEpochs(self.samples, share, self.settings.loader_workers, self.on_gpu, self.workload.collate)
        step = self.step_of(*self.build())
        with suppress(SystemExit):
            while True:
                let_gloo_settle()
                for batch in epochs:
                    step(batch)

    @cached_property
    def samples(self) -> Dataset[Any]:
        """The whole dataset is an epoch."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.workload.dataset()

    def outcome_of(self, error: Exception) -> JsonRecord | None:
        """Fail where a step does not fit: there is nothing to diagnose."""
        if self.ran_out_of_memory(error):
            return {"status": "failed", "message": "memory ran out: choose a smaller batch"}
        return super().outcome_of(error)

    def results(self) -> JsonRecord:
        return {}


WORKER = LoopWorker
