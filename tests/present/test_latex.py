"""The tables to hand in, pasted into an article and set by a real LaTeX."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from page_tables import GPU, h200, tables, times_row
from test_assignment import EVIL

from dpscale.present.handin.assignment import sheets
from dpscale.present.handin.sheet import RowGroup, Sheet
from requirements import without

pytestmark = pytest.mark.processes

# Strings of a PDF that is not compressed: what stands in parentheses, with a backslash before those that are text.
SHOWN = re.compile(rb"\(((?:[^()\\]|\\.)*)\)")


@pytest.fixture(scope="module")
def latex() -> str:
    found = shutil.which("pdflatex")
    if not found:
        without("pdflatex is missing: apt-get install texlive-latex-base")
    return found


def article(latex: str, folder: Path, pasted: list[str]) -> tuple[str, str]:
    """LaTeX's log of an article without any package, and the letters of its pages."""
    start = r"\pdfcompresslevel=0 \pdfobjcompresslevel=0 \documentclass{article} \begin{document}"
    (folder / "article.tex").write_text("\n".join([start, *pasted, r"\end{document}"]))
    command = [latex, "-halt-on-error", "-interaction=nonstopmode", "article.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    letters = b"".join(SHOWN.findall((folder / "article.pdf").read_bytes()))
    return (folder / "article.log").read_text(errors="replace"), re.sub(rb"\\(.)", rb"\1", letters).decode("latin-1")


def wide() -> list[Sheet]:
    """Of more numbers of GPUs than an article has room for beside each other."""
    numbers = [("single", 1), *(("ddp", gpus) for gpus in (2, 4, 8, 16, 32))]
    times = [times_row(12_345.6, strategy=strategy, gpus=gpus, batch=32) for strategy, gpus in numbers]
    return sheets(tables(times=times), GPU)


def test_tables_fit_into_an_article_and_show_every_cell(latex: str, tmp_path: Path) -> None:
    pasted = [*sheets(h200(), GPU), *wide(), EVIL]
    log, letters = article(latex, tmp_path, [sheet.latex for sheet in pasted])
    assert "Overfull" not in log
    numbers = {
        cell for sheet in pasted[:-1] for row in sheet.rows for cell in row if re.fullmatch(r"[\d., \[\]]+", cell)
    }
    assert len(numbers) > 50
    assert [cell for cell in numbers if any(part not in letters for part in cell.split())] == []
    assert letters.count("DataParallelrunsnoallreduce") == 1


def test_a_table_that_is_too_wide_is_found(latex: str, tmp_path: Path) -> None:
    row = ["32", *["0.5882 [0.5882, 0.5914]"] * 9]
    sheet = Sheet("wide", "Wide", "", ["Batch", *map(str, range(9))], [RowGroup("ddp", [row])])
    assert sheet.latex.count(r"\begin{tabular}") == 2
    beside = sheet.latex.replace("\\end{tabular}\n\\par\\medskip\n", r"\end{tabular}~")
    assert "Overfull" in article(latex, tmp_path, [beside])[0]
