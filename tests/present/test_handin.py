"""What is handed in: the same cells in every form, only the assignment's configurations, and a note for every word."""

import csv
import re
from dataclasses import replace
from itertools import product
from typing import Any

import lxml.html
from markdown_it import MarkdownIt
from page_tables import GPU, WORKER, absent_row, h200, study, tables, times_row

from dpscale.formulas.figure import Figure
from dpscale.present.handin_report import BATCHES, GPUS, Report, files, latex, markdown, report
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def made(data: Tables | None = None, terms: Terms = GPU, **changes: Any) -> Report:
    return report(study(**changes), data or h200(), terms)


def rows_of_html(html: str) -> list[list[str]]:
    """Return the cells of all rows of tables."""
    rows = lxml.html.fromstring(html).iter("tr")
    return [[cell.text_content() for cell in row.iter("th", "td")] for row in rows]


def rows_of_latex(text: str) -> list[list[str]]:
    return [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in text.splitlines() if line.endswith(r" \\")]


def test_a_study_of_other_batches_shows_its_own_and_says_which_are_lacking() -> None:
    rows = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=batch)
        for batch in (8, 16, 24, 48)
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    absent = absent_row("not available", "DataParallel needs CUDA GPUs", strategy="dp", gpus=2, batch=8)
    handed_in = made(tables(times=[*rows, absent]), replace(WORKER, synthetic=True), device="cpu")
    assert {place.batch for grid in handed_in.grids for place in grid.places} == {8, 16, 24}
    sentences = " ".join(handed_in.lacking)
    lacking = ("synthetic", "on the CPU", "dp: DataParallel needs CUDA", "4 workers", "32, 128 and 512", "10 full")
    assert [words for words in lacking if words not in sentences] == []
    assert "GPU" not in handed_in.facts
    assert "dp: the study does not ask for it." in " ".join(made(tables(times=rows)).lacking)
    assert made().lacking == []
    assert {place[1:] for grid in made().grids for place in grid.places} == set(product(GPUS, BATCHES))
    assert made(tables(times=rows[:1])).sheets == []


def test_every_form_has_the_same_cells() -> None:
    handed_in = made()
    texts = files(handed_in)
    cells = [
        list(row) for sheet in handed_in.sheets for row in [[column.heading for column in sheet.columns], *sheet.cells]
    ]
    assert rows_of_html(MarkdownIt("commonmark").enable("table").render(texts["report.md"])) == cells
    assert rows_of_latex(texts["report.tex"]) == [list(map(latex, row)) for row in cells]
    lines = [line for line in texts["tables.csv"].splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        table = next(line for line in cells if line[:3] == [row["Strategy"], row["GPUs"], row["Batch per GPU"]])
        assert re.findall(r"[\d.]+", table[3]) == [row["Time (s)"], row["Time low (s)"], row["Time high (s)"]]


def test_every_word_in_the_tables_has_its_note() -> None:
    data = h200()
    once = [replace(row, speedup=replace(row.speedup, kind="one run")) for row in data.speedup]
    ended = [replace(row, status="oom", epoch_s=Figure()) if row.batch_per_gpu == 512 else row for row in data.times]
    handed_in = made(replace(data, speedup=once, times=ended))
    words = {word for sheet in handed_in.sheets for row in sheet.cells for word in row[-1].split(", ") if word}
    assert words >= {"OOM", "one run"}
    noted = {note.partition(":")[0] for sheet in handed_in.sheets for note in sheet.notes}
    assert noted == words


def test_texts_are_escaped() -> None:
    evil = "100 % of $x_1$ & {y} # ~ ^ \\input\n−1.5 – × 10⁹ <b>|"
    assert latex(evil) == (
        r"100 \% of \$x\_1\$ \& \{y\} \# \textasciitilde{} \textasciicircum{} \textbackslash{}input "
        r"$-$1.5 -- $\times$ 10$^9$ \textless{}b\textgreater{}\textbar{}"
    )
    html = f"<table><tr><td>{MarkdownIt().renderInline(markdown(evil))}</td></tr></table>"
    assert rows_of_html(html) == [[" ".join(evil.split())]]
    assert r"\item Study: a\_b" in files(made(study="a_b"))["report.tex"]
