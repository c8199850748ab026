"""The page as a whole: escaping, states, labels, ids, size, marks of figures of other runs."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hostile_tables import BENIGN, HOSTILE, hostile_audit_page, hostile_page
from page_tables import (
    GPU,
    absent_row,
    bare_page,
    empty,
    environment_row,
    h200,
    missing_row,
    study,
    tables,
    times_row,
)

from dpscale.present.page import render
from dpscale.present.shown_tables import views
from dpscale.tables.tables import Tables
from dpscale.terminal import with_names
from dpscale.vocabulary.states import MARK
from html_reader import assert_sound, tags, visible

# Whole pages, again and again.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on_a_cpu() -> str:
    """With synthetic images."""
    records = [replace(row, synthetic=True) for row in h200().records]
    return render(study(device="cpu"), replace(h200(), records=records, environments=CPU))


def test_missing_cells_are_counted_by_their_reason_and_show_the_end_of_their_log() -> None:
    log = "a.log:\n<b>12:00</b> warm-up epoch 1\nError: stopped after 5 s"
    rows = [
        missing_row(strategy="ddp", gpus=2, batch=32),
        missing_row("failed", "Error: stopped after 5 s", log, strategy="ddp", gpus=2, batch=64, run=2),
    ]
    page = render(study(), tables(missing=rows))
    for of_nothing_measured in (page, bare_page(), render(study(), empty())):
        assert_sound(of_nothing_measured)
    text = visible(page)
    failed = "1 cell failed , Error: stopped after 5 s: cells/ddp/gpus-2/batch-64/run-2.json"
    assert text.index(failed) < text.index("1 cell missing , no record yet: cells/ddp/gpus-2/batch-32/run-1.json")
    assert "&lt;b&gt;12:00&lt;/b&gt; warm-up epoch 1\nError: stopped after 5 s</pre>" in page
    assert page.count("End of the log") == 1
    assert "This page is partial" in text and "partial" not in visible(bare_page())


def test_page_needs_no_other_file_and_has_no_script(recorded_page: str) -> None:
    page = recorded_page
    assert_sound(page)
    assert "<script" not in page
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page
    assert re.findall(r'(?:src|href)="(?!#|data:|recorded-audit)', page) == []
    assert 'href="recorded-audit.html' in page


def test_every_state_is_a_word_with_its_reason() -> None:
    where: dict[str, Any] = {"strategy": "ddp", "gpus": 2}
    words = {"oom": "OOM", "capped": "larger than the dataset"}
    words |= {word: word for word in ("not available", "not run", "missing")}
    rows = [absent_row(status, f"why {status}", batch=32 + at, **where) for at, status in enumerate(words)]
    in_part = {**times_row(7.74, batch=64, **where), "reason": "out of memory in 1 of 3 runs"}
    page = render(study(), tables(times=[*rows, absent_row("missing", None, batch=48, **where), in_part]))
    assert_sound(page)
    for status, word in words.items():
        assert f"<td>{word}<td>why {status}<td>1" in page
    assert "ok: out of memory in 1 of 3 runs" in page


@pytest.mark.parametrize("kind", HOSTILE)
def test_text_of_others_is_text(kind: str) -> None:
    for render_page in (hostile_page, hostile_audit_page):
        page, plain = render_page(HOSTILE[kind]), render_page(BENIGN)
        assert tags(page) == tags(plain)
        assert " ".join(with_names(HOSTILE[kind]).split()) in visible(page)


def test_synthetic_images_are_named_once_on_top(on_a_cpu: str, recorded_page: str) -> None:
    assert on_a_cpu.count("Synthetic images") == on_a_cpu[: on_a_cpu.index("</header>")].count("Synthetic images") == 1
    assert "Synthetic" not in recorded_page


def test_a_study_on_a_cpu_has_the_whole_page_and_says_what_workers_share(recorded_page: str, on_a_cpu: str) -> None:
    assert_sound(on_a_cpu)
    assert "workers share its" in on_a_cpu and "workers share its" not in recorded_page
    sections = [re.findall(r'<section id="([^"]*)"', html) for html in (on_a_cpu, recorded_page)]
    assert [name for name in sections[1] if name not in sections[0]] == ["training"], "it trains no arms"
    # Of GPUs it says only that these are none, and what GPUs add.
    assert re.findall(r"\bGPUs?\b", visible(on_a_cpu).split("Set-up", 2)[2]) == []


CPU = tables(
    environments=[{**environment_row(), "device_model": "AMD EPYC 9654", "nccl": None, "driver": None}]
).environments


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
