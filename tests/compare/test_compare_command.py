"""`dpscale compare` as it is called: its page, its table, and what it refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from cases import cases
from command_line import dpscale
from dpscale.plan.study import NETWORK_FACTS, Study
from dpscale.records.files import write_record
from made_study import H200, Change, records_of, slower
from record_factory import network_facts, write

# Whole pages, again and again.
pytestmark = pytest.mark.slow

Command = Callable[..., CompletedProcess[str]]


def measured(folder: Path, name: str, change: Change | None = None, results: str = "", **values: Any) -> None:
    """A study file in `folder`, and its records in `results`, by default where the project has them."""
    wanted = {**H200, "study": name, **values}
    study = Study(wanted)
    for cell, record in records_of(study, change).items():
        # Measured for this study: no record is the same file as in another one.
        record["provenance"]["job_id"] = results or name
        write(folder / (results or study.results), cell, record)
    write_record("network", folder / (results or study.results) / NETWORK_FACTS, network_facts(study.settings))
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(wanted))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies, `slower` with a ddp that takes 20 % more time, and `once` the same in one run."""
    place = tmp_path_factory.mktemp("studies")
    measured(place, "plain")
    measured(place, "slower", slower(1.2, "ddp"))
    measured(place, "once", slower(1.2, "ddp"), runs=1)
    return place


@pytest.fixture
def compare(folder: Path) -> Command:
    return lambda *arguments: dpscale("compare", *arguments, "--out", "page.html", folder=folder)


def test_two_studies_give_a_page_a_table_and_every_ratio_for_programs(compare: Command, folder: Path) -> None:
    done = compare("plain.yaml", "slower.yaml")
    assert done.returncode == 0, done.stderr
    assert "slower against plain: slower in 6, no difference shown in 9 of 15 configurations in both." in done.stdout
    assert re.search(r"ddp on 4 GPUs +512 .* +1.20 \[1.20, 1.20\] +slower", done.stdout)
    assert done.stdout.endswith("\npage: page.html\n")
    assert (folder / "page.html").read_text().startswith("<!DOCTYPE html>")
    rows = json.loads(compare("plain.yaml", "slower.yaml", "--json").stdout)
    row = next(row for row in rows if (row["strategy"], row["gpus"], row["batch_per_gpu"]) == ("ddp", 4, 512))
    assert (row["study"], round(row["ratio"], 2), row["verdict"]) == ("slower", 1.2, "slower")
    assert row["interval"][0] <= row["ratio"] <= row["interval"][1]


def test_one_study_measured_on_two_machines(compare: Command, folder: Path) -> None:
    measured(folder, "plain", slower(1.5), results="elsewhere")
    done = compare("plain.yaml", "plain.yaml", "--results", "results/plain", "--results", "elsewhere")
    assert done.returncode == 0
    assert "plain (2) against plain (1): slower in 15 of 15 configurations in both." in done.stdout


@pytest.mark.parametrize(
    ("second", "limit", "beyond", "undecided"),
    cases(__file__, "tolerated"),
)
def test_what_is_slower_than_is_tolerated_ends_with_status_1(
    compare: Command, folder: Path, second: str, limit: str, beyond: bool, undecided: bool
) -> None:
    done = compare("plain.yaml", f"{second}.yaml", "--fail-slower", limit)
    assert (done.returncode, done.stderr) == (int(beyond), "")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("Slower by more than"))
    assert ("ddp on 2 GPUs at batch 128 per GPU (compute scope) 1.20×" in line) == beyond
    assert ("Undecided, which is no failure: none." not in done.stdout) == undecided
    assert line in (folder / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases(__file__, "refused"),
)
def test_wrong_arguments_are_refused(compare: Command, arguments: list[str], message: str) -> None:
    done = compare(*arguments)
    assert (done.returncode, message in done.stderr) == (2, True)
