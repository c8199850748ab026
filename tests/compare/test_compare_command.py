"""`dpscale compare` as it is called: its page, its tables, and what it refuses."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from command_line import dpscale
from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import plan
from dpscale.plan.study import NETWORK_FACTS, Study
from dpscale.records.files import write_record
from h200_study import VALUES, collected
from record_factory import write
from two_studies import slower

# Whole pages, again and again.
pytestmark = pytest.mark.slow


def as_it_was(cell: AnyCell, record: dict[str, Any]) -> None:
    """No change."""


def measured(
    folder: Path,
    name: str,
    change: Callable[[AnyCell, dict[str, Any]], None] = as_it_was,
    results: str = "",
    **values: Any,
) -> Path:
    """A study file in `folder`, and its records in `results`, by default where the project has them."""
    study = Study({**VALUES, "study": name, **values})
    found = collected(study)
    for cell in plan(study).all_cells:
        change(cell, found.records[cell])
        # Measured for this study: no record is the same file as in another one.
        found.records[cell]["provenance"]["job_id"] = results or name
        write(folder / (results or study.results), cell, found.records[cell])
    assert found.network
    write_record("network", folder / (results or study.results) / NETWORK_FACTS, found.network)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**VALUES, "study": name, **values}))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies, `faster` with a ddp that takes 20 % less time, `slower` with one that takes 20 % more, `once` the same
    in one run, and `half` of another precision."""
    place = tmp_path_factory.mktemp("studies")
    measured(place, "plain")
    measured(place, "faster", slower(0.8, "ddp"))
    measured(place, "slower", slower(1.2, "ddp"))
    measured(place, "once", slower(1.2, "ddp"), runs=1)
    measured(place, "half", slower(0.5), precision="bfloat16", memory_format="channels_last")
    return place


