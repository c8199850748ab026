"""The tiny study, run once; tests work on copies of what it left."""

import pytest
from project import Project


@pytest.fixture(scope="session")
def finished(root, tmp_path_factory) -> Project:
    """The tiny study, run once from nothing to its page. Tests work on copies."""
    project = Project.create(root, tmp_path_factory.mktemp("finished"))
    project.first_run = project.run()
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    return finished.copy(tmp_path / "project")
