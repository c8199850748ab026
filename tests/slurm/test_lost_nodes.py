"""Cells on two nodes each that lose a worker, a node, their job or their time."""

import os
import re
import signal
from pathlib import Path

import pandas as pd

from project import Project, wait_for
from slurm_project import OF_TWO, SlurmProject, read
from throwaway_slurm import ThrowawaySlurm


def test_lost_nodes_end_their_cells_by_name_and_only_those_are_measured_again(
    nodes: ThrowawaySlurm, root: Path, tmp_path: Path
) -> None:
    """Four cells of two nodes each at once. One loses a worker, one a whole node, one is cancelled, and one exceeds its
    time; each ends on both of its nodes, and the page says how."""
    empty = Project.create(root, tmp_path / "empty")
    values = {"gpus": [4], "strategies": ["ddp"], "batch_per_gpu": [8, 16, 32, 64]}
    project = SlurmProject.on_nodes(nodes, empty, tmp_path / "project", **values)
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
    assert nodes.run("scancel", jobs["scancel"]["JobId"]).returncode == 0
    # In two seconds: a time that is past when Slurm reads it is none.
    assert nodes.run("scontrol", "update", f"JobId={jobs['limit']['JobId']}", "EndTime=now+2").returncode == 0
    wait_for(lambda: nodes.job(jobs["node"]["JobId"])["JobState"] != "RUNNING")
    nodes.call_down(hosts["node"][1])
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
    commands = {process.pid: process.info["cmdline"] or [] for process in nodes.processes_on(node)}
    workers = [pid for pid, command in commands.items() if "dpscale.measure.worker" in command]
    return sorted(workers, key=lambda pid: int(commands[pid][-1]))
