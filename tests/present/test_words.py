"""One way to write each number and each word."""

import math

import pandas as pd
import pytest
from page_tables import h200

from dpscale.present import words
from dpscale.vocabulary.quantities import MILLISECONDS, MULTIPLES


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (20.9, "20.90"), (0.5454, "0.5454"), (91743.1, "91,743"), (0, "0"), (-0.015, "−0.01500"),
        (1.5e-9, "1.500e−09"), (math.nan, "–"), (math.inf, "–"), (None, "–"), (9.9996, "10.000"),
    ],
)  # fmt: skip
def test_figure(value: float | None, shown: str) -> None:
    assert words.figure(value) == shown


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (17.03, 16.18, 17.88, "17.0 [16.2, 17.9]"),
        (2.13, 2.129, 2.1312, "2.130 [2.129, 2.131]"),
        (0.0045, -0.45, 0.45, "0.004 [−0.450, 0.450]"),
        (125, 20, 420, "125 [20, 420]"),
        (2.13, math.nan, math.nan, "2.130 [no interval]"),
        (2.13, 2.13, 2.13, "2.130 [2.130, 2.130]"),
        (math.nan, math.nan, math.nan, "–"),
    ],
)
def test_estimate_has_the_decimals_that_its_interval_allows(value: float, low: float, high: float, shown: str) -> None:
    assert words.estimate({"t": value, "t_low": low, "t_high": high}, "t") == shown


def test_every_multiple_has_two_decimals() -> None:
    row = {"speedup": 3.92395, "speedup_low": 3.92380, "speedup_high": 3.92410, "ranges": None}
    assert words.estimate(row, "speedup", MULTIPLES, with_unit=True) == "3.92× [3.92, 3.92]"
    assert (
        words.estimate({**row, "ranges": "speedup"}, "speedup", MULTIPLES) == "3.92 [range of two runs: 3.92 to 3.92]"
    )
    assert (
        words.estimate({**row, "speedup_low": None, "blocks": 1}, "speedup", MULTIPLES) == "3.92 [no interval: one run]"
    )
    assert words.measured(0.3949, MULTIPLES) == "0.39×"
    assert words.measured(None, MULTIPLES) == "–"


def test_two_runs_have_a_range_and_one_has_nothing() -> None:
    row = {"epoch_s": 2.0, "epoch_s_low": 1.9, "epoch_s_high": 2.1, "ranges": "epoch_s; step_s", "runs": 2}
    assert words.estimate(row, "epoch_s") == "2.00 [range of two runs: 1.90 to 2.10]"
    one_run = {"epoch_s": 2.0, "epoch_s_low": math.nan, "epoch_s_high": math.nan, "ranges": math.nan, "runs": 1}
    assert words.estimate(one_run, "epoch_s") == "2.000 [no interval: one run]"
    of_blocks = {"speedup": 1.9, "speedup_low": math.nan, "speedup_high": math.nan, "blocks": 1}
    assert words.estimate(of_blocks, "speedup") == "1.900 [no interval: one run]"


def test_a_bandwidth_that_is_not_resolvable_has_a_bound() -> None:
    row = {"bandwidth_gb_s": math.nan, "bandwidth_gb_s_low": math.nan, "bandwidth_gb_s_high": math.nan}
    assert words.bandwidth({**row, "bandwidth_gb_s_at_least": 47.12}) == "at least 47.1"
    assert words.bandwidth({**row, "bandwidth_gb_s_at_least": math.nan}) == "–"


def test_a_difference_of_nothing_has_the_decimals_of_its_interval() -> None:
    assert words.estimate({"d": 0.0, "d_low": -0.012, "d_high": 0.012}, "d") == "0.000 [−0.012, 0.012]"


def test_what_is_above_zero_is_not_shown_as_zero() -> None:
    assert words.estimate({"r": 3.1, "r_low": 0.42, "r_high": 11.0}, "r") == "3.1 [0.4, 11.0]"
    assert words.estimate({"r": 3.1, "r_low": -0.42, "r_high": 11.0}, "r") == "3 [0, 11]"


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1.002, 1.35, "1.160× [1.002, 1.350]"),
        (0.71, 0.9996, "1.1600× [0.7100, 0.9996]"),
        (0.998, 1.35, "1.16× [1.00, 1.35]"),
        (1.02, 1.35, "1.16× [1.02, 1.35]"),
    ],
)
def test_a_multiple_that_is_not_one_is_not_shown_as_one(low: float, high: float, shown: str) -> None:
    row = {"faster": 1.16, "faster_low": low, "faster_high": high}
    assert words.estimate(row, "faster", MULTIPLES, with_unit=True) == shown


def test_estimate_in_another_unit() -> None:
    row = {"t": 0.0015, "t_low": 0.0014, "t_high": 0.0016}
    assert words.estimate(row, "t", MILLISECONDS, with_unit=True) == "1.50 ms [1.40, 1.60]"


def test_order_is_from_plain_to_parallel() -> None:
    times = words.in_order(h200()["times"])
    assert list(times["strategy"].unique()) == ["single", "dp", "ddp"]
    assert list(times["scope"].unique()) == ["compute", "end_to_end"]


def test_long_lists_end_with_a_count() -> None:
    assert words.listed(["a", "b", "c"], limit=2) == "a, b and 1 more"


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ([32], "32"),
        ([32, 128], "32 and 128"),
        ([128, 512, 2_048], "128 to 2,048"),
        ([32, 512, 2_048, 8_192], "32 and 512 to 8,192"),
        ([32, 512, 8_192], "32, 512 and 8,192"),
    ],
)
def test_batches_in_a_row_are_a_range_only_where_none_is_between(chosen: list[int], shown: str) -> None:
    assert words.batches(chosen, [32, 128, 512, 2_048, 8_192]) == shown


def test_rows_are_those_of_pandas() -> None:
    """Of every type of column that a table has, and with all that can be missing in it."""
    mixed = pd.DataFrame({"count": [1, 2], "share": [0.5, math.nan], "word": ["a", None], "flag": [True, False]})
    mixed["any"] = pd.Series([pd.NA, "x"], dtype=object)
    mixed["whole"] = pd.Series([1, pd.NA], dtype="Int64")
    for table in (mixed, mixed.head(0), h200()["times"]):
        # Text, in which NaN is equal to NaN and 1 is not 1.0.
        assert list(map(repr, words.rows(table))) == list(map(repr, table.to_dict("records")))
