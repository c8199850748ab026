"""What explains the tables to hand in: sentences, and rows that make them false or other.

`test_sentences` has the words.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, h200, tables

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.handin_sentences import AssignmentRows, Paragraphs, of_bandwidth, of_communication, of_speedup
from dpscale.tables.communication import LadderRow
from dpscale.tables.tables import Tables
from rows import changed, picked

FIRST: Mapping[str, Any] = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 32}
LAST: Mapping[str, Any] = {**FIRST, "batch_per_gpu": 512}
WEAK: Mapping[str, Any] = {"scaling": "weak", "scope": "compute"}


def speedup(data: Tables) -> Paragraphs:
    return of_speedup(AssignmentRows.of(data), "compute", GPU)


def with_loading(data: Tables) -> Paragraphs:
    return of_speedup(AssignmentRows.of(data), "end_to_end", GPU)


def communication(data: Tables) -> Paragraphs:
    return of_communication(AssignmentRows.of(data), GPU)


def bandwidth(data: Tables) -> Paragraphs:
    return of_bandwidth(AssignmentRows.of(data).bandwidth, GPU)


def sure(value: float) -> Figure:
    return Figure.of(value, 0.99 * value, 1.01 * value)


def speedups(at_32: Figure, at_512: Figure) -> Tables:
    rows = changed(h200().speedup, {**WEAK, **FIRST}, speedup=at_32)
    return replace(h200(), speedup=changed(rows, {**WEAK, **LAST}, speedup=at_512))


def communicating(where: Mapping[str, Any], **values: Any) -> Tables:
    return replace(DATA, communication=changed(DATA.communication, where, **values))


def with_ladder(host_s: float) -> Tables:
    rungs = [("alone", 0.0, ""), ("no_sync", host_s, "host work"), ("full", 0.004, "waiting")]
    ladder = [
        LadderRow(
            **FIRST, global_batch=128, environment="A", rung=rung, order=order, adds=adds, difference_s=sure(seconds)
        )
        for order, (rung, seconds, adds) in enumerate(rungs)
    ]
    return replace(DATA, ladder=ladder)


def of_links(bus_gb_s: float, bandwidth_gb_s: Figure = UNKNOWN, status: str = "ok") -> Tables:
    """Return a bandwidth of 5 GB/s everywhere, but for one row."""
    rows = changed(DATA.bandwidth, {}, status="ok", bandwidth_gb_s=sure(5.0), bus_bandwidth_gb_s=Figure(bus_gb_s))
    return replace(DATA, bandwidth=changed(rows, FIRST, status=status, bandwidth_gb_s=bandwidth_gb_s))


# Two batches of which it is known well how fast they are.
DATA = speedups(sure(3.07), sure(3.86))
LONGER = {"communication_step_s": sure(0.002), "isolated_step_s": Figure(0.0003)}
AT_512 = replace(DATA, speedup=picked(DATA.speedup, scope="compute", batch_per_gpu=512))


# By paragraph: how it reads, as a pattern; `^$` where nothing is said.
@pytest.mark.parametrize(
    ("say", "data", "kind", "pattern"),
    [
        (speedup, DATA, "Trend", r"ddp on 4 GPUs rises from 3\.07 at batch 32 to 3\.86 at batch 512"),
        (speedup, speedups(sure(5.0), sure(3.86)), "Trend", r"falls from 5\.00 at batch 32 to 3\.86"),
        (speedup, speedups(sure(3.07), sure(1.5)), "Trend", r"rises from 3\.07 .* at batch 128, and falls to 1\.50"),
        (speedup, speedups(sure(3.07), Figure.of(1.5, 1, 4)), "Trend", r"is 3\.07 .* and 1\.50 .* intervals overlap"),
        (speedup, speedups(sure(3.07), Figure(1.5, kind="one run")), "Trend", "is 3.07 .*: too few runs"),
        (speedup, AT_512, "Trend", "^$"),
        (speedup, DATA, "Cause", r"391 steps at batch 32 and 25 at 512, .* takes 26\.9 % .*, 3\.17 % at"),
        (speedup, communicating(LAST, communication_share=0.9), "Cause", "^$"),
        (speedup, speedups(sure(5.0), sure(3.86)), "Cause", "^$"),
        (speedup, speedups(sure(3.07), Figure.of(3.86, 2.0, 6.0)), "Cause", "^$"),
        (with_loading, DATA, "Cause", "^$"),
        (speedup, DATA, "Note", "^Loading is not .*in the clock.* full steps at batch 2,048 and 8,192"),
        (speedup, AT_512, "Note", "^Loading is not in these times.$"),
        (with_loading, DATA, "Note", "^The DataLoader is in these"),
        (communication, communicating(FIRST, **LONGER), "Cause", r"takes 2\.000 ms .* alone take 0\.300 ms\. The rest"),
        (communication, communicating(FIRST, **{**LONGER, "isolated_step_s": Figure(0.003)}), "Cause", r"3\.00 ms\.$"),
        (
            communication,
            communicating(FIRST, **{**LONGER, "communication_step_s": Figure.of(0.002, -0.0003, 0.005)}),
            "Cause",
            r"not sure .* is 2\.0 ms \[−0\.3, 5\.0\]\. Its messages alone take 0\.300 ms\.$",
        ),
        (communication, communicating(FIRST, isolated_step_s=UNKNOWN), "Cause", "^$"),
        (communication, with_ladder(0.001), "Cause", r"is waiting, 4\.000 ms per step\.$"),
        (communication, with_ladder(0.008), "Cause", r"is host work, 8\.000 ms per step\.$"),
        (communication, communicating({}, communication_s=Figure.of(1, -0.5, 2)), "Note", "In 14 of 14 rows"),
        (communication, communicating({}, communication_s=sure(2.0)), "Note", "by subtraction.*too.$"),
        (bandwidth, of_links(301.8, sure(5.0)), "Cause", r"of 301\.8 GB/s.*more than transfers"),
        (bandwidth, of_links(1.0, sure(5.0)), "Cause", r"of 1\.000 GB/s; the utilisation is [\d.]+ %\.$"),
        (bandwidth, of_links(301.8, sure(5.0)), "Note", "^$"),
        (bandwidth, of_links(301.8, status="not resolvable"), "Note", "In 1 of 16 rows .*: 1 not resolvable"),
        *((say, tables(), "Formula", "^$") for say in (speedup, communication, bandwidth)),
    ],
)  # fmt: skip
def test_a_paragraph_follows_from_the_rows(
    say: Callable[[Tables], Paragraphs], data: Tables, kind: str, pattern: str
) -> None:
    assert re.search(pattern, " ".join(say(data).get(kind, [])))
