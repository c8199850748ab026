"""The diagnoses that are on record: every cause is the first one named, and docs/diagnose.md has their numbers."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from dpscale.vocabulary.causes import CAUSES, NOTHING


@pytest.fixture(scope="module")
def recorded(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / "results/recorded-diagnosis/h100-2.json").read_text())
    return read


def right(recorded: dict[str, Any]) -> int:
    """Causes that were named first in every run they were injected into."""
    causes = {run["injected"] for run in recorded["runs"]}
    return sum(all(run["first"] == cause for run in recorded["runs"] if run["injected"] == cause) for cause in causes)


def errors(recorded: dict[str, Any]) -> list[float]:
    tried = [remedy for run in recorded["runs"] for remedy in run["remedies"]]
    return [abs(remedy["predicted_s"] - remedy["measured_s"]) / abs(remedy["measured_s"]) for remedy in tried]


def test_causes_that_a_gpu_can_have_were_injected(recorded: dict[str, Any]) -> None:
    assert {run["injected"] for run in recorded["runs"]} < {*CAUSES, NOTHING.name}
    assert all("H100" in run["device_model"] for run in recorded["runs"])


def test_at_least_eleven_of_twelve_are_named_first(recorded: dict[str, Any]) -> None:
    assert right(recorded) == recorded["right"] >= 11
    assert len({run["injected"] for run in recorded["runs"]}) == recorded["causes"] == 12


def test_savings_are_predicted_within_15_percent_in_the_median(recorded: dict[str, Any]) -> None:
    assert median(errors(recorded)) == pytest.approx(recorded["median_error_of_savings"])
    assert median(errors(recorded)) <= 0.15


def test_the_document_says_what_is_on_record(recorded: dict[str, Any], root: Path) -> None:
    text = " ".join((root / "docs/diagnose.md").read_text().split())
    found = re.search(r"named (\d+) of (\d+) first; .* by (\d+) % in the median of (\d+) remedies", text)
    assert found
    named, of, percent, remedies = map(int, found.groups())
    assert (named, of) == (right(recorded), recorded["causes"])
    assert (percent, remedies) == (round(100 * median(errors(recorded))), len(errors(recorded)))
    tried = [remedy for run in recorded["runs"] for remedy in run["remedies"]]
    gradients, graph, *_ = (
        remedy for _, remedy in sorted(zip(errors(recorded), tried, strict=True), key=lambda pair: -pair[0])
    )
    assert (graph["remedy"], gradients["remedy"]) == ("cuda_graph", "bfloat16_gradients")
    graph_ms, gradients_ms = (
        [1e3 * remedy[name] for name in ("predicted_s", "measured_s")] for remedy in (graph, gradients)
    )
    assert "a CUDA graph ({:.1f} ms predicted, {:.1f} measured)".format(*graph_ms) in text
    assert "gradients in bfloat16 ({:.2f} and {:.2f} ms)".format(*gradients_ms) in text
    assert recorded["earlier_forms"]["runs"][0]["injected"] != recorded["earlier_forms"]["runs"][0]["first"]


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
