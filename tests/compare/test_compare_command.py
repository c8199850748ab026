"""`dpscale compare` as it is called: its page, its tables, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import pytest
import yaml

from command_line import dpscale
from dpscale.plan.study import NETWORK_FACTS, Study
from dpscale.records.files import write_record
from h200_study import VALUES
from record_factory import write
from two_studies import Change, changed, slower

# Whole pages, again and again.
pytestmark = pytest.mark.slow

Command = Callable[..., CompletedProcess[str]]


def measured(folder: Path, name: str, change: Change | None = None, results: str = "", **values: Any) -> None:
    """A study file in `folder`, and its records in `results`, by default where the project has them."""
    wanted = {**VALUES, "study": name, **values}
    study = Study(wanted)
    found = changed(study, change)
    for cell, record in found.records.items():
        # Measured for this study: no record is the same file as in another one.
        record["provenance"]["job_id"] = results or name
        write(folder / (results or study.results), cell, record)
    assert found.network
    write_record("network", folder / (results or study.results) / NETWORK_FACTS, found.network)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(wanted))


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


@pytest.fixture
def compare(folder: Path) -> Command:
    return lambda *arguments: dpscale("compare", *arguments, "--out", "page.html", folder=folder)


def test_two_studies_give_a_page_and_tables(compare: Command, folder: Path) -> None:
    done = compare("plain.yaml", "faster.yaml", "--tables", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("faster is faster than plain in the compute scope: ddp on ")
    assert done.stdout.endswith("\npage: page.html\n")
    assert (folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    figures = pd.read_csv(folder / "csv/compared_figures.csv")
    ddp = figures[(figures["strategy"] == "ddp") & (figures["quantity"] == "epoch_s")]
    assert ddp["change"].tolist() == pytest.approx([-0.2] * 6)
    assert set(ddp["outcome"]) == {"faster"}
    assert set(figures[figures["table"] == "collectives"]["outcome"]) == {"no difference shown"}


def test_other_settings_are_refused_in_one_line_that_names_them_and_allowed_where_all_are_named(
    compare: Command, folder: Path
) -> None:
    # Not even the records that are of another study by now are gone through.
    swapped = ("--results", "results/half", "--results", "results/plain")
    done = compare("plain.yaml", "half.yaml", *swapped)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "precision is float32 and bfloat16; memory_format is contiguous and channels_last." in done.stderr
    assert done.stderr.endswith("--differing precision --differing memory_format\n")
    done = compare("plain.yaml", "half.yaml", "--differing", "precision")
    assert (done.returncode, "precision is" in done.stderr, "memory_format is" in done.stderr) == (1, False, True)
    done = compare("plain.yaml", "half.yaml", "--differing", "precision", "--differing", "memory_format")
    assert done.returncode == 0
    assert done.stdout.startswith("half is faster than plain in the compute scope: ")
    assert "slower" not in done.stdout
    assert "precision is float32 in plain and bfloat16 in half" in (folder / "page.html").read_text()


def test_one_study_measured_on_two_machines(compare: Command, folder: Path) -> None:
    measured(folder, "plain", slower(1.5), results="elsewhere")
    done = compare("plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "elsewhere")
    assert done.returncode == 0
    assert done.stdout.startswith("plain (2) is slower than plain (1) in the compute scope: ")
    assert "ddp on 4 GPUs by 50.0" in done.stdout
    assert "faster" not in done.stdout


def test_records_of_other_settings_are_named_and_not_used(compare: Command, folder: Path) -> None:
    done = compare("plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "results/half")
    assert done.returncode == 0
    assert "not used: results/half/cells/dp/gpus-2/batch-128/run-1.json: precision is bfloat16" in done.stderr
    assert done.stdout.startswith("plain (2) and plain (1) have no epoch time in common.\n")
    assert "plain (2): Records found and not used: 81." in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("second", "limit", "beyond", "undecided"),
    [
        ("slower", "5%", True, False), ("slower", "20%", False, True), ("slower", "30%", False, False),
        ("faster", "0%", False, True), ("once", "5%", False, True),
    ],
)  # fmt: skip
def test_what_is_slower_than_is_tolerated_ends_with_status_1(
    compare: Command, folder: Path, second: str, limit: str, beyond: bool, undecided: bool
) -> None:
    done = compare("plain.yaml", f"{second}.yaml", "--fail-slower", limit)
    assert (done.returncode, done.stderr) == (int(beyond), "")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("Slower by more than"))
    assert ("no group" in line) != beyond
    assert (f"; {second}, ddp on 4 GPUs (compute scope) by 20.00 %" in line) == beyond
    assert (f"Undecided whether slower by more than {limit.replace('%', ' %')}" in done.stdout) == undecided
    assert line in (folder / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("limit", ["5", "-5%", "nan%", "5%%"])
def test_a_limit_is_written_in_percent(compare: Command, limit: str) -> None:
    done = compare("plain.yaml", "slower.yaml", f"--fail-slower={limit}")
    assert (done.returncode, "Write it in percent, such as 5%" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plain.yaml"], "name two studies or more"),
        (["plain.yaml", "half.yaml", "--results", "results/plain"], "once per study"),
        (["plain.yaml", "half.yaml", "results/plain"], "results/plain' is a directory"),
    ],
)
def test_one_study_and_a_wrong_number_of_folders_are_refused(compare: Command, arguments: list[str], said: str) -> None:
    done = compare(*arguments)
    assert (done.returncode, said in done.stderr) == (2, True)
