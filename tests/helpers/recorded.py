"""The studies that are on record, through the same tables as any study's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dpscale.analyse.tables import build_tables
from dpscale.plan.plan import expected_cells
from dpscale.plan.study import Study
from dpscale.present.charts.charts import charts_of
from dpscale.present.page import render
from dpscale.present.text import numbers
from dpscale.present.text.words import Terms
from dpscale.records.collect import collect
from dpscale.schemas.settings import JsonValues
from dpscale.tables.tables import Tables
from once import once

# Folders of results, and the studies that they are of.
RECORDED = {
    **{name: name for name in ("recorded", "recorded-two-gpus", "recorded-h200-2", "recorded-h200-4")},
    **{name: name for name in ("recorded-strategies", "recorded-strategies-gpt")},
    **{f"recorded-{name}": f"example-{name}" for name in ("gpt", "resnet50", "wide-mlp")},
}


def recorded_study(root: Path, results: str) -> Study:
    return Study.read(root / f"config/{RECORDED[results]}.yaml")


@cache
@once
def recorded_tables(root: Path, results: str) -> Tables:
    """Return the tables of results/<results>. Whoever changes a table changes a copy."""
    study = recorded_study(root, results)
    collected = collect(root / "results" / results, expected_cells(study), study.settings)
    assert not collected.rejected
    return build_tables(study, collected)


@cache
@once
def page_without_charts(root: Path, results: str) -> tuple[str, Sequence[float]]:
    """Return the page without its charts, and the numbers that were written into it, before rounding."""
    with watched() as numbers_written:
        return without_charts(recorded_study(root, results).values, recorded_tables(root, results)), numbers_written


def without_charts(study: JsonValues, tables: Tables) -> str:
    """Return the page of a study without its charts, which take longer to draw than all else on it."""
    return render(study, tables, charts=charts_of(study, Tables(), Terms.of(study, tables)))


@contextmanager
def watched() -> Iterator[list[float]]:
    """All numbers that are written, without their signs."""
    numbers_written: list[float] = []
    round_off = numbers.fixed

    def watch(number: float, decimals: int) -> str:
        numbers_written.append(abs(float(number)))
        return round_off(number, decimals)

    with patch.object(numbers, "fixed", watch):
        yield numbers_written
