"""What is handed in: the same cells in every form, only the assignment's configurations, and a note for every word."""

import csv
import re
from dataclasses import replace
from functools import cache
from itertools import product
from math import nan
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from markdown_it import MarkdownIt
from page_tables import (
    GPU,
    SEVERAL,
    environment_row,
    h200,
    study,
    tables,
    times_row,
)

from dpscale.analyse.answer.claims import counts_rows
from dpscale.formulas.figure import Figure
from dpscale.present.handin_assignment import AssignmentRows, sheets
from dpscale.present.handin_questions import sections
from dpscale.present.handin_report import BATCHES, GPUS, Report, files, latex, markdown, report, write
from dpscale.present.text.table import ShownTable
from dpscale.tables.tables import Tables
from recorded import recorded_study, recorded_tables
from rows import changed, picked


def made(data: Tables, **changes: Any) -> Report:
    return report(study(**changes), data, GPU)


@cache
def recorded() -> Report:
    return made(h200())


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
    handed_in = made(tables(times=rows))
    assert {place.batch for grid in handed_in.grids for place in grid.places} == {8, 16, 24}
    sentences = " ".join(handed_in.lacking)
    lacking = ("dp: the study does not ask for it.", "4 GPUs", "32, 128 and 512", "10 full")
    assert [words for words in lacking if words not in sentences] == []
    assert recorded().lacking == []
    assert {place[1:] for grid in recorded().grids for place in grid.places} == set(product(GPUS, BATCHES))
    assert made(tables(times=rows[:1])).sheets == []


def test_every_form_has_the_same_cells() -> None:
    handed_in = recorded()
    texts = files(handed_in)
    cells = [
        list(row) for sheet in handed_in.sheets for row in [[column.heading for column in sheet.columns], *sheet.cells]
    ]
    assert rows_of_html(MarkdownIt("commonmark").enable("table").render(texts["report.md"]))[-len(cells) :] == cells
    assert rows_of_latex(texts["report.tex"])[-len(cells) :] == [list(map(latex, row)) for row in cells]
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


def test_a_batch_that_does_not_fit_was_measured_and_has_no_speedup(root: Path) -> None:
    data = recorded_tables(root, "recorded-strategies-gpt")
    handed_in = report(recorded_study(root, "recorded-strategies-gpt").values, data, GPU)
    assert not any("512" in sentence for sentence in handed_in.lacking)
    table = next(section.table for section in handed_in.sections if section.name == "speedup")
    assert table and list(table.cells[0]) == ["1-GPU", "7.116", "1", "6.863", "1", "OOM", "OOM"]


def test_texts_are_escaped() -> None:
    evil = "100 % of $x_1$ & {y} # ~ ^ \\input\n−1.5 – × 10⁹ <b>|"
    assert latex(evil) == (
        r"100 \% of \$x\_1\$ \& \{y\} \# \textasciitilde{} \textasciicircum{} \textbackslash{}input "
        r"$-$1.5 -- $\times$ 10$^9$ \textless{}b\textgreater{}\textbar{}"
    )
    html = f"<table><tr><td>{MarkdownIt().renderInline(markdown(evil))}</td></tr></table>"
    assert rows_of_html(html) == [[" ".join(evil.split())]]
    assert r"\item Study: a\_b" in files(made(tables(), study="a_b"))["report.tex"]


def test_what_was_edited_is_kept(tmp_path: Path) -> None:
    """Until then it is made anew; and of what is made beside it, edits are kept too."""
    others = ["report.md", "tables.csv"]
    write(recorded(), tmp_path)
    for tex in ("report.tex", "report.new.tex", "report.new.new.tex"):
        assert [place.name for place in write(recorded(), tmp_path)] == [tex, *others]
        (tmp_path / tex).write_text((tmp_path / tex).read_text().replace("Your name", "Ada"))
        write(recorded(), tmp_path)
        assert "Ada" in (tmp_path / tex).read_text()


def rows_of(sheet: ShownTable, group: str) -> dict[str, list[str]]:
    """Return the rows of a group by what stands in their first cell."""
    return {row[0]: list(row[1:]) for row in sheet.groups[group]}


