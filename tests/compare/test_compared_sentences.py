"""Sentences about groups and figures: slower, faster, no difference shown; and what is beyond what is tolerated."""

from dataclasses import replace
from typing import Any

import pytest

from dpscale.compare.comparison import Pair
from dpscale.compare.figures import NO_DIFFERENCE, NO_INTERVAL, outcome
from dpscale.compare.groups import BEYOND, FASTER, NO_BATCH, NO_RUN, ONLY_FIRST, ONLY_SECOND, SLOWER
from dpscale.compare.rows import ComparedGroupsRow
from dpscale.compare.sentences import answers, guard, heading, short
from dpscale.formulas.figure import Figure
from dpscale.present.text.words import Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
PLACE: dict[str, Any] = {"study": "after", "strategy": "ddp", "gpus": 4, "scope": "compute"}


def row(change: Figure, **others: Any) -> ComparedGroupsRow:
    told = outcome(change, SLOWER, FASTER)
    return ComparedGroupsRow(**{**PLACE, "status": "ok", "change": change, "outcome": told, **others})


SLOW, FAST = row(Figure.of(0.15, 0.14, 0.16)), row(Figure.of(-0.2, -0.21, -0.19), gpus=2)
SAME = row(Figure.of(0.003, -0.005, 0.011), strategy="dp")
ONCE = row(Figure(-0.15), strategy="dp", gpus=2)
WHERE = "in the compute scope"


def said(*groups: ComparedGroupsRow) -> list[str]:
    return answers(Pair("before", "after", groups), GPU)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (SLOW, f"after is slower than before {WHERE}: ddp on 4 GPUs by 15.0 % [14.0, 16.0]."),
        (FAST, f"after is faster than before {WHERE}: ddp on 2 GPUs by 20.0 % [19.0, 21.0]."),
        (
            row(Figure.of(9.0, 8.0, 10.0), scope="end_to_end"),
            "after is slower than before in the end-to-end scope: ddp on 4 GPUs by 900 % [800, 1,000].",
        ),
        (
            SAME,
            f"Between after and before no difference is shown {WHERE}: dp on 4 GPUs from 0.5 % faster to 1.1 % slower.",
        ),
        (
            row(Figure.of(0.0, 0.0, 0.02)),
            f"Between after and before no difference is shown {WHERE}: ddp on 4 GPUs from no change to 2.0 % slower.",
        ),
        (
            replace(SAME, slower_at="32", faster_at="512; 2048"),
            f"Between after and before no difference is shown {WHERE}: dp on 4 GPUs from 0.5 % faster to 1.1 % slower "
            "(at batches 512 and 2,048 alone faster, at batch 32 alone slower).",
        ),
        (
            replace(SLOW, slower_at="32; 512"),
            f"after is slower than before {WHERE}: ddp on 4 GPUs by 15.0 % [14.0, 16.0].",
        ),
        (
            ONCE,
            f"One run has no interval, so no difference of after against before is shown {WHERE}: "
            "dp on 2 GPUs 15 % faster.",
        ),
    ],
)
def test_a_group_is_told_as_it_is(group: ComparedGroupsRow, expected: str) -> None:
    assert said(group) == [expected]


def test_a_limit_that_one_batch_is_beyond_is_told_with_that_batch() -> None:
    at_batch = replace(SAME, tolerance=0.05, beyond_tolerance=BEYOND, beyond_at="512")
    over_all = replace(SLOW, tolerance=0.05, beyond_tolerance=BEYOND, beyond_at="512")
    assert list(guard([at_batch, over_all], GPU)) == [
        "Slower by more than 5 %: after, dp on 4 GPUs (compute scope) at batch 512; after, ddp on 4 GPUs (compute "
        "scope) by 15.0 % [14.0, 16.0]."
    ]


def test_the_largest_change_is_first_and_of_many_six_are_named() -> None:
    assert said(replace(SLOW, gpus=8, change=Figure.of(0.3, 0.2, 0.4)), SLOW)[0].endswith(
        ": ddp on 8 GPUs by 30 % [20, 40]; ddp on 4 GPUs by 15.0 % [14.0, 16.0]."
    )
    (answer,) = said(*(replace(SLOW, gpus=gpus) for gpus in range(2, 10)))
    assert answer.count("GPUs") == 6
    assert answer.endswith(" and 2 more.")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ONLY_FIRST, "before alone has them"), (ONLY_SECOND, "after alone has them"),
        (NO_BATCH, "no batch is in both"), (NO_RUN, "no run has an epoch time at every batch"),
    ],
)  # fmt: skip
def test_what_is_not_compared_is_named_with_the_reason(status: str, reason: str) -> None:
    absent = ComparedGroupsRow(**PLACE, status=status)
    named = f"Not compared, as {reason}: ddp on 4 GPUs (compute scope)."
    assert said(absent) == ["after and before have no epoch time in common.", named]
    assert said(absent, SAME)[1:] == [named]
    assert said(SAME) == said(SAME, absent)[:1]


def test_in_a_chart_the_interval_is_drawn_where_no_difference_is_shown() -> None:
    assert [short(group) for group in (SLOW, SAME, ONCE)] == ["15.0 % [14.0, 16.0] slower", NO_DIFFERENCE, NO_INTERVAL]
    assert heading([SLOW, FAST, SAME]) == "1 of 3 groups slower, 1 faster"
