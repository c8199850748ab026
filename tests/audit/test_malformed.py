"""Files that are no table, or none that can be read: one line says what is wrong and what to do, at once."""

import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest

from command_line import dpscale

HEAD = "batch,gpus,time (s)\n"
ROWS = "32,1,9.0\n32,2,5.0\n"
TABLE = HEAD + ROWS
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
LONGEST = 160


# A row below the head, and the message.
ROWS_BELOW_HEAD: dict[str, str] = {
    "32,1,9\0.0": "holds a line that no table has",
    "32,1,nan\n32,2,-": "no column holds epoch times",
    "32,1,3,4": "row 2 has 4 cells, the head has 3. Give each column a head",
    ",1,3": "row 2: the batch is missing",
    "32,1,3\n32,1,4": "batch 32 on 1 GPUs is there twice. A column `run` tells runs",
    "32,1,12..5": "12..5 is not a number. Write one, such as 12.30",
    "32,1,0": "0 is not above zero, as every time is",
    "small,1,3": "row 2, column batch: small is not a whole number above zero",
    "32,1.5,3": "row 2, column gpus: 1.5 is not a whole number",
    "32,,3": "row 2, column gpus: an empty cell is not a whole number",
    "32,1,3000 ms": "3000 ms is not in the unit of its column, s",
    **{f"32,1,{text}": f"{text} is not a number" for text in ("~12", "1.2-1.4", "0:01:23", "inf", "fast", "=A1*2")},
}
# The content of a CSV file, and the message.
CSV: dict[str, tuple[str | bytes, str]] = {
    # Encodings, and what is no text.
    "latin-1": ("Batch;GPUs;Zeit für eine Epoche (s)\n".encode("latin-1"), "is not text in UTF-8. Save the"),
    # Too little, too much.
    "empty": ("", "has no table"),
    "head alone": (HEAD, "no column holds epoch times"),
    "no head": (ROWS, "names no batch, or no figure"),
    "no batch": ("gpus,time (s)\n1,3\n", "names no batch, or no figure"),
    "no gpus": ("batch,time (s)\n32,3\n", "no column says the number of GPUs, and no head does (such as `2"),
    "no times": ("batch,gpus,speedup\n32,2,1.9\n", "no column holds epoch times"),
    "figure without times": ("batch,gpus,time (s),speedup\n32,1,9,1\n64,2,,1.8\n", "which has no times"),
    "huge": (HEAD + ROWS * 400_000, "is no table of results: it has 7 MB, a table at most 5"),
    "many rows": (HEAD + ROWS * 3_000, "is no table of results: it has more than 5,000 rows"),
    "long line": (HEAD + "3" * 300_000, "holds a line that no table has"),
    "long cell": (HEAD + f"32,1,{'9x' * 5_000}\n", "row 2, column time (s): 9x9x9x"),
    # Rows and heads.
    "same head twice": ("batch,gpus,time (s),time (s)\n32,1,3,4\n", "another column is epoch_s too"),
    "batch and global batch": ("batch,global batch,gpus,time (s)\n32,64,2,3\n", "another column is batch too"),
    "open quotes": ('batch,gpus,"time\n32,1,3\n', "no column holds epoch times"),
    "semicolons and commas": ("batch;gpus,time (s)\n32;1,9\n", "no column says the number of GPUs"),
    # Cells.
    "German or not": ("batch;gpus;time (s)\n32;1;25,860\n", "25,860 may be 25.860 or 25860: write it without"),
    "unit unknown": ("batch,gpus,time (fortnights)\n32,2,1.9\n", "fortnights is none of s, ms, min, h"),
    "units of bandwidths": ("batch,gpus,time,bandwidth\n32,1,9,1 GB/s\n32,2,5,2 MB/s\n", "Use one unit"),
    # Lines above a table.
    "precision": ("# precision: double\n" + TABLE, "precision: double is none of float32"),
    "batch of what": ("# batch: large\n" + TABLE, "batch: large is neither `per GPU` nor `global`"),
    "images": ("# images: many\n" + TABLE, "dataset images: many is not a number above zero"),
    "said twice": ("# gpu: A40\n# gpu: T4\n" + TABLE, "gpu is given twice. Leave one of the lines out"),
    **{row: (f"{HEAD}{row}\n", message) for row, message in ROWS_BELOW_HEAD.items()},
}  # fmt: skip
# A file's name and content, and the message.
FILES: dict[str, tuple[str, str | bytes, str]] = {
    # Encodings, and what is no text.
    "image": ("t.markdown", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not text in UTF-8"),
    "another kind of file": ("t.pdf", PDF, "is no table: save it as one of .csv"),
    # Too little, too much.
    "prose": ("t.txt", "We trained it on two GPUs.\n", "names no batch, or no figure"),
    # Rows and heads.
    "a row in two tables": ("t.markdown", "|batch|gpus|time|\n|--|--|--|\n|1|1|3|\n\n" * 2, "is there twice"),
    # Markdown, LaTeX, HTML.
    "no line of dashes": ("t.markdown", "|batch|gpus|time|\n|32|1|9|\n", "has no table: below its head"),
    "table without an end": ("t.tex", "\\begin{tabular}{lll}\nbatch & gpus & time \\\\\n", "a table is a whole"),
    "braces that stay open": ("t.tex", "\\begin{tabular}{lll}" + "{" * 900 + "\\end{tabular}", "a table is a whole"),
    "page without a table": ("t.html", "<p>batch gpus time</p>", "has no table: a table is a <table>"),
    "table of pictures": ("t.html", "<table><tr><td><img src=x></table>", "has no table"),
    # Excel.
    "no workbook": ("t.xlsx", TABLE, "is no Excel file, or has a password. Save it as CSV"),
    # Studies in YAML.
    "yaml, a list": ("t.yaml", "- 1\n- 2\n", "is not of type"),
    "yaml, no yaml": ("t.yaml", "a: [1, 2\n", "is not YAML"),
    "yaml, a tag": ("t.yaml", "title: !!python/object:os.system x", "is not YAML"),
    "yaml, anchors": ("t.yaml", "a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]\n", "write out what *names stand for"),
    "yaml, deep": ("t.yaml", "title: " + "[" * 5_000, "nested too deeply"),
    "yaml, a key twice": ("t.yaml", "epoch_s: {32: {1: 38.0, 1: 39.0}}", "1 is there twice"),
    "yaml, empty": ("t.yaml", "", "is a required property"),
    **{name: ("t.csv", *case) for name, case in CSV.items()},
}  # fmt: skip


def refused(path: Path) -> str:
    """The one line that is printed of a file."""
    started = time.process_time()
    done = dpscale("audit", path)
    assert (done.returncode, done.stdout, time.process_time() - started < 2) == (2, "", True)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {path}: ")
    assert len(line) - len(f"Error: {path}: ") <= LONGEST
    return line


@pytest.mark.parametrize("name", FILES)
def test_a_malformed_file_is_one_line(tmp_path: Path, name: str) -> None:
    file, content, message = FILES[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused(path)


def formula(path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Batch", "GPUs", "Time (s)"], [32, 1, "=4+5"]):
        book.active.append(row)
    book.save(path)


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", HEAD)


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("t.xlsx", formula, "cell C2 has a formula and no value. Open it in Excel and save it again"),
        ("t.xlsx", zipped, "is no Excel file"),
        ("t.xlsx", lambda path: openpyxl.Workbook().save(path), "has no table: its sheets are empty"),
        ("t.csv", lambda path: None, "cannot be read: No such file"),
        ("t.yaml", lambda path: None, "cannot be read: No such file"),
        ("t.csv", Path.mkdir, "cannot be read: Is a directory"),
        ("folder", Path.mkdir, "is no table: save it as one of .csv"),
        ("t.csv", lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_of_a_table(tmp_path: Path, name: str, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / name)
    assert message in refused(tmp_path / name)
