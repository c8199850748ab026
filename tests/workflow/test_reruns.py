"""Nothing is measured twice, and nothing foreign is used: with a real Snakemake, real cells and real records."""

import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from project import STUDY

pytestmark = pytest.mark.snakemake

ONE_CELL = {"time": 1, "tables": 1, "report": 1, "all": 1}


def started_at(path: Path) -> str:
    return json.loads(path.read_text())["started_at"]


def change_study(project, **changes):
    project.write_study({**STUDY, **changes})


def test_the_first_run_makes_everything(finished):
    assert finished.first_run == {"dataset": 1, "study": 1, "time": 4, "tables": 1, "report": 1, "all": 1}
    assert len(finished.records()) == 4
    assert "<html" in finished.page.read_text()
    tables = {path.stem for path in (finished.folder / "results/tiny/tables").glob("*.csv")}
    assert tables == {"times", "speedup", "communication", "bandwidth", "environments", "records", "rejected"}


def test_run_1_of_every_cell_came_before_run_2_of_any_and_none_at_once(finished):
    records = sorted((json.loads(path.read_text()) for path in finished.records()), key=lambda r: r["started_at"])
    assert [record["cell"]["run"] for record in records] == [1, 1, 2, 2]
    for earlier, later in pairwise(records):
        assert earlier["finished_at"] <= later["started_at"]


def test_a_second_run_does_nothing(finished):
    assert finished.planned() == {}


def test_a_deleted_record_is_measured_again_and_only_that(project):
    before = {path: path.read_bytes() for path in project.records()}
    project.record().unlink()
    assert project.run() == ONE_CELL
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert changed == [project.record()]
    assert project.planned() == {}


def test_a_new_batch_size_adds_only_its_cells(project):
    change_study(project, batch_per_gpu=[32, 64])
    assert project.planned() == {"study": 1, "time": 4, "tables": 1, "report": 1, "all": 1}


def test_more_runs_add_only_those(project):
    change_study(project, runs=3)
    assert project.planned()["time"] == 2


def test_a_longer_timeout_measures_nothing(project):
    change_study(project, cell_timeout_s=1234)
    assert "time" not in project.planned()


@pytest.mark.parametrize("file", ["present/template/page.html.j2", "present/charts.py", "analyse/tables.py", "cli.py"])
def test_editing_what_is_not_clocked_measures_nothing(project, file):
    path = project.folder / "workflow/dpscale" / file
    path.write_text(path.read_text() + ("\n{# edited #}\n" if path.suffix == ".j2" else "\n# edited\n"))
    assert "time" not in project.planned()


def test_editing_the_template_renders_the_page_again_and_nothing_else(project):
    template = project.folder / "workflow/dpscale/present/template/page.html.j2"
    template.write_text(template.read_text().replace("</body>", "<p>edited here</p></body>"))
    assert project.run() == {"report": 1, "all": 1}
    assert "edited here" in project.page.read_text()


def test_touching_every_file_measures_nothing(project):
    for path in project.folder.rglob("*"):
        if ".snakemake" not in path.parts:
            path.touch()
    assert "time" not in project.planned()


def test_a_dataset_that_is_gone_is_not_missed_until_a_cell_needs_it(project):
    for path in (project.folder / "results/tiny/dataset").iterdir():
        path.unlink()
    assert project.planned() == {}
    project.record().unlink()
    assert project.run() == {"dataset": 1, **ONE_CELL}


def test_a_changed_setting_measures_every_cell_and_keeps_the_old_records(project):
    old = {path.name + str(path.parent): path.read_text() for path in project.records()}
    change_study(project, optimiser={"learning_rate": 0.2})
    assert project.planned()["time"] == 4
    assert not project.records("*set-aside*"), "a dry run must change nothing"
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert "learning_rate is 0.1, the study says 0.2" in done.stdout
    aside = project.records("*set-aside-1")
    assert sorted(path.read_text() for path in aside) == sorted(old.values())
    assert all(json.loads(path.read_text())["settings"]["learning_rate"] == 0.2 for path in project.records())
    assert project.planned() == {}


