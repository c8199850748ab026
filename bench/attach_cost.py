"""What the hooks of `dpscale diagnose -- COMMAND` cost a step, beside the same script with a clock of its steps alone.

    python bench/attach_cost.py --step-ms 10

Both run in turns, on one script whose step takes about so long. Printed is a step with hooks, as it is, over one with
the clock alone: the mean of logarithms over turns, with its 95 % t interval. At most 1.02 is what we promise.
"""

import json
import os
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path
from statistics import mean, median, stdev

import click
import scipy.stats

import dpscale

SITE = Path(dpscale.__file__).parent / "measure/attach/site"
SCRIPT = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_num_threads(1)
width = int(sys.argv[1])
net = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
net.to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(6400, 256), torch.randint(0, 10, (6400,)))
while True:
    for x, y in DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        loss.item()
"""


@click.command()
@click.option("--width", type=int, default=900, show_default=True, help="Of the network: how long a step takes.")
@click.option("--turns", type=click.IntRange(min=2), default=6, show_default=True)
@click.option("--minutes", type=float, default=0.15, show_default=True, help="Of one run.")
def main(width: int, turns: int, minutes: float) -> None:
    """Run both kinds in turns, and print the ratio."""
    ratios = []
    for turn in range(turns):
        modes = ("pace", "diagnose") if turn % 2 else ("diagnose", "pace")
        step = {mode: seconds_of_step(mode, width, minutes) for mode in modes}
        ratios.append(log(step["diagnose"] / step["pace"]))
        click.echo(f"{1e3 * step['diagnose']:.3f} ms with hooks, {1e3 * step['pace']:.3f} ms with a clock alone")
    half = scipy.stats.t.ppf(0.975, turns - 1) * stdev(ratios) / turns**0.5
    low, high = exp(mean(ratios) - half), exp(mean(ratios) + half)
    click.echo(f"ratio {exp(mean(ratios)):.4f} [{low:.4f}, {high:.4f}]")


def seconds_of_step(mode: str, width: int, minutes: float) -> float:
    """The median step of a run, as it is."""
    with tempfile.TemporaryDirectory() as folder:
        # No interventions: what they leave behind in caches is not the hooks' cost.
        probes = ["batch_kept", "gc_off", "fused_optimiser", "no_waiting", "precision", "autocast_bfloat16"]
        job = {"minutes": minutes, "seed": 0, "mode": mode, "leave_out": probes}
        Path(folder, "job.json").write_text(json.dumps(job))
        environment = {**os.environ, "PYTHONPATH": str(SITE), "DPSCALE_ATTACH": folder}
        subprocess.run([sys.executable, "-c", SCRIPT, str(width)], env=environment, check=True)
        (path,) = Path(folder).glob("process-*.json")
        blocks = json.loads(path.read_text())["blocks"]
        return float(median(seconds for block in blocks for seconds in block["step_s"]))


if __name__ == "__main__":
    main()
