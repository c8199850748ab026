"""A strategy is a row, a wrapper and its rungs; what does not know it raises, and none is taken for another."""

import json
import shutil
from pathlib import Path

import pytest

import warm
from project import Project

TABLE = "workflow/dpscale/vocabulary/strategies.py"
WRAPPERS = "workflow/dpscale/measure/model/parallel.py"
RUNGS = "workflow/dpscale/measure/worker/communication.py"

# What is added where: after the row, wrapper or rungs of ddp begin in the file, before them.
ROW = """    Strategy(
        name="twin",
        label="TwinParallel",
        is_parallel=True,
        has_process_per_gpu=True,
        needs_cuda=False,
        sends_inputs=False,
        all_ranks_send_alike=True,
        message_name="TwinParallel's bucket",
        messages=(("allreduce", "ddp_buckets"),),
        colour=("#A0447F", "#E39CC9"),
    ),
"""
WRAPPER = (
    '    "twin": lambda network, devices, _: DistributedDataParallel(network, device_ids=list(devices) or None),\n'
)
RUNG = '    "twin": {"training": CommunicationWorker.whole_step},\n'

CELL = [
    *("--strategy", "twin", "--gpus", "2", "--batch-per-gpu", "64", "--device", "cpu", "--width", "4"),
    *("--dataset", "dataset", "--dataset-source", "synthetic", "--epoch-images", "128"),
]
TIMED = ["--scopes", "compute", "--timed-epochs", "1", "--loader-workers", "0"]

# Tables of ddp and of the new strategy, from records that are alike but for their name.
TABLES = """
import json, sys
from pathlib import Path
from dpscale.analyse.tables import build_tables
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from record_factory import collectives_record, communication_record, network_facts, timing_record, write
from dpscale.records.files import write_record

def tables_of(strategies, results):
    study = Study({"study": "s", "gpus": [1, 2, 4], "strategies": ["single", *strategies], "batch_per_gpu": [64, 512],
                   "scopes": ["compute"], "runs": 2})
    write_record("network", results / "network.json", network_facts(study.settings))
    for cell in plan(study).all_cells:
        epochs = [2.0 / cell.gpus, 2.1 / cell.gpus]
        write(results, cell, {
            "timing": lambda: timing_record(cell, study.settings, epochs),
            "communication": lambda: communication_record(cell, study.settings, 0.1, 0.02, 0.01, 0.01),
            "collectives": lambda: collectives_record(cell, study.settings),
        }[cell.kind]())
    return build_tables(study, collect(results, plan(study).all_cells, study.settings))

folder = Path(sys.argv[1])
both, alone = tables_of(["ddp", "twin"], folder / "both"), tables_of(["ddp"], folder / "alone")
isolated = both["communication"].dropna(subset=["isolated_step_s"]).groupby("strategy")["isolated_step_s"].size()
print(json.dumps({
    "speedup": sorted(set(both["speedup"]["strategy"])),
    "isolated": isolated.to_dict(),
    "forecast is ddp's": both["forecast"].equals(alone["forecast"]),
}))
"""


def add(project: Project, file: str, before: str, text: str) -> None:
    path = project.folder / file
    code = path.read_text()
    assert code.count(before) == 1, file
    path.write_text(code.replace(before, text + before))


@pytest.fixture
def project(root: Path, finished: Project, tmp_path: Path) -> Project:
    """A copy of the project whose workers are real, and a dataset."""
    project = Project.create(root, tmp_path / "project", stubs=())
    shutil.copytree(finished.folder / "results/tiny/dataset", project.folder / "dataset")
    return project


def test_a_strategy_is_a_row_a_wrapper_and_its_rungs(project: Project, tmp_path: Path) -> None:
    timed = ["time", *CELL, *TIMED, "--out", str(tmp_path / "time.json")]
    apart = ["communication", *CELL, "--out", str(tmp_path / "communication.json")]
    here = project.folder, project.environment

    unknown = warm.dpscale(timed, *here)
    assert unknown.returncode == 2
    assert "'twin' is not one of 'single', 'dp', 'ddp'" in unknown.stdout

    add(project, TABLE, '    Strategy(\n        name="ddp",\n', ROW)
    unknowing = {
        "wrapper in dpscale.measure.model.parallel": timed,
        "rungs in dpscale.measure.worker.communication": apart,
    }
    for lacks, command in unknowing.items():
        refused = warm.dpscale(command, *here)
        assert refused.returncode == 1
        assert f"Error: twin has no {lacks}" in refused.stdout
    assert not list(tmp_path.glob("*.json"))

    # Analysis knows all it needs from the row; the model of the forecast is DDP's, and is asked of nothing else.
    tables = warm.python([TABLES, str(tmp_path)], *here)
    assert tables.returncode == 0, tables.stdout
    assert json.loads(tables.stdout) == {
        "speedup": ["ddp", "twin"], "isolated": {"ddp": 4, "twin": 4}, "forecast is ddp's": True,
    }  # fmt: skip

    add(project, WRAPPERS, '    "ddp": ', WRAPPER)
    add(project, RUNGS, '    "ddp": {', RUNG)
    done = warm.dpscale(apart, *here)
    assert done.returncode == 0, done.stdout
    record = json.loads((tmp_path / "communication.json").read_text())
    assert (record["status"], record["cell"]["strategy"]) == ("ok", "twin")
