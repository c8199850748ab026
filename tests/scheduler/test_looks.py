"""How often Snakemake looks for jobs to start."""

from threading import Semaphore
from types import SimpleNamespace
from typing import Any

import pytest

from dpscale.scheduler.snakemake import schedule_when_jobs_end


@pytest.mark.parametrize(("executor", "is_limited"), [("local", False), ("slurm", True)])
def test_looks_that_are_ordered_at_once_are_one(executor: str, is_limited: bool) -> None:
    looks = Semaphore(0)
    scheduler: Any = SimpleNamespace(job_rate_limiter="100 a second", _open_jobs=looks)
    workflow: Any = SimpleNamespace(scheduler=scheduler, executor_plugin=SimpleNamespace(name=executor))
    schedule_when_jobs_end(workflow)
    assert bool(scheduler.job_rate_limiter) == is_limited
    for _ in range(2):  # a look orders the next one
        for _ in range(20):
            scheduler._schedule_reevalutation(0.2)
        assert looks.acquire(timeout=10)
        assert not looks.acquire(timeout=0.5)
