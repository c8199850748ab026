"""Nothing is measured twice, nothing foreign is used, and nothing that was measured is lost: with a real Snakemake,
real launchers and real records.

The workers measure nothing. What is to be measured again, case by case: records/test_outdated.py. A study that is
measured by real workers: test_laptop_study.py.
"""

import json
import os
import re
import shutil
import signal
import time
from itertools import pairwise
from typing import Any

import pandas as pd
import yaml

import warm
from dpscale.records import VERSIONS
from dpscale.tables.tables import TABLES
from processes import running_in
from project import STUDY, Project, wait_for

PUBLISHED = [f"config/published/study-{letter}.yaml" for letter in "ad"]
ONE_CELL = {"time": 1, "tables": 1, "report": 1, "all": 1}
PAGES = {"study": 1, "tables": 1, "report": 1, "all": 1}
# Code of which nothing measures.
NOT_CLOCKED = ("present/template/page.html.j2", "analyse/tables.py", "cli.py")


def test_the_first_run_makes_everything_and_a_second_nothing(finished: Project) -> None:
    assert finished.first_run == {"dataset": 1, "network": 1, "time": 4, **PAGES}
    assert len(finished.records()) == 4
    assert "<html" in finished.page.read_text()
    tables = {path.stem for path in (finished.folder / "results/tiny/tables").glob("*.csv")}
    assert tables == set(TABLES)
    assert finished.planned() == {}


def test_run_1_of_every_cell_came_before_run_2_of_any_and_none_at_once(finished: Project) -> None:
    # By when they were written: a stub is done within the second that a record is exact to.
    written = sorted(finished.records(), key=lambda path: path.stat().st_mtime_ns)
    records = [json.loads(path.read_text()) for path in written]
    assert [record["cell"]["run"] for record in records] == [1, 1, 2, 2]
    for earlier, later in pairwise(records):
        assert earlier["finished_at"] <= later["started_at"]


def test_a_deleted_and_a_damaged_record_are_measured_again_and_only_those(project: Project) -> None:
    before = {path: path.read_bytes() for path in project.records()}
    deleted, damaged = project.record(), project.record("single", 1, run=2)
    deleted.unlink()
    damaged.write_text('{"kind": "tim')
    assert project.planned()["time"] == 2
    assert not project.records("*set-aside*"), "a dry run changes nothing"
    done = project.snakemake("--until", "time")
    assert done.returncode == 0, done.stdout
    assert f"{damaged.relative_to(project.folder)}: is damaged" in done.stdout
    (aside,) = project.records("*set-aside-1")
    assert aside.read_text() == '{"kind": "tim'
    changed = {path for path, content in before.items() if path.read_bytes() != content}
    assert changed == {deleted, damaged}
    assert {json.loads(path.read_text())["status"] for path in changed} == {"ok"}
    assert project.planned() == {"tables": 1, "report": 1, "all": 1}


def test_a_study_that_grows_adds_only_what_is_new_of_every_kind(project: Project) -> None:
    small = {"strategy": "single", "gpus": 1, "batch_per_gpu": 64, "epochs": 1}
    of_large = {"optimiser": "nesterov", "schedule": "one_cycle", "warmup_epochs": 0.25, "set_epoch": False}
    arms = {"small": small, "large": {**small, "strategy": "ddp", "gpus": 2, **of_large}}
    variants = {"channels-last": {"strategies": ["single"], "batch_per_gpu": [64], "memory_format": "channels_last"}}
    grown: dict[str, Any] = {
        "communication": {"runs": 1}, "training": {"seeds": 1, "arms": arms}, "variants": variants,
    }  # fmt: skip
    project.change_study(**grown)
    measured = {"collectives": 1, "communication": 1, "train": 2, "time_variant": 2}
    assert project.run("--until", "tables") == {**measured, "study": 1, "tables": 1}
    results = project.folder / "results/tiny"
    trained = json.loads((results / "training/large/seed-1.json").read_text())
    assert trained["settings"].items() >= of_large.items()
    assert {"small", "large"} <= set(pd.read_csv(results / "tables/training_summary.csv")["arm"])
    assert "channels-last" in set(pd.read_csv(results / "tables/variants.csv")["variant"])
    assert project.planned() == {"report": 1, "all": 1}

    # Facts that are gone are made again, for the tables alone.
    (results / "network.json").unlink()
    project.change_study(**grown, batch_per_gpu=[32, 64])
    assert project.planned() == {"network": 1, "time": 4, "communication": 1, **PAGES}


