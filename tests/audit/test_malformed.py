"""Files that are no table, or none that can be read: one line says what is wrong and what to do, at once."""

import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import openpyxl
import pytest

from command_line import dpscale
from dpscale.audit.own_table import read_table
from dpscale.errors import PublishedError

HEAD = "batch,gpus,time (s)\n"
ROWS = "32,1,9.0\n32,2,5.0\n"
TABLE = HEAD + ROWS
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
LONGEST = 160


# What a file holds, and the message.
NO_FIGURES = "no table holds figures of training"
FILES: dict[str, tuple[str, str | bytes, str]] = {
    # Encodings, and what is no text.
    "zero byte": ("t.csv", HEAD + "32,1,9\0.0\n", "is no text. Save the table as CSV in UTF-8"),
    "another kind of file": ("t.pdf", PDF, "is no table: save it as one of .csv"),
    # Too little, too much.
    "empty": ("t.csv", "", "has no table"),
    "no number": ("t.csv", f"{HEAD}32,1,nan\n32,2,-\n", NO_FIGURES),
    "repeats alone": ("t.csv", f"{HEAD}32,1,9.0\n32,1,9.1\n", "several figures for each cell"),
    "huge": ("t.csv", HEAD + ROWS * 400_000, "cannot be read: it has more than 5 MB"),
    "long line": ("t.csv", HEAD + "3" * 300_000, "holds a line that no table has"),
    # Markdown, LaTeX, HTML, notebooks.
    "braces that stay open": ("t.tex", "\\begin{tabular}{lll}" + "{" * 900 + "\\end{tabular}", "has no table"),
    "deep page": ("t.html", "<table><tr><td>" * 5_000, "has no table"),
    "no notebook": ("t.ipynb", "[1]", "is no notebook"),
    # Excel.
    "no workbook": ("t.xlsx", TABLE, "is no Excel file, or has a password. Save it as CSV"),
    # Studies in YAML.
    "yaml, no yaml": ("t.yaml", "a: [1, 2\n", "is not YAML"),
    "yaml, a tag": ("t.yaml", "title: !!python/object:os.system x", "is not YAML"),
    "yaml, anchors": ("t.yaml", "a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]\n", "write out what *names stand for"),
    "yaml, deep": ("t.yaml", "title: " + "[" * 5_000, "nested too deeply"),
    "yaml, a key twice": ("t.yaml", "epoch_s: {32: {1: 38.0, 1: 39.0}}", "1 is there twice"),
}


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


@pytest.mark.parametrize("text", ["9" * 5_000, "9" * 40, "-" * 5_000, "(" * 5_000, "a" * 5_000, "8 gpus " * 700])
def test_a_head_or_a_cell_of_thousands_of_characters_is_read_at_once(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"batch,gpus,time (s),bandwidth (GB/{text}\n{text},1,7.0,\n{ROWS}{text},2,{text}\n")
    started = time.process_time()
    with suppress(PublishedError):
        read_table(path)
    assert time.process_time() - started < 2


def test_a_file_in_latin_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("Batch;GPUs;Zeit für eine Epoche (s)\n32;1;9,5\n32;2;5,25\n".encode("latin-1"))
    (study,) = read_table(path)
    assert [str(time) for time in study.epoch_s.values()] == ["9.5", "5.25"]


@pytest.mark.parametrize(
    "line", ["precision: double", "batch: large", "images: many", "gpu: A40\n# gpu: T4", "bus bandwidth: fast"]
)
def test_a_line_that_is_not_plain_stops_no_table(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.csv").write_text(f"# {line}\n{TABLE}")
    (study,) = read_table(tmp_path / "t.csv")
    assert len(study.epoch_s) == 2


def workbook(path: Path, **cells: object) -> Path:
    book = openpyxl.Workbook()
    for row in (["Batch", "GPUs", "Time (s)"], [32, 1, 9.0], [32, 2, 5.0]):
        book.active.append(row)
    for place, value in cells.items():
        book.active[place] = value
    book.save(path)
    return path


@pytest.mark.parametrize("cells", [{"XFD1048576": 1}, {"A20000": "end"}, {"D3": "=C2/C3", "D1": "Speedup"}])
def test_a_workbook_with_a_stray_cell_or_a_formula_is_read_at_once(tmp_path: Path, cells: dict[str, object]) -> None:
    started = time.process_time()
    (study,) = read_table(workbook(tmp_path / "t.xlsx", **cells))
    assert [float(time) for time in study.epoch_s.values()] == [9.0, 5.0]
    assert any("have no values" in line for line in study.left_out) == ("D3" in cells)
    assert time.process_time() - started < 2


def bomb(path: Path) -> None:
    """A workbook of a few kilobytes that unpacks to a hundred megabytes."""
    workbook(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/image.bin", b"\0" * 100_000_000)


def merged(path: Path) -> None:
    """A workbook that merges all cells of a sheet."""
    workbook(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    end = b"</sheetData>"
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(end, end + b'<mergeCells><mergeCell ref="A5:XFD1048576"/></mergeCells>')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_a_workbook_that_merges_everything_is_read_at_once(tmp_path: Path) -> None:
    merged(tmp_path / "t.xlsx")
    started = time.process_time()
    (study,) = read_table(tmp_path / "t.xlsx")
    assert len(study.epoch_s) == 2 and time.process_time() - started < 2


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", HEAD)


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("t.xlsx", bomb, "it unpacks to more than 30 MB"),
        ("t.xlsx", zipped, "is no Excel file"),
        ("t.xlsx", lambda path: openpyxl.Workbook().save(path), "has no table"),
        ("t.csv", lambda path: None, "cannot be read: No such file"),
        ("t.csv", Path.mkdir, "cannot be read: Is a directory"),
        ("t.csv", lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_of_a_table(tmp_path: Path, name: str, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / name)
    assert message in refused(tmp_path / name)


# Tables of so many rows that their text is long; each takes a time that grows as they do.
LONG = {
    "t.csv": (HEAD, "32,{n},9.0\n", ""),
    "t.markdown": ("|batch|gpus|time (s)|\n|-|-|-|\n", "|32|{n}|9.0|\n", ""),
    "t.html": ("<table><tr><th>batch<th>gpus<th>time (s)", "<tr><td>32<td>{n}<td>9.0", "</table>"),
    "t.tex": ("\\begin{tabular}{lll}batch & gpus & time (s)", " \\\\ 32 & {n} & 9.0\n", "\\end{tabular}"),
    "t.txt": ("batch  gpus  time (s)\n", "32     {n}     9.0\n", ""),
}


@pytest.mark.alone
@pytest.mark.parametrize("name", LONG)
def test_the_time_grows_no_faster_than_the_size(tmp_path: Path, name: str) -> None:
    head, row, end = LONG[name]
    times = []
    for size in (1, 8):
        (tmp_path / name).write_text(head + "".join(row.format(n=n) for n in range(1, 1_000 * size)) + end)
        started = time.process_time()
        assert read_table(tmp_path / name)
        times.append(time.process_time() - started)
    assert times[1] < 16 * times[0] and times[1] < 5
