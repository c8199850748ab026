"""Which intervention comes when, and for how many steps."""

import pytest

from dpscale.measure.attach import schedule
from dpscale.measure.attach.schedule import AS_IT_IS

PROBES = ["no_allreduce", "gc_off", "autocast_bfloat16"]


def test_a_round_has_each_probe_once_and_the_script_as_it_is_twice() -> None:
    for number in range(2, 6):
        assert sorted(schedule.order(PROBES, 0, number)) == sorted([*AS_IT_IS, *PROBES])


def test_the_order_follows_from_the_seed_and_changes_from_round_to_round() -> None:
    orders = [tuple(schedule.order(PROBES, 3, number)) for number in range(2, 10)]
    assert len(set(orders)) > 3
    assert orders == [tuple(schedule.order(PROBES, 3, number)) for number in range(2, 10)]
    assert orders != [tuple(schedule.order(PROBES, 4, number)) for number in range(2, 10)]


def test_what_could_fail_in_the_script_waits_until_there_is_something_to_tell() -> None:
    assert [("autocast_bfloat16" in schedule.order(PROBES, 0, number)) for number in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("seconds", "blocks", "expected"),
    [(180, 6, 2.0), (180, 20, 0.75), (24, 8, 0.25), (6, 8, 0.1)],
    ids=["2 s at most", "a dozen rounds", "a dozen short ones", "at least 0.1 s"],
)
def test_length_of_a_block(seconds: float, blocks: int, expected: float) -> None:
    assert schedule.block_seconds(seconds, blocks) == expected


@pytest.mark.parametrize(("step_s", "steps"), [(0.01, 100), (0.9, 4), (1e-9, 2000)])
def test_steps_of_a_block(step_s: float, steps: int) -> None:
    assert schedule.steps_of(step_s, 1.0) == steps


@pytest.mark.parametrize(
    ("probe", "before", "queued", "steps"),
    [
        ("gc_off", "as_it_is", 8, 2),
        ("as_it_is", "batch_kept", 8, 10),
        ("batch_kept_no_allreduce", "batch_kept", 8, 4),
        ("as_it_is", "batch_kept", 1000, 34),
        ("fused_optimiser", "as_it_is", 0, 5),
        ("as_it_is", "fused_optimiser", 0, 5),
    ],
)
def test_steps_that_belong_to_a_switch_do_not_count(probe: str, before: str, queued: int, steps: int) -> None:
    assert schedule.skipped(probe, before, queued) == steps


def test_where_steps_take_long_the_first_probes_are_all_that_is_tried() -> None:
    assert schedule.that_fit(PROBES[:2] * 2, 0.01, 60) == PROBES[:2] * 2
    assert schedule.that_fit(PROBES[:2] * 2, 10, 60) == PROBES[:2]


@pytest.mark.parametrize(("seconds", "fits"), [(20, []), (180, ["autocast_bfloat16"])])
def test_what_waits_for_later_rounds_is_not_tried_where_there_are_few(seconds: float, fits: list[str]) -> None:
    assert schedule.that_fit(["autocast_bfloat16"], 0.01, seconds) == fits