def test_neither_touched_files_nor_a_longer_timeout_nor_code_that_is_not_clocked_measure_anything(
    project: Project,
) -> None:
    for file in NOT_CLOCKED:
        path = project.folder / "workflow/dpscale" / file
        path.write_text(path.read_text() + ("\n{# edited #}\n" if path.suffix == ".j2" else "\n# edited\n"))
    for path in project.folder.rglob("*"):
        if ".snakemake" not in path.parts:
            path.touch()
    project.change_study(cell_timeout_s=1234)
    assert project.planned() == PAGES


def test_a_dataset_that_is_gone_is_not_missed_until_a_cell_needs_it(project: Project) -> None:
    for path in (project.folder / "results/tiny/dataset").iterdir():
        path.unlink()
    assert project.planned() == {}
    project.record().unlink()
    assert project.planned() == {"dataset": 1, **ONE_CELL}


def test_foreign_records_and_a_newer_version_are_noticed_without_snakemakes_own_memory(project: Project) -> None:
    """Results may be copied from another machine, and .snakemake deleted."""
    shutil.rmtree(project.folder / ".snakemake")
    record = json.loads(project.record().read_text())
    record["settings"]["width"] = 8
    project.record().write_text(json.dumps(record))
    assert project.planned()["time"] == 1
    version = VERSIONS["timing"].current
    project.edit("records/__init__.py", f'"timing": Version({version}', f'"timing": Version({version + 1}')
    assert project.planned()["time"] == 4


def test_after_ctrl_c_no_record_and_no_worker_is_left_and_the_next_run_does_just_that_cell(project: Project) -> None:
    run = project.start_a_cell()
    assert len(running_in(project.folder)) >= 4  # Snakemake, the cell and its two workers
    os.killpg(run.pid, signal.SIGINT)
    run.wait(240)
    wait_for(lambda: not running_in(project.folder))
    assert not project.record().exists()
    assert not list(project.record().parent.glob(".*partial"))
    project.endless_no_more()
    assert project.planned("--rerun-incomplete", "--nolock")["time"] == 1


def test_a_partial_page_says_what_is_missing_and_is_replaced_when_nothing_is(project: Project) -> None:
    """Also where the record comes back with its old time, as rsync and mv leave it. An edited template is a reason to
    render the page again, and for nothing else."""
    content, times = project.record().read_bytes(), project.record().stat()
    project.record().unlink()
    template = project.folder / "workflow/dpscale/present/template/page.html.j2"
    template.write_text(template.read_text().replace("</body>", "<p>edited here</p></body>"))
    assert project.run("partial") == {"partial": 1}
    assert project.page_is_partial()
    assert "edited here" in project.page.read_text()
    assert "no record yet: cells/ddp/gpus-2/batch-64/run-1.json" in project.page.read_text()
    project.record().write_bytes(content)
    os.utime(project.record(), ns=(times.st_atime_ns, times.st_mtime_ns))
    assert project.run() == {"tables": 1, "report": 1, "all": 1}
    assert not project.page_is_partial()
    template.write_text(template.read_text().replace("edited here", "edited again"))
    assert project.planned() == {"report": 1, "all": 1}
    # The charts of a page that is made of what there is are as new as the page.
    assert project.run("partial") == {"partial": 1}
    assert project.planned() == {}


def test_a_dataset_that_cannot_be_made_is_the_reason_on_the_partial_page(project: Project) -> None:
    """The partial page has other people's figures too, although nothing of this study is measured."""
    dataset = {"source": "imagefolder", "root": "nowhere", "images": 128, "loader_workers": 0}
    project.change_study(dataset=dataset)
    done = project.snakemake("--keep-going")
    assert done.returncode != 0
    assert "snakemake partial --cores 2 --keep-going --configfile study.yaml" in done.stdout
    project.change_study(dataset=dataset, published=PUBLISHED)
    assert project.run("partial") == {"study": 1, "audit": 1, "partial": 1}
    assert "27.9 against 26.9 s" in project.audit_page.read_text()
    page = project.page.read_text()
    assert "4 measurements without a record that can be used" in page
    assert "the dataset was not made: Error: nowhere" in page


