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
        assert abs(row.off) < 0.05 or row.variant in ("width-128", "resnet-50")  # networks whose buffers nobody counted
        if row.strategy != "dp":
            assert row.activations_bytes == pytest.approx(row.saved_bytes + row.gathered_bytes, rel=0.1)


def test_what_weights_that_stay_gathered_take_is_a_part_of_its_own(root: Path) -> None:
    rows = [row for row in recorded_tables(root, "recorded-strategies").memory if row.batch_per_gpu == 32]
    least, kept = (one for one in rows if one.strategy == "fsdp")
    assert (least.gathered_bytes, kept.variant) == (0, "grad-op")
    assert kept.gathered_bytes == pytest.approx(4 * 11_173_962, rel=0.01)
    assert kept.together_bytes - least.together_bytes == kept.gathered_bytes
    picture = memory(rows, GPU).pictures[0].svg
    assert ">gathered<" in picture and ">gathered<" not in memory([least], GPU).pictures[0].svg


def test_what_the_threads_of_dp_save_is_not_taken_for_nothing(root: Path) -> None:
    rows = recorded_tables(root, "recorded-strategies").memory
    assert [row.strategy for row in rows if isnan(row.saved_bytes)] == ["dp"] * 4
    for picture in memory(rows, GPU).pictures:
        assert "ddp on 2 GPUs" in picture.svg and ">dp on 2 GPUs" not in picture.svg
