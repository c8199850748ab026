"""Changes pooled over batches: what is pooled, how sure it is, and whether it is beyond a tolerance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dpscale.compare.figures import NO_DIFFERENCE, NO_INTERVAL
from dpscale.compare.groups import (
    BEYOND,
    NO_BATCH,
    NO_RUN,
    SLOWER,
    UNDECIDED,
    WITHIN,
    compared_groups,
)
from dpscale.compare.rows import ComparedGroupsRow
from dpscale.formulas.statistics import ratio_of_blocks
from dpscale.tables.timing import RunsRow

# Epoch seconds of runs 1, 2, ... by batch; None where a run has none.
Runs = Mapping[int, Sequence[float | None]]
PLAIN: Runs = {32: [8.0, 8.2, 8.1], 512: [2.0, 2.02, 1.99]}


def rows(
    runs: Runs, strategy: str = "ddp", gpus: int = 4, scope: str = "compute", on_one: bool = False
) -> list[RunsRow]:
    """Every run on a server of its own, or all `on_one`."""
    return [
        RunsRow(
            strategy=strategy,
            gpus=gpus,
            scope=scope,
            batch_per_gpu=batch,
            run=run,
            epoch_s=epoch_s,
            server=1 if on_one else run,
        )
        for batch, of_batch in runs.items()
        for run, epoch_s in enumerate(of_batch, 1)
        if epoch_s is not None
    ]


def times(runs: Runs, factor: float) -> Runs:
    return {
        batch: [None if epoch_s is None else factor * epoch_s for epoch_s in of_batch]
        for batch, of_batch in runs.items()
    }


def only_row(first: Runs, second: Runs, tolerance: float = math.nan) -> ComparedGroupsRow:
    (row,) = compared_groups(rows(first), rows(second), "after", tolerance)
    return row


def test_a_run_is_one_figure_over_its_batches() -> None:
    second: Runs = {32: [9.0, 9.3, 9.1], 512: [2.2, 2.3, 2.1]}
    row = only_row(PLAIN, second)
    of_runs = [
        [math.sqrt(small * large) for small, large in zip(runs[32], runs[512], strict=True) if small and large]
        for runs in (second, PLAIN)
    ]
    ratio = ratio_of_blocks(*of_runs)
    assert (row.change.value, *row.change.interval) == pytest.approx((ratio.value - 1, ratio.low - 1, ratio.high - 1))
    assert (row.study, row.batches, row.first_runs, row.second_runs) == ("after", "32; 512", 3, 3)
    assert row.batches_left_out == ""


NOISY: Runs = {128: [3.0, 4.5, 2.4], 512: [2.0, 2.02, 1.99], 2048: [1.0, 1.01, 1.0]}


def test_one_noisy_batch_does_not_hide_what_the_others_show() -> None:
    second: Runs = {128: [4.0, 2.5, 3.1], 512: [2.4, 2.41, 2.42], 2048: [0.8, 0.81, 0.8]}
    row = only_row(NOISY, second, 0.1)
    assert row.outcome == NO_DIFFERENCE
    assert (row.slower_at, row.faster_at) == ("512", "2048")
    assert (row.beyond_tolerance, row.beyond_at) == (BEYOND, "512"), "such a group can fail"
    mild = only_row(NOISY, second, 0.22)
    assert (mild.beyond_tolerance, mild.beyond_at) == (UNDECIDED, "")


def test_a_batch_alone_is_asked_with_an_interval_for_all_of_them_at_once() -> None:
    """Of a group of one batch it is that of the group; of several it is wider."""
    second: Runs = {512: [2.06, 2.12, 2.08]}
    first: Runs = {512: [2.0, 2.02, 1.99]}
    assert only_row(first, second).slower_at == "512"
    others: Runs = {batch: [1.0, 1.3, 0.8] for batch in (32, 128, 2048)}
    assert only_row({**first, **others}, {**second, **others}).slower_at == ""


def test_runs_of_variants_are_no_runs_of_the_study() -> None:
    graph = [replace(row, variant="graph", epoch_s=row.epoch_s / 3) for row in rows(PLAIN)]
    (row,) = compared_groups([*graph, *rows(PLAIN), *graph], rows(PLAIN), "after")
    assert row.change.value == pytest.approx(0)


def test_the_same_times_show_no_difference_though_their_interval_may_have_no_width() -> None:
    assert only_row(PLAIN, PLAIN).outcome == NO_DIFFERENCE
    equal: Runs = {32: [0.1] * 3, 512: [0.7] * 3}
    assert only_row(equal, equal).outcome == NO_DIFFERENCE
    assert only_row(equal, equal, 0).beyond_tolerance == WITHIN
    assert only_row(equal, times(equal, 1.01)).outcome == SLOWER


def test_one_run_has_no_interval_and_shows_no_difference() -> None:
    few: Runs = {batch: of_batch[:1] for batch, of_batch in times(PLAIN, 3).items()}
    for first, second in ((PLAIN, few), (few, PLAIN)):
        row = only_row(first, second, 0.05)
        assert (row.change.is_known, row.change.has_interval) == (True, False)
        assert (row.status, row.outcome, row.beyond_tolerance) == ("ok", NO_INTERVAL, UNDECIDED)


def test_a_batch_with_fewer_runs_is_left_out_where_others_have_three() -> None:
    second: Runs = {**times(PLAIN, 1.5), 2048: [1.0, None, None]}
    row = only_row({**PLAIN, 2048: [1.0, 1.0, 1.0], 8192: [1.0, 1.0, 1.0]}, second)
    assert (row.batches, row.batches_left_out, row.second_runs) == ("32; 512", "2048; 8192", 3)
    assert row.outcome == SLOWER


@pytest.mark.parametrize("took", [8.3, 800.0])
def test_a_run_that_lacks_a_batch_is_left_out_whatever_it_took(took: float) -> None:
    row = only_row(PLAIN, {32: [8.0, 8.2, 8.1, took], 512: [2.0, 2.02, 1.99, None]})
    assert (row.first_runs, row.second_runs) == (3, 3)
    assert row.change.value == pytest.approx(0)


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ({32: [8.0, None], 512: [None, 2.0]}, {32: [8.0], 512: [2.0]}, NO_RUN),
        ({32: [8.0] * 3}, {512: [2.0] * 3}, NO_BATCH),
    ],
)
def test_runs_that_never_meet_in_a_batch_are_not_compared(first: Runs, second: Runs, status: str) -> None:
    row = only_row(first, second, 0.05)
    assert (row.status, row.beyond_tolerance, row.outcome, row.change.is_known) == (status, UNDECIDED, "", False)


def test_scopes_strategies_and_numbers_of_gpus_are_never_pooled() -> None:
    keys = [("ddp", 2, "compute"), ("ddp", 4, "compute"), ("dp", 4, "compute"), ("dp", 4, "end_to_end")]
    first = [row for key in keys for row in rows(PLAIN, *key)]
    second = [row for place, key in enumerate(keys, 1) for row in rows(times(PLAIN, place), *key)]
    found = {(row.strategy, row.gpus, row.scope): row.change.value for row in compared_groups(first, second, "after")}
    assert found == pytest.approx({key: place for place, key in enumerate(keys)})


def test_runs_on_one_server_are_one_unit_unless_there_is_no_other() -> None:
    second = times(PLAIN, 1.5)
    (alone,) = compared_groups(rows(PLAIN, on_one=True), rows(second), "after")
    assert alone.change.kind == "one machine"
    together = [replace(row, server=1 + (row.run > 1)) for row in rows(second)]
    (paired_up,) = compared_groups(rows(PLAIN), together, "after")
    (apart,) = compared_groups(rows(PLAIN), rows(second), "after")
    assert (paired_up.change.kind, apart.change.kind) == ("interval", "interval")
    assert paired_up.change.interval != pytest.approx(apart.change.interval)


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
        held += only_row(first, second).change.holds(truth)
        held_by_batch += ratio_of_blocks(per_batch(second), per_batch(first)).holds(1 + truth)
    assert held / studies == pytest.approx(0.96, abs=0.005)
    assert held_by_batch / studies == pytest.approx(0.63, abs=0.005)


def per_batch(runs: Runs) -> list[float]:
    """Every run at every batch, over what its batch takes without a server."""
    return [epoch_s * batch for batch, of_batch in runs.items() for epoch_s in of_batch if epoch_s is not None]
