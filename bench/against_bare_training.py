"""Compare `dpscale train` with a plain training loop: torchvision's transforms, image by image.

    python bench/against_bare_training.py <folder of dpscale dataset> [--batch 128 --epochs 5 --seeds 5 --width 64]

On a GPU where there is one. Compares loss and accuracy of the last epoch over several seeds. The two draw different
orders and crops, so the difference has a limit in standard errors over seeds. Time has no limit: the loop's loader is
slow.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from dpscale.measure.workload.networks import CifarResNet18

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
AS_TENSOR = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
AUGMENTED = [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), *AS_TENSOR]
LOADER_WORKERS = 8 if DEVICE == "cuda" else 0
# A difference of more standard errors than this is not explained by the seeds.
LIMIT = 3


class Images(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, folder: Path, part: str, steps: list[Callable[[Any], Any]]):
        self.images = np.load(folder / f"{part}_images.npy")
        self.labels = np.load(folder / f"{part}_labels.npy")
        self.transform = transforms.Compose(steps)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    for name, default in {"batch": 128, "epochs": 5, "seeds": 5, "width": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    bare, ours = [], []
    for seed in range(1, options.seeds + 1):
        bare.append(train_by_hand(options, seed))
        ours.append(train_with_dpscale(options, seed))
        print(f"seed {seed}: by hand {bare[-1]}, dpscale {ours[-1]}", flush=True)
    print(f"\n{'':>18} {'by hand':>18} {'dpscale':>18} {'difference':>11} {'standard errors':>16}")
    missed = False
    for name in bare[0]:
        by_hand, by_dpscale = [row[name] for row in bare], [row[name] for row in ours]
        difference = mean(by_dpscale) - mean(by_hand)
        errors = difference / sqrt((stdev(by_hand) ** 2 + stdev(by_dpscale) ** 2) / options.seeds)
        missed |= abs(errors) > LIMIT
        shown = "  ".join(f"{mean(values):8.4f} +- {stdev(values):.4f}" for values in (by_hand, by_dpscale))
        print(f"{name:>18} {shown} {difference:11.4f} {errors:16.1f}")
    sys.exit(missed)


def train_by_hand(options: argparse.Namespace, seed: int) -> dict[str, float]:
    torch.manual_seed(1000 + seed)
    training_images = Images(options.dataset, "train", AUGMENTED)
    test_images = Images(options.dataset, "test", AS_TENSOR)
    training = DataLoader(training_images, options.batch, shuffle=True, num_workers=LOADER_WORKERS)
    test = DataLoader(test_images, 100, num_workers=LOADER_WORKERS)
    network = CifarResNet18(options.width).to(DEVICE)
    criterion = nn.CrossEntropyLoss(reduction="sum")
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for _ in range(options.epochs):
        loss, right = 0.0, 0
        for images, labels in training:
            images, labels = images.to(DEVICE), labels.to(DEVICE)
            optimiser.zero_grad()
            logits = network(images)
            summed = criterion(logits, labels)
            (summed / len(labels)).backward()
            optimiser.step()
            loss += summed.item()
            right += (logits.argmax(1) == labels).sum().item()
    network.eval()
    with torch.no_grad():
        tested = sum((network(x.to(DEVICE)).argmax(1) == y.to(DEVICE)).sum().item() for x, y in test)
    count = len(training_images)
    return named(loss / count, right / count, tested / len(test_images))


def train_with_dpscale(options: argparse.Namespace, seed: int) -> dict[str, float]:
    manifest = json.loads((options.dataset / "manifest.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "record.json")
        arm = f"--arm bare --strategy single --gpus 1 --batch-per-gpu {options.batch} --epochs {options.epochs}"
        source = f"--dataset-source {manifest['source']} --epoch-images {manifest['images']} --width {options.width}"
        more = ["--device", DEVICE, "--seed", str(seed), "--dataset", str(options.dataset), "--out", str(out)]
        command = [sys.executable, "-m", "dpscale", "train", *arm.split(), *source.split(), *more]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        last = json.loads(out.read_text())["epochs"][-1]
    return named(last["training_loss"], last["training_accuracy"], last["test_accuracy"])


def named(loss: float, accuracy: float, test_accuracy: float) -> dict[str, float]:
    values = {"training loss": loss, "training accuracy": accuracy, "test accuracy": test_accuracy}
    return {name: round(value, 4) for name, value in values.items()}


if __name__ == "__main__":
    main()
