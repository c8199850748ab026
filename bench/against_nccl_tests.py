"""Compare the allreduce of `dpscale collectives` with NVIDIA's nccl-tests, in turns on the same GPUs.

    python bench/against_nccl_tests.py <folder of all_reduce_perf> [rounds]

nccl-tests (github.com/NVIDIA/nccl-tests) has to be built beside this project, with the NCCL that torch uses or one
near it. All visible GPUs are used. Limits: bus bandwidth within 5 % from 16 MiB on, time within 20 % at 4 KiB.

nccl-tests runs one thread per GPU, which is closest to torch's one process per GPU: a single thread launches on one GPU
after the other, and small messages wait for that. Its `-G` replays the calls as a CUDA graph, and so without the time
of launching them. Both are shown. The limits apply to the first.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

SMALLEST, LARGEST, FACTOR = 4 * 2**10, 2**30, 4
LARGE = 16 * 2**20
GRAPH_REPLAYS = "5"
BANDWIDTH_LIMIT, LATENCY_LIMIT = 0.05, 0.20
# size, count, type, operation, root, then time in us, algbw, busbw and errors, out of place and in place.
ROW = re.compile(
    r"^\s+(\d+)\s+\d+\s+float\s+sum\s+-?\d+(?:\s+[\d.]+){3}\s+\S+\s+([\d.]+)\s+[\d.]+\s+[\d.]+", re.MULTILINE
)


def main(nccl_tests: Path, rounds: int) -> None:
    gpus = torch.cuda.device_count()
    print(f"allreduce on {gpus} GPUs, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))} in torch; {rounds} rounds")
    launched: dict[int, list[float]] = {}
    replayed: dict[int, list[float]] = {}
    ours: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        facts = Path(folder, "network.json")
        run(sys.executable, "-m", "dpscale", "network", "--out", str(facts))
        for number in range(rounds):
            add(launched, seconds_of_nccl_tests(nccl_tests, gpus))
            add(replayed, seconds_of_nccl_tests(nccl_tests, gpus, "-G", GRAPH_REPLAYS))
            add(ours, seconds_of_dpscale(facts, gpus, Path(folder, f"{number}.json")))
    factor = 2 * (gpus - 1) / gpus
    print(f"{'bytes':>13} {'nccl-tests':>24} {'nccl-tests, graph':>25} {'dpscale':>25} {'time':>7}")
    missed = 0
    for size in sorted(launched):
        launched_s, replayed_s, ours_s = (median(timings[size]) for timings in (launched, replayed, ours))
        ratio = ours_s / launched_s
        # A bandwidth that is 5 % lower is a time that is 1/0.95 as long.
        limit = LATENCY_LIMIT if size == SMALLEST else BANDWIDTH_LIMIT if size >= LARGE else None
        judged = abs((ratio if size == SMALLEST else 1 / ratio) - 1)
        verdict = "" if limit is None else f"  limit {limit:.0%}: {'met' if judged <= limit else 'MISSED'}"
        missed += "MISSED" in verdict
        shown = (f"{s * 1e6:9.1f} us {factor * size / s / 1e9:6.1f} GB/s" for s in (launched_s, replayed_s, ours_s))
        print(f"{size:13,} {'  '.join(shown)}  {ratio:6.3f}{verdict}")
    sys.exit(missed > 0)


def seconds_of_nccl_tests(folder: Path, gpus: int, *more: str) -> dict[int, float]:
    """Mean time of a call in place, by bytes."""
    sizes = ["-b", str(SMALLEST), "-e", str(LARGEST), "-f", str(FACTOR)]
    output = run(str(folder / "all_reduce_perf"), *sizes, "-t", str(gpus), "-g", "1", "-n", "20", "-w", "5", *more)
    found = {int(size): float(us) * 1e-6 for size, us in ROW.findall(output)}
    assert found, output
    return found


def seconds_of_dpscale(facts: Path, gpus: int, out: Path) -> dict[int, float]:
    """Median time of a call, by bytes, for the sizes that nccl-tests measures."""
    cell = ["--gpus", str(gpus), "--network-facts", str(facts), "--out", str(out)]
    run(sys.executable, "-m", "dpscale", "collectives", *cell)
    results = json.loads(out.read_text())["collectives"]
    sizes = {SMALLEST * FACTOR**power for power in range(10)}
    return {
        result["bytes"]: median(result["seconds"])
        for result in results
        if result["operation"] == "allreduce" and result["bytes"] in sizes
    }


def add(timings: dict[int, list[float]], found: dict[int, float]) -> None:
    for size, seconds in found.items():
        timings.setdefault(size, []).append(seconds)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
