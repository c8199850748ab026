"""Epochs of the cell's own worker and of a bare loop, in turns within one process.

python epochs_in_turns.py <single|dp> <gpus> <batch per GPU> <images> <dataset folder> <epochs of each>
prints both lists of seconds as JSON. Processes that wait for the host differ by several percent from one to the next,
and so do two replicated networks in one process: both loops train one network here, and only loop and clock differ.
"""

import json
import math
import sys
import tempfile

from bare_loop import bare_epoch

from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.worker.timing import TimingWorker
from dpscale.measure.workload.loading import Room
from dpscale.plan.study import Study


def main(strategy: str, gpus: int, batch: int, images: int, folder: str, epochs: int) -> None:
    study = Study({"study": "clock", "dataset": {"source": "synthetic", "images": images}})
    job = {"configuration": [strategy, gpus, batch], "seed": 1, "settings": study.settings.to_json()}
    job["baseline_at_global_batch"] = False
    worker = TimingWorker({**job, "dataset": folder, "folder": tempfile.mkdtemp(), "timeout_s": 600}, rank=0)
    worker.prepare()
    network, optimiser = worker.build()
    step = worker.step_of(network, optimiser)
    timer = EpochTimer(worker.devices, worker.workers)
    batches, _ = worker.epoch_in_memory((0, 1, worker.batch), Room(math.inf))

    def bare() -> None:
        bare_s.append(bare_epoch(network, optimiser, batches, worker.devices))

    def cell() -> None:
        cell_s.append(timer.time(step, batches, len(batches))["epoch_s"])

    cell_s: list[float] = []
    bare_s: list[float] = []
    for epoch in range(epochs + 2):
        for turn in (bare, cell) if epoch % 2 else (cell, bare):
            turn()
    print(json.dumps({"cell": cell_s[2:], "bare": bare_s[2:]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], int(sys.argv[6]))
