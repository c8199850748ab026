"""How often Slurm is asked."""

import asyncio
from types import SimpleNamespace

import pytest

from dpscale.scheduler.executor import PatientExecutor


def test_looks_are_never_further_apart_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, slept_s = object.__new__(PatientExecutor), []

    async def sleep(seconds: float) -> None:
        slept_s.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    executor.workflow = SimpleNamespace(remote_execution_settings=SimpleNamespace(seconds_between_status_checks=10))
    for seconds in (None, 180, 5):
        executor.next_seconds_between_status_checks = seconds
        with pytest.raises(StopIteration):
            executor.sleep().send(None)  # another test of this process may have left a loop that runs
    assert slept_s == [10, 10, 5]
