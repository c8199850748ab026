"""The worker of several cells in turn, which loads torch once: that takes longer than a small cell."""

import importlib
import shutil
from pathlib import Path
from typing import Any

import torch.distributed as dist

from dpscale.measure import OUTCOME, write_outcome


class WorkerInTurn:
    """Each of the job's `jobs` names the `module` of its worker. The outcomes of those that end are left in the folder
    `outcomes`, by their number."""

    def __init__(self, job: dict[str, Any], rank: int):
        self.job = job
        self.rank = rank

    def run(self) -> None:
        for number, job in enumerate(self.job["jobs"]):
            folder = Path(self.job["folder"]) / str(number)
            folder.mkdir(exist_ok=True)
            importlib.import_module(job["module"]).WORKER({**job, "folder": str(folder)}, self.rank).run()
            dist.destroy_process_group()
            if self.rank == 0:
                shutil.copy(folder / OUTCOME, Path(self.job["outcomes"]) / f"{number}.json")
        if self.rank == 0:
            write_outcome(Path(self.job["folder"]), {"status": "ok"})


WORKER = WorkerInTurn
