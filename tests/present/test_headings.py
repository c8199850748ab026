"""Headings of charts: the figures that they name follow the data."""

from typing import Any

import pandas as pd
import pytest
from page_tables import (
    absent_row,
    arm_row,
    around,
    bandwidth_row,
    collective_row,
    epoch_row,
    estimates_row,
    extrapolated_row,
    held_out_row,
    speedup_row,
    step_row,
    table,
    tables,
    times_row,
)

from dpscale.present import headings
from dpscale.present.words import Terms
from dpscale.vocabulary.quantities import E1, E2, E3, E5, TEST_ACCURACY, TRAINING_LOSS

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
WORKER = Terms(device="worker", several_environments=False, synthetic=False)
PARTS = {"compute_share": "compute", "communication_share": "communication", "idle_share": "idle"}
ESTIMATES = [E1, E2, E5]


def single(batch: int) -> dict[str, Any]:
    return {"strategy": "single", "gpus": 1, "batch": batch}


def ddp(gpus: int, batch: int) -> dict[str, Any]:
    return {"strategy": "ddp", "gpus": gpus, "batch": batch}


def test_shortest_epoch_stands_beside_that_of_one_device() -> None:
    alone = [times_row(2.13, **single(512)), times_row(7.74, **single(32))]
    more = [times_row(0.548, **ddp(4, 512)), absent_row("oom", "", **ddp(4, 32_768))]
    both = "Shortest epoch: 0.548 s, ddp on 4 GPUs at batch 512; on 1 GPU 2.13 s"
    assert headings.epoch_time(table("times", [*alone, *more]), GPU) == both
    assert headings.epoch_time(table("times", more), GPU) == "Shortest epoch: 0.548 s, ddp on 4 GPUs at batch 512"
    slower = table("times", [*alone, times_row(9.0, **ddp(4, 512))])
    assert headings.epoch_time(slower, WORKER) == "Shortest epoch: 2.13 s, single on 1 worker at batch 512"


def test_efficiency_names_the_best_and_the_same_with_loading() -> None:
    loaded = {**ddp(4, 512), "scope": "end_to_end"}
    rows = [speedup_row(s, 2.0, **where) for s, where in ((3.8, ddp(4, 512)), (0.4, ddp(4, 32)), (2.0, loaded))]
    best = "ddp on 4 GPUs at batch 512: 95.0 %"
    assert headings.efficiency(table("speedup", rows), GPU) == f"{best}, with loading 50.0 %"
    assert headings.efficiency(table("speedup", rows[:2]), GPU) == best
    assert headings.efficiency(table("speedup", rows[1:]), GPU) == "ddp on 4 GPUs at batch 32: 10.0 %"


def test_step_names_its_largest_part_at_both_ends() -> None:
    idle, busy = step_row(3, 1, 0, 6, **ddp(4, 32)), step_row(97, 2, 0, 1, **ddp(4, 8192))
    expected = "ddp on 4 GPUs: at batch 32 idle is 60.0 % of a profiled step, at 8,192 compute is 97.0 %"
    assert headings.step(table("steps", [busy, idle]), PARTS, GPU) == expected
    waits = table("steps", [step_row(1, 8, 0, 1, **ddp(4, 32))])
    assert headings.step(waits, PARTS, GPU) == "ddp on 4 GPUs: at batch 32 communication is 80.0 % of a profiled step"


def test_estimates_are_named_where_they_are_furthest_apart() -> None:
    near = estimates_row(communication_step_s=0.30, **ddp(4, 512))
    far = estimates_row(communication_step_s=27.0, ablation_step_s=-1.0, **ddp(4, 32))
    expected = "ddp on 4 GPUs at batch 32: 0.270 ms (E5 alone) to 27.0 ms (E1 subtraction) per step"
    assert headings.estimates(table("communication", [near, far]), ESTIMATES, GPU) == expected
    expected = "ddp on 4 GPUs at batch 512: 0.270 ms (E5 alone) to 0.300 ms (E1 subtraction) per step"
    assert headings.estimates(table("communication", [near]), ESTIMATES, GPU) == expected


def test_estimates_that_may_be_zero_are_not_named() -> None:
    wide = estimates_row(2.0, **ddp(2, 32))
    expected = "ddp on 2 GPUs: no estimate has an interval above zero"
    assert headings.estimates(table("communication", [wide]), ESTIMATES, GPU) == expected
    above_zero = table("communication", [estimates_row(**ddp(2, 32))])
    assert headings.estimates(above_zero, ESTIMATES, GPU) == "ddp on 2 GPUs at batch 32: 0.270 ms (E5 alone) per step"


