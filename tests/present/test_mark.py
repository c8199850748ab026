"""The mark of a figure that is formed in other runs than the times printed beside it: where it stands, and its note."""

import csv
from dataclasses import replace

from page_tables import GPU, h200, study

from dpscale.analyse.answer.answer import answer_of
from dpscale.present.findings.answer import first_screen
from dpscale.present.handin_report import files, report
from dpscale.present.shown_tables import views
from dpscale.tables.tables import Tables
from dpscale.vocabulary.states import MARK

WORD = f"{MARK} other runs"


def marked(*batches: int) -> Tables:
    """The recorded study, its rows on several GPUs marked at these batches and at no others."""
    data = h200()
    rows = {
        name: [replace(row, other_runs=row.gpus > 1 and row.batch_per_gpu in batches) for row in getattr(data, name)]
        for name in ("speedup", "communication", "bandwidth", "answer")
    }
    return replace(data, **rows)


def test_the_page_marks_speedups_and_says_once_below_the_table_what_that_means() -> None:
    view = views(marked(128), GPU)["speedup"]
    at = [number for number, column in enumerate(view.columns) if column.heading.startswith("Speedup, ")]
    batch = next(number for number, column in enumerate(view.columns) if column.heading.startswith("Batch"))
    for row in view.cells:
        if row[at[0]] != "–":
            assert (MARK in row[at[0]]) == (row[batch] == "128")
    (note,) = (note for note in GPU.notes_of(view.cells) if MARK in note)
    assert note.startswith(f"{WORD}: the times of one GPU and of more are not all of the same runs")
    assert not any(MARK in cell for table in views(marked(), GPU).values() for row in table.cells for cell in row)


def test_the_first_screen_marks_what_is_no_quotient_of_its_times() -> None:
    screen = first_screen(answer_of(marked(128)), GPU)
    speedup, price = (screen.headings.index(heading) for heading in ("Speedup, ×", "GPU-seconds, ×"))
    for row in screen.rows:
        is_one = row[0] == "1"
        assert (MARK in row[speedup]) != is_one and (MARK in row[price]) != is_one
    assert [note.startswith(WORD) for note in screen.notes].count(True) == 1
    without = first_screen(answer_of(marked(512)), GPU)
    assert not any(MARK in cell for row in without.rows for cell in row)
    assert not any(MARK in note for note in without.notes)


def test_what_is_handed_in_has_the_mark_in_every_form() -> None:
    texts = files(report(study(), marked(128), GPU))
    for name, mark in (("report.md", MARK), ("report.tex", r"$\dagger$"), ("tables.csv", MARK)):
        assert texts[name].count(f"{mark} other runs: ") == (1 if name == "tables.csv" else 3), "a note per table"
    rows = csv.DictReader(line for line in texts["tables.csv"].splitlines() if not line.startswith("#"))
    for row in rows:
        is_marked = row["Batch per GPU"] == "128" and row["GPUs"] != "1"
        for name in ("Speedup", "Computation", "Communication", "Bandwidth"):
            assert (WORD in row[f"{name} state"]) == is_marked
        assert MARK not in row["Time state"]
    sheets = report(study(), marked(128), GPU).sheets
    assert {MARK in row[4] for row in sheets[0].cells if row[1:3] == ["4", "128"]} == {True}
    assert {MARK in row[3] for row in sheets[0].cells} == {False}, "a time is what was measured"


def test_a_formula_names_the_runs_that_its_numbers_are_of() -> None:
    for batches in ((), (512,)):
        for grid in report(study(), marked(*batches), GPU).grids[:2]:
            assert ("in the runs that timed both" in " ".join(grid.paragraphs["Formula"])) == bool(batches)
