"""The ranks of a process group on one machine: how they join it, and how they exchange numbers."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


def meet(folder: Path, rank: int, workers: int, timeout_s: float, on_gpu: bool) -> None:
    """Join the process group of `workers` ranks: gloo for what is on the host, NCCL for what is on GPUs."""
    # They join through a file: a port may be in use by another cell on this node.
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
    return [of_rank.tolist() for of_rank in gathered]


def slowest(values: Sequence[float], workers: int) -> list[float]:
    """The largest of all ranks for each of the `values`."""
    return [max(ranks) for ranks in zip(*gather_lists(values, workers), strict=True)]
