"""What all tests share: real studies made small, marks that set themselves, and hardware that is needed."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import warm
from once import FOLDER, new_folder, once
from project import Clone, Project

# Tests start hundreds of processes. Where Python keeps no bytecode, each of them compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Networks of tests are small: a second thread only waits for the first, and keeps a core busy with that.
os.environ["OMP_NUM_THREADS"] = "1"
# As wide as where nobody says how wide: beside other processes of the tests, one thinks that it has 80 columns.
os.environ["COLUMNS"] = "120"

ROOT = Path(__file__).resolve().parents[1]

# Machines are shared: how long one example takes says nothing. The examples are the same in every run, so that a commit
# which passes once passes everywhere; `pytest --hypothesis-profile new-examples` looks for others.
settings.register_profile("same examples", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("same examples")
settings.register_profile("new-examples", deadline=None)

# Fixtures that start processes or take seconds, and the mark of every test that uses one.
MARK_OF_FIXTURE = {
    "finished": "snakemake",
    "clone": "processes",
    "example": "processes",
    "laptop_report": "snakemake",
    "browser": "browser",
    "java": "processes",
    "audits": "slow",
    "slurm_is_installed": "slurm",
}
# What takes longest is begun first, so that no process of pytest-xdist is left alone with it at the end.
LONGEST_FIRST = (
    "slurm/test_nodes_on_slurm.py",
    "workflow/test_reruns.py",
    "diagnosis/attach/test_scripts_as_they_are.py",
    "workflow/test_laptop_study.py",
    "browser/test_site.py",
    "browser/test_accessibility.py",
    "diagnosis/test_versus.py",
    "workflow/",
    "measure/worker/",
    "browser/",
    "measure/",
    "test_imports.py",
    "test_wheel.py",
    "present/",
    "compare/",
    "audit/",
)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all modules are loaded, nothing is garbage
    # Started in a shell's background, tests would inherit that Ctrl-C is ignored, and so would the runs they stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="dpscale-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ[FOLDER] = folder.name
        if config.getoption("numprocesses", None):
            warm.share()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture, mark in MARK_OF_FIXTURE.items():
        if fixture in getattr(item, "fixturenames", ()):
            item.add_marker(mark)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    if any(item.get_closest_marker("gpu") for item in items):
        import torch

        gpus = torch.cuda.device_count()
        for item in items:
            # A parameter's mark may ask for more than its test's.
            needed = max((mark.args[0] if mark.args else 1 for mark in item.iter_markers("gpu")), default=0)
            if gpus < needed:
                item.add_marker(pytest.mark.skip(reason=f"needs {needed} CUDA GPUs, {gpus} here"))


def _place(item: pytest.Item) -> int:
    path = item.path.relative_to(ROOT / "tests").as_posix()
    return next((place for place, start in enumerate(LONGEST_FIRST) if path.startswith(start)), len(LONGEST_FIRST))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def method(root: Path) -> str:
    """The text of docs/method.md and of its chapters."""
    return "\n".join(file.read_text() for file in [root / "docs/method.md", *sorted(root.glob("docs/method/*.md"))])


@once
def _finished(root: Path) -> Project:
    project = Project.create(root, new_folder() / "project")
    project.run_first()
    return project


@pytest.fixture(scope="session")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny study, run once from nothing to its page. Tests work on copies."""
    return _finished(root).copy(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    return finished.copy(tmp_path / "project")


@pytest.fixture(scope="session")
def clone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(root, tmp_path_factory.mktemp("clone") / "project")


@once
def _example(root: Path) -> Path:
    clone = Clone(root, new_folder() / "project")
    (clone.folder / "example.txt").write_text(clone.make("example"))
    return clone.folder


@pytest.fixture(scope="session")
def example(root: Path) -> Path:
    """A fresh clone in which `make example` was called; example.txt has what it printed. Nobody may change it."""
    return _example(root)


@pytest.fixture(scope="session")
def recorded_page(example: Path) -> str:
    """The page of the study in results/recorded."""
    return (example / "report/recorded.html").read_text()


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_lost_with_the_power() -> Iterator[None]:
    """Records of tests need not reach the disk, which takes longer than all else about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
