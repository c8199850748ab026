"""Sentences about groups: slower, faster, no difference shown; and what is beyond what is tolerated."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpscale.compare.comparison import Pair
from dpscale.compare.groups import (
    BEYOND,
    FASTER,
    NO_BATCH,
    NO_DIFFERENCE,
    NO_RUN,
    ONLY_FIRST,
    ONLY_SECOND,
    SLOWER,
    UNDECIDED,
    WITHIN,
)
from dpscale.compare.rows import ComparedGroupsRow, ComparedTimesRow
from dpscale.compare.sentences import answers, guard, heading, not_compared, sentence, short, without_difference
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.text.words import Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)


def row(change: float | None, low: float | None = None, high: float | None = None, **others: Any) -> ComparedGroupsRow:
    """A group; without a change one that is not compared."""
    figure = Figure(change or 0) if low is None or high is None else Figure.of(change or 0, low, high)
    known: dict[str, Any] = {"change": UNKNOWN, "outcome": ""}
    if change is not None:
        outcome = SLOWER if figure.is_above(0) else FASTER if figure.is_below(0) else NO_DIFFERENCE
        known = {"change": figure, "outcome": outcome, "status": "ok"}
    place = {"study": "after", "strategy": "ddp", "gpus": 4, "scope": "compute", "first_runs": 3, "second_runs": 3}
    return ComparedGroupsRow(**{**place, **known, **others})


SLOW, FAST = row(0.15, 0.14, 0.16), row(-0.2, -0.21, -0.19, gpus=2)
SAME = row(0.003, -0.005, 0.011, strategy="dp")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (SLOW, "ddp on 4 GPUs: 15.0 % slower [14.0, 16.0]"),
        (FAST, "ddp on 2 GPUs: 20.0 % faster [19.0, 21.0]"),
        (SAME, "dp on 4 GPUs: no difference shown [0.5 % faster to 1.1 % slower]"),
        (row(0.0, 0.0, 0.02), "ddp on 4 GPUs: no difference shown [no change to 2.0 % slower]"),
        (row(-0.2, -0.5, 0.3), "ddp on 4 GPUs: no difference shown [50 % faster to 30 % slower]"),
        (row(9.0, 8.0, 10.0), "ddp on 4 GPUs: 900 % slower [800, 1,000]"),
        (
            row(0.15, second_runs=1),
            "ddp on 4 GPUs: no difference shown: 15 % slower as measured, no interval (one run in after)",
        ),
        (
            row(-0.15, first_runs=2, second_runs=1),
            "ddp on 4 GPUs: no difference shown: 15 % faster as measured, no interval (two runs in before, one run in "
            "after)",
        ),
        (row(None, status=ONLY_FIRST), "ddp on 4 GPUs: not compared, before alone has them"),
        (row(None, status=ONLY_SECOND), "ddp on 4 GPUs: not compared, after alone has them"),
        (row(None, status=NO_BATCH), "ddp on 4 GPUs: not compared, no batch is in both"),
        (row(None, status=NO_RUN), "ddp on 4 GPUs: not compared, no run has an epoch time at every batch"),
    ],
)
def test_a_group_is_told_as_it_is(group: ComparedGroupsRow, expected: str) -> None:
    assert sentence(group, GPU, "before") == expected


def test_in_a_chart_the_interval_is_drawn_where_no_difference_is_shown() -> None:
    assert short(SLOW) == "15.0 % slower [14.0, 16.0]"
    assert short(SAME) == "no difference shown"
    assert short(row(0.15)) == "no difference shown, no interval"


def pair(*groups: ComparedGroupsRow, epochs: Sequence[ComparedTimesRow] = ()) -> Pair:
    return Pair("before", "after", groups, {"times": epochs})


def said(*groups: ComparedGroupsRow) -> list[str]:
    return answers(pair(*groups), GPU)


def test_the_answer_has_the_largest_change_first_and_names_what_shows_none() -> None:
    assert said(SLOW, FAST, SAME) == [
        "after against before, compute scope: ddp on 2 GPUs: 20.0 % faster [19.0, 21.0]; ddp on 4 GPUs: 15.0 % slower "
        "[14.0, 16.0]; no difference shown: dp on 4 GPUs"
    ]


def test_of_many_changes_six_are_named() -> None:
    (answer,) = said(*(row(gpus / 10, gpus / 11, gpus / 9, gpus=gpus) for gpus in range(2, 10)))
    assert answer.count("slower") == 6
    assert answer.endswith("; ddp on 4 GPUs: 40.0 % slower [36.4, 44.4] and 2 more")


def test_every_scope_has_an_answer_of_its_own() -> None:
    loading = row(0.003, -0.005, 0.011, strategy="dp", scope="end_to_end")
    first, second = said(SLOW, loading)
    assert first.startswith("after against before, compute scope: ddp on 4 GPUs: 15.0 % slower")
    assert second == "after against before, end-to-end scope: no difference shown in 1 group"


def test_without_an_interval_nothing_is_known() -> None:
    assert said(row(5.0, second_runs=1)) == [
        "after against before, compute scope: no difference shown, as no group has two runs in both"
    ]


def test_without_a_common_group_nothing_is_compared() -> None:
    none = row(None, status=NO_BATCH)
    assert said(none) == said() == ["after and before have no epoch time in common"]
    assert not_compared(pair(none), GPU) == ["Not compared, no batch is in both: ddp on 4 GPUs (compute scope)."]
    assert not_compared(pair(SLOW, SAME), GPU) == []


def test_outcomes_are_counted() -> None:
    assert heading([SLOW, FAST, SAME]) == "1 of 3 groups slower, 1 faster"
    assert heading([SAME]) == "0 of 1 group slower, 0 faster"


def test_a_group_without_a_difference_may_have_batches_with_one() -> None:
    epochs = [
        ComparedTimesRow(
            strategy="dp", gpus=4, scope="compute", batch_per_gpu=batch, quantity="measured_epoch_s", outcome=outcome
        )
        for batch, outcome in ((2048, "slower"), (512, "slower"), (128, "not apart"), (32, "faster"))
    ]
    found = "Compute scope, dp on 4 GPUs: no difference shown [0.5 % faster to 1.1 % slower]"
    but = ", but slower at batch 512, 2,048, faster at batch 32."
    assert list(without_difference(pair(SLOW, SAME, epochs=epochs), GPU)) == [found + but]
    assert list(without_difference(pair(SLOW, SAME, epochs=epochs[2:3]), GPU)) == [f"{found}."]
    assert list(without_difference(pair(SLOW, FAST, epochs=epochs), GPU)) == []


def judged(group: ComparedGroupsRow, beyond: str, tolerance: float = 0.05, **others: Any) -> ComparedGroupsRow:
    return replace(group, beyond_tolerance=beyond, tolerance=tolerance, **others)


def test_what_is_slower_than_is_tolerated_is_named_and_what_is_undecided_too() -> None:
    groups = [judged(SLOW, BEYOND), judged(FAST, WITHIN), judged(SAME, UNDECIDED)]
    assert guard([pair(*groups)], GPU) == [
        "Slower by more than 5 %: compute scope, ddp on 4 GPUs: 15.0 % slower [14.0, 16.0].",
        "Undecided whether slower by more than 5 %, which is no failure: compute scope, dp on 4 GPUs.",
    ]


def test_where_all_is_within_what_is_tolerated_nothing_is_undecided() -> None:
    assert guard([pair(judged(FAST, WITHIN, 0.025))], GPU) == ["Slower by more than 2.5 %: no group."]


def test_of_several_studies_the_guard_says_which() -> None:
    assert guard([pair(judged(SLOW, BEYOND, study=name)) for name in ("b", "a")], GPU) == [
        "Slower by more than 5 %: b, compute scope, ddp on 4 GPUs: 15.0 % slower [14.0, 16.0]; "
        "a, compute scope, ddp on 4 GPUs: 15.0 % slower [14.0, 16.0]."
    ]


def test_where_nobody_asked_nothing_is_said_to_be_tolerated() -> None:
    assert guard([pair(SLOW)], GPU) == []
