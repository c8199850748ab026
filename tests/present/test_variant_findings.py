"""Findings on variants: data that make each true, what it then says, and data that make it false."""

from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, study, tables
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
    kernels_row,
    of_variants,
    variant_row,
)

from dpscale.present.findings.variants import beside_the_public_best, variant_findings
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.networks import network_of
from dpscale.vocabulary.public_best import public_best

LATER = {**FAST, "batch_per_gpu": 512, "faster": 2.0, "faster_low": 1.98, "faster_high": 2.02}
# The beginnings of sentences, by function.
STARTS = {
    "fastest_on_one": "On 1 GPU, compared with base,",
    "one_as_fast_as_more": "1 GPU with its fastest variant",
    "slower_variants": "A variant is slower",
    "runs_differ_less": "Runs of a variant differ less",
    "communication_weighs_more": "Faster compute makes communication weigh more",
    "preparation_pays": "Preparation before training pays",
    "preparation_never_pays": "Preparation never pays",
    "nearest_to_the_limit": "Of variants with an interval, nearest to the limit",
    "profiling_distorts": "Profiling makes the step",
}


def said(name: str, found: Tables) -> str:
    """The sentence of a function; nothing where there is none."""
    sentences = [finding.sentence for finding in variant_findings(found, GPU) if finding]
    return next((sentence for sentence in sentences if sentence.startswith(STARTS[name])), "")


