"""A strategy is its folder and one row; code that does not know it raises, and none is taken for another.

The made-up one is no twin of ddp: it gathers its weights twice and scatters its gradient, in place of an allreduce.
"""

import json
import shutil
from pathlib import Path

import pytest

import warm
from project import Project

PACKAGE = "workflow/dpscale"
KNOWN = f"{PACKAGE}/strategies/known.py"
FOLDER = f"{PACKAGE}/strategies/sharded"

DATA = '''"""Every GPU keeps a share of the weights."""

from dpscale.strategies.strategy import Strategy

STRATEGY = Strategy(
    name="sharded",
    label="ShardedParallel",
    colour=("#A0447F", "#E39CC9"),
    has_process_per_gpu=True,
    all_ranks_send_alike=True,
    messages_of_step=lambda network: [
        (operation, network.gradient_bytes) for operation in ("all_gather", "all_gather", "reduce_scatter")
    ],
    bytes_sent=lambda gpus, network, exchange: 3 * (gpus - 1) / gpus * network.gradient_bytes,
)
'''
IN_TORCH = '''"""Its wrapper: all-gathers before the forward and the backward pass, a reduce-scatter after that."""

import torch
import torch.distributed as dist
from torch import nn


def wrap(network, devices, exchange):
    return Sharded(network)


def rungs(steps):
    return {"training": steps.whole_step()}


class Sharded(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network, self.ready = network, 0
        self.weights = list(network.parameters())
        for weight in self.weights:
            weight.register_post_accumulate_grad_hook(self.count)

    def forward(self, *inputs, **named):
        self.gather()
        return self.network(*inputs, **named)

    def count(self, weight):
        if self.ready == 0:
            self.gather()
        self.ready = (self.ready + 1) % len(self.weights)
        if self.ready == 0:
            self.scatter()

    def flat(self, tensors):
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        return nn.functional.pad(flat, (0, -len(flat) % dist.get_world_size()))

    def write(self, tensors, flat):
        sizes = [tensor.numel() for tensor in tensors]
        for tensor, part in zip(tensors, flat[: sum(sizes)].split(sizes)):
            tensor.data.copy_(part.view_as(tensor))

    @torch.no_grad()
    def gather(self):
        flat = self.flat(self.weights)
        own = flat.chunk(dist.get_world_size())[dist.get_rank()].clone()
        dist.all_gather_into_tensor(flat, own)
        self.write(self.weights, flat)

    @torch.no_grad()
    def scatter(self):
        gradients = [weight.grad for weight in self.weights]
        flat = self.flat(gradients) / dist.get_world_size()
        own = torch.empty_like(flat.chunk(dist.get_world_size())[0])
        dist.reduce_scatter_tensor(own, flat)
        flat.zero_().chunk(dist.get_world_size())[dist.get_rank()].copy_(own)
        self.write(gradients, flat)
'''

CELL = [
    *("--strategy", "sharded", "--gpus", "2", "--batch-per-gpu", "16", "--device", "cpu", "--width", "4"),
    *("--dataset", "dataset", "--dataset-source", "synthetic", "--epoch-images", "128"),
]

