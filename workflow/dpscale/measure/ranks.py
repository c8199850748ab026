"""The ranks of a process group on one machine: how they meet, and how they tell each other numbers."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


def meet(folder: Path, rank: int, workers: int, timeout_s: float, on_gpu: bool) -> None:
    """Join the process group of `workers` ranks: gloo for what is on the host, NCCL for what is on GPUs."""
    # A file to meet at, in place of a port that another cell on this node may have taken.
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=workers,
        timeout=timedelta(seconds=timeout_s),
    )


def gather(value: float, workers: int) -> list[float]:
    """`value` of every rank, on every rank. Through gloo on the host."""
    return [values[0] for values in gather_lists([value], workers)]


def gather_lists(values: Sequence[float], workers: int) -> list[list[float]]:
    """The `values` of every rank, equally many of each, on every rank. Through gloo on the host."""
    own = torch.tensor(values, dtype=torch.float64)
    if workers == 1:
        return [own.tolist()]
    gathered = [torch.zeros_like(own) for _ in range(workers)]
    dist.all_gather(gathered, own)
    return [one.tolist() for one in gathered]


def slowest(values: Sequence[float], workers: int) -> list[float]:
    """For every one of the `values` the largest of all ranks."""
    return [max(ranks) for ranks in zip(*gather_lists(values, workers), strict=True)]
