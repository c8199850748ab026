"""Nothing is measured twice, and nothing foreign is used: with a real Snakemake, real cells and real records."""

import json
import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpscale.analyse.names import TABLES
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.outdated import find_outdated
from project import STUDY, Project, running_in, wait_for

pytestmark = pytest.mark.snakemake

ONE_CELL = {"time": 1, "tables": 1, "report": 1, "all": 1}


def started_at(path: Path) -> str:
    moment: str = json.loads(path.read_text())["started_at"]
    return moment


def test_the_first_run_makes_everything(finished: Project) -> None:
    assert finished.first_run == {"dataset": 1, "network": 1, "study": 1, "time": 4, "tables": 1, "report": 1, "all": 1}
    assert len(finished.records()) == 4
    assert "<html" in finished.page.read_text()
    tables = {path.stem for path in (finished.folder / "results/tiny/tables").glob("*.csv")}
    assert tables == set(TABLES)


def test_run_1_of_every_cell_came_before_run_2_of_any_and_none_at_once(finished: Project) -> None:
    records = sorted((json.loads(path.read_text()) for path in finished.records()), key=lambda r: r["started_at"])
    assert [record["cell"]["run"] for record in records] == [1, 1, 2, 2]
    for earlier, later in pairwise(records):
        assert earlier["finished_at"] <= later["started_at"]


def test_a_second_run_does_nothing(finished: Project) -> None:
    assert finished.planned() == {}


def test_a_deleted_record_is_measured_again_and_only_that(project: Project) -> None:
    before = {path: path.read_bytes() for path in project.records()}
    project.record().unlink()
    assert project.run() == ONE_CELL
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert changed == [project.record()]
    assert project.planned() == {}


def test_a_new_batch_size_adds_only_its_cells(project: Project) -> None:
    project.change_study(batch_per_gpu=[32, 64])
    assert project.planned() == {"study": 1, "time": 4, "tables": 1, "report": 1, "all": 1}


def test_communication_is_measured_once_and_again_only_where_a_setting_can_change_it(project: Project) -> None:
    project.change_study(communication={"runs": 1})
    own = {"collectives": 1, "communication": 1}
    assert project.run() == {"study": 1, **own, "tables": 1, "report": 1, "all": 1}
    results = project.folder / "results/tiny"
    assert json.loads((results / "collectives/gpus-2/run-1.json").read_text())["cell"] == {"gpus": 2, "run": 1}
    steps = json.loads((results / "communication/ddp/gpus-2/batch-64/run-1.json").read_text())
    assert set(steps["steps"]["variants"]) == {"training", "no_op_hook", "no_sync"}
    assert not project.page_is_partial()
    assert project.planned() == {}

    # More timed epochs, kept traces, and another cluster to forecast for change no measurement of communication.
    changes = {"communication": {"runs": 1, "keep_traces": True}, "forecast": {"gpus_per_node": 4}}
    project.change_study(**changes)
    assert project.planned() == {"study": 1, "tables": 1, "report": 1, "all": 1}
    project.change_study(**changes, epochs={"timed": 2})
    assert project.planned() == {"study": 1, "time": 4, "tables": 1, "report": 1, "all": 1}
    project.change_study(**changes, precision="bfloat16")
    assert project.planned() == {
        "study": 1, "time": 4, "communication": 1, "tables": 1, "report": 1, "all": 1,
    }  # fmt: skip
    project.change_study(**changes, network={"width": 8})
    assert project.planned() == {
        "study": 1, "network": 1, "time": 4, **own, "tables": 1, "report": 1, "all": 1,
    }  # fmt: skip
    project.change_study(**changes)

    # Facts that are gone are made again, for the tables alone.
    (results / "network.json").unlink()
    assert project.planned() == {"study": 1, "network": 1, "tables": 1, "report": 1, "all": 1}


def test_arms_are_trained_once_and_again_only_where_their_own_settings_change(project: Project) -> None:
    small = {"strategy": "single", "gpus": 1, "batch_per_gpu": 64, "epochs": 1}
    large = {**small, "strategy": "ddp", "gpus": 2}
    pages = {"tables": 1, "report": 1, "all": 1}

    def change(arms: dict[str, dict[str, Any]], **changes: Any) -> None:
        project.change_study(training={"seeds": 1, "arms": arms, **changes})

    change({"small": small, "large": large})
    assert project.run() == {"study": 1, "train": 2, **pages}
    results = project.folder / "results/tiny"
    assert json.loads((results / "training/large/seed-1.json").read_text())["cell"] == {"arm": "large", "seed": 1}
    assert not list(results.glob("training/**/*.checkpoint"))
    assert not project.page_is_partial()
    assert "Large batches" in project.page.read_text()
    assert project.planned() == {}

    change({"small": small, "large": large}, baseline="small", target_accuracy=0.2)
    assert project.planned() == {"study": 1, **pages}
    change({"small": small, "large": large, "warm": {**large, "warmup_epochs": 0.5}})
    assert project.planned() == {"study": 1, "train": 1, **pages}
    change({"small": small, "large": {**large, "label_smoothing": 0.1}})
    assert project.planned() == {"study": 1, "train": 1, **pages}
    change({"small": small, "large": large}, seeds=3)
    assert project.planned() == {"study": 1, "train": 4, **pages}

    change({"small": small, "large": {**large, "gpus": 1}})
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "study.yaml: training.arms.large.gpus: 1 does not go with ddp" in done.stdout

    change({"small": small, "large": large, "warm": {**large, "warmup_epochs": 0.5}})
    project.run("partial")
    assert "training of arm warm, seed 1: <strong>missing</strong>" in project.page.read_text()


