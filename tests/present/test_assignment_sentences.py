"""What explains the tables to hand in: sentences, and rows that make them false or other."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, h200, tables

from dpscale.formulas.figure import Figure
from dpscale.present.handin.rows import AssignmentRows
from dpscale.present.handin.sentences import Paragraphs, of_bandwidth, of_communication, of_speedup
from dpscale.tables.communication import LadderRow
from dpscale.tables.tables import Tables

FIRST, LAST = ({"strategy": "ddp", "gpus": 4, "batch_per_gpu": batch} for batch in (32, 512))
WEAK_FIRST, WEAK_LAST = ({**where, "scaling": "weak", "scope": "compute"} for where in (FIRST, LAST))


def speedup(data: Tables) -> Paragraphs:
    return of_speedup(AssignmentRows.of(data), "compute", GPU)


def with_loading(data: Tables) -> Paragraphs:
    return of_speedup(AssignmentRows.of(data), "end_to_end", GPU)


def communication(data: Tables) -> Paragraphs:
    return of_communication(AssignmentRows.of(data), GPU)


def bandwidth(data: Tables) -> Paragraphs:
    return of_bandwidth(AssignmentRows.of(data).bandwidth, GPU)


def changed(table: str, where: Mapping[str, Any], data: Tables | None = None, **values: Any) -> Tables:
    """Return the data with `values` in the rows of a table in which the fields of `where` have these entries."""
    data = data or DATA
    rows = getattr(data, table)
    chosen = [row for row in rows if all(getattr(row, name) == entry for name, entry in where.items())]
    assert chosen
    return replace(data, **{table: [replace(row, **values) if row in chosen else row for row in rows]})


def only(table: str, keep: Callable[[Any], bool]) -> Tables:
    return replace(DATA, **{table: list(filter(keep, getattr(DATA, table)))})


def around(value: float) -> Figure:
    return Figure.of(value, 0.99 * value, 1.01 * value)


# Two batches of which it is known well how fast they are.
DATA = changed("speedup", WEAK_FIRST, h200(), speedup=around(3.07))
DATA = changed("speedup", WEAK_LAST, DATA, speedup=around(3.86))
DATA = changed("communication", FIRST, DATA, communication_share=0.269)
DATA = changed("communication", LAST, DATA, communication_share=0.0317)
RESOLVED = changed("bandwidth", {}, DATA, status="ok", bandwidth_gb_s=around(5.0))


def last_speedup(figure: Figure) -> Tables:
    return changed("speedup", WEAK_LAST, speedup=figure)


def with_messages(alone_s: float, longer: Figure | None = None) -> Tables:
    step = longer or around(0.002)
    return changed("communication", FIRST, communication_step_s=step, isolated_step_s=Figure(alone_s))


def with_ladder(host_s: float) -> Tables:
    rungs = [("alone", 0.0, ""), ("no_sync", host_s, "host work"), ("full", 0.004, "waiting")]
    ladder = [
        LadderRow(
            **FIRST, global_batch=128, environment="A", rung=rung, order=order, adds=adds, difference_s=around(seconds)
        )
        for order, (rung, seconds, adds) in enumerate(rungs)
    ]
    return replace(with_messages(0.0003), ladder=ladder)


# For each kind of paragraph: its words where the rows make it true, and words of others.
@pytest.mark.parametrize(
    ("say", "data", "kind", "there", "absent"),
    [
        (speedup, DATA, "Trend", ["rises from 3.07 at batch 32 to 3.86 at batch 512"], []),
        (speedup, changed("speedup", WEAK_FIRST, speedup=around(5.0)), "Trend", ["falls from 5.00", "to 3.86"], []),
        (speedup, last_speedup(around(1.5)), "Trend", ["rises from 3.07", "at batch 128, and falls to 1.50"], []),
        (speedup, last_speedup(Figure.of(1.5, 1.0, 4.0)), "Trend", ["1.50 at batch 512", "overlap"], ["falls"]),
        (speedup, last_speedup(Figure(1.5, kind="one run")), "Trend", ["too few runs"], ["falls", "overlap"]),
        (speedup, DATA, "Cause", ["391 steps at batch 32 and 25 at 512", "26.9 %", "3.17 %"], []),
        (speedup, DATA, "Note", ["Loading is not", "in the clock", "steps at batch 2,048 and 8,192"], []),
        (
            speedup,
            only("speedup", lambda row: row.scope == "compute" and row.batch_per_gpu == 512),
            "Note",
            ["Loading is not"],
            ["in the clock", "say little"],
        ),
        (with_loading, DATA, "Note", ["DataLoader is in"], ["Loading is not"]),
        (communication, with_messages(0.0003), "Cause", ["longer than", "alone take 0.300 ms", "The rest"], ["sure"]),
        (communication, with_messages(0.003), "Cause", ["longer than", "alone take 3.00 ms"], ["The rest"]),
        (
            communication,
            with_messages(0.0003, Figure.of(0.002, -0.0003, 0.005)),
            "Cause",
            ["not sure", "2.0 ms [−0.3, 5.0]"],
            ["The rest"],
        ),
        (communication, with_ladder(0.001), "Cause", ["is waiting, 4.000 ms"], ["messages alone"]),
        (communication, with_ladder(0.008), "Cause", ["is host work, 8.000 ms"], ["messages alone"]),
        (
            communication,
            changed("communication", {}, communication_s=Figure.of(1, -0.5, 2)),
            "Note",
            ["In 14 of 14 rows"],
            [],
        ),
        (
            communication,
            changed("communication", {}, communication_s=Figure.of(1, 0.5, 2)),
            "Note",
            ["by subtraction"],
            ["zero"],
        ),
        (bandwidth, RESOLVED, "Cause", ["301.8 GB/s", "more than transfers"], []),
        (
            bandwidth,
            changed("bandwidth", {}, RESOLVED, bus_bandwidth_gb_s=Figure(1)),
            "Cause",
            ["1.000 GB/s"],
            ["transfers"],
        ),
        (
            bandwidth,
            changed("bandwidth", FIRST, RESOLVED, status="not resolvable", bandwidth_gb_s=Figure()),
            "Note",
            ["In 1 of 16 rows no bandwidth follows"],
            [],
        ),
    ],
)
def test_a_sentence_is_there_only_where_the_rows_make_it_true(
    say: Callable[[Tables], Paragraphs], data: Tables, kind: str, there: list[str], absent: list[str]
) -> None:
    said = " ".join(say(data)[kind])
    assert [words for words in there if words not in said] == []
    assert [words for words in absent if words in said] == []


@pytest.mark.parametrize(
    ("say", "data", "kind"),
    [
        (speedup, changed("speedup", WEAK_FIRST, speedup=around(5.0)), "Cause"),
        (speedup, last_speedup(around(1.5)), "Cause"),
        (speedup, last_speedup(Figure.of(1.5, 1.0, 4.0)), "Cause"),
        (speedup, changed("communication", LAST, communication_share=0.9), "Cause"),
        (speedup, only("speedup", lambda row: row.batch_per_gpu == 512), "Trend"),
        (bandwidth, RESOLVED, "Note"),
        *((say, tables(), "Formula") for say in (speedup, communication, bandwidth)),
    ],
)
def test_nothing_is_said_that_the_rows_do_not_show(
    say: Callable[[Tables], Paragraphs], data: Tables, kind: str
) -> None:
    assert not say(data).get(kind)
