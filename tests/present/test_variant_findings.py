"""What is said of variants: the most that one GPU gives, beside the fastest published figure."""

from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU
from variant_tables import (
    of_variants,
    variant_row,
)

from dpscale.present.findings.variants import beside_the_public_best
from dpscale.present.text.words import Terms
from dpscale.vocabulary.chips import chip_named
from dpscale.vocabulary.networks import network_of, public_best


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
