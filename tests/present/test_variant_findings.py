"""Findings on variants and on accuracy against cost: data that make each true, what it then says, and data that make
it false."""

from dataclasses import replace
from typing import Any

import pytest
from page_tables import tables
from variant_tables import (
    BASE,
    FAST,
    HEAVY,
    LIGHT,
    LIMIT,
    NEVER,
    PAYS,
    SLOW,
    STEADY,
    UNSTEADY,
    UNTOLD,
    beside,
    frontier_row,
    kernels_row,
    of_variants,
    variant_row,
)

from dpscale.present import training_findings, variant_findings
from dpscale.present.finding import Finding, Predicate
from dpscale.present.variant_findings import beside_the_public_best
from dpscale.present.words import Tables, Terms
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.networks import network_of
from dpscale.vocabulary.public_best import public_best

GPU = Terms(device="GPU", several_environments=False, synthetic=False)

LATER = {**FAST, "batch_per_gpu": 512, "faster": 2.0, "faster_low": 1.98, "faster_high": 2.02}

TWIN = {
    "arm": "b128-fast", "strategy": "single", "gpus": 1, "batch_per_gpu": 128, "global_batch": 128, "epochs": 5,
    "environment": "A", "twin": "b128", "pairs": 5, "twin_accuracy_difference": -0.004,
    "twin_accuracy_difference_low": -0.02, "twin_accuracy_difference_high": 0.012,
    "twin_time_ratio": 0.25, "twin_time_ratio_low": 0.24, "twin_time_ratio_high": 0.26,
}  # fmt: skip

VARIANT_CASES: list[tuple[Predicate, Tables, list[str], Tables]] = [
    (
        variant_findings.fastest_on_one,
        of_variants(BASE, SLOW, FAST, LATER),
        [
            "On 1 GPU, compared with base, the fastest variant is graph at batches 128, 512 (",
            "3.00× [2.97, 3.03] as fast at 128, 2.56 ms per step, 2.00× [1.98, 2.02] as fast at 512",
        ],
        of_variants(BASE, SLOW, UNTOLD),
    ),
    (
        variant_findings.one_as_fast_as_more,
        of_variants(
            BASE, one_gpu=[beside(1.5, "holds"), beside(0.6, "does not", "graph"), beside(1.0, "undecided", "bf16")]
        ),
        [
            "1 GPU with its fastest variant trains an epoch as fast as several GPUs at the same batch per GPU in 1 of "
            "3 comparisons and does not in 1; 1 comparison undecided.",
            "Against base: graph on 1 GPU is as fast as ddp on 2 GPUs at batch 128, compute scope (1.50× [1.49, "
            "1.51] at 128: 1.00 s against 1.50 s per epoch).",
        ],
        of_variants(BASE, one_gpu=[{**beside(1.5, "undecided"), "ranges": "ratio"}]),
    ),
    (
        variant_findings.slower_variants,
        of_variants(BASE, SLOW, FAST),
        [
            "in 1 of 2 comparisons; the slowest is bf16 with single on 1 GPU at batch 128",
            "0.75× [0.74, 0.76] as fast",
        ],
        of_variants(BASE, FAST, UNTOLD),
    ),
    (
        variant_findings.runs_differ_less,
        of_variants(BASE, STEADY, {**STEADY, "variant": "bf16", "deviation_ratio": 0.4}, UNSTEADY),
        [
            "Runs of a variant differ less than those of base in 2 of 3 comparisons. They differ least with graph, "
            "single on 1 GPU at batch 128",
            "by a standard deviation of 0.35 % of the epoch time over 3 runs, 2.000 % [1.980, 2.020] of that of base.",
            " In 1 they differ more.",
        ],
        of_variants(BASE, UNSTEADY, {**STEADY, "deviation_ratio_high": 1.1}),
    ),
    (
        variant_findings.communication_weighs_more,
        of_variants(BASE, HEAVY, {**LIGHT, "batch_per_gpu": 2048}),
        [
            "its speedup on several lies below that of base in 1 of 2 comparisons.",
            "The least is 1.25× [1.24, 1.26] with graph, ddp on 2 GPUs at batch 128",
            "where base has 1.80× [1.78, 1.82]. In 1 the speedup lies above it.",
        ],
        of_variants(BASE, LIGHT),
    ),
    (
        variant_findings.preparation_pays,
        of_variants(BASE, PAYS, NEVER),
        [
            "pays in 1 of 2 comparisons: from 15 epochs on with graph, single on 1 GPU",
            "(30.0 s, saving 2.00 s per epoch).",
        ],
        of_variants(BASE, NEVER),
    ),
    (
        variant_findings.preparation_never_pays,
        of_variants(BASE, PAYS, NEVER),
        ["never pays in 1 of 2 comparisons", "compiled with single on 1 GPU", "prepared for 30.0 s and 0.75×"],
        of_variants(BASE, PAYS),
    ),
    (
        variant_findings.nearest_to_the_limit,
        of_variants(BASE, LIMIT, {**LIMIT, "variant": "bf16", "limit_share": 0.4}),
        [
            "Of variants with an interval, nearest",
            "graph with single on 1 GPU at batch 128 per GPU (compute scope): 50,000 images/s are 50.0 % [49.5, "
            "50.5] of 100,000 images/s",
            "25.0 % of 200,000 images/s, both at a time. Its MFU is 25.00 % [24.75, 25.25] of the measured",
        ],
        of_variants(BASE, FAST),
    ),
    (
        variant_findings.profiling_distorts,
        of_variants(BASE, kernels=[kernels_row(0.08), kernels_row(0.25, 32), kernels_row(0.01, 512)]),
        ["in 2 of 3 profiles, by 25.0 % at most (base at batch 32)"],
        of_variants(BASE, kernels=[kernels_row(0.04)]),
    ),
    (
        training_findings.fast_twins,
        tables(twins=[TWIN]),
        [
            "b128-fast at global batch 128 ends \u22120.4 points [\u22122.0, 1.2] from b128, no difference with these ",
            "seeds, in 0.250 [0.240, 0.260] of its time.",
        ],
        tables(twins=[{**TWIN, "twin_accuracy_difference_low": None}]),
    ),
    (
        training_findings.pareto_best_arms,
        tables(
            frontier=[
                frontier_row("good", 0.71, 8.0, "best", by_gpu_s="undecided", by_energy="undecided"),
                frontier_row("quick", 0.6, 2.0, "best"),
                frontier_row("poor", 0.5, 3.0, "beaten"),
                frontier_row("near", 0.6, 2.1, "undecided"),
            ]
        ),
        [
            "Pareto-best by training time, from means over seeds: quick (60.0 % [59.4, 60.6] in 2.00 s; also by "
            "GPU-seconds and by energy); good (71.0 % [70.3, 71.7] in 8.00 s); beaten, by the intervals of both: poor."
        ],
        tables(frontier=[frontier_row("good", 0.71, 8.0, "best")]),
    ),
]


