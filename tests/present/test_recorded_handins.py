"""What is handed in of every recorded study: short sentences, numbers that fit, and a LaTeX that sets it cleanly."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.reading.own_table import read_table
from dpscale.plan.study import Study
from dpscale.present.handin.files import files, write
from dpscale.present.handin.report import Report, report
from dpscale.present.text.words import Terms
from recorded import RECORDED, recorded_tables
from requirements import without

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module", params=RECORDED)
def handin(root: Path, request: pytest.FixtureRequest) -> Report:
    return handin_of(root, request.param)


def handin_of(root: Path, results: str) -> Report:
    study = Study.read(root / f"config/{RECORDED[results]}.yaml")
    tables = recorded_tables(root, results, RECORDED[results])
    return report(study.values, tables, Terms.of(study.values, tables))


def test_the_audit_reads_every_copy_and_finds_nothing(handin: Report, tmp_path: Path) -> None:
    """Every figure follows from those beside it, by the printed digits."""
    write(handin, tmp_path)
    for name in files(handin):
        for study in read_table(tmp_path / name):
            record = audit(study)
            assert not is_faulty(record), record["answer"]
            states = [cell["verdict"] for cell in record["cells"] if cell["verdict"]]
            assert len(states) >= 3 and set(states) == {"explained"}
            assert all(row["conventions_tried"] for row in record["findings"][1:])


def log_of(folder: Path) -> str:
    """LaTeX's log of the second run, which knows the numbers of all tables."""
    latex = shutil.which("pdflatex")
    if not latex:
        without("pdflatex is missing: apt-get install texlive-latex-base")
    for _ in range(2):
        command = [latex, "-halt-on-error", "-interaction=nonstopmode", "report.tex"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "report.log").read_text(errors="replace")


def test_latex_sets_it_without_a_warning(handin: Report, tmp_path: Path) -> None:
    write(handin, tmp_path)
    assert re.findall(r"^.*(?:Warning|Overfull|Underfull).*$", log_of(tmp_path), re.MULTILINE) == []


def test_a_table_that_is_too_wide_is_found(root: Path, tmp_path: Path) -> None:
    write(handin_of(root, "recorded"), tmp_path)
    file = tmp_path / "report.tex"
    file.write_text(file.read_text().replace(r"\begin{tabular}{l", r"\begin{tabular}{l@{\hspace{300pt}}", 1))
    assert "Overfull" in log_of(tmp_path)
