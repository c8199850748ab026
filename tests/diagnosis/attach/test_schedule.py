"""Which intervention comes when, and for how many steps."""

import pytest

from dpscale.diagnosis.attach import schedule
from dpscale.diagnosis.attach.schedule import AS_IT_IS

PROBES = ["no_allreduce", "gc_off", "no_buffers", "anomaly_off"]


def test_a_round_has_each_probe_once_and_the_script_as_it_is_twice_in_an_order_of_its_own() -> None:
    rounds = [schedule.order(PROBES, number) for number in range(10)]
    assert [sorted(names) for names in rounds] == [sorted([*AS_IT_IS, *PROBES])] * 10
    assert len(set(map(tuple, rounds))) > 5
    assert rounds == [schedule.order(PROBES, number) for number in range(10)]


@pytest.mark.parametrize(
    ("seconds", "blocks", "expected"),
    [(180, 6, 2.0), (180, 20, 0.75), (24, 8, 0.25), (6, 8, 0.1)],
)
def test_length_of_a_block(seconds: float, blocks: int, expected: float) -> None:
    assert schedule.block_seconds(seconds, blocks) == expected


@pytest.mark.parametrize(("step_s", "steps"), [(0.01, 100), (0.9, 2), (1e-9, 2000)])
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
    assert schedule.skipped(probe, before, queued, 0.01) == steps


@pytest.mark.parametrize(("kept_s", "steps"), [(0.0, 10), (0.002, 12), (0.007, 29), (0.0095, 10), (0.012, 10)])
def test_batches_that_stand_ready_are_used_up_at_the_difference_of_paces(kept_s: float, steps: int) -> None:
    """Where loading takes next to nothing, there is nothing to wait for."""
    assert schedule.skipped("as_it_is", "batch_kept", 8, 0.01, kept_s) == steps


def test_where_steps_take_long_the_first_probes_are_all_that_is_tried() -> None:
    assert schedule.that_fit(PROBES, 0.01, 60) == PROBES
    assert schedule.that_fit(PROBES, 10, 60) == PROBES[:3]
