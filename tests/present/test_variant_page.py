"""The table of variants: when preparation pays, and what stands where a record is missing."""

from typing import Any

import pytest
from page_tables import GPU
from variant_tables import (
    BASE,
    NEVER,
    PAYS,
    of_variants,
)

from dpscale.present.shown_tables import SHOWN


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
