"""Hooks and interventions inside scripts that compute on a GPU."""

from pathlib import Path
from typing import Any

import pytest

from attached import SCRIPTS, run_attached

pytestmark = pytest.mark.gpu

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.backends.cuda.matmul.allow_tf32 = False
layers = [layer for _ in range(4) for layer in (nn.Linear(4096, 4096), nn.ReLU())]
net = nn.Sequential(*layers, nn.Linear(4096, 1)).cuda()
{setup}
optimizer = torch.optim.Adam(net.parameters(), foreach={foreach})
x = torch.randn(8, 2048, 4096, device="cuda")
for epoch in range(10**6):
    for x_, in DataLoader(TensorDataset(x), batch_size=None):
        optimizer.zero_grad()
        loss = net(x_{cast}).square().mean()
        loss.backward()
        optimizer.step()
        {after}
"""


def found(folder: Path, minutes: float = 0.15, **words: str) -> tuple[Any, set[str]]:
    """The run of a script, and the probes that it got."""
    script = SCRIPT.format(**{"setup": "", "foreach": "None", "cast": "", "after": "loss.item()", **words})
    (folder / "script.py").write_text(script)
    run = run_attached(folder, ["script.py"], minutes=minutes)
    assert run.code == 0, run.output
    assert run.processes[0]["status"] == "measured", run.output
    return run, {probe for probe, _ in run.steps(0)}


def test_waits_precision_and_a_profile(tmp_path: Path) -> None:
    run, probes = found(tmp_path, minutes=0.5)
    (process,) = run.processes
    assert {"no_waiting", "precision", "autocast_bfloat16"} <= probes
    assert run.pace("precision") < 0.8 * run.pace("as_it_is")
    assert run.pace("autocast_bfloat16") < 0.8 * run.pace("as_it_is")
    (wait,) = [row for row in process["waits"] if row["kind"] == "item"]
    assert (wait["line"]["code"], wait["calls"]) == ("loss.item()", process["counted_steps"])
    assert process["device"] == "cuda"
    assert 0.5 < process["profile"]["busy_share"] <= 1
    assert process["profile"]["kernels_per_step"] > 30
    # Forward and backward of five layers, all but the first layer's gradient of its input.
    assert process["flops_per_step"] == pytest.approx(2 * 2048 * 4096**2 * (4 * 3 - 1), rel=0.01)
    assert process["memory"]["allocated"] > 0


def test_a_network_in_float64_has_no_faster_precision_and_says_so(tmp_path: Path) -> None:
    run, probes = found(tmp_path, setup="net = net.double()", cast=".double()")
    (process,) = run.processes
    assert not {"precision", "autocast_bfloat16"} & probes
    assert process["not_offered"]["precision"] == "the network computes in float64"
    assert set(process["dtypes"]) == {"float64"}


def test_an_allocator_that_is_emptied_each_step(tmp_path: Path) -> None:
    run, probes = found(tmp_path, after="torch.cuda.empty_cache()")
    (process,) = run.processes
    assert "no_emptying" in probes
    assert run.pace("no_emptying") < run.pace("as_it_is")
    assert process["emptyings"][0]["line"]["code"] == "torch.cuda.empty_cache()"
    assert process["events"]["cuda_malloc"]["mallocs"] > process["steps"] / 4


def test_many_small_tensors_gain_by_another_optimiser(tmp_path: Path) -> None:
    small = "small = nn.ParameterList([nn.Parameter(torch.ones(4).cuda()) for _ in range(500)]); net[0].small = small"
    used = " + 0 * torch.cat(list(small)).sum()"
    run, probes = found(tmp_path, minutes=0.3, setup=small, foreach="False", cast=used)
    assert {"foreach_optimiser", "fused_optimiser"} <= probes
    assert run.pace("foreach_optimiser") < 0.9 * run.pace("as_it_is")
    assert run.pace("fused_optimiser") < 0.9 * run.pace("as_it_is")


@pytest.mark.parametrize("script", ["data_parallel.py", "accumulation.py"])
def test_scripts_in_other_peoples_styles(script: str, tmp_path: Path) -> None:
    run = run_attached(tmp_path, [str(SCRIPTS / script)], minutes=0.1)
    assert run.code == 0, run.output
    assert run.processes[0]["status"] == "measured"
    assert any(row["kind"] in ("item", "cpu") for row in run.processes[0]["waits"])
