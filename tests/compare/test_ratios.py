"""Ratios to the first study: at every batch and over all of them, how sure they are, and what is never pooled."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dpscale.compare.comparison import Epochs, Group, ratio_of, ratio_over_batches, ratios_of_group
from dpscale.formulas import OnServer
from dpscale.formulas.figure import estimate_of_blocks
from dpscale.formulas.statistics import ratio_of_blocks
from made_study import compared, slower

# Epoch seconds of runs 1, 2, ... by batch; None where a run has none.
Runs = Mapping[int, Sequence[float | None]]
PLAIN: Runs = {32: [8.0, 8.2, 8.1], 512: [2.0, 2.02, 1.99]}


def epochs(runs: Runs, servers: Sequence[int] = ()) -> Epochs:
    """Every run on a server of its own, or on these."""
    on = servers or range(1, 100)
    return {
        batch: estimate_of_blocks({
            OnServer(f"run {run}", server): epoch_s
            for run, (server, epoch_s) in enumerate(zip(on, of_batch, strict=False), 1)
            if epoch_s is not None
        })
        for batch, of_batch in runs.items()
    }  # fmt: skip


def times(runs: Runs, factor: float) -> Runs:
    return {batch: [epoch_s and factor * epoch_s for epoch_s in of_batch] for batch, of_batch in runs.items()}


def test_a_run_is_one_figure_over_its_batches() -> None:
    second: Runs = {32: [9.0, 9.3, 9.1], 512: [2.2, 2.3, 2.1]}
    of_runs = [
        [math.sqrt(small * large) for small, large in zip(runs[32], runs[512], strict=True) if small and large]
        for runs in (second, PLAIN)
    ]
    expected, ratio = ratio_of_blocks(*of_runs), ratio_over_batches(epochs(PLAIN), epochs(second))
    assert (ratio.value, *ratio.interval) == pytest.approx((expected.value, *expected.interval))


def test_batches_alone_have_intervals_that_hold_for_all_of_them_at_once() -> None:
    first, second = {512: PLAIN[512]}, {512: [2.06, 2.12, 2.08]}
    (ratio,) = ratios_of_group(epochs(first), epochs(second)).values()
    welch = ratio_of_blocks([2.06, 2.12, 2.08], [2.0, 2.02, 1.99])
    assert (ratio.value, *ratio.interval) == pytest.approx((welch.value, *welch.interval))
    more: Runs = {batch: [1.0, 1.3, 0.8] for batch in (32, 128, 2048)}
    of_four = ratios_of_group(epochs({**first, **more}), epochs({**second, **more}))[512]
    assert ratio.is_above(1) and of_four.holds(1)
    assert of_four.value == ratio.value


def test_one_run_has_no_interval() -> None:
    few: Runs = {batch: of_batch[:1] for batch, of_batch in times(PLAIN, 3).items()}
    for first, second in ((PLAIN, few), (few, PLAIN)):
        ratios = [*ratios_of_group(epochs(first), epochs(second)).values()]
        for ratio in [*ratios, ratio_over_batches(epochs(first), epochs(second))]:
            assert (ratio.is_known, ratio.has_interval) == (True, False)


@pytest.mark.parametrize("took", [8.3, 800.0])
def test_a_run_that_lacks_a_batch_is_left_out_whatever_it_took(took: float) -> None:
    second: Runs = {32: [8.0, 8.2, 8.1, took], 512: [2.0, 2.02, 1.99, None], 2048: [1.0]}
    first: Runs = {**PLAIN, 2048: [1.0, 1.0, 1.0]}
    assert ratio_over_batches(epochs(first), epochs(second)).value == pytest.approx(1)


def test_runs_that_never_meet_in_a_batch_have_no_ratio_over_all() -> None:
    apart: Runs = {32: [8.0, None], 512: [None, 2.0]}
    assert not ratio_over_batches(epochs(apart), epochs(PLAIN)).is_known
    assert not ratio_over_batches(epochs({32: [8.0] * 3}), epochs({512: [2.0] * 3})).is_known


def test_runs_on_one_server_are_one_unit_unless_there_is_no_other() -> None:
    second = {32: [12.0, 12.3, 12.2]}
    on_one, together, apart = (
        ratio_of(epochs(second)[32], epochs(PLAIN, servers)[32]) for servers in ([1, 1, 1], [1, 2, 2], [1, 2, 3])
    )
    assert (on_one.kind, together.kind, apart.kind) == ("one machine", "interval", "interval")
    assert together.interval != pytest.approx(apart.interval)


@pytest.mark.slow
def test_scopes_strategies_and_numbers_of_gpus_are_never_pooled() -> None:
    rows = [row for row in compared(slower(1.2, "ddp")).rows if row.study == "after"]
    assert {row.group for row in rows} >= {Group("compute", "ddp", gpus) for gpus in (2, 4)}
    for row in rows:
        is_slower = row.group.strategy == "ddp"
        assert row.ratio.value == pytest.approx(1.2 if is_slower else 1)
        assert row.verdict == ("slower" if is_slower else "no difference shown")


@pytest.mark.slow
def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Runs whose servers make all of their batches slower alike, which batch by batch would be taken for more runs."""
    generator = np.random.default_rng(20261122)
    studies, runs, truth = 400, 4, 1.1

    def made(factor: float) -> Runs:
        of_server = generator.normal(0, 0.03, runs)
        return {
            batch: (factor * 100 / batch * np.exp(of_server + generator.normal(0, 0.01, runs))).tolist()
            for batch in (32, 128, 512, 2048)
        }

    held = held_by_batch = 0
    for _ in range(studies):
        first, second = made(1.0), made(truth)
        held += ratio_over_batches(epochs(first), epochs(second)).holds(truth)
        held_by_batch += ratio_of_blocks(per_batch(second), per_batch(first)).holds(truth)
    assert held / studies == pytest.approx(0.96, abs=0.005)
    assert held_by_batch / studies == pytest.approx(0.63, abs=0.005)


def per_batch(runs: Runs) -> list[float]:
    """Return every run at every batch, over what its batch takes without a server."""
    return [epoch_s * batch for batch, of_batch in runs.items() for epoch_s in of_batch if epoch_s is not None]
