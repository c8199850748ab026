"""A real cluster for the tests here, where one can be started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from project import Project
from requirements import without
from slurm_project import GPU_JOBS, SlurmProject
from throwaway_slurm import ThrowawaySlurm, missing_requirement


@pytest.fixture(scope="session")
def slurm_is_installed() -> None:
    if reason := missing_requirement():
        without(reason)


@pytest.fixture(scope="session")
def slurm(slurm_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThrowawaySlurm]:
    """One cluster for all tests: gn1 and gn2, with 4 GPUs each."""
    with ThrowawaySlurm(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def nodes(slurm_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThrowawaySlurm]:
    """Eight nodes, gn1 to gn8, with two GPUs each. Slurm calls one down that has said nothing for a minute."""
    eight = {f"gn{number}": ("v100", 2) for number in range(1, 9)}
    with ThrowawaySlurm(tmp_path_factory.mktemp("eight"), eight, "SlurmdTimeout=60") as cluster:
        yield cluster


@pytest.fixture
def project(slurm: ThrowawaySlurm, finished: Project, tmp_path: Path) -> SlurmProject:
    """The tiny study, measured without Slurm: what is missing next is measured with it."""
    project = SlurmProject.on(slurm, finished, tmp_path / "project")
    project.configure_cluster(**GPU_JOBS)
    return project