def test_more_runs_add_only_those(project: Project) -> None:
    project.change_study(runs=3)
    assert project.planned()["time"] == 2


def test_a_longer_timeout_measures_nothing(project: Project) -> None:
    project.change_study(cell_timeout_s=1234)
    assert "time" not in project.planned()


@pytest.mark.parametrize("file", ["present/template/page.html.j2", "present/charts.py", "analyse/tables.py", "cli.py"])
def test_editing_what_is_not_clocked_measures_nothing(project: Project, file: str) -> None:
    path = project.folder / "workflow/dpscale" / file
    path.write_text(path.read_text() + ("\n{# edited #}\n" if path.suffix == ".j2" else "\n# edited\n"))
    assert "time" not in project.planned()


def test_editing_the_template_renders_the_page_again_and_nothing_else(project: Project) -> None:
    template = project.folder / "workflow/dpscale/present/template/page.html.j2"
    template.write_text(template.read_text().replace("</body>", "<p>edited here</p></body>"))
    assert project.run() == {"report": 1, "all": 1}
    assert "edited here" in project.page.read_text()


def test_touching_every_file_measures_nothing(project: Project) -> None:
    for path in project.folder.rglob("*"):
        if ".snakemake" not in path.parts:
            path.touch()
    assert "time" not in project.planned()


@pytest.mark.parametrize("written", ["./data", "data/", "data"])
def test_how_a_root_is_written_is_no_reason_to_make_the_dataset_again(project: Project, written: str) -> None:
    manifest = project.folder / "results/tiny/dataset/manifest.json"
    content = {**json.loads(manifest.read_text()), "source": "imagefolder", "synthetic": False, "root": "data"}
    manifest.write_text(json.dumps(content))
    dataset = {**STUDY["dataset"], "source": "imagefolder", "root": written}
    study = Study({**STUDY, "dataset": dataset})
    outdated = find_outdated(study, plan(study), project.folder / "results/tiny")
    assert "manifest.json" not in str(outdated.others)
    elsewhere = Study({**STUDY, "dataset": {**dataset, "root": "other"}})
    assert "manifest.json" in str(find_outdated(elsewhere, plan(elsewhere), project.folder / "results/tiny").others)


def test_only_what_is_measured_again_is_set_aside(project: Project) -> None:
    project.change_study(network={"width": 6})
    project.run("--until", "study")
    assert not project.records("*set-aside*")
    project.change_study()
    assert "time" not in project.planned()


def test_another_dataset_is_made_and_every_cell_measured_on_it(project: Project) -> None:
    project.change_study(dataset={**STUDY["dataset"], "images": 256})
    assert project.planned() == {"dataset": 1, "study": 1, "time": 4, "tables": 1, "report": 1, "all": 1}
    assert project.run("--until", "time")["time"] == 4
    assert {json.loads(record.read_text())["dataset"]["images"] for record in project.records()} == {256}


def test_a_dataset_that_is_gone_is_not_missed_until_a_cell_needs_it(project: Project) -> None:
    for path in (project.folder / "results/tiny/dataset").iterdir():
        path.unlink()
    assert project.planned() == {}
    project.record().unlink()
    assert project.run() == {"dataset": 1, **ONE_CELL}


def test_a_changed_setting_measures_every_cell_and_keeps_the_old_records(project: Project) -> None:
    old = {path.name + str(path.parent): path.read_text() for path in project.records()}
    project.change_study(optimiser={"learning_rate": 0.2})
    assert project.planned()["time"] == 4
    assert not project.records("*set-aside*"), "a dry run must change nothing"
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert "learning_rate is 0.1, the study says 0.2" in done.stdout
    aside = project.records("*set-aside-1")
    assert sorted(path.read_text() for path in aside) == sorted(old.values())
    assert all(json.loads(path.read_text())["settings"]["learning_rate"] == 0.2 for path in project.records())
    assert project.planned() == {}


