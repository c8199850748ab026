"""Compare the fixed cost of a cell (from process start to exit, without its epochs) with loading torch and opening
the device.

python bench/cell_overhead.py [repeats]    Baseline and cells run in turn; medians and their ratio are printed.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
IMAGES, WIDTH = (50_000, 64) if DEVICE == "cuda" else (512, 8)
BASELINE = f"import torch, torchvision; torch.zeros(1, device='{DEVICE}')"
LIMIT = 1.5


def main(repeats: int) -> None:
    cases = configurations()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = ["--source", "synthetic", "--images", str(IMAGES), "--out", str(folder / "dataset")]
        python("-m", "dpscale", "dataset", *source)
        baseline_s: list[float] = []
        overhead_s: dict[str, list[float]] = {case: [] for case in cases}
        for _ in range(repeats):
            baseline_s.append(python("-c", BASELINE))
            for case, (strategy, gpus) in cases.items():
                overhead_s[case].append(cell_overhead_s(strategy, gpus, folder))
    print(f"{DEVICE}, torch {torch.__version__}, median of {repeats}; limit {LIMIT} times the baseline")
    print(f"{'baseline: import torch, torchvision; open device':50} {median(baseline_s):7.2f} s")
    for case, seconds in overhead_s.items():
        ratio = median(seconds) / median(baseline_s)
        print(f"{'cell without its epochs: ' + case:50} {median(seconds):7.2f} s  {ratio:5.2f} times the baseline")


def configurations() -> dict[str, tuple[str, int]]:
    gpus = torch.cuda.device_count() if DEVICE == "cuda" else 2
    cases = {"single": ("single", 1)}
    if gpus > 1:
        cases[f"ddp, {gpus} workers"] = ("ddp", gpus)
        if DEVICE == "cuda":
            cases[f"dp, {gpus} GPUs"] = ("dp", gpus)
    return cases


def cell_overhead_s(strategy: str, gpus: int, folder: Path) -> float:
    out = folder / "record.json"
    cell = ["--strategy", strategy, "--gpus", str(gpus), "--batch-per-gpu", str(min(512, IMAGES // gpus))]
    settings = ["--device", DEVICE, "--width", str(WIDTH), "--scopes", "compute", "--timed-epochs", "1"]
    source = ["--dataset-source", "synthetic", "--epoch-images", str(IMAGES), "--dataset", str(folder / "dataset")]
    total_s = python("-m", "dpscale", "time", *cell, *settings, *source, "--out", str(out))
    record = json.loads(out.read_text())
    whole = [
        record["scopes"]["compute"],
        *(baseline["scopes"]["compute"]["before"] for baseline in record["alone"] or ()),
    ]
    after = [baseline["scopes"]["compute"]["after"] for baseline in record["alone"] or ()]
    # An epoch warms up before each timed one, but for the second half of a baseline. What it takes longer is overhead.
    epochs_s: float = 2 * sum(scope["epoch_s"][0] for scope in whole) + sum(scope["epoch_s"][0] for scope in after)
    return total_s - epochs_s


def python(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
