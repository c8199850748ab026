"""A small Trainer class, as people write them for their projects: validation and a checkpoint after each epoch.

    python trainer.py --processes 2        (spawns its own ranks)
"""
from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


class Trainer:
    def __init__(self, model: nn.Module, rank: int, out: Path) -> None:
        self.rank = rank
        self.out = out
        self.device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
        self.model = DistributedDataParallel(model.to(self.device))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = nn.MSELoss()

    def fit(self, train: DataLoader, valid: DataLoader) -> None:
        for epoch in range(10_000):
            train.sampler.set_epoch(epoch)
            self.model.train()
            for batch in train:
                self.training_step(batch)
            loss = self.validate(valid)
            if self.rank == 0:
                torch.save({"model": self.model.state_dict(), "epoch": epoch}, self.out / "last.pt")
                print(f"[{epoch:4d}] valid {loss:.4f}", flush=True)

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


def run(rank: int, processes: int, out: Path) -> None:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=processes)
    torch.manual_seed(0)
    x = torch.randn(3000, 32)
    train, valid = random_split(TensorDataset(x, x.sum(1, keepdim=True)), [1000, 2000])
    model = nn.Sequential(nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 1))
    loader = DataLoader(train, 32, sampler=DistributedSampler(train), drop_last=True)
    Trainer(model, rank, out).fit(loader, DataLoader(valid, 32))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29551")
    mp.spawn(run, args=(args.processes, Path(tempfile.mkdtemp())), nprocs=args.processes)