def test_bandwidth_sets_the_best_step_beside_the_links() -> None:
    alone = table(
        "collectives", [collective_row("reduce", 4, 2**30, 371.0), collective_row("allreduce", 4, 2**20, 9.0)]
    )
    steps = [bandwidth_row(0.1, **ddp(4, 512)), bandwidth_row(10.0, **ddp(4, 32))]
    assert headings.bandwidth(alone, table("bandwidth", steps), GPU) == (
        "4 GPUs: 371 GB/s at most, with reduce of 1,048,576 KiB"
    )
    known = [{**row, **around("bus_bandwidth_gb_s", 302.0)} for row in steps]
    assert headings.bandwidth(alone, table("bandwidth", known), GPU) == (
        "4 GPUs: inferred bandwidth is at most 16.8 GB/s (ddp at batch 512), allreduce alone reaches 302 GB/s"
    )


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({32: -0.05, 512: 0.01}, "Step on 4 GPUs predicted from 2: at most 5.0 % off, at batch 32"),
        ({32: -0.05, 512: 0.20}, "Step on 4 GPUs predicted from 2: at most 20 % off, at batch 512"),
        ({512: 0.01}, "Step on 4 GPUs predicted from 2: 1.0 % off, at batch 512"),
    ],
)
def test_prediction_is_as_good_as_its_worst(errors: dict[int, float], expected: str) -> None:
    assert headings.held_out(table("forecast", [held_out_row(*pair) for pair in errors.items()]), GPU) == expected


def test_forecast_names_its_band_at_both_ends() -> None:
    rows = [extrapolated_row(gpus, batch, 0.8) for gpus in (8, 1024) for batch in (32, 8192)]
    expected = "Scenario for 1,024 GPUs: efficiency 80 % [72, 88] at batch 32, 80 % [72, 88] at 8,192"
    assert headings.forecast(table("forecast", rows), GPU) == expected
    expected = "Forecast for 8 GPUs: efficiency 80 % [72, 88] at batch 32"
    assert headings.forecast(table("forecast", rows[:1]), GPU) == expected


def curves(*rows: dict[str, Any]) -> pd.DataFrame:
    return tables(training=list(rows))["training_curves"]


def test_training_names_the_best_arm_and_the_baseline() -> None:
    first = [epoch_row("base", 1, epoch, 0.7) for epoch in (1, 2)]
    arms = [epoch_row("good", 1, 1, 0.2), epoch_row("good", 1, 2, 0.6), epoch_row("bad", 1, 1, 0.9)]
    arms.append(epoch_row("bad", 1, 2, 0.1))
    expected = "Test accuracy: good ends best, at 60.0 %; the baseline base at 70.0 %"
    assert headings.training(curves(*first, *arms), "base", TEST_ACCURACY) == expected
    assert headings.training(curves(*arms), "base", TEST_ACCURACY) == "Test accuracy: good ends best, at 60.0 %"
    alone = "Test accuracy: good ends at 60.0 %; the baseline base at 70.0 %"
    assert headings.training(curves(*first, *arms[:2]), "base", TEST_ACCURACY) == alone
    assert headings.training(curves(*first), "base", TEST_ACCURACY) == "Test accuracy: the baseline base at 70.0 %"
    assert headings.training(curves(*arms), None, TRAINING_LOSS) == "Training loss: good ends best, at 1.40"


def test_training_names_the_baseline_of_the_best_arm() -> None:
    """A tuned arm's is the tuned baseline, which does not end best itself."""
    found = [
        epoch_row(name, 1, 1, end) for name, end in (("base", 0.7), ("base-tuned", 0.8), ("plain", 0.4), ("tuned", 0.6))
    ]
    against = {"plain": "base", "tuned": "base-tuned"}
    part = tables(
        training=found, training_summary=[arm_row(name, 0.5, compared_with=of) for name, of in against.items()]
    )
    expected = "Test accuracy: tuned ends best, at 60.0 %; the baseline base-tuned at 80.0 %"
    assert headings.training(part["training_curves"], "base", TEST_ACCURACY) == expected


def test_arms_that_diverged_end_nowhere() -> None:
    wild = [epoch_row("wild", 1, 1, 0.9), epoch_row("wild", 1, 2, None), epoch_row("wild", 2, 2, 0.9)]
    expected = "Test accuracy: a seed of every arm diverged"
    assert headings.training(curves(*wild), None, TEST_ACCURACY) == expected
    tame = epoch_row("tame", 1, 2, 0.3)
    expected = "Test accuracy: tame ends best, at 30.0 %"
    assert headings.training(curves(*wild, tame), None, TEST_ACCURACY) == expected


def test_epochs_of_few_steps_are_in_no_heading() -> None:
    long, short = times_row(0.9, **ddp(4, 512)), times_row(0.5, **ddp(4, 2_048))
    heading = headings.epoch_time(table("times", [long, short]), GPU)
    assert heading.startswith("Shortest epoch of 10 full steps: 0.900 s, ddp")
    assert headings.epoch_time(table("times", [short]), GPU) == "No epoch has 10 full steps"
    rows = [speedup_row(s, 2.0, **ddp(4, batch)) for s, batch in ((3.5, 512), (3.9, 2_048))]
    assert headings.efficiency(table("speedup", rows), GPU) == "ddp on 4 GPUs at batch 512: 87.5 %"
    assert headings.efficiency(table("speedup", rows[1:]), GPU) == "No epoch has 10 full steps"


def test_estimates_of_a_profiler_that_distorts_are_not_named() -> None:
    row = {**estimates_row(communication_step_s=0.3, profiler_step_s=5.0, **ddp(4, 512)), "profiler": "distorts"}
    drawn = [*ESTIMATES, E3]
    assert "0.300 ms (E1 subtraction)" in headings.estimates(table("communication", [row]), drawn, GPU)
    row["profiler"] = "ok"
    assert "5.00 ms (E3 all)" in headings.estimates(table("communication", [row]), drawn, GPU)
