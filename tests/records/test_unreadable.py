"""A record, log or network that cannot be read, or that no measurement wrote: it is named, and the rest goes on."""

import json
import os
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from command_line import dpscale
from dpscale.errors import RecordError
from dpscale.plan.cells import Configuration, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.kinds import RECORDS
from dpscale.records.outdated import find_outdated
from dpscale.regular_files import MOST_BYTES
from record_factory import any_record, network_facts, typed, write

STUDY = Study({
    "study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32], "scopes": ["compute"],
    "runs": 1,
})  # fmt: skip
RECORD = TimingCell(Configuration("ddp", 2, 32), 1).path
ARM = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 64, "epochs": 1}
TIMES = ("scopes", "compute", "epoch_s")


def cells_listed(project: Path) -> dict[str, str]:
    """Return the state and the reason of every cell, as a plan lists them, by its record's path."""
    cells = json.loads(dpscale("plan", "s.yaml", "--json", folder=project).stdout)
    return {cell["path"]: f"{cell['state']}  {cell['reason']}" for cell in cells}


def with_value(*path: str | int, value: Any) -> Callable[[Path], object]:
    """Return what gives a record another value at a place."""

    def change(file: Path) -> None:
        record = json.loads(file.read_text())
        reduce(getitem, path[:-1], record)[path[-1]] = value
        file.write_text(json.dumps(record))

    return change


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return what puts something in the place of a file."""

    def change(file: Path) -> None:
        file.unlink()
        make(file)

    return change


NO_RECORDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (instead(os.mkfifo), "it is no regular file"),
    "a device": (instead(lambda path: path.symlink_to("/dev/zero")), "it is no regular file"),
    "a folder": (instead(Path.mkdir), "Is a directory"),
    "too large": (lambda path: path.write_bytes(b" " * MOST_BYTES + b"{}"), "it has more than 20 MB"),
    "nested": (lambda path: path.write_text('{"epochs_total_s": ' + "[" * 100_000), "is damaged: maximum recursion"),
    **{value: (with_value("started_at", value=value), "datetime") for value in ("soon", "2026-01-01T00:00:00")},
    "five digits of year": (with_value("started_at", value="12026-01-01T00:00:00+00:00"), "Invalid RFC3339"),
    "ends before it begins": (with_value("started_at", value="2040-01-01T00:00:00+00:00"), "before started_at"),
    "ok without times": (with_value("scopes", value={}), "scopes has no compute"),
    **{f"{time} s": (with_value(*TIMES, value=[time]), "float") for time in (1e300, 1e-300)},
    "400 digits": (with_value("hardware", "cpu_cores", value=10**400), "int"),
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the finished study."""
    (tmp_path / "s.yaml").write_text(STUDY.to_json())
    for cell in plan(STUDY).all_cells:
        write(tmp_path / "results/s", cell, any_record(cell, STUDY.settings, [1.0, 1.1]))
    (tmp_path / "results/s/network.json").write_text(json.dumps(network_facts(STUDY.settings)))
    return tmp_path


@pytest.mark.parametrize("name", NO_RECORDS)
def test_a_record_that_cannot_be_one_is_named_and_measured_again(project: Path, name: str) -> None:
    change, why = NO_RECORDS[name]
    change(project / "results/s" / RECORD)
    done = dpscale("tables", "s.yaml", "--results", "results/s", "--out", "tables", folder=project)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"not used: results/s/{RECORD}: ") and why in line
    assert f"{len(plan(STUDY).all_cells) - 1} records" in done.stdout
    assert cells_listed(project)[RECORD].startswith("rejected  ")
    assert find_outdated(STUDY, plan(STUDY), project / "results/s").rejected_records == (
        project / "results/s" / RECORD,
    )


@pytest.mark.parametrize(("kind", "path", "value", "why"), cases(__file__, "lacking"))
def test_a_record_without_what_all_of_its_kind_have(kind: str, path: list[str | int], value: Any, why: str) -> None:
    study = Study({"study": "s", "batch_per_gpu": [32], "training": {"arms": {"a": ARM}}})
    cell = next(cell for cell in plan(study).all_cells if cell.kind == kind and cell.gpus > 1)
    record: Any = any_record(cell, study.settings, [1.0, 1.1])
    reduce(getitem, path[:-1], record)[path[-1]] = value
    with pytest.raises(RecordError, match=why):
        typed(RECORDS[kind], record)


def test_facts_of_a_network_that_cannot_be_read_are_named_and_made_again(project: Path) -> None:
    network = project / "results/s/network.json"
    instead(os.mkfifo)(network)
    done = dpscale("tables", "s.yaml", "--results", "results/s", "--out", "tables", folder=project)
    assert done.returncode == 0 and done.stderr.startswith("not used: results/s/network.json: ")
    assert network in find_outdated(STUDY, plan(STUDY), project / "results/s").other_files


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (
            os.mkfifo,
            "unfinished  killed, or still running: its log ends with: (it cannot be read: it is no regular file)",
        ),
        (lambda path: path.write_text("x" * 3 * MOST_BYTES + "\nError: no link\n"), "failed  Error: no link"),
    ],
)
def test_a_log_of_any_kind_and_length(project: Path, make: Callable[[Path], object], state: str) -> None:
    (project / "results/s" / RECORD).unlink()
    log = (project / "results/s/logs" / RECORD).with_suffix(".log")
    log.parent.mkdir(parents=True)
    make(log)
    assert cells_listed(project)[RECORD].startswith(state)
