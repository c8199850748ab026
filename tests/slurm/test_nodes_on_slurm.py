"""Whole studies through the profile, on four nodes of two workers each, and nodes that are lost.

The study's timing cells are measured by real workers, all others by stubs: what those measure, the laptop's study shows
without Slurm (workflow/test_laptop_study.py).
"""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from project import Project, wait_for
from slurm_project import SlurmProject, read
from throwaway_slurm import ThrowawaySlurm

OF_TWO = {"rehearsal": True, "gpus_per_node": 2, "gpu_jobs": {"gpu_type": "v100"}}
IMAGES = {"source": "synthetic", "images": 256, "loader_workers": 0}
STUBS = ("collectives", "communication", "training")
ARM = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 16, "epochs": 1}
WHOLE = {
    "gpus": [1, 2, 4, 8],
    "batch_per_gpu": [16],
    "communication": {"runs": 1},
    "training": {"seeds": 1, "arms": {"wide": ARM}},
    "published": ["config/published/study-a.yaml"],
}
CELLS = {"time": 4, "collectives": 3, "communication": 3, "train": 1}
OTHERS = dict.fromkeys(("dataset", "network", "study", "audit", "tables", "report", "all"), 1)


def project_on(slurm: ThrowawaySlurm, empty: Project, folder: Path, **study: Any) -> SlurmProject:
    project = SlurmProject.on(slurm, empty, folder)
    project.change_study(**{"runs": 1, "dataset": IMAGES, **study})
    project.configure_cluster(**OF_TWO)
    return project


@pytest.fixture(scope="module")
def study(nodes: ThrowawaySlurm, root: Path, tmp_path_factory: pytest.TempPathFactory) -> SlurmProject:
    """1, 2, 4 and 8 workers on nodes of two, from nothing to the page."""
    empty = Project.create(root, tmp_path_factory.mktemp("empty"), STUBS)
    project = project_on(nodes, empty, tmp_path_factory.mktemp("nodes") / "project", **WHOLE)
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


def test_nothing_is_left_to_do_with_slurm_and_without(study: SlurmProject) -> None:
    without = Project(study.folder)
    assert study.planned() == without.planned() == {}
    # Without Slurm, what was measured on several nodes stays, and nothing is added to it.
    study.change_study(**{**WHOLE, "runs": 2, "dataset": IMAGES})
    assert study.planned()["time"] == 4
    assert without.planned()["time"] == 2


def test_lost_nodes_end_their_cells_by_name_and_only_those_are_measured_again(
    nodes: ThrowawaySlurm, root: Path, tmp_path: Path
) -> None:
    """Four cells of two nodes each at once. One loses a worker, one a whole node, one is cancelled, and one exceeds its
    time; each ends on both of its nodes, and the page says how."""
    empty = Project.create(root, tmp_path / "empty")
    values = {"gpus": [4], "strategies": ["ddp"], "batch_per_gpu": [8, 16, 32, 64]}
    project = project_on(nodes, empty, tmp_path / "project", **values)
    project.endless()
    snakemake = project.start("--until", "time", "--retries", "0")
    batches = {"rank": 8, "node": 16, "scancel": 32, "limit": 64}
    folder = project.folder / "results/tiny/logs/cells/ddp/gpus-4"
    wait_for(
        lambda: ["warm-up epoch 2" in log.read_text() for log in folder.glob("*/run-1.log")] == [True] * 4,
    )
    jobs = {fault: job_of(project, batch) for fault, batch in batches.items()}
    hosts = {fault: project.hosts(job) for fault, job in jobs.items()}
    everywhere = {host for of_job in hosts.values() for host in of_job}
    assert len(everywhere) == 8

    os.kill(workers_on(nodes, hosts["rank"][1])[0], signal.SIGKILL)
    nodes.kill_node(hosts["node"][1])
    nodes.run("scancel", jobs["scancel"]["JobId"])
    nodes.run("scontrol", "update", f"JobId={jobs['limit']['JobId']}", "EndTime=now")
    wait_for(lambda: not project.alive() and not any(workers_on(nodes, host) for host in everywhere))
    assert snakemake.wait(240) != 0
    states = {fault: nodes.job(job["JobId"])["JobState"] for fault, job in jobs.items()}
    assert states["scancel"] == "CANCELLED"
    assert states["limit"] == "TIMEOUT"
    assert not [path for path in project.folder.glob("results/tiny/cells/ddp/**/*") if path.is_file()]

    assert project.run("partial")["partial"] == 1
    missing = pd.read_csv(project.folder / "results/tiny/tables/missing.csv").set_index("batch_per_gpu")
    reasons = {fault: str(missing.loc[batch, "reason"]) for fault, batch in batches.items()}
    assert set(missing["status"]) == {"failed"}
    assert f"node 1 ({hosts['rank'][1]}): worker 2 of 4 was killed by SIGKILL" in reasons["rank"]
    assert reasons["node"] == f"Error: node 1 ({hosts['node'][1]}) has gone"
    assert re.fullmatch(r"ended by Slurm: (JOB|STEP) .* CANCELLED AT \S+", reasons["scancel"])
    assert re.fullmatch(r"ended by Slurm: (JOB|STEP) .* CANCELLED AT \S+ DUE TO TIME LIMIT", reasons["limit"])

    # Cells on two nodes can share a job as others do: each is a step on both.
    project.endless_no_more()
    project.configure_cluster(**OF_TWO, cells_per_job=4)
    assert project.run("--until", "time")["time"] == 4
    records = [read(path) for path in project.records()]
    shared = project.jobs("time")[-1]
    assert [record["provenance"]["job_id"] for record in records] == [shared["JobId"]] * 4
    assert [[node["environment"]["SLURMD_NODENAME"] for node in record["nodes"]] for record in records] == [
        project.hosts(shared)
    ] * 4


def job_of(project: SlurmProject, batch: int) -> dict[str, str]:
    (job,) = [job for job in project.jobs("time") if f"ddp_4_{batch}_1" in job["Comment"]]
    return job


def workers_on(nodes: ThrowawaySlurm, node: str) -> list[int]:
    """Return the workers of cells on a node, that of the lowest rank first."""
    workers = [process for process in nodes.processes_on(node) if "dpscale.measure.worker" in process.cmdline()]
    return [process.pid for process in sorted(workers, key=lambda process: process.cmdline())]
