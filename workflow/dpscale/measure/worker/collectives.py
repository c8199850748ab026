"""One worker of a collectives cell."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dpscale.errors import MeasurementError
from dpscale.measure.ranks import gather
from dpscale.measure.worker.base import Worker
from dpscale.records.files import JsonRecord

# The mean is over as many calls as in nccl-tests, fewer where a call takes long.
CALLS = 20
WARM_UP_CALLS = 5
REPEATS = (3, 10)
BUDGET_S = 0.1
PEER_COPY_BYTES = 256 * 2**20
# A GPU is held so long that all calls can be queued meanwhile. Where a hold ended too early, it is doubled, up to a
# limit.
FIRST_HOLD_S = 1e-3
HOLD_LIMIT_S = 1.0
# A GPU waits in cycles. Its clock is not known exactly; none is faster.
CYCLES_PER_S = 3e9
ELEMENT_BYTES = 4
# Every rank has an equal share of these messages.
SHARED = ("reduce_scatter", "all_gather")
# Small whole numbers, whose sums are exact in float32. A prime: no rank's share repeats another's.
PATTERN = 251

Call = Callable[[], Any]

# Torch 2.14 gave them new names, and warns of the old ones.
REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
ALL_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)


class CollectivesWorker(Worker):
    """Times collectives on one rank, together with all other ranks."""

    def __init__(self, job: JsonRecord, rank: int):
        gpus = int(job["gpus"])
        super().__init__(job, rank, job["settings"]["device"], gpus, gpus, job.get("nodes", 1))
        self.messages = job["messages"]
        self.meeting = torch.zeros(1, device=self.device)
        self.collectives: list[JsonRecord] = []
        self.peer_copies: list[JsonRecord] = []

    def measure(self) -> None:
        """Fill `collectives` and `peer_copies`."""
        self.collectives = [self._time_collective(*message) for message in self.messages]
        self.peer_copies = list(self._peer_copies())

    def results(self) -> JsonRecord:
        return {"collectives": self.collectives, "peer_copies": self.peer_copies}

    def _time_collective(self, operation: str, message_bytes: int) -> JsonRecord:
        """Return the seconds of one call, the slowest rank's, in every repeat. Raises MeasurementError where the result
        is wrong."""
        elements = message_bytes // ELEMENT_BYTES
        if operation in SHARED:
            elements = max(1, elements // self.workers) * self.workers
        size = elements * ELEMENT_BYTES
        collective = Collective(operation, elements, self.rank, self.workers, self.device)
        self._time_calls(collective.call, WARM_UP_CALLS, hold_s=0.0)
        once = self._time_held(collective.call, WARM_UP_CALLS, FIRST_HOLD_S)
        calls = max(1, min(CALLS, round(BUDGET_S / REPEATS[1] / once.seconds)))
        repeats = max(REPEATS[0], min(REPEATS[1], round(BUDGET_S / calls / once.seconds)))
        timed = [self._time_held(collective.call, calls, once.hold_s)]
        while len(timed) < repeats:
            timed.append(self._time_held(collective.call, calls, timed[-1].hold_s))
        self.report(f"{operation} of {size:,} bytes: {timed[-1].seconds * 1e6:,.1f} us")
        if not all(gather(collective.is_correct(), self.workers)):
            raise MeasurementError(f"{operation} of {size} bytes gave a wrong result")
        return {
            "operation": operation,
            "bytes": size,
            "calls": calls,
            "seconds": [repeat.seconds for repeat in timed],
            "held": [repeat.held for repeat in timed] if self.on_gpu else None,
        }

    def _time_held(self, call: Call, calls: int, hold_s: float) -> "TimedCall":
        """Time calls that are all queued before the first one runs, as far as holding the GPU longer can do it. All
        ranks come to the same decisions."""
        timed = self._time_calls(call, calls, hold_s)
        while not timed.held and hold_s < HOLD_LIMIT_S:
            hold_s = min(2 * hold_s, HOLD_LIMIT_S)
            timed = self._time_calls(call, calls, hold_s)
        return timed

    def _time_calls(self, call: Call, calls: int, hold_s: float) -> "TimedCall":
        """Return the mean time of `calls` calls in a row, in seconds. On a GPU by the device's clock, and after a wait
        of `hold_s` in which the calls are queued: the time that Python takes to launch them is then not counted."""
        if not self.on_gpu:
            gather(0.0, self.workers)
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return self._of_slowest((time.perf_counter() - start) / calls, hold_s, held=True)
        start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        released = torch.cuda.Event()
        torch.cuda.synchronize()
        gather(0.0, self.workers)
        torch.cuda._sleep(round(hold_s * CYCLES_PER_S))
        released.record()
        # After this one all ranks are at the same point. Not so after a broadcast or a reduce: who sends does not wait.
        dist.all_reduce(self.meeting)
        start_event.record()
        for _ in range(calls):
            call()
        end_event.record()
        held = not released.query()
        end_event.synchronize()
        return self._of_slowest(start_event.elapsed_time(end_event) * 1e-3 / calls, hold_s, held)

    def _of_slowest(self, seconds: float, hold_s: float, held: bool) -> "TimedCall":
        return TimedCall(max(gather(seconds, self.workers)), hold_s, all(gather(held, self.workers)))

    def _peer_copies(self) -> Iterator[JsonRecord]:
        """Time copies from every GPU of the first node to every other there, one at a time. Rank 0 sees all of them and
        makes the copies; the others wait."""
        if self.on_gpu and self.rank == 0:
            for source, target in permutations(range(self.gpus_here), 2):
                yield _peer_copy(source, target)
        gather(0.0, self.workers)


@dataclass(frozen=True)
class TimedCall:
    """Calls in a row: mean seconds of one, the slowest rank's; and whether every rank was held for so long that all of
    them were queued."""

    seconds: float
    hold_s: float
    held: bool


class Collective:
    """A collective on buffers of its own. `elements` are counted as in nccl-tests: the whole message, of all ranks."""

    def __init__(self, operation: str, elements: int, rank: int, workers: int, device: torch.device):
        self.rank, self.workers = rank, workers
        self.operation = operation
        share = elements // workers
        self.inputs = torch.zeros(share if operation == "all_gather" else elements, device=device)
        self.outputs = self.inputs
        if operation in SHARED:
            self.outputs = torch.zeros(share if operation == "reduce_scatter" else elements, device=device)
        self.call: Call = {
            "allreduce": lambda: dist.all_reduce(self.inputs),
            "broadcast": lambda: dist.broadcast(self.inputs, 0),
            "reduce": lambda: dist.reduce(self.inputs, 0),
            "reduce_scatter": lambda: REDUCE_SCATTER(self.outputs, self.inputs),
            "all_gather": lambda: ALL_GATHER(self.outputs, self.inputs),
        }[operation]

    def is_correct(self) -> bool:
        """Whether a call gives the right result in every element, for inputs that differ from rank to rank."""
        elements, device = self.inputs.numel(), self.inputs.device
        pattern = (torch.arange(elements, device=device, dtype=torch.int32) % PATTERN).float()
        self.inputs.copy_(pattern * (self.rank + 1))
        self.call()
        expected = self._expected(pattern)
        return expected is None or bool(torch.equal(self.outputs, expected))

    def _expected(self, pattern: Tensor) -> Tensor | None:
        """Return this rank's result for inputs of rank + 1 times the pattern, None where it is not defined."""
        total = self.workers * (self.workers + 1) // 2
        if self.operation == "allreduce":
            return pattern * total
        if self.operation == "broadcast":
            return pattern
        if self.operation == "reduce":
            return pattern * total if self.rank == 0 else None
        if self.operation == "reduce_scatter":
            return pattern.chunk(self.workers)[self.rank] * total
        return torch.cat([pattern * (rank + 1) for rank in range(self.workers)])


def _peer_copy(source: int, target: int) -> JsonRecord:
    origin, copy = (torch.zeros(PEER_COPY_BYTES // ELEMENT_BYTES, device=f"cuda:{gpu}") for gpu in (source, target))
    seconds = []
    with torch.cuda.device(source):  # a copy between devices runs on the source's stream
        for _ in range(WARM_UP_CALLS + REPEATS[1]):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            copy.copy_(origin, non_blocking=True)
            end.record()
            end.synchronize()
            seconds.append(start.elapsed_time(end) * 1e-3)
    return {
        "source": source,
        "target": target,
        "bytes": PEER_COPY_BYTES,
        "seconds": seconds[WARM_UP_CALLS:],
    }


WORKER = CollectivesWorker