def test_two_studies_give_a_page_and_tables(folder: Path) -> None:
    done = dpscale("compare", "plain.yaml", "faster.yaml", "--tables", "csv", "--out", "c.html", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("faster against plain, compute scope: ddp on 2 GPUs: 20.00 % faster [19.98, 20.02]; ")
    assert (folder / "c.html").read_text().startswith("<!DOCTYPE html>")
    times = pd.read_csv(folder / "csv/compared_times.csv")
    ddp = times[(times["strategy"] == "ddp") & (times["quantity"] == "epoch_s")]
    assert ddp["ratio"].tolist() == pytest.approx([1.25] * 6)
    assert set(ddp["outcome"]) == {"faster"}
    collectives = pd.read_csv(folder / "csv/compared_collectives.csv")
    assert set(collectives["outcome"]) == {"not apart"}


def test_other_settings_are_refused_in_one_line_that_names_them(folder: Path) -> None:
    # Not even the records that are of another study by now are gone through.
    done = dpscale(
        "compare", "plain.yaml", "half.yaml", "--results", "results/half", "--results", "results/plain",
        "--out", "refused.html",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "precision is float32 and bfloat16; memory_format is contiguous and channels_last." in done.stderr
    assert done.stderr.endswith("--differing precision --differing memory_format\n")
    assert not (folder / "refused.html").exists()


def test_what_may_differ_has_to_be_named_whole(folder: Path) -> None:
    command = ["compare", "plain.yaml", "half.yaml", "--differing", "precision"]
    done = dpscale(*command, "--out", "half.html", folder=folder)
    assert done.returncode == 1
    assert "precision is" not in done.stderr
    assert "memory_format is" in done.stderr
    done = dpscale(*command, "--differing", "memory_format", "--out", "half.html", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("half against plain, compute scope: single on 1 GPU: 50.0")
    assert "slower" not in done.stdout
    assert "no difference" not in done.stdout
    assert "precision is float32 in plain and bfloat16 in half" in (folder / "half.html").read_text()


def test_one_study_measured_on_two_machines(folder: Path) -> None:
    measured(folder, "plain", slower(1.5), results="elsewhere")
    done = dpscale(
        "compare", "plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "elsewhere",
        "--out", "two.html", folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("plain (2) against plain (1), compute scope: ")
    assert "ddp on 4 GPUs: 50.0" in done.stdout
    assert "faster" not in done.stdout


def test_records_of_other_settings_are_named_and_not_used(folder: Path) -> None:
    done = dpscale(
        "compare", "plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "results/half",
        "--out", "no.html", folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not used: results/half/cells/dp/gpus-2/batch-128/run-1.json: precision is bfloat16" in done.stderr
    assert done.stdout.startswith("plain (2) and plain (1) have no epoch time in common\n")
    assert "plain (2): Records found and not used: 81." in (folder / "no.html").read_text()


def test_a_study_and_itself_are_refused_in_one_line(folder: Path) -> None:
    done = dpscale("compare", "plain.yaml", "plain.yaml", "--out", "itself.html", folder=folder)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "plain (1): all of its 87 records stand in another of the studies too." in done.stderr
    assert not (folder / "itself.html").exists()


def test_records_that_both_have_are_left_out_and_counted(folder: Path) -> None:
    """A copy in which the cells of ddp were measured again."""
    shutil.copytree(folder / "results/plain", folder / "copy")
    for path in (folder / "copy/cells/ddp").rglob("*.json"):
        record = json.loads(path.read_text())
        record["provenance"]["job_id"] = "again"
        path.write_text(json.dumps(record))
    done = dpscale(
        "compare", "plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "copy", "--tables", "shared",
        "--out", "shared.html", folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counted = pd.read_csv(folder / "shared/compared_records.csv")
    assert counted[["records", "same_records"]].to_numpy().tolist() == [[18, 69], [18, 69]]
    assert set(pd.read_csv(folder / "shared/compared_groups.csv")["strategy"]) == {"ddp"}
    assert "Both studies: 69 records left out." in (folder / "shared.html").read_text()


@pytest.mark.parametrize(
    ("second", "limit", "status"),
    [("slower", "5%", 1), ("slower", "20%", 0), ("slower", "30%", 0), ("faster", "0%", 0), ("once", "5%", 0)],
)
def test_what_is_slower_than_is_tolerated_ends_with_status_1(
    folder: Path, second: str, limit: str, status: int
) -> None:
    done = dpscale(
        "compare", "plain.yaml", f"{second}.yaml", "--fail-slower", limit, "--tables", "guard", "--out", "guard.html",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == status
    assert done.stderr == ""
    groups = pd.read_csv(folder / "guard/compared_groups.csv")
    assert ("yes" in set(groups["beyond_tolerance"])) == (status == 1)
    beyond = groups[groups["change_low"] > float(limit.removesuffix("%")) / 100]
    assert set(beyond["beyond_tolerance"]) <= {"yes"}
    line = next(line for line in done.stdout.splitlines() if line.startswith("Slower by more than"))
    for row in beyond.to_dict("records"):
        assert f"{row['strategy']} on {row['gpus']} GPUs: 20.00 % slower" in line
    assert ("no group" in line) == (status == 0)
    undecided = "undecided" in set(groups["beyond_tolerance"])
    assert (f"Undecided whether slower by more than {limit.replace('%', ' %')}" in done.stdout) == undecided
    assert undecided == ((second, limit) in {("slower", "20%"), ("once", "5%"), ("faster", "0%")})
    assert line in (folder / "guard.html").read_text().replace("\N{NO-BREAK SPACE}", " ")


def test_a_limit_is_written_in_percent(folder: Path) -> None:
    for limit in ("5", "0.05", "-5%", "five%", "nan%", "inf%", "5%%"):
        done = dpscale(
            "compare", "plain.yaml", "slower.yaml", f"--fail-slower={limit}", "--out", "x.html", folder=folder
        )
        assert done.returncode == 2, limit
        assert "Write it in percent, such as 5%" in done.stderr
    assert not (folder / "x.html").exists()


def test_three_studies_give_one_page_with_a_row_each(folder: Path) -> None:
    done = dpscale(
        "compare", "plain.yaml", "slower.yaml", "faster.yaml", "--fail-slower", "5%", "--tables", "three", "--out",
        "three.html", folder=folder,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(",")[0] for line in lines[:2]] == ["slower against plain", "faster against plain"]
    assert lines[2].startswith("Slower by more than 5 %: slower, compute scope, ddp on 2 GPUs: 20.00 % slower")
    assert "faster, compute scope" not in lines[2]
    assert list(pd.read_csv(folder / "three/compared_studies.csv")["study"]) == ["plain", "slower", "faster"]
    assert (folder / "three.html").read_text().startswith("<!DOCTYPE html>")


def test_one_study_and_a_wrong_number_of_folders_are_refused(folder: Path) -> None:
    done = dpscale("compare", "plain.yaml", "--out", "x.html", folder=folder)
    assert (done.returncode, "name two studies or more" in done.stderr) == (2, True)
    done = dpscale("compare", "plain.yaml", "half.yaml", "--results", "results/plain", "--out", "x.html", folder=folder)
    assert (done.returncode, "once per study" in done.stderr) == (2, True)
    done = dpscale("compare", "plain.yaml", "half.yaml", "results/plain", "--out", "x.html", folder=folder)
    assert (done.returncode, "results/plain is a folder, no study file" in done.stderr) == (2, True)


@pytest.fixture(scope="module")
def recorded_copy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded study, with every time of its timing records half as long again."""
    copy = tmp_path_factory.mktemp("copy")
    for path in (root / "results/recorded/cells").rglob("*.json"):
        record = json.loads(path.read_text())
        for scope in record["scopes"].values():
            for name in ("epoch_s", "step_s_median"):
                scope[name] = [1.5 * seconds for seconds in scope[name]]
        there = copy / path.relative_to(root / "results/recorded")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(json.dumps(record))
    return copy


def test_the_recorded_study_against_a_copy_that_takes_half_as_long_again(
    root: Path, tmp_path: Path, recorded_copy: Path
) -> None:
    file, results = root / "config/recorded.yaml", root / "results/recorded"
    done = dpscale(
        "compare", file, file, "--results", results, "--results", recorded_copy, "--tables", tmp_path / "csv",
        "--out", tmp_path / "c.html", folder=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    groups = pd.read_csv(tmp_path / "csv/compared_groups.csv")
    assert groups["change"].to_numpy() == pytest.approx(0.5)
    times = pd.read_csv(tmp_path / "csv/compared_times.csv")
    assert times["change"].dropna().to_numpy() == pytest.approx(0.5)
    assert set(groups["outcome"]) <= {"slower", "no difference shown"}
    assert (tmp_path / "c.html").stat().st_size < 400_000


def test_the_recorded_study_is_no_evidence_against_itself(root: Path, tmp_path: Path) -> None:
    file, results = root / "config/recorded.yaml", root / "results/recorded"
    done = dpscale(
        "compare", file, file, "--results", results, "--results", results, "--out", tmp_path / "c.html", folder=root
    )
    assert done.returncode == 1
    assert "recorded (1): all of its 167 records stand in another of the studies too." in done.stderr
