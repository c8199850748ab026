"""A classifier of digits, in plain functions: an MLP, a DataLoader, and a loop over its batches in main().

torchrun --nproc-per-node 2 bench/diagnosed/mlp.py --cause scalars [--cured]
"""

import gc
import hashlib
import logging
import os
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from asked import RANK, RANKS, asked, begin_training, has, is_about
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

PIXELS, CLASSES = 28 * 28, 10
ON_GPU = asked.device == "cuda"
BATCH = asked.batch or (8192 if ON_GPU else 1024)
WIDTH = asked.width or (4096 if ON_GPU else 128)
LAYERS = asked.layers or 2
FOLDER = Path(tempfile.gettempdir(), f"mlp-{os.getpid()}")
Batch = tuple[Tensor, Tensor]


class Digits(Dataset[Any]):
    """All digits as one tensor, of which a batch is one index."""

    def __init__(self, samples: int, device: str) -> None:
        self.pixels = torch.randint(256, (samples, PIXELS), dtype=torch.uint8, device=device)
        self.labels = torch.randint(CLASSES, (samples,), device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, numbers: Sequence[int]) -> Batch:
        rows = torch.tensor(numbers, device=self.labels.device)
        return self.pixels[rows], self.labels[rows]


class CompressedDigits(Dataset[Any]):
    """Digits as files hold them, each decompressed and augmented when it is asked for."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        images = np.random.default_rng(0).integers(0, 255, (256, 28, 28), dtype=np.uint8) // 32 * 32
        self.files = [zlib.compress(image.tobytes()) for image in images]

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        image = np.frombuffer(zlib.decompress(self.files[number % 256]), dtype=np.uint8).reshape(28, 28)
        shifted = np.roll(image, number % 5 - 2, axis=1)
        return torch.from_numpy(shifted).flatten(), number % CLASSES


class Scaled(nn.Module):
    """Bytes between 0 and 1."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.double() if has("float64") else x.float()) / 255


def build_model() -> nn.Module:
    layers: list[nn.Module] = [Scaled(), nn.Linear(PIXELS, WIDTH), nn.ReLU()]
    for _ in range(LAYERS - 1):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


def build_loader() -> DataLoader[Any]:
    batches, workers = 16, 0
    if is_about("workers_restarted"):
        batches, workers = 10, 2
    if is_about("few_batches"):
        batches, workers = (8, 4) if has("few_batches") else (16, 1)
    samples = batches * BATCH * RANKS
    if has("slow_loader") or (has("loader_of_one_rank") and RANK == 1):
        dataset: Dataset[Any] = CompressedDigits(samples)
        collate: Any = None
    else:
        dataset, collate = Digits(samples, asked.device if workers == 0 else "cpu"), as_it_is
    divided = RANKS > 1 and not has("work_not_divided")
    return DataLoader(
        dataset,
        batch_size=BATCH,
        sampler=DistributedSampler(dataset, RANKS, RANK, shuffle=False) if divided else None,
        collate_fn=collate,
        num_workers=workers,
        persistent_workers=workers > 0 and not has("workers_restarted", "few_batches"),
    )


def as_it_is(batch: Any) -> Any:
    return batch


def build_optimiser(model: nn.Module) -> torch.optim.Optimizer:
    if has("sharding"):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-4)
    if has("many_small_tensors"):
        return torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
    return torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)


def evaluate(model: nn.Module, loader: DataLoader[Any]) -> float:
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += int((model(x.to(asked.device)).argmax(1) == y.to(asked.device)).sum())
    model.train()
    return correct / len(loader)


def save_checkpoint(model: nn.Module, optimiser: Any, digits: Tensor) -> None:
    FOLDER.mkdir(exist_ok=True)
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "digits": digits}, FOLDER / "last.pt")


def make_logger() -> logging.Logger:
    FOLDER.mkdir(exist_ok=True)
    logger = logging.getLogger("mlp")
    logger.addHandler(logging.FileHandler(FOLDER / "train.log"))
    logger.setLevel(logging.INFO)
    return logger


