"""Formulas that foretell a step on more GPUs, beside the guess that it stays as it is."""

from pathlib import Path

import pytest
from bench.forecast_candidates import CANDIDATES, Curve, errors, table


@pytest.mark.parametrize(
    ("name", "step_s"),
    [
        ("unchanged", {1: 2.0, 2: 2.0, 4: 2.0, 8: 2.0}),
        ("a/N + d, all", {1: 1.1, 2: 1.2, 4: 1.4, 8: 1.8}),
        ("a/N + d, last two", {1: 1.1, 2: 1.2, 4: 1.4, 8: 1.8}),
        ("log N, last two", {1: 1.0, 2: 1.3, 4: 1.6, 8: 1.9}),
        ("ring, last two", {1: 1.0, 2: 1.5, 4: 1.75, 8: 1.875}),
    ],
)
def test_every_formula_foretells_the_curve_that_it_describes(name: str, step_s: dict[int, float]) -> None:
    found = dict(errors(Curve("made up", 8, step_s)))
    assert [round(row[list(CANDIDATES).index(name)], 9) for row in found.values()] == [0, 0]


def test_the_method_says_what_the_competition_gives_today() -> None:
    means = [line.removeprefix("| mean without signs ") for line in table() if line.startswith("| mean")]
    method = Path("docs/method/forecast.md").read_text()
    assert len(means) == 2
    for mean in means:
        assert mean in method
