"""`dpscale audit` as it is called: its files, its summary, its errors and its time."""

import csv
import time
from pathlib import Path

import pytest

from command_line import dpscale
from dpscale.audit.page import render
from dpscale.records.facts import AuditRecord
from dpscale.records.files import read_record
from published_factory import written

# Whole studies, again and again.
pytestmark = pytest.mark.slow

# The most processor time of all published studies: several times what they take, which varies on a busy machine.
ALL_S = 12.0


def test_every_study_has_a_record_a_page_and_a_short_summary(root: Path, tmp_path: Path) -> None:
    files = sorted((root / "config/published").glob("*.yaml"))
    before_s = time.process_time()
    done = dpscale("audit", *files, "--out", tmp_path / "records", "--page", tmp_path / "pages")
    assert time.process_time() - before_s < ALL_S
    assert done.returncode == 0, done.stderr
    records = {path.stem: read_record(AuditRecord, path) for path in (tmp_path / "records").iterdir()}
    assert {name: record.id for name, record in records.items()} == {path.stem: path.stem for path in files}
    pages = {path.stem: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert pages == {name: render([record]) for name, record in records.items()}
    lines = [line for line in done.stdout.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 120
    assert "  speedup              explained           6 of 6 cells  N * T(1,b) / T(N,b)" in lines
    assert "  wrong: N*T(1,b)/T(N,b) reported as speedup (6)" in lines


TABLE = "batch,gpus,time (s),speedup\n32,1,9.00,1.00\n32,2,5.00,{}\n"


def test_a_folder_of_submissions_has_a_row_per_file_and_one_exit_status(tmp_path: Path) -> None:
    """An unreadable file ends nothing, files of the same name do not clash, and copies are found."""
    for name, text in {
        "alice/table.csv": TABLE.format("1.80"), "bob/table.csv": TABLE.format("3.60"), "carol/table.csv": "nothing",
        "dave/other.csv": TABLE.replace("9.00", "9.90").format("1.98"), "erin/notes.pdf": "",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = dpscale("audit", tmp_path, "--summary", tmp_path / "audit.csv", "--out", tmp_path / "out")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {"alice-csv-table", "bob-csv-table", "other"}
    with (tmp_path / "audit.csv").open() as lines:
        rows = {Path(row["file"]).parent.name: row for row in csv.DictReader(lines)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "alice": "nothing wrong", "bob": "faults", "carol": "not read", "dave": "nothing wrong", "erin": "left out",
    }  # fmt: skip
    assert (rows["bob"]["faults"], rows["bob"]["copied_from"]) == ("1", "alice-csv-table")
    assert rows["bob"]["first_fault"].startswith("Batch 32, 2 GPUs: speedup 3.60; the times give 1.80.")
    assert rows["carol"]["first_fault"].startswith("no table holds figures of training")
    statuses = [dpscale("audit", tmp_path / name).returncode for name in ("dave", "bob", "carol")]
    assert statuses == [0, 1, 2]


@pytest.mark.parametrize("option", ["--page", "--out"])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    done = dpscale("audit", written(tmp_path / "s.yaml"), option, tmp_path / "file/folder")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {tmp_path / 'file/folder/made-up.'}")
    assert "cannot be written: Not a directory" in line