# Data that make it true, what it then says, and data that make it false.
CASES: dict[str, tuple[Tables, list[str], Tables]] = {
    "fastest_on_one": (
        of_variants(BASE, SLOW, FAST, LATER),
        [
            "the fastest variant is graph at batches 128, 512 (",
            "3.00× [2.97, 3.03] as fast at 128, 1.00 s per epoch, 2.00× [1.98, 2.02] as fast at 512",
        ],
        of_variants({**BASE, "is_fastest": True}, SLOW, UNTOLD),
    ),
    "one_as_fast_as_more": (
        of_variants(
            BASE, one_gpu=[beside(1.5, "holds"), beside(0.6, "does not", "graph"), beside(1.0, "undecided", "bf16")]
        ),
        [
            "1 GPU with its fastest variant trains an epoch as fast as several GPUs at the same batch per GPU in 1 of "
            "3 comparisons and does not in 1; 1 comparison undecided.",
            "Against base: graph on 1 GPU is as fast as ddp on 2 GPUs at batch 128, compute scope (1.50× [1.49, "
            "1.51] at 128: 1.00 s against 1.50 s per epoch).",
        ],
        of_variants(BASE, one_gpu=[{**beside(1.5, "undecided"), "ratio_low": None, "ratio_high": None}]),
    ),
    "slower_variants": (
        of_variants(BASE, SLOW, FAST),
        [
            "in 1 of 2 comparisons; the slowest is bf16 with single on 1 GPU at batch 128",
            "0.75× [0.74, 0.76] as fast",
        ],
        of_variants(BASE, FAST, UNTOLD),
    ),
    "runs_differ_less": (
        of_variants(BASE, STEADY, {**STEADY, "variant": "bf16", "deviation_ratio": 0.4}, UNSTEADY),
        [
            "Runs of a variant differ less than those of base in 2 of 3 comparisons. They differ least with graph, "
            "single on 1 GPU at batch 128",
            "by a standard deviation of 0.35 % of the epoch time over 3 runs, 2.000 % [1.980, 2.020] of that of base.",
            " In 1 they differ more.",
        ],
        of_variants(BASE, UNSTEADY, {**STEADY, "deviation_ratio_high": 1.1}),
    ),
    "communication_weighs_more": (
        of_variants(BASE, HEAVY, {**LIGHT, "batch_per_gpu": 2048}),
        [
            "its speedup on several lies below that of base in 1 of 2 comparisons.",
            "The least is 1.25× [1.24, 1.26] with graph, ddp on 2 GPUs at batch 128",
            "where base has 1.80× [1.78, 1.82]. In 1 the speedup lies above it.",
        ],
        of_variants(BASE, LIGHT),
    ),
    "preparation_pays": (
        of_variants(BASE, PAYS, NEVER),
        [
            "pays in 1 of 2 comparisons: from 15 epochs on with graph, single on 1 GPU",
            "(30.0 s, saving 2.00 s per epoch).",
        ],
        of_variants(BASE, NEVER),
    ),
    "preparation_never_pays": (
        of_variants(BASE, PAYS, NEVER),
        ["never pays in 1 of 2 comparisons", "compiled with single on 1 GPU", "prepared for 30.0 s and 0.75×"],
        of_variants(BASE, PAYS),
    ),
    "nearest_to_the_limit": (
        of_variants(BASE, LIMIT, {**LIMIT, "variant": "bf16", "limit_share": 0.4}),
        [
            "Of variants with an interval, nearest",
            "graph with single on 1 GPU at batch 128 per GPU (compute scope): 50,000 images/s are 50.0 % [49.5, "
            "50.5] of 100,000 images/s",
            "25.0 % of 200,000 images/s, both at a time. Its MFU is 25.00 % [24.75, 25.25] of the measured",
        ],
        of_variants(BASE, FAST),
    ),
    "profiling_distorts": (
        of_variants(BASE, kernels=[kernels_row(0.08), kernels_row(0.25, 32), kernels_row(0.01, 512)]),
        ["in 2 of 3 profiles, by 25.0 % at most (base at batch 32)"],
        of_variants(BASE, kernels=[kernels_row(0.04)]),
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_finding_speaks_only_where_it_is_true(name: str) -> None:
    true, parts, false = CASES[name]
    assert [part for part in parts if part not in said(name, true)] == []
    assert said(name, false) == ""


@pytest.mark.slow
def test_findings_rest_on_rows_of_tables_of_the_page() -> None:
    one_gpu, kernels = [beside(1.5, "holds")], [kernels_row(0.08)]
    every = of_variants(BASE, FAST, SLOW, STEADY, HEAVY, PAYS, NEVER, LIMIT, one_gpu=one_gpu, kernels=kernels)
    found, page = [*filter(None, variant_findings(every, GPU))], render(study(), every)
    assert len(found) == len(STARTS)
    for one in found:
        assert one.rows >= len(one.cells) >= 1
        assert f'<table id="table-{one.view}"' in page


def test_the_variant_is_named_whose_runs_differ_least() -> None:
    """Not the one that gains most over base at its own place."""
    gains_most = {**STEADY, "variant": "bf16", "batch_per_gpu": 32, "run_deviation": 0.01, "deviation_ratio": 0.001}
    sentence = said("runs_differ_less", of_variants(BASE, gains_most, STEADY))
    assert "They differ least with graph, single on 1 GPU at batch 128" in sentence


# By function the figures that decide.
DECIDED_BY: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "fastest_on_one": (FAST, ("faster",)),
    "slower_variants": (SLOW, ("faster",)),
    "runs_differ_less": (STEADY, ("deviation_ratio",)),
    "communication_weighs_more": (HEAVY, ("speedup", "base_speedup", "alone_faster")),
    "preparation_pays": (PAYS, ("saved_s",)),
    "preparation_never_pays": (NEVER, ("saved_s",)),
    "nearest_to_the_limit": (LIMIT, ("limit_share",)),
    "one_as_fast_as_more": (beside(1.5, "holds"), ("ratio",)),
}


@pytest.mark.parametrize("name", DECIDED_BY)
def test_few_steps_and_one_run_carry_no_finding(name: str) -> None:
    row, figures = DECIDED_BY[name]
    table = "one_gpu" if "other_variant" in row else "variants"
    assert said(name, tables(**{table: [row]}))
    assert said(name, tables(**{table: [{**row, "full_steps_per_epoch": 9}]})) == ""
    for figure in figures:
        assert said(name, tables(**{table: [{**row, f"{figure}_low": None, f"{figure}_high": None}]})) == ""


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
    sentence = said("one_as_fast_as_more", of_variants(one_gpu=rows[:1]))
    assert says in sentence
    assert f"in {int(as_fast == 'holds')} of 1 comparison and does not in {int(as_fast == 'does not')}" in sentence
    assert ("; 1 comparison undecided." in sentence) == (as_fast == "undecided")
    assert "at batches 128, 512, compute scope" in said("one_as_fast_as_more", of_variants(one_gpu=rows))


def test_against_other_variants_one_gpu_is_only_counted() -> None:
    sentence = said("one_as_fast_as_more", of_variants(one_gpu=[beside(0.6, "does not", "graph")]))
    assert sentence.endswith("in 0 of 1 comparison and does not in 1.")


def test_a_variant_that_is_slower_on_one_gpu_says_nothing_of_communication() -> None:
    slower_alone = {**HEAVY, "alone_faster": 0.7, "alone_faster_low": 0.69, "alone_faster_high": 0.71}
    assert said("communication_weighs_more", of_variants(slower_alone)) == ""


def best(*rows: dict[str, Any], terms: Terms = GPU) -> str:
    return beside_the_public_best(of_variants(*rows).variants, terms)


def test_the_most_images_per_second_stand_beside_the_public_best() -> None:
    slow, fast = variant_row("base", 3.0, mfu=0.1), variant_row("graph", 1.0, mfu=0.29)
    assert best(slow, fast) == (
        "The most here: 50,000 images/s, 29.0 % of the peak, with graph at batch 128 on 1 GPU. Fastest published "
        "figure found for ResNet-18 on CIFAR-10: 25,600 images/s on one A100, 27 % of its bfloat16 peak."
    )
    assert "with base at batch 128" in best(slow)
    assert "of the peak" not in best({**fast, "mfu": None})
    for other in ({"scope": "end_to_end"}, {"strategy": "ddp", "gpus": 2}):
        assert best(variant_row("graph", 1.0, **other)) == ""
    assert best(fast, terms=replace(GPU, own_workload=True)) == "", "of another network"


def test_the_published_share_is_that_of_the_published_speed() -> None:
    """With the FLOP of this network and the data sheet of that GPU."""
    best, chip, network = public_best(), chip_named(public_best().gpu), network_of(11_173_962)
    assert chip and network and network.flop_per_image
    assert network.flop_per_image * best.images_per_s / (chip.peak_tflop_s["bfloat16"] * 1e12) == pytest.approx(
        best.mfu, abs=0.005
    )
