"""Ranks of a cell on two nodes that measure nothing. The job's `wrong` says what is not as it should be: "rank", the
second rank takes itself for the second of its node; "gpus", both nodes have the same GPU; "nothing".
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from dpscale.measure.watch.hardware import hardware
from dpscale.measure.worker import base

SAME_GPU = "GPU-5f0f1d8e"


class WrongWorld(base.Worker):
    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank, "cpu", gpus=2, workers=2, nodes=2)
        self.wrong = job["wrong"]
        if self.wrong == "rank":
            self.local_rank = rank

    def prepare(self) -> None:
        with _with_the_same_gpu() if self.wrong == "gpus" else nullcontext():
            super().prepare()

    def measure(self) -> None:
        pass

    def results(self, finished: bool) -> dict[str, Any]:
        return {}


@contextmanager
def _with_the_same_gpu() -> Iterator[None]:
    """There is no GPU here: what the driver would say of one is made up."""

    def made_up(device: str, gpus: int) -> dict[str, Any]:
        return {**hardware(device, gpus), "gpus": [{"uuid": SAME_GPU}]}

    with patch.object(base, "hardware", made_up):
        yield


WORKER = WrongWorld
