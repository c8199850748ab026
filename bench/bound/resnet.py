"""The built-in ResNet-18 on made-up images, each rank and its loader on cores of its own where BOUND_TO_CORES is set.

A rank takes its share of the cores that it may use, near its GPU where the machine says which those are, and no
more than its threads and its loader's processes keep busy.
"""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from dpscale.measure.workload.networks import CifarResNet18

SAMPLES = 50_000
# The loop, autograd's thread, NCCL's two, the one that pins memory, two processes of the loader; and one for the rest.
CORES = 8
Batch = tuple[Tensor, Tensor]


class Images(Dataset[tuple[Tensor, int]]):
    """A few images of noise again and again."""

    def __init__(self) -> None:
        self.images = torch.randn((64, 3, 32, 32), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index % len(self.images)], index % 10


def network() -> nn.Module:
    if os.environ.get("BOUND_TO_CORES"):
        cores = own_cores()
        for thread in Path("/proc/self/task").iterdir():  # what they start inherits that
            os.sched_setaffinity(int(thread.name), cores)
    return CifarResNet18(64 if torch.cuda.is_available() else 8)


def dataset() -> Dataset[tuple[Tensor, int]]:
    return Images()


def loss(network: nn.Module, batch: Batch) -> Tensor:
    images, labels = batch
    return functional.cross_entropy(network(images), labels)


def own_cores() -> set[int]:
    """This rank's share of the cores near its GPU; of all that it may use where nothing is known of them."""
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    usable = os.sched_getaffinity(0)
    near = sorted(usable & near_gpu(rank)) or sorted(usable)
    share = min(CORES, max(1, len(near) // ranks))
    first = rank * share % len(near)
    return set(near[first : first + share])


def near_gpu(rank: int) -> set[int]:
    """Cores of the NUMA node of a GPU; none where that is not known."""
    if not torch.cuda.is_available():
        return set()
    gpu: Any = torch.cuda.get_device_properties(rank)
    place = f"{gpu.pci_domain_id:04x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}.0"
    cores = Path(f"/sys/bus/pci/devices/{place}/local_cpulist")
    return set(numbers(cores.read_text().strip())) if cores.exists() else set()


def numbers(ranges: str) -> list[int]:
    """`0-3,8` as 0, 1, 2, 3, 8."""
    spans = [span.split("-") for span in ranges.split(",") if span]
    return [number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]
