"""The report to hand in, set by a real LaTeX without a warning."""

import shutil
import subprocess
from pathlib import Path

import pytest
from page_tables import GPU, h200, study

from dpscale.present.handin.files import write
from dpscale.present.handin.report import report
from requirements import without

pytestmark = pytest.mark.processes


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


def test_a_report_is_set_without_a_warning(tmp_path: Path) -> None:
    write(report(study(), h200(), GPU), tmp_path)
    log = log_of(tmp_path)
    assert [line for line in log.splitlines() if "Warning" in line or "Overfull" in line or "Underfull" in line] == []


def test_a_table_that_is_too_wide_is_found(tmp_path: Path) -> None:
    write(report(study(), h200(), GPU), tmp_path)
    file = tmp_path / "report.tex"
    file.write_text(file.read_text().replace(r"\begin{tabular}{l", r"\begin{tabular}{l@{\hspace{300pt}}", 1))
    assert "Overfull" in log_of(tmp_path)
