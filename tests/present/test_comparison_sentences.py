"""Sentences about groups: slower, faster, no difference shown; and what is beyond what is tolerated."""

from typing import Any

import pandas as pd
import pytest

from dpscale.analyse.comparison_groups import (
    BEYOND,
    FASTER,
    GROUP_COLUMNS,
    NO_BATCH,
    NO_DIFFERENCE,
    NO_RUN,
    ONLY_FIRST,
    ONLY_SECOND,
    SLOWER,
    UNDECIDED,
    WITHIN,
)
from dpscale.present.comparison_groups import (
    Pair,
    answers,
    guard,
    is_beyond,
    not_compared,
    sentence,
    short,
    tally,
    without_difference,
)
from dpscale.present.words import Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
PAIR = Pair("before", "after")


def row(change: float | None, low: float | None, high: float | None, **others: Any) -> dict[str, Any]:
    outcome = NO_DIFFERENCE
    if low is not None and high is not None:
        outcome = SLOWER if low > 0 else FASTER if high < 0 else NO_DIFFERENCE
    return {
        "study": "after", "strategy": "ddp", "gpus": 4, "scope": "compute", "status": "ok", "first_runs": 3,
        "second_runs": 3, "change": change, "change_low": low, "change_high": high,
        "outcome": None if change is None else outcome, **others,
    }  # fmt: skip


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=GROUP_COLUMNS).convert_dtypes()


SLOW, FAST = row(0.15, 0.14, 0.16), row(-0.2, -0.21, -0.19, gpus=2)
SAME = row(0.003, -0.005, 0.011, strategy="dp")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (SLOW, "ddp on 4 GPUs: 15.0 % slower [14.0, 16.0]"),
        (FAST, "ddp on 2 GPUs: 20.0 % faster [19.0, 21.0]"),
        (SAME, "dp on 4 GPUs: no difference shown [0.5 % faster to 1.1 % slower]"),
        (row(0.0, 0.0, 0.02), "ddp on 4 GPUs: no difference shown [no change to 2.0 % slower]"),
        (row(-0.2, -0.5, 0.3), "ddp on 4 GPUs: no difference shown [50 % faster to 30 % slower]"),
        (row(9.0, 8.0, 10.0), "ddp on 4 GPUs: 900 % slower [800, 1,000]"),
        (
            row(0.15, None, None, second_runs=1),
            "ddp on 4 GPUs: no difference shown: 15 % slower as measured, no interval (one run in after)",
        ),
        (
            row(-0.15, None, None, first_runs=2, second_runs=1),
            "ddp on 4 GPUs: no difference shown: 15 % faster as measured, no interval (two runs in before, one run in "
            "after)",
        ),
        (row(None, None, None, status=ONLY_FIRST), "ddp on 4 GPUs: not compared, before alone has them"),
        (row(None, None, None, status=ONLY_SECOND), "ddp on 4 GPUs: not compared, after alone has them"),
        (row(None, None, None, status=NO_BATCH), "ddp on 4 GPUs: not compared, no batch is in both"),
        (row(None, None, None, status=NO_RUN), "ddp on 4 GPUs: not compared, no run has an epoch time at every batch"),
    ],
)
def test_a_group_is_told_as_it_is(of: dict[str, Any], expected: str) -> None:
    assert sentence(of, GPU, PAIR) == expected


def test_in_a_chart_the_interval_is_drawn_where_no_difference_is_shown() -> None:
    assert short(SLOW, GPU) == "ddp on 4 GPUs: 15.0 % slower [14.0, 16.0]"
    assert short(SAME, GPU) == "dp on 4 GPUs: no difference shown"
    assert short(row(0.15, None, None), GPU) == "ddp on 4 GPUs: no difference shown, no interval"


def test_the_answer_has_the_largest_change_first_and_names_what_shows_none() -> None:
    assert answers(table(SLOW, FAST, SAME), GPU, PAIR) == [
        "after against before, compute scope: ddp on 2 GPUs: 20.0 % faster [19.0, 21.0]; ddp on 4 GPUs: 15.0 % slower "
        "[14.0, 16.0]; no difference shown: dp on 4 GPUs"
    ]