def reduce_metrics(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return the hits and the size of every class, over all ranks."""
    hits = logits.argmax(1) == y
    metrics = {}
    for label in range(CLASSES):
        metrics[f"hits {label}"] = (hits & (y == label)).sum()
        metrics[f"size {label}"] = (y == label).sum()
    for value in metrics.values():
        dist.all_reduce(value)
    return metrics


def area_under_curve(scores: Sequence[Sequence[float]], true: Sequence[int]) -> float:
    """Return the mean over classes of the area under the curve of hits over false alarms."""
    areas = []
    for label in range(CLASSES):
        hits = area = 0
        for _, is_hit in sorted((-row[label], guess == label) for row, guess in zip(scores, true, strict=True)):
            if is_hit:
                hits += 1
            else:
                area += hits
        areas.append(area / max(1, hits * (len(true) - hits)))
    return sum(areas) / CLASSES


def hardest_samples(logits: Tensor, y: Tensor) -> list[tuple[float, int]]:
    margins = []
    for number in range(0, len(y), 32 if ON_GPU else 4):
        margins.append((max(logits[number]) - logits[number][y[number]], number))
    return sorted((float(margin), number) for margin, number in margins)[-5:]


def weight_norm(model: nn.Module) -> float:
    total = 0.0
    for parameter in model.parameters():
        for row in parameter.detach().flatten(1) if parameter.dim() > 1 else parameter.detach():
            total += row.square().sum().item()
    return float(total**0.5)


def fingerprint(pixels: Tensor) -> str:
    """Return a hash of a batch, to see whether epochs are reproducible."""
    return hashlib.sha256(repr(pixels[:1024, :16].tolist()).encode()).hexdigest()


def main() -> None:
    alone = RANKS == 1 or has("started_twice")
    if not alone:
        dist.init_process_group("gloo" if has("gloo_with_cuda") or not ON_GPU else "nccl")
    if ON_GPU:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = not has("no_tf32")
    model = build_model().to(asked.device)
    if has("float64"):
        model = model.double()
    network = model if alone or has("own_exchange") else DDP(model, find_unused_parameters=has("unused_search"))
    optimiser = build_optimiser(model)
    loader = build_loader()
    held_out = DataLoader(Digits(16 * BATCH, asked.device), batch_size=BATCH, collate_fn=as_it_is)
    logger = make_logger()
    history: list[Any] = []
    if has("garbage_collection"):
        history = [{"sample": number, "seen": []} for number in range(300_000)]
    step, total = 0, asked.steps if has("fixed_steps") else max(1, asked.steps // RANKS)
    begin_training()
    while step < total:
        for x, y in loader:
            x, y = x.to(asked.device, non_blocking=True), y.to(asked.device, non_blocking=True)
            logits = network(x)
            loss = F.cross_entropy(logits, y)
            optimiser.zero_grad()
            loss.backward()
            if has("own_exchange") and not alone:
                for gradient in [weights.grad for weights in model.parameters() if weights.grad is not None]:
                    dist.all_reduce(gradient)
                    gradient /= RANKS
            optimiser.step()
            step += 1
            if has("scalars"):
                reduce_metrics(logits.detach(), y)
            if has("garbage_collection"):
                history.append({"sample": step, "seen": [history[-1]]})
                if step % 5 == 0:
                    gc.collect()
            if has("logging"):
                for name, weights in model.named_parameters():
                    values = weights.detach().flatten()[:8192].tolist()
                    logger.info("step %d %s %s", step, name, values)
            if has("checkpoint") and step % 2 == 0 and RANK == 0:
                save_checkpoint(model, optimiser, held_out.dataset.pixels)  # type: ignore[attr-defined]
            if has("allocator_emptied"):
                torch.cuda.empty_cache()
            if has("python_loop"):
                hardest_samples(logits.detach().cpu(), y.cpu())
            if has("slow_metric"):
                every = 8 if ON_GPU else 1
                area_under_curve(logits[::every].tolist(), y[::every].tolist())
            if has("item_norms"):
                weight_norm(model)
            if has("hashes"):
                fingerprint(x)
            if has("sleep") and step % 10 == 0:
                time.sleep(0.15)  # the tracker's server allows so many calls a minute
            if step >= total:
                break
        if has("validation"):
            evaluate(model, held_out)
    if not alone:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
