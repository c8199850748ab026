"""What all tests share: real studies made small, and the marks that need hardware."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from clone import Clone
from project import Project

ROOT = Path(__file__).resolve().parents[1]


# Machines are shared: how long one example takes says nothing.
settings.register_profile("shared machines", deadline=None)
settings.load_profile("shared machines")


def pytest_configure() -> None:
    """Started in a shell's background, tests would inherit that Ctrl-C is ignored, and so would the runs they stop."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """`make test` runs those that mostly wait, for Slurm and for whole studies, beside those that compute."""
    if "clone" in getattr(item, "fixturenames", ()):
        item.add_marker("whole_study")
    if item.get_closest_marker("slurm") or item.get_closest_marker("whole_study"):
        item.add_marker("waits")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Whole studies take all cores: last, when the tests that compute, which `make test` runs beside them, are done.
    items.sort(key=lambda item: item.get_closest_marker("whole_study") is not None)
    if any(item.get_closest_marker("gpu") for item in items):
        import torch

        gpus = torch.cuda.device_count()
        for item in items:
            mark = item.get_closest_marker("gpu")
            needed = mark.args[0] if mark and mark.args else 1
            if mark and gpus < needed:
                item.add_marker(pytest.mark.skip(reason=f"needs {needed} CUDA GPUs, {gpus} here"))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny study, run once from nothing to its page. Tests work on copies."""
    project = Project.create(root, tmp_path_factory.mktemp("finished"))
    project.first_run = project.run()
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    return finished.copy(tmp_path / "project")


@pytest.fixture(scope="session")
def clone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(root, tmp_path_factory.mktemp("clone") / "project")


@pytest.fixture(scope="session")
def laptop_report(clone: Clone) -> str:
    """What the first `make report` in a clone prints: it measures the laptop's study."""
    return clone.make("report")


@pytest.fixture(scope="session")
def laptop_page(clone: Clone, laptop_report: str) -> Path:
    return clone.folder / "report/laptop.html"
