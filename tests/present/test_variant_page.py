"""The section on variants, and accuracy against cost: what is drawn, what it says, and when it is there."""

from typing import Any

import pytest
from page_tables import GPU, bare_page, study
from variant_tables import (
    BASE,
    FAST,
    NEVER,
    PAYS,
    of_variants,
    with_variants,
)

from dpscale.present.page import render
from dpscale.present.shown_tables import SHOWN

# Whole pages and their charts.
pytestmark = pytest.mark.slow

HEADING = ">One GPU, used well</h2>"


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
    view = SHOWN["variants"].of_rows(of_variants(row).variants, GPU)
    column = [column.heading for column in view.columns].index("Preparation pays from, epochs")
    assert view.cells[0][column] == text


def test_a_variant_without_a_record_has_its_state_in_the_table() -> None:
    missing = {"variant": "graph", **{name: BASE[name] for name in ("strategy", "gpus", "batch_per_gpu", "scope")}}
    view = SHOWN["variants"].of_rows(of_variants(BASE, {**missing, "status": "failed", "reason": "x"}).variants, GPU)
    assert [row[4] for row in view.cells] == ["ok", "failed"]


def test_the_section_and_its_parts_are_where_there_is_something_to_show() -> None:
    for text in (HEADING, 'href="#variants"', "define-variants"):
        assert text not in bare_page()
    few = render(study(), of_variants(BASE, FAST))
    for text in (HEADING, 'href="#variants"', 'id="define-limit-of-a-gpu"'):
        assert text in few
    full = render(study(), with_variants())
    assert 'id="table-one_gpu"' not in few
    for name in ("variants", "variant_limits", "one_gpu"):
        assert f'<table id="table-{name}"' in full
