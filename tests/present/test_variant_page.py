"""The section on variants, and accuracy against cost: what is drawn, what it says, and when it is there."""

from typing import Any

import pytest
from page_tables import GPU, WORKER, around, bare_page, study, tables
from variant_tables import (
    BASE,
    FAST,
    NEVER,
    PAYS,
    beside,
    frontier_row,
    of_variants,
    variant_row,
    with_variants,
)

import variant_study
from dpscale.present.study.page import render
from dpscale.present.study.views import SHOWN

# Whole pages and their charts.
pytestmark = pytest.mark.slow

HEADING = ">One GPU, used well</h2>"
WEIGHS_MORE = "Faster compute makes communication weigh more"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (PAYS, "15 [14, 16]"),
        (NEVER, "never"),
        ({**PAYS, "pays": "undecided"}, "undecided"),
        (BASE, "–"),
    ],
)
def test_from_how_many_epochs_preparation_pays(row: dict[str, Any], text: str) -> None:
    view = SHOWN["variants"].view(of_variants(row).variants, GPU)
    column = [column.heading for column in view.columns].index("Preparation pays from, epochs")
    assert view.cells[0][column] == text


def test_a_variant_without_a_record_has_its_state_in_the_table() -> None:
    missing = {"variant": "graph", **{name: BASE[name] for name in ("strategy", "gpus", "batch_per_gpu", "scope")}}
    view = SHOWN["variants"].view(of_variants(BASE, {**missing, "status": "failed", "reason": "x"}).variants, GPU)
    assert [row[4] for row in view.cells] == ["ok", "failed"]


def test_the_section_and_its_parts_are_where_there_is_something_to_show() -> None:
    for text in (HEADING, 'href="#variants"', "define-variants"):
        assert text not in bare_page()
    few = render(study(), of_variants(BASE, FAST))
    for text in (HEADING, 'href="#variants"', 'id="define-limit-of-a-gpu"'):
        assert text in few
    full = render(variant_study.study().values, with_variants())
    assert 'id="table-one_gpu"' not in few
    for name in ("variants", "variant_limits", "one_gpu", "kernels"):
        assert f'<table id="table-{name}"' in full


def test_communication_is_said_to_weigh_more_only_where_it_does() -> None:
    known: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "faster": 2.0, "base_speedup": 1.8}
    weighs: dict[str, Any] = {**known, "alone_faster": 3.0, "speedup": 1.25}
    others = ({"speedup": 1.8}, {"speedup": 1.95}, {"alone_faster": 1.0}, {"alone_faster": 0.7})
    light = [variant_row("graph", 0.8, **{**weighs, **other}, batch=128 + at) for at, other in enumerate(others)]
    assert WEIGHS_MORE not in render(study(), of_variants(BASE, *light))
    # Among all findings, and where it is the first finding of all on variants.
    assert render(study(), of_variants(BASE, variant_row("graph", 0.8, **weighs))).count(WEIGHS_MORE) == 2


def test_workers_are_no_gpus() -> None:
    view = SHOWN["variants"].view(of_variants(BASE).variants, WORKER)
    assert "Speedup over 1 worker, ×" in [column.heading for column in view.columns]


def test_one_gpu_beside_more_names_both_variants() -> None:
    view = SHOWN["one_gpu"].view(tables(one_gpu=[beside(1.5, "holds", "bf16")]).one_gpu, GPU)
    assert view.cells[0][:1] == ["graph"]
    assert {"bf16", "holds", "ddp"} <= set(view.cells[0])


def arms() -> list[dict[str, Any]]:
    return [
        frontier_row("quick", 0.6, 2.0, "best", **around("gpu_s", 8.0)),
        frontier_row("good", 0.71, 8.0, "best"),
        frontier_row("poor", 0.5, 3.0, "beaten"),
    ]


def test_the_frontier_is_on_the_page_of_a_study_that_trained() -> None:
    trained = {"arms": {"good": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}}}
    shown = render(study(training=trained), tables(frontier=arms()))
    assert ">Accuracy against time</h3>" in shown
    assert '<table id="table-frontier"' in shown
    assert ">Accuracy against time</h3>" not in render(study(training=trained), tables())
    assert len(SHOWN["frontier"].view(tables(frontier=arms()).frontier, GPU).cells) == 3