# Tables and page of ddp and of the new strategy, from records that are alike but for their names.
SHOWN = """
import json, sys
from pathlib import Path
from dpscale.analyse.tables import build_tables
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.present.page import render
from dpscale.records.collect import collect
from dpscale.records.files import write_record
from dpscale.tables.row import written
from dpscale.tables.tables import TABLES
from record_factory import collectives_record, communication_record, network_facts, timing_record, write

results = Path(sys.argv[1])
study = Study({"study": "s", "gpus": [1, 2, 4], "strategies": ["single", "ddp", "sharded"], "batch_per_gpu": [64],
               "scopes": ["compute"], "runs": 3})
write_record("network", results / "network.json", network_facts(study.settings))
for cell in plan(study).all_cells:
    epochs = [(2 + (cell.gpus > 1)) / cell.gpus * longer for longer in (1, 1.01)]
    write(results, cell, {
        "timing": lambda: timing_record(cell, study.settings, epochs),
        "communication": lambda: communication_record(cell, study.settings, 0.1, 0.02, 0.01),
        "collectives": lambda: collectives_record(cell, study.settings),
    }[cell.kind]())
both = build_tables(study, collect(results, plan(study).all_cells, study.settings))
page = render(study.values, both)

def of(table, name):
    return [getattr(row, name) for row in getattr(both, table) if row.strategy == "sharded"]

def to_ddp(name):
    values = {(row.strategy, row.gpus, row.batch_per_gpu): getattr(row, name) for row in both.bandwidth}
    values = {at: getattr(value, "value", value) for at, value in values.items()}
    return sorted({round(v / values["ddp", *at[1:]], 6) for at, v in values.items() if at[0] == "sharded"})

print(json.dumps({
    "speedups": len(of("speedup", "speedup")) > 0,
    "alone": sum(figure.is_known for figure in of("communication", "isolated_step_s")),
    "to ddp": [to_ddp(name) for name in ("allreduce_bytes_per_step", "bandwidth_gb_s")],
    "on the page": [text in page for text in (">sharded<", "--sharded")],
}))
"""


@pytest.fixture
def project(root: Path, finished: Project, tmp_path: Path) -> Project:
    """A copy of the project whose workers are real, and a dataset."""
    project = Project.create(root, tmp_path / "project", stubs=())
    project.edit("measure/worker/communication.py", "ROUNDS = 7", "ROUNDS = 2")
    shutil.copytree(finished.folder / "results/tiny/dataset", project.folder / "dataset")
    return project


def test_a_strategy_is_its_folder_and_one_row(project: Project, tmp_path: Path) -> None:
    timed = ["time", *CELL, "--scopes", "compute", "--timed-epochs", "1", "--loader-workers", "0"]
    commands = {kind: [*words, "--out", str(tmp_path / f"{kind}.json")] for kind, words in (
        ("timing", timed), ("communication", ["communication", *CELL]),
    )}  # fmt: skip
    place = project.folder, project.environment

    unknown = warm.dpscale(commands["timing"], *place)
    assert unknown.returncode == 2
    assert "'sharded' is not one of 'single', 'dp'" in unknown.stdout

    registry, folder = project.folder / KNOWN, project.folder / FOLDER
    code = registry.read_text().replace("fsdp, single, zero1\n", "fsdp, sharded, single, zero1\n")
    registry.write_text(code.replace("    ddp.STRATEGY,\n", "    ddp.STRATEGY,\n    sharded.STRATEGY,\n"))
    folder.mkdir()
    (folder / "__init__.py").write_text(DATA)
    for kind, function in (("timing", "wrap"), ("communication", "rungs")):
        refused = warm.dpscale(commands[kind], *place)
        assert refused.returncode == 1
        assert f"Error: sharded has no {function} in dpscale.strategies.sharded.in_torch" in refused.stdout
    assert not list(tmp_path.glob("*.json"))

    # Analysis knows all it needs without torch. The same times are half as much bandwidth again: they sent more bytes.
    shown = warm.python(["-c", SHOWN, str(tmp_path / "both")], *place)
    assert shown.returncode == 0, shown.stdout
    assert json.loads(shown.stdout) == {
        "speedups": True, "alone": 2, "to ddp": [[1.5], [1.5]],
        "on the page": [True, True],
    }  # fmt: skip

    (folder / "in_torch.py").write_text(IN_TORCH)
    for kind, command in commands.items():
        done = warm.dpscale(command, *place)
        assert done.returncode == 0, done.stdout
        record = json.loads((tmp_path / f"{kind}.json").read_text())
        assert (record["status"], record["cell"]["strategy"]) == ("ok", "sharded")
