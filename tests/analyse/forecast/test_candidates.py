"""Formulas that foretell a step on more GPUs, beside the guess that it stays as it is."""

from pathlib import Path

from bench.forecast_candidates import table


def test_the_method_says_what_the_competition_gives_today() -> None:
    means = [line.removeprefix("| mean without signs | ") for line in table() if line.startswith("| mean")]
    method = Path("docs/method/forecast.md").read_text()
    assert len(means) == 2
    for mean in means:
        assert mean in method
