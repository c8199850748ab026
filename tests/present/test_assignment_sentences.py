"""What explains the tables to hand in: sentences, and rows that make them false or other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, h200, tables

from dpscale.formulas.figure import Figure
from dpscale.present.handin.rows import AssignmentRows
from dpscale.present.handin.sentences import Paragraphs, of_bandwidth, of_communication, of_speedup
from dpscale.tables.communication import LadderRow
from dpscale.tables.tables import Tables

DDP: dict[str, Any] = {"strategy": "ddp", "gpus": 4}
FIRST, LAST = {**DDP, "batch_per_gpu": 32}, {**DDP, "batch_per_gpu": 512}
WEAK = {**LAST, "scaling": "weak", "scope": "compute"}


def text(paragraphs: Paragraphs) -> str:
    """Every sentence behind what it is about."""
    return " ".join(f"{about}: {each}" for about, sentences in paragraphs.items() for each in sentences)


def speedup(data: Tables) -> str:
    return text(of_speedup(AssignmentRows.of(data), "compute", GPU))


def with_loading(data: Tables) -> str:
    return text(of_speedup(AssignmentRows.of(data), "end_to_end", GPU))


def communication(data: Tables) -> str:
    return text(of_communication(AssignmentRows.of(data), GPU))


def bandwidth(data: Tables) -> str:
    return text(of_bandwidth(AssignmentRows.of(data).bandwidth, GPU))


def is_at(row: object, where: dict[str, Any]) -> bool:
    return all(getattr(row, name) == entry for name, entry in where.items())


def changed(table: str, where: dict[str, Any], data: Tables | None = None, **values: Any) -> Tables:
    """With `values` in the rows of a table in which the fields of `where` have these entries."""
    data = data or DATA
    rows = getattr(data, table)
    assert any(is_at(row, where) for row in rows)
    return replace(data, **{table: [replace(row, **values) if is_at(row, where) else row for row in rows]})


def only(table: str, keep: Callable[[Any], bool]) -> Tables:
    return replace(DATA, **{table: list(filter(keep, getattr(DATA, table)))})


def at(table: str, where: dict[str, Any]) -> Any:
    (found,) = (row for row in getattr(DATA, table) if is_at(row, where))
    return found


def around(value: float) -> Figure:
    return Figure.of(value, 0.99 * value, 1.01 * value)


# Two batches of which it is known well how fast they are.
DATA = changed("speedup", {**WEAK, **FIRST}, h200(), speedup=around(3.07))
DATA = changed("speedup", WEAK, DATA, speedup=around(3.86))
DATA = changed("speedup", {**WEAK, "scope": "end_to_end"}, DATA, speedup=around(3.16))
DATA = changed("communication", FIRST, DATA, communication_share=0.269)
DATA = changed("communication", LAST, DATA, communication_share=0.0317)
RESOLVED = changed("bandwidth", {}, DATA, status="ok", bandwidth_gb_s=around(5.0))


def with_messages(alone_s: float) -> Tables:
    return changed("communication", FIRST, communication_step_s=around(0.002), isolated_step_s=Figure(alone_s))


def with_ladder(host_s: float) -> Tables:
    place: dict[str, Any] = {**FIRST, "global_batch": 128, "environment": "A"}
    rungs = [("alone", 0, 0.0, ""), ("no_sync", 1, host_s, "host work"), ("full", 2, 0.004, "waiting")]
    ladder = [
        LadderRow(**place, rung=rung, order=order, adds=adds, difference_s=around(seconds))
        for rung, order, seconds, adds in rungs
    ]
    return replace(with_messages(0.0003), ladder=ladder)


TREND = "The speedup with ddp on 4 GPUs"


@pytest.mark.parametrize(
    ("room", "data", "there", "absent"),
    [
        (speedup, DATA, [f"{TREND} rises from 3.07 at batch 32 to 3.86 at", "Loading is not in these times."], []),
        (
            speedup,
            changed("speedup", {**WEAK, **FIRST}, speedup=around(5.0)),
            [f"{TREND} falls from 5.00 at batch 32 to 3.86 at"],
            ["Cause"],
        ),
        # Between them it turns.
        (
            speedup,
            changed("speedup", WEAK, speedup=around(1.5)),
            [f"{TREND} rises from 3.07 at batch 32 to ", " at batch 128, and falls to 1.50 at batch 512."],
            ["Cause"],
        ),
        (
            speedup,
            changed("speedup", WEAK, speedup=Figure.of(1.5, 1.0, 4.0)),
            [f"{TREND} is 3.07 at batch 32 and 1.50 at batch 512: the two intervals overlap"],
            ["Cause"],
        ),
        (speedup, changed("speedup", WEAK, speedup=Figure(1.5, kind="one run")), ["at batch 512: too few runs"], []),
        (speedup, only("speedup", lambda row: row.batch_per_gpu == 512), ["Formula"], [TREND, "say little"]),
        (
            speedup,
            DATA,
            [
                "An epoch has 391 steps at batch 32 and 25 at 512",
                "takes 26.9 % of the epoch at the smaller batch, 3.17 % at the larger.",
                "speedup of ddp on 4 GPUs at batch 512 per GPU is 3.16 [3.13, 3.19].",
                "On 4 GPUs, an epoch has fewer than 10 full steps at batch 2,048 and 8,192: such speedups say little.",
            ],
            [],
        ),
        (speedup, changed("communication", LAST, communication_share=0.9), [], ["Cause"]),
        (speedup, only("speedup", lambda row: row.scope == "compute"), ["Loading is not"], ["in the clock"]),
        (with_loading, DATA, ["Note: The DataLoader is in these times."], ["Loading is not"]),
        (
            communication,
            with_messages(0.0003),
            [
                "step takes 2.000 ms [1.980, 2.020] longer than on 1 GPU, and its messages alone take 0.300 ms.",
                "The rest is",
            ],
            ["not sure"],
        ),
        (
            communication,
            changed(
                "communication", FIRST, with_messages(0.0003), communication_step_s=Figure.of(0.002, -0.0003, 0.005)
            ),
            ["not sure that a step takes longer than on 1 GPU: the difference is 2.0 ms [−0.3, 5.0]."],
            ["a step takes 2", "The rest"],
        ),
        (communication, with_messages(0.003), ["messages alone take 3.00 ms"], ["The rest"]),
        (communication, with_ladder(0.001), ["1 GPU is waiting, 4.000 ms per step"], ["messages alone"]),
        (communication, with_ladder(0.008), ["1 GPU is host work, 8.000 ms"], ["messages alone"]),
        (
            communication,
            changed("communication", {}, communication_s=Figure.of(1, -0.5, 2)),
            ["Note: In 14 of 14 rows the interval holds zero"],
            [],
        ),
        (communication, changed("communication", {}, communication_s=Figure.of(1, 0.5, 2)), [], ["zero"]),
        (bandwidth, RESOLVED, ["301.8 GB/s", "more than transfers"], ["no bandwidth follows"]),
        (
            bandwidth,
            changed("bandwidth", FIRST, RESOLVED, status="not resolvable", bandwidth_gb_s=Figure()),
            ["Note: In 1 of 16 rows no bandwidth follows"],
            [],
        ),
        (
            bandwidth,
            changed("bandwidth", {}, RESOLVED, bus_bandwidth_gb_s=Figure(1)),
            ["1.000 GB/s"],
            ["more than transfers"],
        ),
        *((room, tables(), [], ["Formula", "Trend", "Cause"]) for room in (speedup, communication, bandwidth)),
    ],
)
def test_a_sentence_is_there_only_where_the_rows_make_it_true(
    room: Callable[[Tables], str], data: Tables, there: Sequence[str], absent: Sequence[str]
) -> None:
    found = room(data)
    assert [part for part in there if part not in found] == []
    assert [part for part in absent if part in found] == []
