"""Other people's figures in a real workflow: made when they changed, and never a reason to measure.

On a partial page: test_reruns.py.
"""

import os
from pathlib import Path

import pytest

from project import Project

FILES = [f"config/published/study-{letter}.yaml" for letter in "ad"]
AUDITED = {"audit": 1, "tables": 1, "report": 1, "all": 1}


@pytest.fixture(scope="module")
def audited_once(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = finished.copy(tmp_path_factory.mktemp("audited"))
    project.change_study(published=FILES)
    assert project.run() == {"study": 1, **AUDITED}
    return project


@pytest.fixture
def audited(audited_once: Project, tmp_path: Path) -> Project:
    return audited_once.copy(tmp_path / "project")


def test_the_figures_are_on_the_page_and_nothing_is_made_twice(audited: Project) -> None:
    folder = audited.folder / "results/tiny"
    assert {path.stem for path in (folder / "audit").iterdir()} == {"study-a", "study-d"}
    assert "study-a,speedup,32,2,1.40," in (folder / "tables/audit.csv").read_text()
    assert "27.9 against 26.9 s" in audited.audit_page.read_text()
    assert audited.planned() == {}
    audited.change_study(published=FILES[:1])
    assert audited.run("--until", "tables") == {"study": 1, "tables": 1}
    assert "study-d," not in (folder / "tables/audit.csv").read_text()


def test_another_version_of_a_file_or_of_the_code_is_audited_and_so_is_what_is_lost(audited: Project) -> None:
    """rsync and mv put a file in the place of another and keep its time."""
    file = audited.folder / FILES[0]
    times = file.stat()
    file.write_text(file.read_text().replace("2: 1.40", "2: 1.41"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert audited.run() == AUDITED
    assert "speedup 1.41; the times give 1.40" in audited.audit_page.read_text()

    lost = audited.folder / "results/tiny/audit/study-d.json"
    content = lost.read_text()
    lost.write_text("{")
    assert audited.planned() == AUDITED
    lost.write_text(content)
    path = audited.folder / "workflow/dpscale/audit/conventions.py"
    path.write_text(path.read_text() + "\n# edited\n")
    assert audited.planned() == AUDITED