def test_a_damaged_record_is_named_set_aside_and_measured_again(project: Project) -> None:
    project.record().write_text('{"kind": "tim')
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert f"{project.record().relative_to(project.folder)}: is damaged" in done.stdout
    (aside,) = project.records("*set-aside-1")
    assert aside.read_text() == '{"kind": "tim'
    assert json.loads(project.record().read_text())["status"] == "ok"


def test_foreign_records_are_noticed_without_snakemakes_own_memory(project: Project) -> None:
    """As after copying results from another machine, or deleting .snakemake."""
    subprocess.run(["rm", "-rf", project.folder / ".snakemake"], check=True)
    assert project.planned() == {}
    record = json.loads(project.record().read_text())
    record["settings"]["width"] = 8
    project.record().write_text(json.dumps(record))
    assert project.planned()["time"] == 1


def test_the_version_of_the_clocked_code_counts(project: Project) -> None:
    path = project.folder / "workflow/dpscale/measure/__init__.py"
    path.write_text(path.read_text().replace('"timing": 1', '"timing": 2'))
    assert project.planned()["time"] == 4


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_no_record_and_no_worker_and_the_next_does_just_that_cell(
    project: Project, ending: signal.Signals
) -> None:
    """SIGKILL hits Snakemake alone, as an out-of-memory killer would; Ctrl-C goes to all processes."""
    project.record().unlink()
    log = project.folder / "results/tiny/logs/cells/ddp/gpus-2/batch-64/run-1.log"
    log.unlink()
    project.endless()
    process = subprocess.Popen(
        project.command("--until", "time"),
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: log.exists() and "warm-up epoch 2" in log.read_text())
    assert len(running_in(project.folder)) >= 4  # Snakemake, the cell and its two workers
    if ending == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, ending)
    process.wait(60)
    wait_for(lambda: not running_in(project.folder), timeout_s=15)
    assert not project.record().exists()
    assert not list(project.record().parent.glob(".*partial"))
    project.endless(undo=True)
    project.snakemake("--unlock")
    assert project.planned("--rerun-incomplete")["time"] == 1


def test_a_failing_cell_leaves_the_others_measured(project: Project) -> None:
    """A timeout that no cell can keep, for one new batch: everything else stands."""
    project.change_study(batch_per_gpu=[32, 64], cell_timeout_s=0.01)
    done = project.snakemake("--keep-going")
    assert done.returncode != 0
    assert len(project.records()) == 4
    assert "stopped after" in project.logs()
    project.change_study(batch_per_gpu=[32, 64])
    assert project.planned()["time"] == 4


def test_a_partial_page_says_what_is_missing_and_is_replaced_when_nothing_is(project: Project) -> None:
    """Also where the record comes back with its old time, as rsync and mv leave it."""
    whole, times = project.record().read_bytes(), project.record().stat()
    project.record().unlink()
    assert project.run("partial") == {"partial": 1}
    assert project.page_is_partial()
    assert "ddp on 2 workers at batch 64 per worker, run 1: <strong>missing</strong>" in project.page.read_text()
    project.record().write_bytes(whole)
    os.utime(project.record(), ns=(times.st_atime_ns, times.st_mtime_ns))
    assert project.run() == {"tables": 1, "report": 1, "all": 1}
    assert not project.page_is_partial()
    assert project.planned() == {}


def test_a_dataset_that_cannot_be_made_is_the_reason_on_the_partial_page(project: Project) -> None:
    dataset = {"source": "imagefolder", "root": "nowhere", "images": 128, "loader_workers": 0}
    project.change_study(study="other", dataset=dataset)
    done = project.snakemake("--keep-going")
    assert done.returncode != 0
    assert "partial --configfile study.yaml" in done.stdout
    project.run("partial")
    page = (project.folder / "report/other.html").read_text()
    assert "of which failed: 4" in page
    assert "the dataset was not made: Error: nowhere" in page


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
def test_a_bad_study_stops_before_anything_runs(project: Project, study: dict[str, Any], message: str) -> None:
    project.write_study(study)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "study.yaml: " in done.stdout
    assert message in done.stdout
    assert "Traceback" not in done.stdout


def test_what_this_machine_lacks_gpus_for_is_listed_and_the_rest_planned(project: Project) -> None:
    study = {**STUDY, "device": "cuda", "gpus": [1, 2, 4], "strategies": ["single", "dp", "ddp"], "runs": 1}
    study["dataset"] = {**STUDY["dataset"], "images": 512}
    project.write_study(yaml.safe_load(yaml.safe_dump({**study, "study": "other"})))
    assert project.planned("--config", "gpus_available=2")["time"] == 3
    assert project.planned("--config", "gpus_available=4")["time"] == 5