def sentence_of(found: Finding | None) -> str:
    assert found is not None
    return found.sentence


@pytest.mark.parametrize(
    ("predicate", "true", "parts", "false"), VARIANT_CASES, ids=[case[0].__name__ for case in VARIANT_CASES]
)
def test_a_finding_speaks_only_where_it_is_true(
    predicate: Predicate, true: Tables, parts: list[str], false: Tables
) -> None:
    sentence = sentence_of(predicate(true, GPU))
    assert [part for part in parts if part not in sentence] == []
    assert predicate(false, GPU) is None


def test_the_variant_is_named_whose_runs_differ_least() -> None:
    """Not the one that gains most over base at its own place."""
    gains_most = {**STEADY, "variant": "bf16", "batch_per_gpu": 32, "run_deviation": 0.01, "deviation_ratio": 0.001}
    sentence = sentence_of(variant_findings.runs_differ_less(of_variants(BASE, gains_most, STEADY), GPU))
    assert "They differ least with graph, single on 1 GPU at batch 128" in sentence


@pytest.mark.parametrize(
    ("predicate", "name", "row"),
    [
        (variant_findings.fastest_on_one, "variants", FAST),
        (variant_findings.slower_variants, "variants", SLOW),
        (variant_findings.runs_differ_less, "variants", STEADY),
        (variant_findings.communication_weighs_more, "variants", HEAVY),
        (variant_findings.preparation_pays, "variants", PAYS),
        (variant_findings.preparation_never_pays, "variants", NEVER),
        (variant_findings.nearest_to_the_limit, "variants", LIMIT),
        (variant_findings.one_as_fast_as_more, "one_gpu", beside(1.5, "holds")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_few_steps_carry_no_finding(predicate: Predicate, name: str, row: dict[str, Any]) -> None:
    assert predicate(tables(**{name: [row]}), GPU) is not None
    assert predicate(tables(**{name: [{**row, "full_steps_per_epoch": 9}]}), GPU) is None


@pytest.mark.parametrize(
    ("predicate", "row", "quantity"),
    [
        (variant_findings.fastest_on_one, FAST, "faster"),
        (variant_findings.slower_variants, SLOW, "faster"),
        (variant_findings.runs_differ_less, STEADY, "deviation_ratio"),
        (variant_findings.communication_weighs_more, HEAVY, "speedup"),
        (variant_findings.communication_weighs_more, HEAVY, "base_speedup"),
        (variant_findings.communication_weighs_more, HEAVY, "alone_faster"),
        (variant_findings.preparation_pays, PAYS, "saved_s"),
        (variant_findings.preparation_never_pays, NEVER, "saved_s"),
        (variant_findings.nearest_to_the_limit, LIMIT, "limit_share"),
    ],
)
def test_a_range_of_two_runs_or_one_run_carries_no_finding(
    predicate: Predicate, row: dict[str, Any], quantity: str
) -> None:
    assert predicate(of_variants({**row, "ranges": f"epoch_s; {quantity}"}), GPU) is None
    assert predicate(of_variants({**row, f"{quantity}_low": None, f"{quantity}_high": None}), GPU) is None


@pytest.mark.parametrize(
    ("as_fast", "ratio", "says"),
    [
        ("holds", 1.5, "graph on 1 GPU is as fast as ddp on 2 GPUs at batch 128"),
        ("does not", 0.6, "graph on 1 GPU is not as fast as ddp on 2 GPUs at batch 128"),
        ("undecided", 1.0, "graph on 1 GPU is undecided against ddp on 2 GPUs at batch 128"),
    ],
)
def test_one_gpu_is_as_fast_as_more_only_where_it_is(as_fast: str, ratio: float, says: str) -> None:
    rows = [beside(ratio, as_fast), beside(ratio, as_fast, batch=512)]
    sentence = sentence_of(variant_findings.one_as_fast_as_more(of_variants(one_gpu=rows[:1]), GPU))
    assert says in sentence
    assert f"in {int(as_fast == 'holds')} of 1 comparison and does not in {int(as_fast == 'does not')}" in sentence
    assert ("; 1 comparison undecided." in sentence) == (as_fast == "undecided")
    both = sentence_of(variant_findings.one_as_fast_as_more(of_variants(one_gpu=rows), GPU))
    assert "at batches 128, 512, compute scope" in both


def test_against_other_variants_one_gpu_is_only_counted() -> None:
    rows = [beside(0.6, "does not", "graph")]
    sentence = sentence_of(variant_findings.one_as_fast_as_more(of_variants(one_gpu=rows), GPU))
    assert sentence.endswith("in 0 of 1 comparison and does not in 1.")


def test_a_variant_that_is_slower_on_one_gpu_says_nothing_of_communication() -> None:
    slower_alone = {**HEAVY, "alone_faster": 0.7, "alone_faster_low": 0.69, "alone_faster_high": 0.71}
    assert variant_findings.communication_weighs_more(of_variants(slower_alone), GPU) is None


def test_base_that_is_fastest_is_no_fastest_variant() -> None:
    assert variant_findings.fastest_on_one(of_variants({**BASE, "is_fastest": True}, SLOW), GPU) is None


def test_noise_has_no_frontier() -> None:
    """Accuracies of trainings on synthetic images mean nothing."""
    arms = tables(frontier=[frontier_row("a", 0.5, 1.0, "best"), frontier_row("b", 0.4, 2.0, "beaten")])
    assert training_findings.pareto_best_arms(arms, GPU) is not None
    noise = Terms(device="GPU", several_environments=False, synthetic=True)
    assert training_findings.pareto_best_arms(arms, noise) is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.001, 0.03, "higher beyond"), (-0.03, -0.001, "lower beyond"), (-0.001, 0.001, "no difference with")],
)
def test_a_twin_is_more_or_less_accurate_only_beyond_its_interval(low: float, high: float, verdict: str) -> None:
    row = {**TWIN, "twin_accuracy_difference_low": low, "twin_accuracy_difference_high": high}
    assert f", {verdict} th" in sentence_of(training_findings.fast_twins(tables(twins=[row]), GPU))


