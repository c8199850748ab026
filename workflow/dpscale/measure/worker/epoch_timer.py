"""The clock, and the training step. The study measures exactly the work between two readings of this clock."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist

from dpscale.measure.ranks import gather
from dpscale.measure.workload.batches import Batch, Step

GLOO_SETTLES_S = 0.005

# Above both, a stall is not taken as a part of its epoch.
LEAST_STALL_S = 0.2
LEAST_STALL_SHARE = 0.25  # of the rest of the epoch


@dataclass(frozen=True)
class TimedEpoch:
    """Seconds of an epoch: of the slowest rank, of each rank until its own devices were done, of every step of this
    rank, and for which a rank stood still (`stall_s`)."""

    epoch_s: float
    rank_epoch_s: list[float]
    step_s: list[float]
    stalled_s: float

    @property
    def is_disturbed(self) -> bool:
        """Return whether the epoch is longer than its steps explain, on all ranks alike."""
        return self.stalled_s > max(LEAST_STALL_S, LEAST_STALL_SHARE * (self.epoch_s - self.stalled_s))


def stall_s(epoch_s: float, step_s: Sequence[float]) -> float:
    """Return the seconds of a rank's epoch outside its steps, and those by which its longest step is longer than the
    next one: a suspended process has one such step, a slow DataLoader several, and its start is in the first step."""
    longest = sorted(step_s[1:])[-2:] or [0.0]
    return epoch_s - sum(step_s) + longest[-1] - longest[0]


class CudaMarks:
    """Marks the boundaries of steps without waiting for the device; read after the epoch. CUDA events on the stream
    that is current when they are made: the steps as the device went through them.

    Where the host decides how long a step takes, a mark is part of it. So the stream is looked up once, and the driver
    makes an event, at its first record, before the clock.
    """

    def __init__(self, steps: int):
        self._stream = torch.cuda.current_stream()
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        for event in self._events:
            event.record(self._stream)
        self._next = 0

    def mark(self) -> None:
        self._events[self._next].record(self._stream)
        self._next += 1

    def step_s(self) -> list[float]:
        marked = self._events[: self._next]
        return [a.elapsed_time(b) / 1e3 for a, b in pairwise(marked)]


class HostMarks:
    """Readings of the host's clock, for a CPU, where work is not asynchronous."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def mark(self) -> None:
        self._times.append(time.perf_counter())

    def step_s(self) -> list[float]:
        return [b - a for a, b in pairwise(self._times)]


class EpochTimer:
    """Times epochs on the devices of one worker, together with all other workers of its process group.

    `devices` are all that this process uses: one for single and ddp, N for dp, none on a CPU.
    """

    def __init__(self, devices: Sequence[torch.device], workers: int):
        self.devices = devices
        self.workers = workers

    def time(self, step: Step, batches: Iterable[Batch], steps: int) -> TimedEpoch:
        """Run one epoch of `steps` steps. Ranks meet again when all clocks have stopped."""
        marks = CudaMarks(steps) if self.devices else HostMarks()
        self._synchronise()
        if self.workers > 1:
            dist.all_reduce(torch.zeros(1))  # all ranks meet; through gloo on the host, so that no device has a kernel
        let_gloo_settle()
        start = time.perf_counter()
        marks.mark()
        for batch in batches:  # where loading is in the clock, this waits for the DataLoader
            step(batch)
            marks.mark()
        self._synchronise()
        own_epoch_s = time.perf_counter() - start
        rank_epoch_s, step_s = gather(own_epoch_s, self.workers), marks.step_s()
        stalled_s = max(gather(stall_s(own_epoch_s, step_s), self.workers))
        return TimedEpoch(max(rank_epoch_s), rank_epoch_s, step_s, stalled_s)

    def _synchronise(self) -> None:
        for device in self.devices:
            torch.cuda.synchronize(device)


def let_gloo_settle() -> None:
    """Wait for gloo's own threads, before a DataLoader forks.

    They take Python's lock to release the tensors of earlier collectives. A DataLoader that forks its workers at that
    moment hangs forever (seen with Python 3.11, whose fork does not guard against it).
    """
    if dist.is_initialized():  # also where this worker times alone, between epochs of all
        time.sleep(GLOO_SETTLES_S)
