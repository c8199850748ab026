"""The diagnoses that are on record: docs/diagnose.md says what they found."""

import json
from pathlib import Path
from statistics import median

import pytest


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("cpu", "it named {named_first} of {of}, once each"),
        ("gpu", "it named {named_first} of {of}, once each, and said of {wrongly_accused} of {of_cured} cured scripts"),
        ("gpu", "would save was {off:.0%} off in the median of {savings}"),
    ],
)
def test_the_document_says_what_the_bench_of_scripts_found(device: str, sentence: str, root: Path) -> None:
    found = json.loads((root / f"results/recorded-diagnosis/scripts-{device}.json").read_text())
    first = [run["first"] in (run["cause"], *run["also"]) for run in found["runs"] if not run["cured"]]
    assert (sum(first), len(first)) == (found["named_first"], found["of"])
    savings = [abs(saved["told_s"] / saved["really_s"] - 1) for saved in found["savings"]]
    told = sentence.format(**{**found, "off": median(savings or [0]), "savings": len(savings)}).replace("%", " %")
    assert told in (root / "docs/diagnose.md").read_text().replace("\n", " ")
