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
    assert {"no_waiting", "precision", "autocast_bfloat16"} <= set(run.probes())
    assert run.pace("precision") < 0.8 * run.pace("as_it_is")
    assert run.pace("autocast_bfloat16") < 0.8 * run.pace("as_it_is")
    (wait,) = [row for row in process["waits"] if row["code"] == "loss.item()"]
    assert wait["calls"] == process["counted_steps"]
    assert process["device"] == "cuda"
    assert 0.5 < process["profile"]["busy_share"] <= 1
    assert process["profile"]["kernels_per_step"] > 30
    # Forward and backward of five layers, all but the first layer's gradient of its input.
    assert process["flops_per_step"] == pytest.approx(2 * 2048 * 4096**2 * (4 * 3 - 1), rel=0.01)