def test_a_bandwidth_that_cannot_be_told_has_its_bound() -> None:
    bounded: dict[str, Any] = {
        "status": "not resolvable", "bandwidth_gb_s": Figure(), "bandwidth_gb_s_at_least": 5.57,
    }  # fmt: skip
    data = replace(h200(), bandwidth=[replace(row, **bounded) for row in h200().bandwidth])
    table_3 = sheets(AssignmentRows.of(data), GPU)[2]
    assert rows_of(table_3, "ddp")["128"][:2] == ["≥ 5.57", "not resolvable"]


def test_a_strategy_whose_bandwidth_is_nowhere_resolvable_has_a_note_and_no_row() -> None:
    unknown: dict[str, Any] = {
        "status": "not resolvable", "bandwidth_gb_s": Figure(), "utilisation": Figure(), "bandwidth_gb_s_at_least": nan,
    }  # fmt: skip
    data = replace(h200(), bandwidth=changed(h200().bandwidth, {"strategy": "dp"}, **unknown))
    table_3 = sheets(AssignmentRows.of(data), GPU)[2]
    assert list(table_3.groups) == ["ddp"]
    assert "Not resolvable at any batch: dp." in table_3.notes


def test_gpus_that_a_machine_does_not_have_are_a_note_and_no_columns() -> None:
    here = [row for row in h200().times if row.gpus < 4]
    elsewhere = [replace(row, status="not run", epoch_s=Figure()) for row in h200().times if row.gpus == 4]
    names = ("speedup", "communication", "bandwidth")
    smaller = {name: [row for row in getattr(h200(), name) if row.gpus < 4] for name in names}
    data = replace(h200(), times=[*here, *elsewhere], **smaller)
    table_1 = sheets(AssignmentRows.of(data), GPU)[0]
    assert not any("4 GPUs" in column.heading for column in table_1.columns)
    assert "Without a column: 4 GPUs, which this machine does not have." in table_1.notes


def test_environments_have_tables_of_their_own() -> None:
    times = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=32, environment=letter)
        for letter in "AB"
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    data = tables(times=times, environments=[environment_row("A"), environment_row("B")])
    tables_of_both = sheets(AssignmentRows.of(data), SEVERAL)
    assert [sheet.name for sheet in tables_of_both] == ["table-1-a", "table-1-b"]
    assert tables_of_both[1].title == "Table 1: time and speedup in environment B"


def sure(value: float) -> Figure:
    return Figure.of(value, 0.99 * value, 1.01 * value)


ABOVE, BELOW, BETWEEN = (Figure(value, value - 1, value + 1, "two runs") for value in (10.0, 5.0, 8.5))
ONE_RUN = Figure(10.0, kind="one run")
IN_ALL_RUNS = "in all runs, too few for an interval"


@pytest.mark.parametrize(
    ("epochs", "said", "claim"),
    [
        ([sure(10.0), sure(5.0)], "falls from 10", "falls with the batch"),
        ([sure(5.0), sure(10.0)], "rises from 5", "rises with the batch"),
        ([sure(5.0), sure(5.01)], "shows no sure change: it is 5", "is level with the batch"),
        ([ABOVE, BELOW], f"falls {IN_ALL_RUNS}, from 10", f"falls with the batch {IN_ALL_RUNS}"),
        ([BELOW, ABOVE], f"rises {IN_ALL_RUNS}, from 5", f"rises with the batch {IN_ALL_RUNS}"),
        ([ABOVE, BETWEEN], "has no interval, so no change is sure: it is 10", None),
        ([ONE_RUN, BELOW], "has no interval, so no change is sure: it is 10", None),
    ],
)
def test_how_an_epoch_goes_with_the_batch_is_a_claim(epochs: list[Figure], said: str, claim: str | None) -> None:
    first, *_, last = picked(h200().times, strategy="single", scope="compute", is_headline=True)
    timed = [replace(row, epoch_s=epoch_s) for row, epoch_s in zip((first, last), epochs, strict=True)]
    data = replace(tables(), times=timed)
    (sweep, *_) = sections(AssignmentRows.of(data), [], data.times, [], GPU)
    assert f"The time of an epoch {said}" in sweep.paragraphs[""][0]
    name = "time of an epoch on one device"
    holding = [row.claim for row in counts_rows(data) if row.claim.startswith(name) and row.number]
    assert holding == ([f"{name} {claim}"] if claim else [])
