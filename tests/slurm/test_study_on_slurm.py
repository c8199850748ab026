"""A whole study through the profile: its jobs, its records and its page.

Timing cells are measured by real workers, all others by stubs: what all of them measure, the laptop's study shows
without Slurm (workflow/test_laptop_study.py).
"""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from project import Project
from slurm_project import SlurmProject, read
from throwaway_slurm import ThrowawaySlurm

ARM = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 64, "epochs": 1}
WHOLE = {
    "communication": {"runs": 1},
    "training": {"seeds": 1, "arms": {"small": {**ARM, "strategy": "single", "gpus": 1}, "large": ARM}},
    "published": ["config/published/study-a.yaml"],
}
STUBS = ("collectives", "communication", "training")
CELLS = {"time": 4, "collectives": 1, "communication": 1, "train": 2}
OTHERS = dict.fromkeys(("dataset", "network", "study", "audit", "tables", "report", "all"), 1)


@pytest.fixture(scope="module")
def study(slurm: ThrowawaySlurm, root: Path, tmp_path_factory: pytest.TempPathFactory) -> SlurmProject:
    """The study, from nothing to its page, every worker with a GPU of its own."""
    empty = Project.create(root, tmp_path_factory.mktemp("empty"), STUBS)
    project = SlurmProject.on(slurm, empty, tmp_path_factory.mktemp("whole") / "project")
    project.change_study(**WHOLE)
    project.configure_cluster(rehearsal=True, gpu_jobs={"gpu_type": "v100"})
    assert project.run() == {**CELLS, **OTHERS}
    return project


@pytest.fixture(scope="module")
def records(study: SlurmProject) -> list[dict[str, Any]]:
    cells, trainings = (study.folder.glob(f"results/tiny/*/**/{name}-*.json") for name in ("run", "seed"))
    return [read(path) for path in sorted([*cells, *trainings])]


def test_every_cell_is_one_job_with_its_gpus_on_one_node(study: SlurmProject, records: list[dict[str, Any]]) -> None:
    assert not study.page_is_partial()
    assert Project(study.folder).planned() == {}, "also without Slurm"
    jobs = {job["JobId"]: job for rule in CELLS for job in study.jobs(rule)}
    assert len(records) == len(jobs) == sum(CELLS.values())
    for record in records:
        job = jobs[record["provenance"]["job_id"]]
        assert job["TresPerNode"] == f"gres:gpu:v100:{gpus_of(record)}"
        assert job["NumNodes"] == "1"
        assert job["NodeList"] == record["provenance"]["environment"]["SLURMD_NODENAME"]
        assert len(devices(record)) == gpus_of(record)


def test_jobs_at_the_same_time_have_different_gpus(study: SlurmProject, records: list[dict[str, Any]]) -> None:
    """Slurm's times count: a record's are whole seconds, and its cell takes less than one."""
    jobs = {job["JobId"]: job for rule in CELLS for job in study.jobs(rule)}
    together = [
        (first, second)
        for first, second in combinations(records, 2)
        if met(jobs[first["provenance"]["job_id"]], jobs[second["provenance"]["job_id"]])
    ]
    assert together, "no two cells ran at once on one node: this shows nothing"
    for first, second in together:
        assert not devices(first) & devices(second)


def met(first: dict[str, str], second: dict[str, str]) -> bool:
    """Return whether two jobs were on one node at the same time."""
    at_once = first["StartTime"] < second["EndTime"] and second["StartTime"] < first["EndTime"]
    return at_once and first["NodeList"] == second["NodeList"]


def gpus_of(record: dict[str, Any]) -> int:
    """A training's cell is an arm, whose settings have its GPUs."""
    return int({**record["settings"], **record["cell"]}["gpus"])


def devices(record: dict[str, Any]) -> set[str]:
    return set(record["provenance"]["environment"]["CUDA_VISIBLE_DEVICES"].split(","))
