"""Ranks of a cell on two nodes that measure nothing. There is no GPU here: that both nodes have the same is made up."""

from typing import Any

from dpscale.measure.worker.base import Worker

SAME_GPU = "GPU-5f0f1d8e"


class OnSameGpu(Worker):
    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank, "cpu", gpus=2, workers=2, nodes=2)

    def here(self) -> dict[str, Any]:
        return {"hardware": {"gpus": [{"uuid": SAME_GPU}]}, "software": {}}

    def measure(self) -> None:
        """Is not reached."""

    def results(self, finished: bool) -> dict[str, Any]:
        return {}


WORKER = OnSameGpu
