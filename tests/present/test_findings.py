"""Every finding, with rows that make it true, what it then names, and rows that make it false."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from page_tables import (
    GPU,
    arm_row,
    around,
    communication_row,
    empty,
    h200,
    place,
    speedup_row,
    study,
    tables,
    times_row,
)
from syrupy.assertion import SnapshotAssertion
from variant_tables import of_variants, variant_row

from dpscale.present.findings import findings as scaling
from dpscale.present.findings import training
from dpscale.present.findings.findings import beside_the_public_best, findings, witnesses
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.communication import CommunicationRow
from dpscale.tables.timing import SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.networks import network_of
from dpscale.vocabulary.public_best import public_best


class Case(NamedTuple):
    """A finding, rows that make it true, what it then names, and rows that make it false."""

    finding: Callable[[Any, Terms], str]
    true: Sequence[Any]
    named: Sequence[str]
    false: Sequence[Any]


def speedups(*rows: dict[str, Any]) -> Sequence[SpeedupRow]:
    return tables(speedup=list(rows)).speedup


def times(*epochs: tuple[float, dict[str, Any]], spread: float = 0.001) -> list[dict[str, Any]]:
    return [times_row(epoch_s, spread, **where) for epoch_s, where in epochs]


def pairs(*epochs: tuple[float, dict[str, Any]]) -> Sequence[StrategyPairsRow]:
    return tables(times=times(*epochs, spread=0.01)).strategy_pairs


def communication(*rows: dict[str, Any]) -> Sequence[CommunicationRow]:
    return tables(communication=list(rows)).communication


def at_batches(*epochs: tuple[int, float]) -> Sequence[TimesRow]:
    return tables(times=times(*((epoch_s, place("single", 1, batch)) for batch, epoch_s in epochs))).times


def with_loaders(of_ddp: int, of_dp: int) -> Sequence[TimesRow]:
    """Both strategies on four GPUs with loading, and their loader processes."""
    ddp, dp = times((3.0, place(scope="end_to_end")), (5.0, place("dp", scope="end_to_end")))
    return tables(times=[{**ddp, "loader_processes": of_ddp}, {**dp, "loader_processes": of_dp}]).times


def arms(*rows: dict[str, Any], baseline: Mapping[str, Any] | None = None) -> Sequence[TrainingSummaryRow]:
    return tables(training_summary=[{**BASELINE, **(baseline or {})}, *rows]).training_summary


SLOW, FAST = speedup_row(0.58, 7.74, **place()), speedup_row(3.04, 2.30, **place(batch=512))
WITHOUT_INTERVAL = {**SLOW, "speedup_low": None, "speedup_high": None, "batch_per_gpu": 64}
STRONG, STRONG_LOADED = (
    speedup_row(speedup, 2.16, **place(batch=512, scaling="strong", scope=scope))
    for speedup, scope in ((3.65, "compute"), (2.0, "end_to_end"))
)
ALIKE = [(1.09, place(gpus=2)), (1.10, place("dp", 2))]
RESOLVED, UNRESOLVED = communication_row(13.3, 7.74, **place("dp")), communication_row(0.55, 2.16, 2, **place())
PROFILED = [{**communication_row(2.0, 2.16, **place(batch=batch)), "profiler": "ok"} for batch in (32, 128)]
BASELINE = arm_row("small", 0.71, strategy="single", gpus=1, batch_per_gpu=128, global_batch=128, is_baseline=True)
LARGE = arm_row("large", 0.50, **around("test_accuracy_difference", -0.21, 0.1))
WARM = arm_row(
    "warm", 0.70, remedies="warmup_epochs 1", without_remedies="large",
    **around("test_accuracy_gain", 0.20, 0.1), **around("test_accuracy_difference", -0.01, 0.1),
)  # fmt: skip
LESS = {**WARM, "arm": "less", "test_accuracy": 0.69}
TUNED: dict[str, Any] = {"tuned_trials": 80, "tuned_on": "test accuracy"}
LEVEL = arm_row("same", 0.505, remedies="sync_batch_norm on", **around("test_accuracy_gain", 0.005, 3))
HARMFUL = arm_row("bad", 0.40, remedies="learning_rate 6.4", **around("test_accuracy_gain", -0.1, 0.1))
CASES = {
    "slower": Case(
        scaling.more_devices_slower,
        speedups(SLOW, FAST, speedup_row(0.4, 7.74, 2.0, **place("dp")), WITHOUT_INTERVAL),
        ["Of 4 ", "in 1, probably slower in 2 and surely faster in 1.", "ddp on 4 GPUs at batch 32 per GPU: 0.58"],
        speedups(FAST, WITHOUT_INTERVAL),
    ),
    "slower alone": Case(scaling.more_devices_slower, speedups(SLOW), ["GPU in 1. "], speedups(FAST)),
    "strategies": Case(
        scaling.strategies_compared,
        pairs(
            (1.0, place(batch=128)),
            (5.0, place("dp", batch=128)),
            *ALIKE,
            (1.11, place(gpus=2, batch=128)),
            (1.10, place("dp", 2, batch=128)),
        ),
        ["ddp is surely faster than dp in 1 of 3 comparisons and probably in 1 more"],
        pairs(*ALIKE),
    ),
    # The larger difference in seconds is the smaller ratio.
    "strategies by ratio": Case(
        scaling.strategies_compared,
        pairs(
            (20.0, place(gpus=2)), (40.0, place("dp", 2)), (1.0, place(batch=128)), (5.0, place("dp", batch=128))
        ),
        ["2 of 2 comparisons, most on 4 GPUs at batch 128 per GPU: 5.00×"],
        pairs(*ALIKE),
    ),
    "loaders": Case(scaling.loaders_compared, with_loaders(8, 2), ["dp on 4 GPUs 2, ddp on 4"], with_loaders(2, 2)),
    "strong": Case(scaling.strong_scaling, speedups(STRONG), ["2,048", "4 GPUs with ddp are 3.65"], speedups(FAST)),
    "strong in both scopes": Case(
        scaling.strong_scaling, speedups(STRONG, STRONG_LOADED), ["3.65", "with data loading, 2.00"], []
    ),
    "strong with loading": Case(scaling.strong_scaling, speedups(STRONG_LOADED), ["2.00", "loading counted"], []),
    "communication": Case(
        scaling.largest_communication_share,
        communication(RESOLVED, UNRESOLVED),
        ["in 1 of 2 configurations and probably in 1 more", "dp on 4 GPUs at batch 32 per GPU: 85.5 %"],
        communication(UNRESOLVED),
    ),
    "profiler": Case(
        scaling.profiler_left_out,
        communication(PROFILED[0], {**PROFILED[1], "profiler": "distorts"}),
        ["1 of 2 configurations"],
        communication(*PROFILED),
    ),
    "enough": Case(
        scaling.batch_that_is_enough,
        at_batches((32, 8.0), (128, 2.02), (512, 2.0)),
        ["batch 128 is surely", "of that at 512, with 3.33 GB of memory, not 8.82 GB"],
        at_batches((128, 2.02)),
    ),
    "none is enough": Case(
        scaling.batch_that_is_enough, at_batches((32, 8.0), (128, 2.0), (512, 1.96)), ["no batch but 512"], []
    ),
    # An epoch at batch 8,192 has 6 full steps.
    "none of enough steps": Case(
        scaling.batch_that_is_enough,
        at_batches((32, 8.0), (128, 2.0), (8192, 1.0)),
        ["no batch but 128"],
        at_batches((8192, 1.0), (16384, 2.0)),
    ),
    "a large batch": Case(
        training.large_batch_costs,
        arms(LARGE),
        ["large at global batch 2,048", "from small"],
        arms(
            arm_row("large", 0.705, **around("test_accuracy_difference", -0.005, 3)),
            {**LARGE, "lacks": "set_epoch off"},
            {**LARGE, "compared_with": "small-tuned"},
        ),
    ),
    "the best arm": Case(training.best_at_a_batch, arms(LARGE, WARM, LESS), ["Best of 2 arms", "warm"], arms(LARGE)),
    "a tuned arm": Case(training.best_at_a_batch, arms({**WARM, **TUNED}), ["80 trials", "small was not"], []),
    "tuned arms": Case(
        training.best_at_a_batch, arms({**WARM, **TUNED}, baseline=TUNED), ["80 trials", "small was tuned too"], []
    ),
    "remedies": Case(
        training.remedies,
        arms(LARGE, WARM, LEVEL, HARMFUL),
        ["help in 1 of 3 arms: warm.", "seeds in 1 of 3 arms: same", "harm in 1 of 3 arms: bad"],
        arms(LARGE),
    ),
}  # fmt: skip
by_case = pytest.mark.parametrize("case", CASES)


@by_case
def test_finding_speaks_only_where_it_is_true(case: str, snapshot: SnapshotAssertion) -> None:
    finding, true, named, false = CASES[case]
    said = finding(true, GPU)
    assert said == snapshot
    assert [name for name in named if name not in said] == []
    assert finding(false, GPU) == ""


@by_case
def test_epochs_of_few_steps_are_no_headline(case: str) -> None:
    """What the profiler distorts is left out whatever an epoch has."""
    finding, true, *_ = CASES[case]
    if hasattr(true[0], "is_headline") and finding is not scaling.profiler_left_out:
        assert finding([replace(row, is_headline=False) for row in true], GPU) == ""


def test_empty_tables_support_no_finding_and_reference_figures_most() -> None:
    assert not any(findings(empty(), GPU).values())
    assert all(
        findings(h200(), GPU)[section] for section in ("speedup", "times", "batches", "communication", "training")
    )


def test_nothing_is_said_of_arms_that_were_trained_on_noise() -> None:
    data = tables(training_summary=[BASELINE, LARGE, WARM, LEVEL, HARMFUL])
    assert len(findings(data, GPU)["training"]) == 3
    assert findings(data, replace(GPU, synthetic=True))["training"] == []


def test_intervals_are_counted_once_and_said_on_the_page() -> None:
    page = render(study(), tables(speedup=[SLOW, FAST]))
    assert "Findings are chosen from 2 intervals of 95 %. Of 100 such intervals, 5 miss" in page
    assert "miss the true value" not in render(study(), tables())


def step(longer_ms: float = 3.0, batch: int = 128, **more: Any) -> dict[str, Any]:
    """A row of communication.csv, of a step that takes so much longer than on one GPU."""
    row = communication_row(2.0, 2.16, **place(batch=batch))
    return {**row, **around("communication_step_s", longer_ms / 1e3), **more}


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([], []),
        ([step()], []),  # what is inferred by subtraction has no witness
        (
            [step(ablation_step_s=0.001, logger_exposed_step_s=0.002, isolated_step_s=0.0005)],
            ["batch 128", "E1", "E2", "E4", "E5", "not the messages"],
        ),
        ([step(isolated_step_s=0.004)], ["batch 128", "E1", "E5"]),
        ([step(9.0, 512, isolated_step_s=0.001), step(isolated_step_s=0.004)], ["batch 128", "E1", "E5"]),
        ([step(9.0, 512, isolated_step_s=0.001), step()], ["batch 512", "E1", "E5", "not the messages"]),
        ([step(isolated_step_s=0.004, full_steps_per_epoch=9)], []),
    ],
    ids=["nothing", "no witness", "all", "only messages", "at the answer", "not at the answer", "few steps"],
)
def test_what_witnesses_say(rows: list[dict[str, Any]], named: list[str], snapshot: SnapshotAssertion) -> None:
    data = tables(speedup=[speedup_row(3.5, 2.0, **place(batch=128))], communication=rows)
    said = witnesses(data.communication, data.answer, GPU)
    assert said == snapshot
    signs = ["batch 128", "batch 512", "E1", "E2", "E4", "E5", "not the messages"]
    assert [sign for sign in signs if sign in said] == named


def best(*rows: dict[str, Any], terms: Terms = GPU) -> str:
    return beside_the_public_best(of_variants(*rows).variants, terms)


def test_the_most_images_per_second_stand_beside_the_public_best(snapshot: SnapshotAssertion) -> None:
    slow, fast = variant_row("base", 3.0, mfu=0.1), variant_row("graph", 1.0, mfu=0.29)
    assert best(slow, fast) == snapshot
    assert "with graph at batch 128" in best(slow, fast) and "with base at batch 128" in best(slow)
    assert "of the peak" not in best({**fast, "mfu": None})
    for changed in ({"scope": "end_to_end"}, {"strategy": "ddp", "gpus": 2}):
        assert best(variant_row("graph", 1.0, **changed)) == ""
    assert best(fast, terms=replace(GPU, own_workload=True)) == "", "of another network"


def test_the_published_share_is_that_of_the_published_speed() -> None:
    """With the FLOP of this network and the data sheet of that GPU."""
    best, chip, network = public_best(), chip_named(public_best().gpu), network_of(11_173_962)
    assert chip and network and network.flop_per_image
    assert network.flop_per_image * best.images_per_s / (chip.peak_tflop_s["bfloat16"] * 1e12) == pytest.approx(
        best.mfu, abs=0.005
    )
