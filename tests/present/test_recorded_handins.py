"""What is handed in of every recorded study: short sentences, numbers that fit, and a LaTeX that sets it cleanly."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.own_table import read_table
from dpscale.audit.verdicts import OF_OTHER_RUNS
from dpscale.present.handin_report import Report, files, report, write
from dpscale.present.text.words import Terms
from dpscale.vocabulary.states import MARK
from recorded import RECORDED, recorded_study, recorded_tables
from requirements import without

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def handin_of(root: Path, results: str) -> Report:
    study = recorded_study(root, results)
    tables = recorded_tables(root, results)
    return report(study.values, tables, Terms.of(study.values, tables))


@pytest.mark.parametrize("results", RECORDED)
def test_the_audit_reads_every_copy_and_finds_nothing(root: Path, results: str, tmp_path: Path) -> None:
    """Every figure follows from those beside it, by the printed digits; or it has the mark that says of which runs it
    is, and is not held against the times."""
    handin = handin_of(root, results)
    write(handin, tmp_path)
    of_configurations = len(read_table(tmp_path / "tables.csv"))
    for name in files(handin):
        records = [(study, audit(study)) for study in read_table(tmp_path / name)]
        assert [record.answer for _, record in records if is_faulty(record)] == []
        for study, record in records[-of_configurations:]:  # before them stand the tables in the assignment's layout
            cells = [cell for cell in record.cells if cell["verdict"]]
            marked = sum(map(len, study.of_other_runs.values()))
            assert len(cells) >= 3
            # What fsdp sends is no ring allreduce, and the audit's definitions of a bandwidth are of one.
            cells = [
                cell for cell in cells if not (str(cell["study"]).endswith("fsdp") and cell["quantity"] == "bandwidth")
            ]
            assert [cell["verdict"] for cell in cells].count("explained") == len(cells) - marked
            assert [cell["why"] for cell in cells].count(OF_OTHER_RUNS) == marked
            columns = [row for row in record.findings[1:] if row["verdict"] == "explained"]
            assert all(row["conventions_tried"] for row in columns)


def test_the_times_that_are_held_against_figures_without_their_mark_are_faults(root: Path, tmp_path: Path) -> None:
    """The mark counts with its note alone; and where somebody takes it away, the audit sees that the numbers differ."""
    write(handin_of(root, "recorded-h200-4"), tmp_path)
    for mark in (MARK, "other runs: "):
        changed = tmp_path / "changed.csv"
        changed.write_text((tmp_path / "tables.csv").read_text().replace(mark, ""))
        assert any(is_faulty(audit(study)) for study in read_table(changed))


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


@pytest.mark.parametrize("results", ["recorded", "recorded-two-gpus", "recorded-gpt"])
def test_latex_sets_it_without_a_warning(root: Path, results: str, tmp_path: Path) -> None:
    """With trainings, with a ladder, and of a user's file."""
    write(handin_of(root, results), tmp_path)
    assert re.findall(r"^.*(?:Warning|Overfull|Underfull).*$", log_of(tmp_path), re.MULTILINE) == []
