"""Findings on variants: data that make each true, what it then says, and data that make it false."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, tables
from variant_tables import (
    BASE,
    FAST,
    HEAVY,
    LIGHT,
    NEVER,
    PAYS,
    SLOW,
    UNTOLD,
    beside,
    of_variants,
    variant_row,
)

from dpscale.present.findings import variants
from dpscale.present.findings.finding import Finding
from dpscale.present.findings.variants import beside_the_public_best
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.networks import network_of
from dpscale.vocabulary.public_best import public_best

LATER = {**FAST, "batch_per_gpu": 512, "faster": 2.0, "faster_low": 1.98, "faster_high": 2.02}
Finder = Callable[[Tables, Terms], Finding | None]


def said(finder: Finder, data: Tables) -> str:
    """Nothing where it finds nothing."""
    found = finder(data, GPU)
    return found.sentence if found else ""


# Data that make it true, what it then says, and data that make it false.
CASES: dict[Finder, tuple[Tables, list[str], Tables]] = {
    variants.fastest_on_one: (
        of_variants(BASE, SLOW, FAST, LATER),
        ["graph is the fastest variant at batches 128, 512: up to 3.00× as fast as base."],
        of_variants({**BASE, "is_fastest": True}, SLOW, UNTOLD),
    ),
    variants.one_as_fast_as_more: (
        of_variants(
            BASE, one_gpu=[beside(1.5, "holds"), beside(0.6, "does not", "graph"), beside(1.0, "undecided", "bf16")]
        ),
        [
            "is as fast as several GPUs at the same batch per GPU in 1 of 3 comparisons, is not in 1, and 1 are",
            "1 GPU with graph is as fast as ddp on 2 GPUs with base at batch 128.",
        ],
        of_variants(BASE, one_gpu=[{**beside(1.5, "undecided"), "ratio_low": None, "ratio_high": None}]),
    ),
    variants.slower_variants: (
        of_variants(BASE, SLOW, FAST),
        [
            "in 1 of 2 comparisons. The slowest is bf16 with single on 1 GPU at batch 128",
            "0.75× [0.74, 0.76] as fast",
        ],
        of_variants(BASE, FAST, UNTOLD),
    ),
    variants.communication_weighs_more: (
        of_variants(BASE, HEAVY, {**LIGHT, "batch_per_gpu": 2048}),
        [
            "gains less than base from more GPUs in 1 of 2 comparisons.",
            "The least is 1.25× [1.24, 1.26] with graph, ddp on 2 GPUs at batch 128",
            "base has 1.80× [1.78, 1.82]. In 1 the speedup lies above it.",
        ],
        of_variants(BASE, LIGHT),
    ),
    variants.preparation_pays: (
        of_variants(BASE, PAYS, NEVER),
        [
            "pays in 1 of 2 comparisons. It takes longest with graph, single on 1 GPU",
            "15 epochs, as preparation takes 30.0 s and saves 2.00 s per epoch.",
        ],
        of_variants(BASE, NEVER),
    ),
    variants.preparation_never_pays: (
        of_variants(BASE, PAYS, NEVER),
        ["never pays in 1 of 2 comparisons", "Compiled with single on 1 GPU", "is 0.75×"],
        of_variants(BASE, PAYS),
    ),
}


@pytest.mark.parametrize("finder", CASES)
def test_a_finding_speaks_only_where_it_is_true(finder: Finder) -> None:
    true, parts, false = CASES[finder]
    assert [part for part in parts if part not in said(finder, true)] == []
    assert said(finder, false) == ""


# By function the figures that decide.
DECIDED_BY: dict[Finder, tuple[dict[str, Any], tuple[str, ...]]] = {
    variants.fastest_on_one: (FAST, ("faster",)),
    variants.slower_variants: (SLOW, ("faster",)),
    variants.communication_weighs_more: (HEAVY, ("speedup", "base_speedup", "alone_faster")),
    variants.preparation_pays: (PAYS, ("saved_s",)),
    variants.preparation_never_pays: (NEVER, ("saved_s",)),
    variants.one_as_fast_as_more: (beside(1.5, "holds"), ("ratio",)),
}


@pytest.mark.parametrize("finder", DECIDED_BY)
def test_few_steps_and_one_run_carry_no_finding(finder: Finder) -> None:
    row, figures = DECIDED_BY[finder]
    table = "one_gpu" if "other_variant" in row else "variants"
    assert said(finder, tables(**{table: [row]}))
    assert said(finder, tables(**{table: [{**row, "full_steps_per_epoch": 9}]})) == ""
    for figure in figures:
        assert said(finder, tables(**{table: [{**row, f"{figure}_low": None, f"{figure}_high": None}]})) == ""


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
