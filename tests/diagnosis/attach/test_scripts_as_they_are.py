"""Scripts in other people's styles, unchanged: what is found in them, and that interventions do what they say."""

import sys
from pathlib import Path
from typing import Any

import pytest

from attached import AS_MANY_AS_FIT, SCRIPTS, Attached, run_attached, torchrun
from script_factory import script_record

pytestmark = pytest.mark.processes

AS_IT_IS = {"as_it_is", "as_it_is_again"}
ALONE = {*AS_IT_IS, "batch_kept", "gc_off"}
WITH_DDP = {*ALONE, "no_allreduce", "batch_kept_no_allreduce"}


@pytest.mark.parametrize(
    ("command", "probes", "expected"),
    [
        (torchrun("plain_ddp.py"), {*WITH_DDP, "no_buffers"}, {"strategy": "ddp", "batch": 32}),
        (torchrun("accumulation.py"), {*WITH_DDP, "accumulated"}, {"micro_batches_per_step": 4, "batch": 16}),
        (["trainer.py", "--processes", "2"], {*WITH_DDP, "no_buffers"}, {"strategy": "ddp", "backend": "gloo"}),
        (["data_parallel.py"], ALONE, {"strategy": "single", "batch": 64, "world_size": 1}),
    ],
    ids=["plain DDP", "accumulation", "Trainer class, spawned ranks", "DataParallel"],
)
def test_unchanged(command: list[str], probes: set[str], expected: dict[str, Any], tmp_path: Path) -> None:
    """The first one in processes that load torch themselves."""
    python = sys.executable if "plain_ddp.py" in command else None
    ranks = 1 if probes == ALONE else 2
    command = [str(SCRIPTS / word) if word.endswith(".py") else word for word in command]
    # Workers of a DataLoader would be processes of their own.
    run = run_attached(tmp_path, command, python=python, environment={"WORKERS": "1"})
    assert run.code == 0, run.output
    assert [process["status"] for process in run.processes] == ["measured"] * ranks
    assert len(run.files) == 1 + 2 * ranks, run.files
    first = run.processes[0]
    assert {name: first[name] for name in expected} == expected
    offered = set(run.probes(0))
    assert AS_IT_IS <= offered <= probes
    # All ranks do the same steps, whatever stands between them.
    assert all(run.probes(rank) == run.probes(0) for rank in range(ranks))
    assert {process["steps"] for process in run.processes} == {first["steps"]}
    script_record(*({**process, "ended_by": "time"} for process in run.processes))  # its class allows them
    assert first["flops_per_step"] > 0
    assert {row["file"] for row in first["lines"]} == {Path(word).name for word in command if word.endswith(".py")}


WATCHED = """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
net = nn.Linear(8, 8)
if {shard}:
    fully_shard(net, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
else:
    net = nn.parallel.DistributedDataParallel(net)
    net.register_comm_hook(None, allreduce_hook)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    net(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("shard", "why", "strategy"),
    [
        (True, "FSDP shards its parameters", "fsdp"),
        (False, "DDP has a communication hook of the script", "ddp"),
    ],
)
def test_what_cannot_be_undone_is_only_watched(shard: bool, why: str, strategy: str, tmp_path: Path) -> None:
    """In a script that starts torchrun itself. What a hook of DDP sends is no collective of the script's own. Of FSDP
    one intervention is safe."""
    (tmp_path / "script.py").write_text(WATCHED.format(shard=shard))
    launcher = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, *{torchrun('script.py')}]))"
    run = run_attached(tmp_path, ["-c", launcher])
    assert run.code == 0, run.output
    outcomes = [(process["status"], process["why"], process["strategy"]) for process in run.processes]
    assert outcomes == [("observed", why, strategy)] * 2
    assert set(run.probes()) == AS_IT_IS | ({"shards_kept"} if shard else set())
    assert bool(run.processes[0]["collectives"]) == shard


STRAGGLER = """
import os, time, torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.04 * dist.get_rank())
        return gradient

class Data(TensorDataset):
    def __getitem__(self, i):
        time.sleep(0.02 * (i % 10 == 0))  # once a batch
        return super().__getitem__(i)

dist.init_process_group("gloo")
alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]  # nobody waits for the other
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
net = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
torch.autograd.set_detect_anomaly(True)
for epoch in range(10_000):
    for x, in DataLoader(Data(torch.randn(640, 8)), 10):
        optimizer.zero_grad()
        loss = Slow.apply(net(x)).sum()
        loss.backward()
        dist.all_reduce(loss.detach(), group=alone)
        optimizer.step()
        print(net.require_backward_grad_sync, torch.is_anomaly_enabled())
    if dist.get_rank() == 0:
        time.sleep(1)  # a checkpoint, say
"""


@pytest.fixture(scope="module")
def straggling(tmp_path_factory: pytest.TempPathFactory) -> Attached:
    """Rank 1 sleeps 40 ms inside backward, each batch takes 20 ms to load, and each epoch ends with 1 s on rank 0."""
    folder = tmp_path_factory.mktemp("straggling")
    (folder / "script.py").write_text(STRAGGLER)
    left_out = ["fused_optimiser", "no_buffers", "gc_off", "batch_kept_no_allreduce"]
    return run_attached(folder, torchrun("script.py"), 0.3, AS_MANY_AS_FIT, leave_out=left_out)


def test_without_allreduce_each_rank_shows_its_own_pace(straggling: Attached) -> None:
    assert straggling.code == 0, straggling.output
    assert straggling.pace("no_allreduce", 1) - straggling.pace("no_allreduce", 0) > 0.02
    assert straggling.pace("as_it_is", 0) == pytest.approx(straggling.pace("as_it_is", 1), rel=0.2)


def test_a_kept_batch_is_not_loaded(straggling: Attached) -> None:
    """The sleep inside backward stays, however busy the cores are: no step is shorter than it."""
    assert straggling.pace("as_it_is") - straggling.pace("batch_kept") > 0.01
    assert straggling.pace("batch_kept") > 0.04


def test_collectives_of_the_script_are_counted_with_their_line(straggling: Attached) -> None:
    first = straggling.processes[0]
    (row,) = first["collectives"]
    assert (row["code"], row["calls"]) == ("dist.all_reduce(loss.detach(), group=alone)", first["counted_steps"])


def test_a_gap_between_steps_has_the_line_that_ran(straggling: Attached) -> None:
    gap = next(gap for gap in straggling.processes[0]["gaps"] if gap["border"] == "epoch")
    assert gap["code"] == "time.sleep(1)  # a checkpoint, say"
    assert gap["seconds"] > 1
    # The other rank waits for it in a collective.
    waits = {"loss.backward()", "loss = Slow.apply(net(x)).sum()"}
    assert waits & {gap["code"] for gap in straggling.processes[1]["gaps"]}


def test_switches_are_read_flipped_and_put_back(straggling: Attached) -> None:
    assert straggling.processes[0]["switches"]["search_s"] > 0
    assert "anomaly_off" in straggling.probes(0)
    lines = straggling.output.split("\n")
    # What the script reads of DDP never changes; anomaly mode does, in its blocks alone, and comes back.
    assert {line.split()[0] for line in lines if "e " in line[:6]} == {"True"}
    modes = [line.split()[1] for line in lines if line.startswith("True ")]
    assert 0 < modes.count("False") < 0.4 * len(modes)
    assert "True" in modes[modes.index("False") :]
