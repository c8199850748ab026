"""The ranks of a process group: how they join it, and how they exchange numbers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from dpscale.records.files import JsonRecord


def meet(folder: Path, rank: int, workers: int, timeout_s: float, on_gpu: bool, team: JsonRecord | None = None) -> None:
    """Join the process group of `workers` ranks: gloo for tensors on the host, NCCL for those on GPUs.

    On one node they join through a file in `folder`, for a port may be in use by another cell. On several, the
    launchers agreed on a place, which `team` names.
    """
    limit = timedelta(seconds=timeout_s)
    place: JsonRecord = {"init_method": f"file://{folder / 'rendezvous'}"}
    if team is not None:
        place = {"store": TCPStore(team["host"], team["port"], workers, rank == 0, limit)}
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo", **place, rank=rank, world_size=workers, timeout=limit
    )


def gather(value: float, workers: int) -> list[float]:
    """Return the `value` of every rank, on every rank. Through gloo on the host."""
    tensor = torch.tensor([value], dtype=torch.float64)
    gathered = [tensor.clone() for _ in range(workers)]
    if workers > 1:
        dist.all_gather(gathered, tensor)
    return [float(of_rank) for of_rank in gathered]


def gather_objects(value: Any, workers: int) -> list[Any]:
    """Return the `value` of every rank, on every rank. Through gloo on the host: torch prefers it for objects."""
    gathered = [value] * workers
    if workers > 1:
        dist.all_gather_object(gathered, value)
    return gathered
