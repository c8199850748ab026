"""The mark of a figure that is formed in other runs than the times printed beside it: where it stands, and its note."""

from dataclasses import replace

from page_tables import GPU, h200

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
    headings = [column.heading.split(",")[0] for column in view.columns]
    speedup, batch = headings.index("Speedup"), headings.index("Batch per GPU")
    assert {row[batch] for row in view.cells if MARK in row[speedup]} == {"128"}
    assert [note.startswith(WORD) for note in GPU.notes_of(view.cells) if MARK in note] == [True]
    assert not any(MARK in cell for table in views(marked(), GPU).values() for row in table.cells for cell in row)
