"""Hooks and interventions inside a script that computes on a GPU."""

import sys
from pathlib import Path

import pytest

from attached import AS_MANY_AS_FIT, run_attached

pytestmark = pytest.mark.gpu

SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.backends.cuda.matmul.allow_tf32 = False
layers = [layer for _ in range(4) for layer in (nn.Linear(4096, 4096), nn.ReLU())]
net = nn.Sequential(*layers, nn.Linear(4096, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters())
x = torch.randn(8, 2048, 4096, device="cuda")
for epoch in range(10**6):
    for x_, in DataLoader(TensorDataset(x), batch_size=None):
        optimizer.zero_grad()
        loss = net(x_).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()
    time.sleep(0.4)  # a pause is no part of a step
"""


def test_waits_precision_and_a_profile(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run = run_attached(tmp_path, ["script.py"], 0.5, AS_MANY_AS_FIT, sys.executable)
    (process,) = run.processes
    assert (run.code, process["status"]) == (0, "measured"), run.output
    assert {"no_waiting", "precision"} <= set(run.probes())
    assert run.pace("precision") < 0.8 * run.pace("as_it_is")
    (wait,) = [row for row in process["waits"] if row["code"] == "loss.item()"]
    assert wait["calls"] == process["counted_steps"]
    assert process["device"] == "cuda"
    assert 0.5 < process["profile"]["busy_share"] <= 1
    assert process["profile"]["kernels_per_step"] > 30
    # Forward and backward of five layers, all but the first layer's gradient of its input.
    assert process["flops_per_step"] == pytest.approx(2 * 2048 * 4096**2 * (4 * 3 - 1), rel=0.01)


DATA_PARALLEL = """
import sys, time, torch
from torch import nn
from torch.backends import cudnn
net = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())))
net = nn.Sequential(nn.Conv2d(3, 64, 3), *net, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
if sys.argv[1] == "several":
    net = nn.DataParallel(net)
cudnn.benchmark = True
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
x, y = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,), device="cuda")
def work():
    time.sleep(0.002)
while True:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x.cuda()), y)
    loss.backward()
    optimizer.step()
    loss.item()
    work()
"""


@pytest.mark.gpu(2)
def test_data_parallel_is_compared_with_one_of_its_devices(tmp_path: Path) -> None:
    """What the bare module takes is what a script without DataParallel takes."""
    (tmp_path / "script.py").write_text(DATA_PARALLEL)
    runs = {}
    for devices in ("several", "one"):
        folder = tmp_path / devices
        folder.mkdir()
        runs[devices] = run_attached(folder, ["../script.py", devices], 0.5, AS_MANY_AS_FIT, sys.executable)
        assert runs[devices].code == 0, runs[devices].output
    several, alone_s = runs["several"], runs["one"].pace("as_it_is")
    assert {"share_on_one_device", "one_device", "cudnn_benchmark_off"} <= set(several.probes())
    assert several.pace("one_device") == pytest.approx(alone_s, rel=0.1)
    assert several.pace("share_on_one_device") < alone_s
    assert several.pace("as_it_is") > 2 * several.pace("cudnn_benchmark_off") > 2 * alone_s
    (process,) = several.processes
    assert process["switches"]["cudnn_benchmark_line"]["code"] == "cudnn.benchmark = True"
    for run in runs.values():
        for block in run.processes[0]["blocks"]:
            assert sum(block["parts"].values()) == pytest.approx(block["seconds"] / block["steps"], rel=0.03)
    parts = next(block["parts"] for block in process["blocks"] if block["probe"] == "as_it_is")
    assert {"copy", "scatter", "replicate", "forward", "gather", "backward", "optimiser", "own"} <= set(parts)
    assert 0.002 < parts["own"] < 0.004
