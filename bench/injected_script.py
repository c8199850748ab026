"""A small training script with one cause of slowness in it, or none. `bench/diagnose_scripts.py` runs it:

    torchrun --nproc-per-node 2 bench/injected_script.py --cause slow_loader
    torchrun --nproc-per-node 2 bench/injected_script.py --cause slow_loader --cured

`--cured` is the same script with the one change that the cause asks for. `--round` tells one run of it from another, so
that several at once are not taken for one script that was started more than once.
"""

import argparse
import fcntl
import gc
import os
import random
import time
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

FEATURES, WIDTH = 64, 64
PAUSE_S = 0.25  # long beside a step, also of a busy machine
asked: argparse.Namespace


def has(*causes: str) -> bool:
    return asked.cause in causes and not asked.cured


class Items(Dataset[tuple[torch.Tensor, Any]]):
    """Samples of a table, one by one. On a CPU each takes as long as of a slow disk."""

    def __init__(self, samples: int):
        self.samples = samples
        self.table = torch.randn(512, asked.tokens, FEATURES)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        if asked.device == "cpu":
            time.sleep(0.0003)
        return self.table[number % 512], number % 10


class Batches(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Whole batches, which cost nothing to load."""

    def __init__(self, batches: int):
        self.batches = batches
        dtype = torch.float64 if has("float64") else torch.float32
        self.table = torch.randn(8, asked.batch, asked.tokens, FEATURES, dtype=dtype)
        self.labels = torch.arange(asked.batch) % 10

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.table[number % 8], self.labels


class Ready(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Batches that are on the GPU already, as of a script whose loading costs nothing; images of another size now and
    then."""

    def __init__(self, dtype: torch.dtype):
        self.labels = torch.randint(10, (asked.batch,), device=asked.device)
        if asked.images:
            self.data = torch.randn(asked.batch, 3, 192, 192, device=asked.device)
        else:
            self.data = torch.randn(4 * asked.batch, asked.tokens, FEATURES, dtype=dtype, device=asked.device)

    def __iter__(self) -> Any:
        turn, side = random.Random(0), 192
        for number in count():
            side = turn.randrange(64, 192) if number % 4 == 0 else side
            start = number % 4 * asked.batch
            x = self.data[..., :side, :side] if asked.images else self.data[start : start + asked.batch]
            yield x, self.labels


class Held(torch.autograd.Function):
    """A rank that is slow inside backward."""

    seconds = 0.0

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        spin(Held.seconds)
        return gradient


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if asked.images:
            layers = [nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.Conv2d(64, 512, 3, stride=2), nn.ReLU()]
            layers += [nn.Conv2d(512, 512, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
        elif asked.cause == "batch_not_scaled":  # nearly nothing to exchange, and as long for few samples as for many
            layers = [nn.Linear(FEATURES, 8), *(nn.Tanh() for _ in range(asked.layers)), nn.Linear(8, 10)]
        elif asked.cause in ("many_small_tensors", "sharding") or has("small_batch"):
            layers = [nn.Linear(FEATURES, 8), *(nn.Linear(8, 8) for _ in range(asked.layers)), nn.Linear(8, 10)]
        else:
            width = asked.width
            layers = [nn.Linear(FEATURES, width), nn.ReLU()]
            for _ in range(asked.layers):
                layers += [nn.Linear(width, width), nn.ReLU(), nn.BatchNorm1d(width)]
            layers.append(nn.Linear(width, 10))
        self.layers = nn.Sequential(*layers)
        if asked.cause == "buffers":
            for number in range(200):
                self.register_buffer(f"table_{number}", torch.zeros(10_000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = Held.apply(x) if x.requires_grad else x
        y: torch.Tensor = self.layers(rows if asked.images else rows.flatten(0, 1))
        return y if asked.images else y.view(*x.shape[:2], -1).mean(1)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cause", default="nothing")
    parser.add_argument("--cured", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=1, help="Per sample: more of them are more work for each weight.")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--split", action="store_true", help="The batch is that of all ranks.")
    parser.add_argument("--images", action="store_true")
    parser.add_argument("--turn", type=Path, help="A file: of the scripts that are given it, one trains at a time.")
    parser.add_argument("--round")
    return parser.parse_args()


def loader_of(rank: int, ranks: int) -> Any:
    if asked.device == "cuda" and not has("slow_loader"):
        return DataLoader(Ready(torch.float64 if has("float64") else torch.float32), batch_size=None)
    short = asked.cause in ("workers_restarted", "few_batches")
    workers = {"few_batches": 4, "workers_restarted": 2}.get(asked.cause, 0)
    batches = ranks * (8 if short else 16)
    by_item = has("slow_loader") or (has("loader_of_one_rank") and rank == 1)
    dataset: Any = Items(asked.batch * batches) if by_item else Batches(batches)
    sampler: Any = None if has("work_not_divided") else DistributedSampler(dataset, ranks, rank, shuffle=False)
    return DataLoader(
        dataset,
        batch_size=asked.batch if by_item else None,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=workers > 0 and asked.cured,
    )


def main() -> None:
    global asked
    asked = options()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if has("started_twice"):
        rank, ranks = 0, 1
    backend = "gloo" if asked.cause == "gloo_with_cuda" and not asked.cured else asked.backend
    if ranks > 1:
        dist.init_process_group(backend)
    asked.batch //= ranks if asked.split else 1
    device = torch.device(asked.device)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(has("deterministic"))
    torch.autograd.set_detect_anomaly(has("anomaly"))
    torch.backends.cudnn.benchmark = has("cudnn_search")
    tf32 = not has("no_tf32", "nothing_strict")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    network: nn.Module = Network().to(device)
    if has("float64"):
        network = network.double()
    plain = network
    if ranks > 1:
        network = DistributedDataParallel(network, broadcast_buffers=has("buffers"))
    if has("sharding") and ranks > 1:
        from torch.distributed.optim import ZeroRedundancyOptimizer  # takes seconds to import

        optimiser: Any = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=1e-4)
    elif asked.cause in ("many_small_tensors", "sharding"):
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-4, foreach=False, fused=asked.cured)
    else:
        optimiser = torch.optim.SGD(network.parameters(), lr=1e-4, fused=True)
    train(network, plain, optimiser, loader_of(rank, ranks), device, rank, ranks)
    if ranks > 1:
        dist.destroy_process_group()


def train(
    network: Any, plain: nn.Module, optimiser: Any, loader: Any, device: torch.device, rank: int, ranks: int
) -> None:
    if asked.turn:
        turn_of_this = asked.turn.open("w")  # until this process ends
        fcntl.flock(turn_of_this, fcntl.LOCK_EX)
    step = 0
    log = Path(os.devnull).open("w")  # noqa: SIM115
    kept: list[Any] = []
    if has("garbage_collection"):
        kept = [[number] for number in range(1_000_000)]
    micro = 8 if asked.cause == "micro_batches" else 1
    turn = random.Random(7)
    while step < asked.steps:
        for x, y in loader:
            slow = turn.randrange(ranks)
            Held.seconds = 0.03 if (has("slow_device") and rank == 1) or (has("uneven_ranks") and rank == slow) else 0.0
            x, y = x.to(device, non_blocking=True), y.to(device)
            x.requires_grad_(asked.cause in ("slow_device", "uneven_ranks"))
            for number in range(micro):
                is_last = number == micro - 1
                together = has("micro_batches") or is_last or ranks == 1
                with nullcontext() if together else network.no_sync():
                    loss = nn.functional.cross_entropy(network(x), y)
                    loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            step += 1
            if has("hidden_synchronisation"):
                for parameter in plain.parameters():
                    parameter.norm().item()
                    parameter.abs().max().item()
            if has("scalars") and ranks > 1:
                for _ in range(40):
                    dist.all_reduce(loss.detach().clone())
            if has("logging"):
                log_histograms(log, plain)
            if has("garbage_collection"):
                kept.append([kept[-1], object()])
                if step % 10 == 0:
                    gc.collect()
            if has("allocator_emptied"):
                torch.cuda.empty_cache()
            if has("own_code") and step % 8 == 0:
                spin(PAUSE_S)
            if has("checkpoint") and step % 8 == 0:
                save(plain, rank)
            if step >= asked.steps:
                return
        if asked.cause == "validation" and not asked.cured and rank == 0:
            validate(plain, device)


def log_histograms(log: Any, network: nn.Module) -> None:
    bins = 10_000 if asked.device == "cpu" else 1_000  # of fewer parameters, in a step as long
    for name, parameter in network.named_parameters():
        for values in (parameter.detach(), parameter.detach().abs()):
            print(name, torch.histc(values.float(), bins).tolist(), file=log)


def save(network: nn.Module, rank: int) -> None:
    if rank == 0:
        torch.save(network.state_dict(), os.devnull)
        spin(PAUSE_S)  # as a slow disk does


@torch.no_grad()
def validate(network: nn.Module, device: torch.device) -> None:
    network.eval()
    until = time.perf_counter() + PAUSE_S
    while time.perf_counter() < until:
        network(torch.randn(8, asked.tokens, FEATURES, device=device))
    network.train()


if __name__ == "__main__":
    main()