def test_of_many_changes_six_are_named() -> None:
    rows = [row(gpus / 10, gpus / 11, gpus / 9, gpus=gpus) for gpus in range(2, 10)]
    (answer,) = answers(table(*rows), GPU, PAIR)
    assert answer.count("slower") == 6
    assert answer.endswith("; ddp on 4 GPUs: 40.0 % slower [36.4, 44.4] and 2 more")


def test_every_scope_has_an_answer_of_its_own() -> None:
    found = answers(table(SLOW, {**SAME, "scope": "end_to_end"}), GPU, PAIR)
    assert [answer.split(":")[0] for answer in found] == [
        "after against before, compute scope", "after against before, end-to-end scope",
    ]  # fmt: skip
    assert "slower [" not in found[1]


def test_where_nothing_differs_no_one_is_named() -> None:
    assert answers(table(SAME), GPU, PAIR) == ["after against before, compute scope: no difference shown in 1 group"]


def test_without_an_interval_nothing_is_known() -> None:
    assert answers(table(row(5.0, None, None, second_runs=1)), GPU, PAIR) == [
        "after against before, compute scope: no difference shown, as no group has 3 runs in both"
    ]


def test_without_a_common_group_nothing_is_compared() -> None:
    none = table(row(None, None, None, status=NO_BATCH))
    assert answers(none, GPU, PAIR) == ["after and before have no epoch time in common"]
    assert not_compared(none, GPU, PAIR) == ["Not compared, no batch is in both: ddp on 4 GPUs (compute scope)."]
    assert not_compared(table(SLOW, SAME), GPU, PAIR) == []


def test_outcomes_are_counted() -> None:
    assert tally(table(SLOW, FAST, SAME)) == "1 of 3 groups slower, 1 faster"
    assert tally(table(SAME)) == "0 of 1 group slower, 0 faster"


def test_a_group_without_a_difference_may_have_batches_with_one() -> None:
    epochs = pd.DataFrame([
        {"strategy": "dp", "gpus": 4, "scope": "compute", "batch_per_gpu": batch, "outcome": outcome}
        for batch, outcome in ((2048, "slower"), (512, "slower"), (128, "not apart"), (32, "faster"))
    ])  # fmt: skip
    (found,) = without_difference(table(SLOW, SAME), GPU, PAIR, epochs)
    assert found == (
        "Compute scope, dp on 4 GPUs: no difference shown [0.5 % faster to 1.1 % slower], but slower at batch 512, "
        "2,048, faster at batch 32."
    )
    (found,) = without_difference(table(SLOW, SAME), GPU, PAIR, epochs[epochs["outcome"] == "not apart"])
    assert "but" not in found
    assert without_difference(table(SLOW, FAST), GPU, PAIR, epochs) == []


def test_what_is_slower_than_is_tolerated_is_named_and_what_is_undecided_too() -> None:
    judged = table(
        {**SLOW, "tolerance": 0.05, "beyond_tolerance": BEYOND},
        {**FAST, "tolerance": 0.05, "beyond_tolerance": WITHIN},
        {**SAME, "tolerance": 0.05, "beyond_tolerance": UNDECIDED},
    )
    assert is_beyond(judged)
    assert guard(judged, GPU, "before") == [
        "Slower by more than 5 %: compute scope, ddp on 4 GPUs: 15.0 % slower [14.0, 16.0].",
        "Undecided whether slower by more than 5 %, which is no failure: compute scope, dp on 4 GPUs.",
    ]


def test_where_all_is_within_what_is_tolerated_nothing_is_undecided() -> None:
    judged = table({**FAST, "tolerance": 0.025, "beyond_tolerance": WITHIN})
    assert not is_beyond(judged)
    assert guard(judged, GPU, "before") == ["Slower by more than 2.5 %: no group."]


def test_of_several_studies_the_guard_says_which() -> None:
    both = [{**SLOW, "study": name, "tolerance": 0.05, "beyond_tolerance": BEYOND} for name in ("a", "b")]
    (found,) = guard(table(*both), GPU, "first")
    assert "a, compute scope, ddp on 4 GPUs: 15.0 % slower" in found
    assert "b, compute scope, ddp on 4 GPUs: 15.0 % slower" in found


def test_where_nobody_asked_nothing_is_said_to_be_tolerated() -> None:
    assert guard(table(SLOW), GPU, "before") == []
    assert not is_beyond(table(SLOW))
