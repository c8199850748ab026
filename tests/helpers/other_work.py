"""What this machine did beside a measurement: where that is much, the measurement says nothing of the code."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

# Cores that other processes may use during a measurement that decides.
QUIET_CORES = 0.3


class OtherWork:
    """`cores`: how many cores worked for others than this process and its children, on average; known afterwards."""

    cores: float

    @contextmanager
    def watched(self) -> Iterator["OtherWork"]:
        start, others_before_s = time.perf_counter(), _others_s()
        yield self
        self.cores = (_others_s() - others_before_s) / (time.perf_counter() - start)


def _others_s() -> float:
    """CPU time of all other processes since the machine started, and what its host took away from it (steal), in s."""
    times = psutil.cpu_times()
    busy_s = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice  # guests are in user and nice
    this = psutil.Process()
    own = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return float(busy_s - sum(one.user + one.system + one.children_user + one.children_system for one in own))