def test_cells_of_the_strong_series_and_no_others_get_a_baseline_at_the_global_batch(project: Project) -> None:
    project.change_study(batch_per_gpu=[32, 64], strong_scaling_global_batch=[128], runs=1)
    project.record().unlink()
    planned = project.snakemake("-n", "--printshellcmds").stdout
    commands = re.findall(r"dpscale time .*--strategy (\w+) --gpus (\d) --batch-per-gpu (\d+) (.*)", planned)
    asking = {" ".join(cell) for *cell, more in commands if "--baseline-at-global-batch" in more}
    assert len(commands) == 4
    assert asking == {"ddp 2 64", "single 1 128"}


def test_a_folder_has_one_run_and_the_lock_of_one_that_was_killed_is_taken(project: Project) -> None:
    """SIGKILL hits Snakemake alone, as an out-of-memory killer would. It leaves neither a record nor a worker."""
    run = project.start_a_cell()
    refused = project.snakemake("--logger", "dpscale")
    assert refused.returncode == 1
    assert refused.stdout.splitlines()[-1].startswith(f"Error: another run holds this folder (process {run.pid} on ")
    run.kill()
    run.wait()
    wait_for(lambda: not running_in(project.folder))
    assert not list(project.record().parent.glob("*run-1.json*"))
    project.endless_no_more()
    done = project.snakemake("--logger", "dpscale")
    assert done.returncode == 0, done.stdout
    assert f"the lock of a run that was killed is taken over: process {run.pid} on " in done.stdout
    assert project.record().exists()
    assert done.stdout.splitlines()[-1] == "page: report/tiny.html"


def test_a_record_that_was_there_when_its_run_was_killed_is_kept(project: Project) -> None:
    """Snakemake was to note its end, which takes longer than its last steps."""
    content = project.record().read_bytes()
    run = project.start_a_cell()
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    project.record().write_bytes(content)
    project.endless_no_more()
    for option in ([], ["--rerun-incomplete"]):
        assert project.planned(*option) == {}


def test_a_study_file_runs_nothing(project: Project) -> None:
    """Before Snakemake reads the Snakefile, it would run what stands there."""
    program = "- __import__('pathlib').Path('ran').touch()"
    text = f"__use_yte__: true\n__definitions__:\n{program}\n{yaml.safe_dump(STUDY)}"
    (project.folder / "study.yaml").write_text(text)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "study.yaml: top level: Additional properties are not allowed ('__use_yte__'" in done.stdout
    assert not (project.folder / "ran").exists()


def test_no_file_time_deletes_a_record(project: Project) -> None:
    """A server of files may have another time than the nodes."""
    an_hour_ahead = time.time() + 3600
    for path in project.folder.glob("results/tiny/**/*"):
        os.utime(path, (an_hour_ahead, an_hour_ahead))
    before = {path: path.read_bytes() for path in project.records()}
    project.record().unlink()
    done = project.snakemake("--keep-going", "--until", "time")
    assert done.returncode == 0, done.stdout
    assert set(project.records()) == set(before)


def test_a_larger_number_measures_only_the_runs_that_are_missing(project: Project) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.records()}
    words = ["-m", "dpscale.run", "study.yaml", "", "", "3", "summary"]
    done = warm.python(words, project.folder, project.environment)
    assert done.returncode == 0, done.stdout
    assert "2 workers are 2.00 times as fast as 1" in " ".join(done.stdout.split())
    after = {path: path.stat().st_mtime_ns for path in project.records()}
    assert after.items() > before.items()
    assert [path.stem for path in after if path not in before] == ["run-3"] * 2, "one on one worker, one on two"
    study: dict[str, Any] = json.loads((project.folder / "results/tiny/study.json").read_text())
    assert (study["runs"], study["network"]["width"], study["dataset"]["images"]) == (3, 4, 128), "nested keys stay"
