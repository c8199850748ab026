"""The diagnoses that are on record: docs/diagnose.md says what they found."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from bench.diagnosis_table import shown_table


def recorded(root: Path, device: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / f"results/recorded-diagnosis/scripts-{device}.json").read_text())
    return found


def document(root: Path) -> str:
    return (root / "docs/diagnose.md").read_text().replace("\n", " ").replace(" %", "%")


@pytest.mark.parametrize(
    "sentence",
    [
        "it named {named_first} of {of} on one H100, once each, and said of {wrongly_accused} of {of_cured} cured",
        "would save was {off:.0%} off in the median of {savings}",
    ],
)
def test_the_document_says_what_was_found_on_a_gpu(sentence: str, root: Path) -> None:
    found = recorded(root, "gpu")
    first = [run["first"] in (run["cause"], *run["also"]) for run in found["runs"] if not run["cured"]]
    assert (sum(first), len(first)) == (found["named_first"], found["of"])
    savings = [abs(saved["told_s"] / saved["really_s"] - 1) for saved in found["savings"]]
    assert sentence.format(**{**found, "off": median(savings), "savings": len(savings)}) in document(root)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("named first: 19 of 19 (100%)", "it named 19 of 19 first, once each"),
        ("wrongly accused when off: 0 of 17 (0%)", "17 of 17 were told nothing"),
        ("savings told: 5% off, in the median of 9 causes", "save was 5% off in the median of 9"),
    ],
)
def test_the_document_says_what_was_found_on_cpu_workers(line: str, sentence: str, root: Path) -> None:
    assert line in shown_table(recorded(root, "cpu")["runs"])
    assert sentence in document(root)
