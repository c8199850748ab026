"""Whole studies through the profile, on four nodes of two workers each.

The study's timing cells are measured by real workers, all others by stubs: what those measure, the laptop's study shows
without Slurm (workflow/test_laptop_study.py).
"""

from pathlib import Path

import pytest

from cases import cases
from project import Project
from slurm_project import SlurmProject, read
from throwaway_slurm import ThrowawaySlurm

STUBS = ("collectives", "communication", "training")
WHOLE = cases(__file__, "whole")
CELLS = {"time": 4, "collectives": 3, "communication": 3, "train": 1}
OTHERS = dict.fromkeys(("dataset", "network", "study", "audit", "tables", "report", "all"), 1)


@pytest.fixture(scope="module")
def study(nodes: ThrowawaySlurm, root: Path, tmp_path_factory: pytest.TempPathFactory) -> SlurmProject:
    """1, 2, 4 and 8 workers on nodes of two, from nothing to the page."""
    empty = Project.create(root, tmp_path_factory.mktemp("empty"), STUBS)
    project = SlurmProject.on_nodes(nodes, empty, tmp_path_factory.mktemp("nodes") / "project", **WHOLE)
    assert project.run() == {**CELLS, **OTHERS}
    assert not project.page_is_partial()
    return project


def test_every_cell_is_one_job_on_as_few_nodes_as_have_its_gpus(study: SlurmProject) -> None:
    records = [read(path) for name in ("run", "seed") for path in study.folder.glob(f"results/tiny/*/**/{name}-*.json")]
    jobs = {job["JobId"]: job for rule in CELLS for job in study.jobs(rule)}
    assert len(jobs) == len(records) == sum(CELLS.values())
    for record in records:
        job, cell = jobs[record["provenance"]["job_id"]], record["cell"]
        gpus = {**record["settings"], **cell}["gpus"]  # those of an arm are a setting
        spans = max(1, gpus // 2)
        assert job["NumNodes"] == job["NumTasks"] == str(spans)
        assert cell.get("nodes", 1) == spans == len(record.get("nodes", ["one"]))
        if spans > 1:
            assert [node["environment"]["SLURMD_NODENAME"] for node in record["nodes"]] == study.hosts(job)
        assert job["TresPerNode"] == f"gres:gpu:v100:{gpus // spans}"
        devices = record["provenance"]["environment"]["CUDA_VISIBLE_DEVICES"]
        assert len(devices.split(",")) == gpus // spans
