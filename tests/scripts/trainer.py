"""A small Trainer class, as people write them for their projects: validation and a checkpoint after each epoch.

    python trainer.py --processes 2        (spawns its own ranks)
"""
from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


@dataclass
class Config:
    epochs: int = 10_000
    batch_size: int = 32
    lr: float = 1e-3
    out: Path = Path("checkpoints")
    rank: int = 0
    world_size: int = 1


class Trainer:
    def __init__(self, model: nn.Module, config: Config) -> None:
        self.config = config
        self.device = torch.device(f"cuda:{config.rank}" if torch.cuda.is_available() else "cpu")
        self.model = DistributedDataParallel(model.to(self.device))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr)
        self.criterion = nn.MSELoss()
        self.best = float("inf")

    def fit(self, train: DataLoader, valid: DataLoader) -> None:
        for epoch in range(self.config.epochs):
            train.sampler.set_epoch(epoch)
            self.train_epoch(train)
            loss = self.validate(valid)
            if self.config.rank == 0:
                self.save(epoch, loss)
                print(f"[{epoch:4d}] valid {loss:.4f}", flush=True)

    def train_epoch(self, loader: DataLoader) -> None:
        self.model.train()
        for batch in loader:
            self.training_step(batch)

    def training_step(self, batch: list[Tensor]) -> Tensor:
        x, y = (tensor.to(self.device, non_blocking=True) for tensor in batch)
        loss = self.criterion(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    @torch.no_grad()
    def validate(self, loader: DataLoader) -> float:
        self.model.eval()
        total = sum(self.criterion(self.model(x.to(self.device)), y.to(self.device)).item() for x, y in loader)
        return total / len(loader)

    def save(self, epoch: int, loss: float) -> None:
        self.config.out.mkdir(parents=True, exist_ok=True)
        if loss < self.best:
            self.best = loss
            torch.save({"model": self.model.state_dict(), "epoch": epoch}, self.config.out / "best.pt")


def run(rank: int, config: Config) -> None:
    config.rank = rank
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, rank=rank, world_size=config.world_size)
    torch.manual_seed(0)
    x = torch.randn(3000, 32)
    train, valid = random_split(TensorDataset(x, x.sum(1, keepdim=True)), [1000, 2000])
    model = nn.Sequential(nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 1))
    Trainer(model, config).fit(
        DataLoader(train, config.batch_size, sampler=DistributedSampler(train), drop_last=True),
        DataLoader(valid, config.batch_size),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    config = Config(world_size=args.processes, out=Path(tempfile.mkdtemp()))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29551")
    mp.spawn(run, args=(config,), nprocs=args.processes)
