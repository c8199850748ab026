"""Memory of steps on two GPUs, as it was measured."""

from math import isnan
from pathlib import Path

import pytest
from page_tables import GPU

from dpscale.present.charts.memory import memory
from recorded import recorded_study, recorded_tables


@pytest.mark.parametrize("results", ["recorded-strategies", "recorded-strategies-gpt"])
def test_what_was_counted_is_what_is_expected_and_what_the_allocator_says(root: Path, results: str) -> None:
    rows = recorded_tables(root, results).memory
    assert {row.strategy for row in rows} == set(recorded_study(root, results)["strategies"])
    for row in rows:
        assert abs(row.off) < 0.05
        if row.strategy != "dp":
            assert row.activations_bytes == pytest.approx(row.saved_bytes, rel=0.1)


def test_what_the_threads_of_dp_save_is_not_taken_for_nothing(root: Path) -> None:
    rows = recorded_tables(root, "recorded-strategies").memory
    assert [row.strategy for row in rows if isnan(row.saved_bytes)] == ["dp"] * 3
    for picture in memory(rows, GPU).pictures:
        assert "ddp on 2 GPUs" in picture.svg and ">dp on 2 GPUs" not in picture.svg
