"""Print, as JSON, ms per step of one GPU and of DataParallel on two, without cuDNN's search and with it."""

import json
import statistics
import time
from multiprocessing import get_context

import torch
from torch import nn

BATCHES_PER_GPU = (128, 512)
STEPS, WARM_UP_STEPS = 15, 5


def step_ms(gpus: int, batch_per_gpu: int, searches: bool) -> float:
    """Return the median time of a step, in a process of its own: cached plans are used with a search and without."""
    torch.backends.cudnn.benchmark = searches
    layers: list[nn.Module] = []
    for before, width in ((3, 64), (64, 128), (128, 256), (256, 512)):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU()]
    network: nn.Module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 2 * 2, 10)).cuda()
    network = nn.DataParallel(network, range(gpus)) if gpus > 1 else network
    images = torch.randn(gpus * batch_per_gpu, 3, 32, 32, device="cuda")
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        network(images).square().mean().backward()
        network.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return round(1000 * statistics.median(times[WARM_UP_STEPS:]), 1)


if __name__ == "__main__":
    cases = [(gpus, batch, searches) for batch in BATCHES_PER_GPU for gpus in (1, 2) for searches in (False, True)]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        times_ms = processes.starmap(step_ms, cases, chunksize=1)
    names = ("gpus", "batch_per_gpu", "searches", "step_ms")
    timed = [dict(zip(names, (*case, step), strict=True)) for case, step in zip(cases, times_ms, strict=True)]
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "cases": timed}, indent=1))
