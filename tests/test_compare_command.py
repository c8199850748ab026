"""`dpscale compare` as it is called: its page, its tables, and what it refuses."""

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
        write(folder / (results or study.results), cell, found.records[cell])
    assert found.network
    write_record("network", folder / (results or study.results) / NETWORK_FACTS, found.network)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**VALUES, "study": name, **values}))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies, `faster` with a ddp that takes 20 % less time, and `half` of another precision."""
    place = tmp_path_factory.mktemp("studies")
    measured(place, "plain")
    measured(place, "faster", slower(0.8, "ddp"))
    measured(place, "half", slower(0.5), precision="bfloat16", memory_format="channels_last")
    return place


def test_two_studies_give_a_page_and_tables(folder: Path) -> None:
    done = dpscale("compare", "plain.yaml", "faster.yaml", "--tables", "csv", "--out", "c.html", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "faster is faster than plain in 6 and slower in 0 of 15 configurations (1.00× to 1.25"
    )
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
        "compare", "plain.yaml", "half.yaml", "--results", "results/half", "results/plain", "--out", "refused.html",
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
    assert done.stdout.startswith("half is faster than plain in 15 and slower in 0 of 15 configurations (2.00×")
    assert "precision is float32 in plain and bfloat16 in half" in (folder / "half.html").read_text()


def test_one_study_measured_on_two_machines(folder: Path) -> None:
    measured(folder, "plain", slower(1.5), results="elsewhere")
    done = dpscale(
        "compare", "plain.yaml", "plain.yaml", "--results", "results/plain", "elsewhere", "--out", "two.html",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("plain (2) is faster than plain (1) in 0 and slower in 15 of 15")


def test_records_of_other_settings_are_named_and_not_used(folder: Path) -> None:
    done = dpscale(
        "compare", "plain.yaml", "plain.yaml", "--results", "results/plain", "results/half", "--out", "no.html",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not used: results/half/cells/dp/gpus-2/batch-128/run-1.json: precision is bfloat16" in done.stderr
    assert done.stdout.startswith("plain (2) and plain (1) have no epoch time in common\n")
    assert "plain (2): Records found and not used: 81." in (folder / "no.html").read_text()


def test_the_recorded_study_is_not_apart_from_itself(root: Path, tmp_path: Path) -> None:
    file, results = root / "config/recorded.yaml", root / "results/recorded"
    done = dpscale("compare", file, file, "--results", results, results, "--out", tmp_path / "c.html", folder=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("recorded (2) and recorded (1) are not apart (compute scope)\n")
    assert (tmp_path / "c.html").stat().st_size < 400_000
