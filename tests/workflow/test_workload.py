"""A user's file through the whole pipeline, by a real Snakemake and real workers on the CPU."""

import re
from pathlib import Path

import pandas as pd
import pytest

from project import Project
from workload_file import SAMPLES, written

pytestmark = pytest.mark.snakemake


@pytest.fixture(scope="module")
def project(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("workload")
    project = Project.create(root, folder, stubs=())
    written(folder)
    samples = {"images": SAMPLES, "loader_workers": 0}
    project.change_study(workload="mine.py", dataset=samples, batch_per_gpu=[6], runs=1, network={})
    project.run_first()
    return project


def test_a_file_is_timed_without_a_dataset_of_images(project: Project) -> None:
    assert project.first_run == {"network": 1, "time": 2, "study": 1, "tables": 1, "report": 1, "all": 1}
    tables = project.folder / "results/tiny/tables"
    assert pd.read_csv(tables / "speedup.csv")["speedup"].notna().all()
    assert set(pd.read_csv(tables / "bandwidth.csv")["parameters"]) == {10}


def test_the_page_speaks_of_samples(project: Project) -> None:
    page = project.page.read_text()
    assert "mine.py" in page and f"{SAMPLES} samples per epoch" in page
    text = re.sub(r"(?s)<style>.*?</style>|<script.*?</script>|<[^>]*>", " ", page)
    assert re.findall(r"(?i).{0,60}\b(?:images?|ResNet)\b.{0,60}", text) == []
    assert not project.page_is_partial()


def test_a_changed_file_is_a_changed_setting(project: Project) -> None:
    assert project.planned() == {}
    file = project.folder / "mine.py"
    before = file.read_text()
    file.write_text(f"{before}# changed\n")
    assert project.planned() == {**project.first_run, "study": 1}
    file.write_text(before)
    assert project.planned() == {}
