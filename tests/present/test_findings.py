"""Every finding on rows of a recorded study, and on rows that are changed so that it is false or names others.

`test_sentences` has the words.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, around, empty, h200, key, of_variants, place, speedup_row, study, tables, variant_row

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.findings import findings as scaling
from dpscale.present.findings.findings import beside_the_public_best, findings, witnesses
from dpscale.present.page import render
from dpscale.present.text.words import Terms
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.networks import network_of, public_best
from rows import changed, picked

DATA = h200()
SECTIONS = ["speedup", "times", "batches", "communication", "steps", "training"]
Finding = Callable[[Any, Terms], str]


def sure(value: float) -> Figure:
    return Figure.of(value, value - abs(value) / 100, value + abs(value) / 100)


DDP, DP = ({"strategy": name, "gpus": 4, "batch_per_gpu": 128} for name in ("ddp", "dp"))
WEAK, MAY_BE_ZERO = picked(DATA.speedup, scaling="weak"), Figure.of(0.1, -0.1, 0.3)
STRONG = picked(DATA.speedup, scaling="strong", **DDP)
FASTER = changed(WEAK, {}, speedup=sure(1.5))
ALIKE = changed(DATA.strategy_pairs, {}, ratio=1.0, epoch_s=sure(2.0), other_epoch_s=sure(2.0))
# The larger difference in seconds is the smaller ratio.
TIMED = changed(ALIKE, {**DDP, "scope": "compute"}, ratio=5.0, epoch_s=sure(1.0), other_epoch_s=sure(5.0))
TIMED = changed(TIMED, {**DDP, "gpus": 2, "scope": "compute"}, ratio=2.0, epoch_s=sure(20.0), other_epoch_s=sure(40.0))
ONE_GPU = picked(DATA.times, strategy="single", scope="compute")
ENOUGH = changed(ONE_GPU, {"batch_per_gpu": 512}, of_best=sure(0.995))
ZERO = changed(DATA.communication, {}, communication_s=MAY_BE_ZERO)
ARMS = [row for row in DATA.training_summary if row.global_batch in (128, 2048)]
LARGE, LAMB = {"arm": "b2048"}, {"arm": "b2048-lamb"}
PLAIN = [row for row in ARMS if row.arm in ("b128", "b2048")]


# With what is then said, or "" where nothing is.
@pytest.mark.parametrize(
    ("finding", "rows", "said"),
    [
        (scaling.more_devices_slower, FASTER, ""),
        (
            scaling.more_devices_slower,
            changed(FASTER, {**DP, "scope": "end_to_end"}, speedup=sure(0.4)),
            "surely slower than 1 GPU in 1 and surely faster in 27. Surely slowest is dp on 4 GPUs at batch 128 per "
            "GPU, with data loading: 0.40",
        ),
        (
            scaling.more_devices_slower,
            changed(
                changed(WEAK, {}, speedup=Figure(0.5)), {**DP, "scope": "compute"}, speedup=sure(0.4)
            ),
            "surely slower than 1 GPU in 1 and probably slower in 27.",
        ),
        (scaling.strong_scaling, WEAK, ""),
        (scaling.strong_scaling, STRONG, "4 GPUs with ddp are 2.91 [2.72, 3.11] times as fast as 1; with data loading"),
        (scaling.strong_scaling, picked(STRONG, scope="compute"), "times as fast as 1."),
        (scaling.strong_scaling, picked(STRONG, scope="end_to_end"), "as fast as 1, data loading counted."),
        (scaling.strategies_compared, ALIKE, ""),
        (scaling.strategies_compared, TIMED, "ddp is surely faster than dp in 2 of 8 comparisons, most on 4 GPUs"),
        (
            scaling.strategies_compared,
            changed(TIMED, {**DDP, "gpus": 2}, ratio=0.5, epoch_s=sure(40.0), other_epoch_s=sure(20.0)),
            "ddp is surely slower than dp in 1 of 8 comparisons, most on 2 GPUs",
        ),
        (
            scaling.strategies_compared,
            changed(TIMED, {**DDP, "gpus": 2, "scope": "compute"}, epoch_s=Figure(20.0)),
            "in 1 of 8 comparisons and probably in 1 more",
        ),
        (scaling.loaders_compared, changed(DATA.times, {}, loader_processes=2), ""),
        (scaling.loaders_compared, changed(DATA.times, {"strategy": "ddp"}, loader_processes=None), ""),
        (scaling.loaders_compared, changed(DATA.times, {"strategy": "dp"}, loader_processes=3), "dp on 2 GPUs 3,"),
        (scaling.batch_that_is_enough, picked(ONE_GPU, batch_per_gpu=512), ""),
        (scaling.batch_that_is_enough, changed(ONE_GPU, {}, of_best=Figure(0.5)), ""),
        (
            scaling.batch_that_is_enough,
            ENOUGH,
            "512 is surely within 2 % of the best throughput: 99.5 % [98.5, 100.5] of that at 2,048, with 2.64 GB",
        ),
        (scaling.batch_that_is_enough, changed(ENOUGH, {}, peak_memory_bytes=float("nan")), "of that at 2,048."),
        (scaling.batch_that_is_enough, ONE_GPU, "no batch but 2,048 is"),
        (scaling.largest_communication_share, ZERO, ""),
        (
            scaling.largest_communication_share,
            changed(ZERO, DDP, communication_s=sure(0.1), communication_share=0.3),
            "in 1 of 14 configurations and probably in 13 more. Of the sure ones it takes most with ddp on 4 GPUs at "
            "batch 128 per GPU: 30.0 %",
        ),
        (scaling.profiler_left_out, changed(DATA.communication, {}, profiler="ok"), ""),
        (
            scaling.profiler_left_out,
            changed(changed(DATA.communication, {}, profiler=""), DDP, profiler="distorts"),
            "1 of 1 configuration.",
        ),
        (scaling.large_batch_costs, PLAIN, "b2048 at global batch 2,048 ends at 41 %"),
        (scaling.large_batch_costs, changed(PLAIN, LARGE, test_accuracy_difference=MAY_BE_ZERO), ""),
        (scaling.large_batch_costs, changed(PLAIN, LARGE, lacks="set_epoch off"), ""),
        (scaling.large_batch_costs, changed(PLAIN, LARGE, remedies="warmup_epochs 1"), ""),
        (scaling.large_batch_costs, changed(PLAIN, LARGE, compared_with="b512"), ""),
        (scaling.large_batch_costs, changed(PLAIN, {}, is_baseline=False), ""),
        (scaling.best_at_a_batch, PLAIN, ""),
        (
            scaling.best_at_a_batch,
            ARMS,
            "b2048-lamb, 75.8 %. Its recipe was tuned (80 trials, chosen on test accuracy); that of b128 was not.",
        ),
        (scaling.best_at_a_batch, changed(ARMS, {"arm": "b128"}, tuned_trials=8), "that of b128 was tuned too."),
        (scaling.best_at_a_batch, changed(ARMS, LAMB, tuned_trials=None), "b2048-lamb, 75.8 %. Intervals"),
        (scaling.best_at_a_batch, changed(ARMS, LAMB, test_accuracy=sure(0.3)), ": b2048-lars,"),
        (scaling.remedies, PLAIN, ""),
        (scaling.remedies, changed(ARMS, {}, test_accuracy_gain=sure(-0.1)), "Remedies harm in 5 of 5 arms: b2048-li"),
        (scaling.remedies, changed(ARMS, LAMB, test_accuracy_gain=MAY_BE_ZERO), "b2048-lamb (10 points [−10, 30])"),
        (scaling.remedies, changed(ARMS, {}, test_accuracy_gain=UNKNOWN), ""),
    ],
)  # fmt: skip
def test_what_is_said_follows_from_the_rows(finding: Finding, rows: Sequence[Any], said: str) -> None:
    sentence = finding(rows, GPU)
    assert said in sentence if said else sentence == ""


@pytest.mark.parametrize("section", SECTIONS)
def test_a_recorded_study_supports_findings_and_epochs_of_few_steps_do_not(section: str) -> None:
    assert findings(DATA, GPU)[section]
    assert findings(empty(), GPU)[section] == []
    short = {
        name: changed(getattr(DATA, name), {}, is_headline=False)
        for name in ("speedup", "strategy_pairs", "times", "communication")
    }
    # The profiler's distortions and trainings do not depend on the steps of an epoch.
    assert bool(findings(replace(DATA, **short), GPU)[section]) == (section in ("steps", "training"))


def test_nothing_is_said_of_arms_that_were_trained_on_noise() -> None:
    assert findings(DATA, replace(GPU, synthetic=True))["training"] == []


@pytest.mark.slow
def test_intervals_are_counted_once_and_said_on_the_page() -> None:
    page = render(study(), tables(speedup=[speedup_row(speedup, 2.0, **place()) for speedup in (0.58, 3.04)]))
    assert "Findings are chosen from 2 intervals of 95 %. Of 100 such intervals, 5 miss" in page
    assert "miss the true value" not in render(study(), tables())


def step(longer_ms: float = 3.0, batch: int = 128, **more: Any) -> dict[str, Any]:
    """A row of communication.csv, of a step that takes so much longer than on one GPU."""
    longer = around("communication_step_s", longer_ms / 1e3)
    return {**key("ddp", 4, batch), "status": "ok", "full_steps_per_epoch": 50_000 // (4 * batch), **longer, **more}


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
def test_witnesses_of_the_step_of_the_answer(rows: list[dict[str, Any]], named: list[str]) -> None:
    data = tables(speedup=[speedup_row(3.5, 2.0, **place(batch=128))], communication=rows)
    text = witnesses(data.communication, data.answer, GPU)
    signs = ["batch 128", "batch 512", "E1", "E2", "E4", "E5", "not the messages"]
    assert [sign for sign in signs if sign in text] == named


def best(*rows: dict[str, Any], terms: Terms = GPU) -> str:
    return beside_the_public_best(of_variants(*rows).variants, terms)


def test_the_most_images_per_second_stand_beside_the_public_best() -> None:
    slow, fast = variant_row("base", 3.0, mfu=0.1), variant_row("graph", 1.0, mfu=0.29)
    assert "50,000 images/s, 29.0 % of the peak, with graph at batch 128" in best(slow, fast)
    assert "with base at batch 128" in best(slow)
    assert "of the peak" not in best({**fast, "mfu": None})
    assert best({**fast, "scope": "end_to_end"}) == best({**fast, "strategy": "ddp", "gpus": 2}) == ""
    assert best(fast, terms=replace(GPU, own_workload=True)) == "", "of another network"


def test_the_published_share_is_that_of_the_published_speed() -> None:
    """With the FLOP of this network and the data sheet of that GPU."""
    best, chip, network = public_best(), chip_named(public_best().gpu), network_of(11_173_962)
    assert chip and network and network.flop_per_image
    assert network.flop_per_image * best.images_per_s / (chip.peak_tflop_s["bfloat16"] * 1e12) == pytest.approx(
        best.mfu, abs=0.005
    )
