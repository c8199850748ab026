"""Compare `dpscale time` with a loop that was written by hand for one GPU, both as fast as it goes.

    python bench/against_hand_written.py <folder of dpscale dataset> [--batch 2048 --repeats 3]

bfloat16, channels-last, torch.compile, the whole step in a CUDA graph, images in the GPU's memory, a fused optimiser.
The loop shares no code with the clock. Fresh processes of both in turns; the ratio of their medians has a limit.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from dpscale.measure.workload.networks import CifarResNet18

LIMIT = 1.03
EPOCHS = 3
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
SETTINGS = (
    "--precision bfloat16 --memory-format channels_last --compile default --cuda-graph True --images-on device "
    "--fused-optimiser True --cudnn-benchmark True --scopes compute"
)


def hand_written(folder: Path, batch: int) -> list[float]:
    """Seconds of every epoch but the first."""
    torch.backends.cudnn.benchmark = True
    mean, std = (torch.tensor(values, device="cuda").view(1, 3, 1, 1) for values in (MEAN, STD))
    pixels = torch.from_numpy(np.load(folder / "epoch_images.npy")).cuda()
    images = ((pixels.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)
    labels = torch.from_numpy(np.load(folder / "epoch_labels.npy")).cuda()
    network = CifarResNet18().cuda().to(memory_format=torch.channels_last)
    compiled = torch.compile(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, fused=True)
    criterion = nn.CrossEntropyLoss()

    def step(forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> None:
        optimiser.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = forward(x)
        criterion(logits.float(), y).backward()
        optimiser.step()

    x, y = images[:batch].clone(memory_format=torch.channels_last), labels[:batch].clone()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(5):
            step(compiled, x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        step(compiled, x, y)

    full = len(images) // batch * batch
    seconds = []
    for _ in range(EPOCHS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for first in range(0, full, batch):
            x.copy_(images[first : first + batch])
            y.copy_(labels[first : first + batch])
            graph.replay()
        if full < len(images):
            step(network, images[full:], labels[full:])
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def cell(folder: Path, batch: int, out: Path) -> list[float]:
    """Seconds of every timed epoch of a cell."""
    dataset = json.loads((folder / "manifest.json").read_text())
    what = f"--strategy single --gpus 1 --batch-per-gpu {batch} --timed-epochs {EPOCHS} {SETTINGS}"
    of_images = f"--dataset {folder} --dataset-source {dataset['source']} --epoch-images {dataset['images']}"
    run(sys.executable, "-m", "dpscale", "time", *what.split(), *of_images.split(), "--out", str(out))
    epochs: list[float] = json.loads(out.read_text())["scopes"]["compute"]["epoch_s"]
    return epochs


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only-by-hand", action="store_true", help="Print the loop's own seconds as JSON.")
    options = parser.parse_args()
    if options.only_by_hand:
        print(json.dumps(hand_written(options.folder, options.batch)))
        return
    by_hand: list[float] = []
    cells: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats):
            alone = run(sys.executable, __file__, str(options.folder), "--batch", str(options.batch), "--only-by-hand")
            by_hand += json.loads(alone.splitlines()[-1])
            cells += cell(options.folder, options.batch, Path(folder, f"{repeat}.json"))
    images = len(np.load(options.folder / "epoch_labels.npy"))
    ratio = median(cells) / median(by_hand)
    print(f"{torch.cuda.get_device_name()}, batch {options.batch}, {options.repeats} processes of each in turns")
    for name, seconds in (("by hand", by_hand), ("cell", cells)):
        spread = f"{min(seconds):.4f} to {max(seconds):.4f} s"
        print(f"{name:8} {median(seconds):.4f} s an epoch ({spread}), {images / median(seconds):,.0f} images/s")
    print(f"ratio {ratio:.4f}, limit {LIMIT}")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
