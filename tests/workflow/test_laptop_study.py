"""`make report` in a fresh clone: a part of the laptop's study, measured with real workers, and its records."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpscale.analyse.communication import from_steps
from dpscale.analyse.points import HEADLINE_STEPS
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.kinds import CommunicationRecord
from json_records import read_json
from project import Clone
from record_factory import typed

Record = dict[str, Any]


# More runs, batches, images, blocks and large messages would take time, and show nothing else. A message of 4
# MiB: measure/worker/test_collectives.py; trainings and variants: measure/worker.
BLOCKS = 2
LESS_CODE = (
    ("measure/launch/cells.py", '"cpu": 4 * 2**20}', '"cpu": 2**20}'),
    ("measure/worker/communication.py", "ROUNDS = 7", f"ROUNDS = {BLOCKS}"),
    ("measure/worker/collectives.py", "BUDGET_S = 0.1", "BUDGET_S = 0.01"),
    ("strategies/ddp/in_torch.py", "SETTLES_STEPS = 12", "SETTLES_STEPS = 3"),
)


def smaller(study: Record) -> Record:
    communication = {**study["communication"], "runs": 1}
    less = {"runs": 1, "batch_per_gpu": [4], "epochs": {"timed": 1}, "dataset": {**study["dataset"], "images": 80}}
    return {**study, **less, "communication": communication}


@pytest.fixture(scope="module")
def laptop(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone of its own, since its study is another one than what is committed."""
    clone = Clone(root, tmp_path_factory.mktemp("laptop") / "project")
    study = clone.folder / "config/laptop.yaml"
    study.write_text(yaml.safe_dump(smaller(yaml.safe_load(study.read_text()))))
    for file, line, quicker in LESS_CODE:
        clone.edit(file, f"{line}\n", f"{quicker}\n")
    clone.draw_nothing()
    (clone.folder / "report").mkdir(exist_ok=True)
    # Newer than all that it is made of: test_makefile.py makes it.
    (clone.folder / "report/recorded-two-gpus.html").touch()
    return clone


@pytest.fixture(scope="module")
def laptop_report(laptop: Clone) -> str:
    """The output of the first `make report`."""
    return laptop.make("report")


@pytest.fixture(scope="module")
def results(laptop: Clone, laptop_report: str) -> Path:
    return laptop.folder / "results/laptop"


def test_make_report_measures_the_laptop_study_and_make_assignment_then_nothing(
    laptop: Clone, laptop_report: str, results: Path
) -> None:
    page = laptop.folder / "report/laptop.html"
    lines = laptop_report.splitlines()
    assert lines[0] == "0 CUDA GPUs here; the study is config/laptop.yaml"
    for number, line in enumerate((line for line in lines if line.startswith("[")), 1):
        assert line.startswith(f"[{number}/4] ")
    assert re.search(r"^ +2 +[\d.]+ +[\d.]+ ", laptop_report, re.MULTILINE), "a row of the answer"
    assert f"The page: {page}" in " ".join(laptop_report.split())
    assert lines[-1].endswith("report/recorded-two-gpus.html")
    records = sorted(results.glob("*/**/run-*.json"))
    assert len(records) == 2 + 1 + 1, "timing, collectives, communication"
    assert max(map(len, lines)) <= 120
    assert "This page is partial" not in page.read_text()
    stamps = {path: path.stat().st_mtime_ns for path in [*records, page]}
    again = laptop.make("assignment", "CONFIG=config/laptop.yaml")
    assert "Nothing to be done" in again
    assert "to edit and hand in: handin/report.tex" in again
    assert (laptop.folder / "handin/report.tex").exists()
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_an_epoch_of_the_laptop_study_is_long_enough_for_the_verdict(root: Path) -> None:
    study = Study.read(root / "config/laptop.yaml")
    parallel = [cell.configuration for cell in plan(study).timing if cell.gpus > 1]
    assert max(study.epoch_images // configuration.global_batch for configuration in parallel) >= HEADLINE_STEPS


@pytest.fixture
def steps(results: Path) -> Record:
    """The record of communication: ddp on 2 workers."""
    (path,) = results.glob("communication/**/run-*.json")
    return read_json("communication", path)


def test_steps_take_turns_with_and_without_communication(steps: Record) -> None:
    rungs, orders = steps["steps"]["variants"], steps["steps"]["orders"]
    assert list(rungs) == ["alone", "together", "no_sync", "no_op_hook", "allreduce_hook", "training"]
    assert [sorted(order) for order in orders] == [sorted(rungs)] * BLOCKS
    assert len({tuple(order) for order in orders}) > 1, "rungs take turns in a random order"
    for name, rung in rungs.items():
        assert len(rung["step_s"]) == BLOCKS
        for step_s, means_s in zip(rung["step_s"], rung["rank_block_step_s"], strict=True):
            assert [mean_s is None for mean_s in means_s] == [False, name == "alone"], "alone, one waits"
            mean_s = max(filter(None, means_s))
            assert 0.3 * mean_s < step_s < 1.5 * mean_s, "the median by one clock, the mean by the other"
    row = from_steps([typed(CommunicationRecord, steps)])
    assert row.ablation_step_s.is_known
