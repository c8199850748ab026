"""The studies that are on record, through the same tables as any study's."""

from functools import cache
from pathlib import Path

from dpscale.analyse.tables import build_tables, expected_cells
from dpscale.formulas.figure import Figure
from dpscale.plan.study import Study
from dpscale.present.study.page import render
from dpscale.records.collect import collect
from dpscale.tables.tables import Tables

# Folders of results, and the studies that they are of.
RECORDED = {
    **{name: name for name in ("recorded", "recorded-h100-2", "recorded-h200-2", "recorded-h200-4")},
    **{f"recorded-{name}": f"example-{name}" for name in ("gpt", "resnet50", "wide-mlp")},
}


@cache
def recorded_tables(root: Path, results: str, config: str = "") -> Tables:
    """Those of results/<results>, whose study is config/<config>.yaml; without `config` of the same name.

    Built once per process: whoever changes a table changes a copy.
    """
    study = Study.read(root / f"config/{config or results}.yaml")
    found = collect(root / "results" / results, expected_cells(study), study.settings)
    assert not found.rejected
    return build_tables(study, found)


@cache
def recorded_page(root: Path, results: str, config: str = "") -> str:
    """The page of the same study, rendered once per process."""
    study = Study.read(root / f"config/{config or results}.yaml")
    return render(study.values, recorded_tables(root, results, config))


def in_documents(figure: Figure, digits: int) -> str:
    """`1,421 [1,010, 1,999]`, as documents have it."""
    value, low, high = (f"{number:,.{digits}f}" for number in (figure.value, figure.low, figure.high))
    return f"{value} [{low}, {high}]"
