"""A whole training step in a CUDA graph: captured once, and then launched by the host as one piece of work."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from dpscale.measure.workload.batches import Batch, mapped, tensors

# Steps before the capture. DDP builds its buckets anew in its second step, and in its first ten it waits for the device
# to read its own clocks, which cannot be captured.
STEPS_BEFORE = 14

T = TypeVar("T")


class CapturedStep(Generic[T]):
    """`step`, replayed for batches as large as the one it was captured with. Any other batch runs without the graph,
    on the same weights.

    Every batch is copied into the memory that the graph reads. `stream` is the one on which the network was wrapped:
    DDP's hooks run on it. Tensors that `step` returns are overwritten by the next replay.
    """

    def __init__(
        self,
        step: Callable[[Batch], T],
        batch: Batch,
        device: torch.device,
        stream: torch.cuda.Stream,
    ):
        self._step = step
        self._batch = mapped(lambda tensor: tensor.to(device), batch)
        self._tensors = tensors(self._batch)
        self._sizes = [tensor.shape for tensor in self._tensors]
        self._graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(STEPS_BEFORE):
                step(self._batch)
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        with torch.cuda.graph(self._graph, stream=stream):
            self._result = step(self._batch)

    def __call__(self, batch: Batch) -> T:
        given = tensors(batch)
        if [tensor.shape for tensor in given] != self._sizes:
            return self._step(batch)
        for own, tensor in zip(self._tensors, given, strict=True):
            own.copy_(tensor, non_blocking=True)
        self._graph.replay()
        return self._result
