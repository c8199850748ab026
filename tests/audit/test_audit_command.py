"""`dpscale audit` as it is called: its files, its summary, its errors and its time."""

import csv
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import dpscale
from dpscale.audit.page import render
from dpscale.records.audit import AuditRecord
from dpscale.records.files import read_record
from json_records import read_json
from published_factory import written

# Whole studies, again and again.
pytestmark = pytest.mark.slow

# The most processor time that an audit may take: five times what it does.
LIMIT_S = 5.0
# And the start of Python and the package with an audit of a few times: twice what it does.
START_S = 2.0


def test_one_file_a_study_and_a_short_summary(root: Path, tmp_path: Path) -> None:
    files = [root / f"config/published/{name}.yaml" for name in ("study-b", "study-a")]
    done = dpscale("audit", *files, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in tmp_path.iterdir()} == {path.stem for path in files}
    assert all(read_json("audit", path)["id"] == path.stem for path in tmp_path.iterdir())
    assert "  Batch 32, 2 GPUs: speedup 1.40; your times give 0.700. " in done.stdout
    assert "  speedup              explained           6 of 6 cells  N * T(1,b) / T(N,b)\n" in done.stdout
    assert "  wrong: N*T(1,b)/T(N,b) reported as speedup (6)\n" in done.stdout


@pytest.mark.parametrize("letter", "abcdefghij")
def test_a_study_takes_seconds_and_not_minutes(root: Path, tmp_path: Path, letter: str) -> None:
    """Of processor time, which also varies on a busy machine: from 0.6 to 1.2 s for the same audit."""
    before_s = time.process_time()
    done = dpscale("audit", root / f"config/published/study-{letter}.yaml", "--out", tmp_path)
    assert 0 < time.process_time() - before_s < LIMIT_S
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 130


@pytest.mark.processes
def test_an_audit_starts_at_once(tmp_path: Path) -> None:
    """Of processor time too, in a process of its own."""
    before_s = processor_s()
    subprocess.run([sys.executable, "-m", "dpscale", "audit", written(tmp_path / "s.yaml")], check=True)
    assert 0 < processor_s() - before_s < START_S


def processor_s() -> float:
    """Seconds that the processes started by this one have used a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


TABLE = "batch,gpus,time (s),speedup\n32,1,9.00,1.00\n32,2,5.00,{}\n"


def test_a_folder_of_submissions_has_a_row_per_file_and_one_exit_status(tmp_path: Path) -> None:
    """An unreadable file ends nothing, files of the same name do not clash, and copies are found."""
    for name, text in {
        "alice/table.csv": TABLE.format("1.80"), "bob/table.csv": TABLE.format("3.60"), "carol/table.csv": "nothing",
        "dave/other.csv": TABLE.replace("9.00", "9.90").format("1.98"), "dave/notes.pdf": "",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = dpscale("audit", tmp_path, "--summary", tmp_path / "audit.csv", "--out", tmp_path / "out")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {"alice-csv-table", "bob-csv-table", "other"}
    with (tmp_path / "audit.csv").open() as lines:
        rows = {Path(row["file"]).parent.name: row for row in csv.DictReader(lines)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "alice": "nothing wrong", "bob": "faults", "carol": "not read", "dave": "nothing wrong",
    }  # fmt: skip
    assert (rows["bob"]["faults"], rows["bob"]["copied_from"]) == ("1", "alice-csv-table")
    assert rows["bob"]["first_fault"].startswith("Batch 32, 2 GPUs: speedup 3.60; your times give 1.80.")
    assert rows["carol"]["first_fault"].endswith("names no batch, or no figure")
    statuses = [dpscale("audit", tmp_path / name).returncode for name in ("dave", "bob", "carol")]
    assert statuses == [0, 1, 2]


def test_pages_are_written(root: Path, tmp_path: Path) -> None:
    """They are what `render` makes of the records."""
    studies = [root / f"config/published/study-{letter}.yaml" for letter in "de"]
    done = dpscale("audit", *studies, "--page", tmp_path / "pages", "--out", tmp_path / "records")
    assert done.returncode == 0, done.stderr
    pages = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    records = {path.stem: read_record(AuditRecord, path) for path in (tmp_path / "records").iterdir()}
    assert pages == {f"{name}.html": render([record]) for name, record in records.items()}
    assert f"page: {tmp_path / 'pages/study-e.html'}\n" in done.stdout


@pytest.mark.parametrize("option", ["--page", "--out"])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    done = dpscale("audit", written(tmp_path / "s.yaml"), option, tmp_path / "file/folder")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {tmp_path / 'file/folder/made-up.'}")
    assert "cannot be written: Not a directory" in done.stderr
    assert len(done.stderr.splitlines()) == 1