def test_noise_has_no_twins() -> None:
    noise = Terms(device="GPU", several_environments=False, synthetic=True)
    assert training_findings.fast_twins(tables(twins=[TWIN]), noise) is None


def test_energy_that_was_not_counted_is_not_named() -> None:
    rows = [
        {**frontier_row(name, 0.5, seconds, state), "energy_j": None, "by_energy": None}
        for name, seconds, state in (("a", 1.0, "best"), ("b", 2.0, "undecided"))
    ]
    sentence = sentence_of(training_findings.pareto_best_arms(tables(frontier=rows), GPU))
    assert sentence.endswith("a (50.0 % [49.5, 50.5] in 1.00 s; also by GPU-seconds).")


def test_the_most_images_per_second_stand_beside_the_public_best() -> None:
    slow, fast = variant_row("base", 3.0, mfu=0.1), variant_row("graph", 1.0, mfu=0.29)
    said = beside_the_public_best(of_variants(slow, fast), GPU)
    assert said == (
        "The most here: 50,000 images/s, 29.0 % of the peak, with graph at batch 128 on 1 GPU. Fastest published "
        "figure found for ResNet-18 on CIFAR-10: 25,600 images/s on one A100, 27 % of its bfloat16 peak."
    )
    assert "with base at batch 128" in beside_the_public_best(of_variants(slow), GPU)
    assert "of the peak" not in beside_the_public_best(of_variants({**fast, "mfu": None}), GPU)
    for other in ({"scope": "end_to_end"}, {"strategy": "ddp", "gpus": 2}):
        assert beside_the_public_best(of_variants(variant_row("graph", 1.0, **other)), GPU) == ""
    assert beside_the_public_best(of_variants(fast), replace(GPU, own_workload=True)) == "", "of another network"


def test_the_published_share_is_that_of_the_published_speed() -> None:
    """With the FLOP of this network and the data sheet of that GPU."""
    best, chip, network = public_best(), chip_named(public_best().gpu), network_of(11_173_962)
    assert chip and network and network.flop_per_image
    assert network.flop_per_image * best.images_per_s / (chip.peak_tflop_s["bfloat16"] * 1e12) == pytest.approx(
        best.mfu, abs=0.005
    )
