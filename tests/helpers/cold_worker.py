"""The worker of a training cell that starts its clock cold."""

from dpscale.measure.worker.checkpoint import Trained
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.worker.training import TrainingWorker
from dpscale.measure.workload.images import DeviceImages


class ColdWorker(TrainingWorker):
    def _warm_up(self, timer: EpochTimer, trained: Trained, training: DeviceImages) -> None:
        """Nothing."""


WORKER = ColdWorker
