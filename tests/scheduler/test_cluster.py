"""What a cell's job asks of a cluster: pure functions, and the file that a user edits."""

import math
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import cases
from dpscale.errors import ClusterError
from dpscale.measure.launch.nodes import SECRET
from dpscale.plan.cells import Configuration
from dpscale.plan.study import Study
from dpscale.scheduler import cluster, slurm
from dpscale.scheduler.cluster import Cluster

CUDA = Study({"study": "s"}).settings
CPU = Study({"study": "s", "device": "cpu", "network": {"width": 8}, "dataset": {"images": 512}}).settings


def test_gpus_are_asked_for_only_where_they_are_used_or_rehearsed() -> None:
    described = {"gpu_jobs": {"gpu_type": "v100"}}
    assert Cluster.of(described).gres(CUDA, 4) == "gpu:v100:4"
    assert Cluster.of(described).gres(CPU, 4) == ""
    assert Cluster.of({**described, "rehearsal": True}).gres(CPU, 4) == "gpu:v100:4"


def test_every_job_has_one_node_and_what_the_user_wrote() -> None:
    described = Cluster.of(
        {
            "account": "physics",
            "gpu_jobs": {"partition": "gpu", "constraint": "h200|l40s", "exclusive": True},
            "cpu_jobs": {"partition": "cpu"},
        }
    )
    gpu = {"nodes": 1, "slurm_account": "physics", "slurm_partition": "gpu", "constraint": "h200|l40s"}
    assert described.cell_options(CUDA) == {**gpu, "slurm_extra": "--exclusive"}
    assert described.cpu_options() == {"nodes": 1, "slurm_account": "physics", "slurm_partition": "cpu"}
    assert described.cell_options(CPU) == described.cpu_options()
    assert Cluster.of({}).cell_options(CUDA) == {"nodes": 1}


@pytest.mark.parametrize(("strategy", "scopes", "expected"), cases(__file__, "cores"))
def test_cores_for_threads_that_feed_gpus_and_for_loaders(
    strategy: str, scopes: tuple[str, ...], expected: int
) -> None:
    settings = replace(CUDA, scopes=scopes, loader_workers=2)
    assert cluster.cpus(settings, Configuration(strategy, 4, 32)) == expected


@pytest.mark.parametrize(("strategy", "changes", "expected_mb"), cases(__file__, "memory"))
def test_memory_counts_processes_loaders_and_the_epoch(
    strategy: str, changes: dict[str, Any], expected_mb: int
) -> None:
    settings = replace(CUDA, **changes)
    assert cluster.memory_mb(settings, Configuration(strategy, 4, 8192), 1) == pytest.approx(expected_mb, abs=1)


@given(st.integers(1, 5), st.floats(1, 1e6, allow_nan=False))
def test_slurm_never_cuts_a_cell_short(attempt: int, limit_s: float) -> None:
    assert cluster.runtime_min(limit_s, attempt) * 60 >= cluster.timeout_s(limit_s, attempt) + 60


@pytest.mark.parametrize(
    ("text", "message"), [("gpu_jobs: {gpu_type: 'v100:2'}", "gpu_jobs.gpu_type"), ("a: [", "is not YAML")]
)
def test_a_fault_in_the_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ClusterError) as error:
        Cluster.read(path)
    assert str(path) in str(error.value) and message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("limit", "minutes"), [("infinite", math.inf), ("12:00:00", 720), ("7-00:00:00", 10_080), ("0:30", 0.5)]
)
def test_time_limits_are_read_as_slurm_writes_them(limit: str, minutes: float) -> None:
    assert slurm.limit_min(limit) == minutes


def test_a_study_is_laid_out_on_the_clusters_nodes_only_where_a_cell_needs_several() -> None:
    small, large = (Study({"study": "s", "gpus": gpus}) for gpus in ([1, 4], [1, 8]))
    described = Cluster.of({"gpus_per_node": 4})
    assert described.laid_out(small) is small
    assert described.laid_out(large)["gpus_per_node"] == 4
    assert Cluster.of({}).laid_out(large) is large
    stated = large.changed(gpus_per_node=2)
    assert described.laid_out(stated) is stated


def test_without_several_nodes_what_was_measured_there_stays_and_nothing_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"study": "s", "strategies": ["single", "ddp"], "gpus": [1, 8], "gpus_per_node": 4, "batch_per_gpu": [32]}
    study = Study({**values, "runs": 1, "communication": {"runs": 0}})
    assert cluster.on_one_node(study)["nodes_available"] == 1
    record = study.results / "cells/ddp/gpus-8/batch-32/run-1.json"
    record.parent.mkdir(parents=True)
    record.touch()
    assert cluster.on_one_node(study) is study


def test_cores_and_memory_are_those_of_a_node() -> None:
    on_one, on_two = Configuration("ddp", 4, 32), Configuration("ddp", 8, 32, nodes=2)
    assert cluster.cpus(CUDA, on_two) == cluster.cpus(CUDA, on_one)
    assert cluster.memory_mb(CUDA, on_two, 1) == cluster.memory_mb(CUDA, on_one, 1)
    assert "--nodes=2 --ntasks=2 --cpus-per-task=12 " in cluster.launcher(2, 12)


def test_the_commands_of_a_job_share_a_secret_that_no_other_job_has() -> None:
    shell = ["bash", "-c", f"{cluster.SHELL_PREFIX} printenv {SECRET}"]
    first, second = (subprocess.run(shell, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert re.fullmatch(r"[0-9a-f]{32}\n", first) and first != second
