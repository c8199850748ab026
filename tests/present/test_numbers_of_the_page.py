"""Every number on the recorded studies' pages is a cell of a table, to its last digit before it is rounded.

All that `present.text.numbers` writes is looked for. Counts are small whole numbers: `test_findings` and
`test_cautions` hold those to their claims.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from page_tables import audited

from dpscale.analyse import points
from dpscale.audit.page import render_studies
from dpscale.tables.column import KIB, MILLISECONDS, PERCENT, PLAIN
from dpscale.tables.tables import TABLES, Tables
from recorded import page_without_charts, recorded_study, recorded_tables, watched

# Whole pages, again and again.
pytestmark = pytest.mark.slow

# Limits that a sentence names because the code decides by them.
LIMITS = [PERCENT.of(points.DRIFT_TOLERANCE)]


def cells(tables: Tables) -> Iterator[float]:
    """Every number of the tables without its sign, as stored and as its unit is shown."""
    for name, kind in TABLES.items():
        # Figures of published studies are shares that are shown in %.
        shares = (PERCENT,) if name == "audit" else ()
        units = {entry: (PLAIN, column.unit, *shares) for column in kind.columns().values() for entry in column.names}
        units["message_bytes"] = (PLAIN, KIB)
        for row in getattr(tables, name):
            for column, entry in row.flat().items():
                if isinstance(entry, int | float):
                    yield from (abs(float(unit.of(entry))) for unit in units[column])


def allreduces_ms(tables: Tables) -> Iterator[float]:
    """What the hand-in's formula gives with the numbers that it shows: bytes of an allreduce over bus bandwidth."""
    for row in tables.bandwidth:
        if row.allreduce_bytes_per_step:
            yield MILLISECONDS.of(row.allreduce_bytes_per_step / row.bus_bandwidth_gb_s.value / 1e9)


@pytest.mark.parametrize("name", ["recorded", "recorded-two-gpus", "recorded-h200-2"])
def test_every_number_is_a_cell_to_its_last_digit(root: Path, name: str) -> None:
    """The studies have trainings, variants and a ladder."""
    study = recorded_study(root, name)
    tables = audited(root, recorded_tables(root, name))
    _, of_page = page_without_charts(root, name)
    with watched() as of_others:
        render_studies(study.values, tables, "page.html")
    of_study = {float(study["dataset"]["images"]), PERCENT.of(study["training"]["target_accuracy"])}
    in_tables = {*cells(tables), *LIMITS, *of_study, *allreduces_ms(tables)}
    assert len(of_page) > 800
    assert sorted({*of_page, *of_others} - in_tables) == []
