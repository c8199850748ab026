"""Changes pooled over batches: what is pooled, how sure it is, and whether it is beyond a tolerance."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.analyse.comparison_groups import (
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
    compared_groups,
)
from dpscale.formulas.statistics import ratio_of_blocks
from two_studies import compared, slower, study

# Epoch seconds of runs 1, 2, ... by batch; None where a run has none.
Runs = Mapping[int, Sequence[float | None]]
PLAIN: Runs = {32: [8.0, 8.2, 8.1], 512: [2.0, 2.02, 1.99]}


def tables(runs: Runs, strategy: str = "ddp", gpus: int = 4, scope: str = "compute") -> dict[str, pd.DataFrame]:
    rows = [
        {"strategy": strategy, "gpus": gpus, "scope": scope, "batch_per_gpu": batch, "run": run, "epoch_s": epoch_s}
        for batch, of_batch in runs.items()
        for run, epoch_s in enumerate(of_batch, 1)
        if epoch_s is not None
    ]
    columns = ["strategy", "gpus", "scope", "batch_per_gpu", "run", "epoch_s"]
    return {"runs": pd.DataFrame(rows, columns=columns).convert_dtypes()}


def times(runs: Runs, factor: float) -> Runs:
    return {
        batch: [None if epoch_s is None else factor * epoch_s for epoch_s in of_batch]
        for batch, of_batch in runs.items()
    }


def only_row(first: Runs, second: Runs, tolerance: float | None = None) -> dict[str, Any]:
    (row,) = compared_groups(tables(first), tables(second), "after", tolerance).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_a_run_is_a_block_over_its_batches() -> None:
    second: Runs = {32: [9.0, 9.3, 9.1], 512: [2.2, 2.3, 2.1]}
    row = only_row(PLAIN, second)
    of_runs = [
        [math.sqrt(runs[32][run] * runs[512][run]) for run in range(3)]  # type: ignore[operator]
        for runs in (second, PLAIN)
    ]
    ratio = ratio_of_blocks(*of_runs)
    assert [row["change"], row["change_low"], row["change_high"]] == pytest.approx(
        [ratio.value - 1, ratio.low - 1, ratio.high - 1]
    )
    assert row["second_s"] / row["first_s"] - 1 == pytest.approx(row["change"])
    assert (row["batches"], row["first_runs"], row["second_runs"]) == ("32; 512", 3, 3)
    assert pd.isna(row["batches_left_out"])


@given(st.floats(0.2, 5))
def test_times_that_are_k_times_as_long_change_by_k_less_one(factor: float) -> None:
    row = only_row(PLAIN, times(PLAIN, factor))
    assert row["change"] == pytest.approx(factor - 1, abs=1e-9)
    assert row["change_low"] <= row["change"] <= row["change_high"]
    expected = SLOWER if row["change_low"] > 0 else FASTER if row["change_high"] < 0 else NO_DIFFERENCE
    assert row["outcome"] == expected
    if abs(math.log(factor)) > 0.05:
        assert row["outcome"] == (SLOWER if factor > 1 else FASTER)


def test_the_same_times_show_no_difference() -> None:
    assert only_row(PLAIN, PLAIN)["outcome"] == NO_DIFFERENCE


def test_equal_runs_of_equal_times_show_no_difference_though_their_interval_has_no_width() -> None:
    equal: Runs = {32: [0.1] * 3, 512: [0.7] * 3}
    assert only_row(equal, equal)["outcome"] == NO_DIFFERENCE
    assert only_row(equal, times(equal, 1.01))["outcome"] == SLOWER


@pytest.mark.parametrize("runs", [1, 2])
def test_one_or_two_runs_have_no_interval_and_show_no_difference(runs: int) -> None:
    few: Runs = {batch: of_batch[:runs] for batch, of_batch in times(PLAIN, 3).items()}
    for first, second in ((PLAIN, few), (few, PLAIN)):
        row = only_row(first, second, 0.05)
        assert pd.isna(row["change_low"])
        assert pd.isna(row["change_high"])
        assert (row["outcome"], row["beyond_tolerance"]) == (NO_DIFFERENCE, UNDECIDED)
        assert row["status"] == "ok"


def test_a_batch_with_fewer_runs_is_left_out_where_others_have_three() -> None:
    second: Runs = {**times(PLAIN, 1.5), 2048: [1.0, None, None]}
    row = only_row({**PLAIN, 2048: [1.0, 1.0, 1.0], 8192: [1.0, 1.0, 1.0]}, second)
    assert (row["batches"], row["batches_left_out"]) == ("32; 512", "2048; 8192")
    assert (row["second_runs"], row["outcome"]) == (3, SLOWER)


def test_a_run_that_lacks_a_batch_is_left_out() -> None:
    second: Runs = {32: [8.0, 8.2, 8.1, 8.3], 512: [2.0, 2.02, 1.99, None]}
    row = only_row(PLAIN, second)
    assert (row["second_runs"], row["second_runs_left_out"]) == (3, "4")
    assert pd.isna(row["first_runs_left_out"])
    assert row["change"] == pytest.approx(0)


def test_what_a_left_out_run_took_changes_nothing() -> None:
    second: Runs = {32: [8.0, 8.2, 8.1, 800.0], 512: [2.0, 2.02, 1.99, None]}
    assert only_row(PLAIN, second)["change"] == pytest.approx(0)


def test_runs_that_never_meet_in_a_batch_are_not_compared() -> None:
    row = only_row({32: [8.0, None], 512: [None, 2.0]}, {32: [8.0], 512: [2.0]}, 0.05)
    assert (row["status"], row["beyond_tolerance"]) == (NO_RUN, UNDECIDED)
    assert pd.isna(row["change"])
    assert pd.isna(row["outcome"])


def test_without_a_common_batch_nothing_is_compared() -> None:
    assert only_row({32: [8.0] * 3}, {512: [2.0] * 3}, 0.05)["status"] == NO_BATCH


def test_a_group_of_one_study_alone_is_named_and_undecided() -> None:
    rows = compared_groups(tables(PLAIN), tables(PLAIN, gpus=2), "after", 0.05).set_index("gpus")
    assert rows["status"].to_dict() == {4: ONLY_FIRST, 2: ONLY_SECOND}
    assert set(rows["beyond_tolerance"]) == {UNDECIDED}
    assert rows["outcome"].isna().all()


def test_scopes_strategies_and_numbers_of_gpus_are_never_pooled() -> None:
    first = pd.concat([tables(PLAIN, *key)["runs"] for key in KEYS])
    second = pd.concat([tables(times(PLAIN, 1 + place), *key)["runs"] for place, key in enumerate(KEYS)])
    rows = compared_groups({"runs": first}, {"runs": second}, "after")
    found = {(row["strategy"], row["gpus"], row["scope"]): row["change"] for row in rows.to_dict("records")}
    assert found == pytest.approx({key: place for place, key in enumerate(KEYS)})


KEYS = [("ddp", 2, "compute"), ("ddp", 4, "compute"), ("dp", 4, "compute"), ("dp", 4, "end_to_end")]


@pytest.mark.parametrize(
    ("factor", "tolerance", "judged"),
    [(1.5, 0.05, BEYOND), (1.5, 0.5, UNDECIDED), (1.5, 0.6, WITHIN), (1.0, 0.05, WITHIN), (0.5, 0.0, WITHIN)],
)
def test_only_a_whole_interval_beyond_the_tolerance_is_beyond_it(factor: float, tolerance: float, judged: str) -> None:
    row = only_row(PLAIN, times(PLAIN, factor), tolerance)
    assert row["beyond_tolerance"] == judged
    holds = {
        BEYOND: row["change_low"] > tolerance,
        WITHIN: row["change_high"] <= tolerance,
        UNDECIDED: row["change_low"] <= tolerance < row["change_high"],
    }
    assert holds[judged]


def test_where_nobody_asked_nothing_is_judged() -> None:
    row = only_row(PLAIN, times(PLAIN, 2))
    assert pd.isna(row["tolerance"])
    assert pd.isna(row["beyond_tolerance"])


def test_of_one_batch_the_pooled_change_is_the_batch_s_own() -> None:
    tables = compared(slower(1.2, "ddp"), study(batch_per_gpu=[128])).tables
    times = tables["compared_times"]
    times = times[(times["quantity"] == "epoch_s") & (times["batch_per_gpu"] == 128) & times["change"].notna()]
    for row in times.to_dict("records"):
        groups = tables["compared_groups"]
        same = groups[["strategy", "gpus", "scope"]] == pd.Series({k: row[k] for k in ("strategy", "gpus", "scope")})
        (group,) = groups[same.all(axis="columns")].to_dict("records")
        assert [row[f"change{end}"] for end in ("", "_low", "_high")] == pytest.approx(
            [group[f"change{end}"] for end in ("", "_low", "_high")]
        )


@pytest.mark.slow
def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Runs whose servers make all of their batches slower alike, which batch by batch would be taken for more runs."""
    generator = np.random.default_rng(20261122)
    studies, runs, truth = 400, 4, 0.1

    def made(factor: float) -> Runs:
        of_server = generator.normal(0, 0.03, runs)
        return {
            batch: (factor * 100 / batch * np.exp(of_server + generator.normal(0, 0.01, runs))).tolist()
            for batch in (32, 128, 512, 2048)
        }

    held = held_by_batch = 0
    for _ in range(studies):
        first, second = made(1.0), made(1 + truth)
        row = only_row(first, second)
        held += row["change_low"] <= truth <= row["change_high"]
        by_batch = ratio_of_blocks(*(per_batch(runs) for runs in (second, first)))
        held_by_batch += by_batch.low <= 1 + truth <= by_batch.high
    assert held / studies == pytest.approx(0.96, abs=0.005)
    assert held_by_batch / studies == pytest.approx(0.63, abs=0.005)


def per_batch(runs: Runs) -> list[float]:
    """Every run at every batch, over what its batch takes without a server."""
    return [epoch_s * batch for batch, of_batch in runs.items() for epoch_s in of_batch if epoch_s is not None]
