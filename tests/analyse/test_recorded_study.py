"""What the study recorded on four H200 GPUs says, through the same tables as any study's."""

from pathlib import Path

import pytest

from dpscale.tables.tables import Tables
from recorded import recorded_tables
from rows import one, picked


@pytest.fixture(scope="module")
def tables(root: Path) -> Tables:
    return recorded_tables(root, "recorded")


def test_dataparallel_overlaps_nothing_and_mostly_does_not_communicate(tables: Tables) -> None:
    """No transfer should overlap, by torch's source. At batch 32 transfers are a small part of what E1 calls so."""
    dp = [row for row in picked(tables.communication, strategy="dp") if row.profiler_step_s.is_known]
    undistorted = [row for row in dp if row.profiler == "ok"]
    assert undistorted
    for row in undistorted:
        assert row.profiler_exposed_step_s.value == pytest.approx(row.profiler_step_s.value, rel=1e-6)
    small = picked(dp, batch_per_gpu=32)
    assert len(small) == 2
    assert all(row.profiler_step_s.value < 0.05 * row.communication_step_s.value for row in small)


def test_on_the_gpu_that_waits_least_nothing_is_faster_than_alone(tables: Tables) -> None:
    """No collective beats the same one alone; where hosts are slow, waiting is many times as long as the transfer."""
    ddp = [row for row in picked(tables.communication, strategy="ddp") if row.profiler_step_s.is_known]
    assert all(row.profiler_least_step_s.value > row.isolated_step_s.value for row in ddp)
    slow_host = one(ddp, batch_per_gpu=32, gpus=4)
    alone_s = slow_host.isolated_step_s.value
    assert slow_host.profiler_least_step_s.value < 1.5 * alone_s
    assert slow_host.profiler_step_s.value > 10 * alone_s
