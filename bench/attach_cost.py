"""What the hooks of `dpscale diagnose -- COMMAND` cost a step, beside the same script with a clock of its steps alone.

    python bench/attach_cost.py --device cpu
    python bench/attach_cost.py --device cuda

Processes of both kinds run in turns, on one script whose step takes about 10 ms, nearly all of it the host's own work,
which hooks could slow. Printed is a step with hooks, as it is, over one with the clock alone, by the wall: the median
over turns, with an interval from six turns on. At most 1.02 is what we promise.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import click

import dpscale
from dpscale.formulas.statistics import median_of_blocks
from dpscale.vocabulary.causes import PROBES

SITE = Path(dpscale.__file__).parent / "measure/attach/site"
# Called with the device and a number of layers, it trains; with the number of milliseconds too, it tells the number of
# layers whose step takes so long.
SCRIPT = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
device, layers = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
inner = [layer for _ in range(layers) for layer in (nn.Linear(64, 64), nn.ReLU())]
net = nn.Sequential(nn.Linear(256, 64), *inner, nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(6400, 256), torch.randint(0, 10, (6400,)))
began = time.perf_counter()
for epoch in range(10**6):
    for x, y in DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        loss.item()
    if epoch == 0:
        began = time.perf_counter()
    elif len(sys.argv) > 3:
        print(round(layers * float(sys.argv[3]) * 100 / 1e3 / (time.perf_counter() - began)))
        break
"""


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--step-ms", type=float, default=10.0, show_default=True, help="What a step takes, about.")
@click.option("--turns", type=click.IntRange(min=2), default=8, show_default=True)
@click.option("--minutes", type=float, default=0.1, show_default=True, help="Of one run.")
def main(device: str, step_ms: float, turns: int, minutes: float) -> None:
    """Run both kinds in turns, and print the ratio."""
    command = [sys.executable, "-c", SCRIPT, device]
    told = subprocess.run([*command, "40", str(step_ms)], check=True, capture_output=True, text=True).stdout
    command.append(told.strip())
    ratios = []
    for turn in range(turns):
        modes = ("pace", "diagnose") if turn % 2 else ("diagnose", "pace")
        step = {mode: seconds_of_step(mode, command, minutes) for mode in modes}
        ratios.append(step["diagnose"] / step["pace"])
        click.echo(f"{1e3 * step['diagnose']:.3f} ms with hooks, {1e3 * step['pace']:.3f} ms with a clock alone")
    ratio = median_of_blocks(ratios)
    click.echo(f"{device}: ratio {ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}], in the median of {turns} turns")


def seconds_of_step(mode: str, command: list[str], minutes: float) -> float:
    """As it is, in the median over blocks of a run."""
    with tempfile.TemporaryDirectory() as folder:
        # No interventions: what they leave behind in caches is not the hooks' cost.
        job = {"minutes": minutes, "seed": 0, "mode": mode, "leave_out": list(PROBES)}
        Path(folder, "job.json").write_text(json.dumps(job))
        environment = {**os.environ, "PYTHONPATH": str(SITE), "DPSCALE_ATTACH": folder}
        subprocess.run(command, env=environment, check=True)
        (path,) = Path(folder).glob("process-*.json")
        blocks = json.loads(path.read_text())["blocks"]
        return float(median(block["seconds"] / block["steps"] for block in blocks))


if __name__ == "__main__":
    main()
