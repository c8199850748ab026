"""A whole training step in a CUDA graph: captured once, and then launched by the host as one piece of work."""

import torch
from torch import Tensor

from dpscale.measure.worker.epoch_timer import Step

# Steps before the capture. DDP builds its buckets anew in its second step, and in its first ten it waits for the device
# to read its own clocks, which cannot be captured.
STEPS_BEFORE = 14


class CapturedStep:
    """`step`, replayed for batches as large as the one it was captured with. Any other batch runs without the graph,
    on the same weights.

    Every batch is copied into the memory that the graph reads. `stream` is the one on which the network was wrapped:
    DDP's hooks run on it.
    """

    def __init__(self, step: Step, images: Tensor, labels: Tensor, device: torch.device, stream: torch.cuda.Stream):
        self._step = step
        self._images = images.to(device)
        self._labels = labels.to(device)
        self._graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(STEPS_BEFORE):
                step(self._images, self._labels)
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        with torch.cuda.graph(self._graph, stream=stream):
            step(self._images, self._labels)

    def __call__(self, images: Tensor, labels: Tensor) -> None:
        if len(images) != len(self._images):
            self._step(images, labels)
            return
        self._images.copy_(images, non_blocking=True)
        self._labels.copy_(labels, non_blocking=True)
        self._graph.replay()
