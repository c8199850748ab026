"""A training loop as one writes it by hand, to hold the cell's clock against. Shares no code with the timer.

python bare_loop.py <single|ddp> <batch per GPU> <dataset folder> <timed epochs>
prints the seconds of every timed epoch as JSON. Started by torchrun for ddp.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from dpscale.measure.workload.networks import CifarResNet18


def main(strategy: str, batch: int, folder: Path, epochs: int) -> None:
    rank = int(os.environ.get("RANK", 0))
    workers = int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(rank)
    if workers > 1:
        dist.init_process_group("nccl")

    pixels = torch.from_numpy(np.load(folder / "epoch_images.npy")[rank::workers])
    labels = torch.from_numpy(np.load(folder / "epoch_labels.npy")[rank::workers])
    mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
    std = torch.tensor([0.2023, 0.1994, 0.2010]).view(1, 3, 1, 1)
    batches = [
        (((images.float() / 255 - mean) / std).pin_memory(), targets.pin_memory())
        for images, targets in zip(pixels.split(batch), labels.split(batch), strict=True)
    ]

    network: nn.Module = CifarResNet18().cuda()
    if strategy == "ddp":
        network = nn.parallel.DistributedDataParallel(network, device_ids=[rank])
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)

    seconds = []
    for _ in range(epochs + 1):
        if workers > 1:
            dist.barrier()
        seconds.append(bare_epoch(network, optimiser, batches))
    if workers > 1:
        slowest = torch.tensor(seconds, device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        seconds = slowest.tolist()
        dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(seconds[1:]))


def bare_epoch(
    network: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """Seconds of one epoch, from this process's GPU idle to its being idle again."""
    criterion = nn.CrossEntropyLoss()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for images, targets in batches:
        images = images.cuda(non_blocking=True)
        targets = targets.cuda(non_blocking=True)
        optimiser.zero_grad()
        loss = criterion(network(images), targets)
        loss.backward()
        optimiser.step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