def test_a_damaged_record_is_named_set_aside_and_measured_again(project):
    project.record().write_text('{"kind": "tim')
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert f"{project.record().relative_to(project.folder)}: is damaged" in done.stdout
    (aside,) = project.records("*set-aside-1")
    assert aside.read_text() == '{"kind": "tim'
    assert json.loads(project.record().read_text())["status"] == "ok"


def test_foreign_records_are_noticed_without_snakemakes_own_memory(project):
    """As after copying results from another machine, or deleting .snakemake."""
    subprocess.run(["rm", "-rf", project.folder / ".snakemake"], check=True)
    assert project.planned() == {}
    record = json.loads(project.record().read_text())
    record["settings"]["width"] = 8
    project.record().write_text(json.dumps(record))
    assert project.planned()["time"] == 1


def test_the_version_of_the_clocked_code_counts(project):
    path = project.folder / "workflow/dpscale/measure/__init__.py"
    path.write_text(path.read_text().replace("MEASUREMENT_VERSION = ", "MEASUREMENT_VERSION = 9"))
    assert project.planned()["time"] == 4


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_no_record_and_the_next_does_just_that_cell(project, ending):
    change_study(project, epochs={"timed": 1, "warmup": 1}, batch_per_gpu=[32, 64], runs=1)
    process = subprocess.Popen(
        project.command("--until", "time"),
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    log = "results/tiny/logs/cells/*/gpus-*/batch-32/run-1.log"
    deadline = time.monotonic() + 60
    while not any(path.exists() for path in project.folder.glob(log)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, ending)
    process.wait(60)
    missing = 6 - 2 - len(project.records("batch-32/run-1.json"))
    assert not [path for path in project.records("*") if path.is_file() and "partial" in path.name]
    project.snakemake("--unlock")
    assert missing >= 1
    planned = project.planned("--rerun-incomplete")
    assert planned["time"] == 2 - len(list(project.folder.glob("results/tiny/cells/*/*/batch-32/run-1.json")))


def test_a_failing_cell_leaves_the_others_measured(project):
    """A timeout that no cell can keep, for one new batch: everything else stands."""
    change_study(project, batch_per_gpu=[32, 64], cell_timeout_s=0.01)
    done = project.snakemake("--keep-going")
    assert done.returncode != 0
    assert len(project.records()) == 4
    assert "stopped after" in project.logs()
    change_study(project, batch_per_gpu=[32, 64])
    assert project.planned()["time"] == 4


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({**STUDY, "bacth": 1}, "Additional properties are not allowed ('bacth' was unexpected)"),
        ({**STUDY, "batch_per_gpu": [-1]}, "batch_per_gpu[0]: -1 is less than the minimum of 1"),
        ({**STUDY, "batch_per_gpu": [1000]}, "nothing can be run here: global batch 1000 > 128 images"),
        ({**STUDY, "strategies": ["magic"]}, "strategies[0]"),
        ({**STUDY, "gpus": []}, "gpus: [] has less than 1 item"),
    ],
)
def test_a_bad_study_stops_before_anything_runs(project, study, message):
    project.write_study(study)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert message in done.stdout
    assert "Traceback" not in done.stdout


def test_what_this_machine_lacks_gpus_for_is_listed_and_the_rest_planned(project):
    study = {**STUDY, "device": "cuda", "gpus": [1, 2, 4], "strategies": ["single", "dp", "ddp"], "runs": 1}
    study["dataset"] = {**STUDY["dataset"], "images": 512}
    project.write_study(yaml.safe_load(yaml.safe_dump({**study, "study": "other"})))
    assert project.planned("--config", "gpus_available=2")["time"] == 3
    assert project.planned("--config", "gpus_available=4")["time"] == 5
