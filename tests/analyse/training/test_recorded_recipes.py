"""The search for recipes that is on record, and what its best recipes are worth: docs/results.md has the numbers."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import scipy  # its tests of means load when they are first used

from dpscale.formulas.figure import Figure, multiplied
from dpscale.plan.study import Study
from dpscale.tables.training import TrainingSummaryRow
from json_records import read_json
from recorded import in_documents, recorded_tables
from rows import one

BATCHES = (128, 2048)


def trials(root: Path, batch: int) -> list[dict[str, Any]]:
    lines = (root / "results/recorded-h200-4/recipe-search/search.jsonl").read_text().splitlines()
    return [trial for trial in map(json.loads, lines) if trial["global_batch"] == batch]


def accuracy(trial: Mapping[str, Any]) -> float:
    """Return the accuracy after the last epoch on images that were held out; 0 of a trial that diverged."""
    return 0.0 if trial["diverged"] else float(trial["validation_accuracy"][-1])


def arm(root: Path, name: str) -> TrainingSummaryRow:
    return one(recorded_tables(root, "recorded-h200-4").training_summary, arm=name)


def percents(figure: Figure, digits: int) -> str:
    return in_documents(multiplied(figure, 100), digits)


@pytest.mark.parametrize("batch", BATCHES)
def test_the_tuned_arms_are_the_best_trials_of_searches_that_were_alike(root: Path, batch: int) -> None:
    searched = trials(root, batch)
    assert len({json.dumps(trial["arm"], sort_keys=True) for trial in searched}) == len(trials(root, BATCHES[0]))
    assert {(trial["held_out"]["images"], trial["images"]) for trial in searched} == {(5_000, searched[0]["images"])}
    best = max(searched, key=accuracy)["arm"]
    for name in ("recorded-h200-4", "config"):
        study = Study.read(root / f"config/{name}.yaml")
        settings = study.arms[f"b{batch}-tuned"]
        assert {key: getattr(settings, key) for key in best} == best
        assert settings.global_batch == batch
        tuned = study["training"]["arms"][f"b{batch}-tuned"]["tuned"]
        assert tuned == {"trials": len(searched), "chosen_on": "validation"}


def test_tuned_is_compared_with_tuned_as_another_implementation_of_welch_does(root: Path) -> None:
    row = arm(root, "b2048-tuned")
    assert row.compared_with == "b128-tuned"
    last = {
        batch: [
            read_json("training", path)["epochs"][-1]["test_accuracy"]
            for path in sorted((root / f"results/recorded-h200-4/training/b{batch}-tuned").glob("seed-*.json"))
        ]
        for batch in BATCHES
    }
    interval = scipy.stats.ttest_ind(last[2048], last[128], equal_var=False).confidence_interval()
    assert row.test_accuracy_difference.interval == pytest.approx((interval.low, interval.high))
    assert row.test_accuracy_difference.is_below(0)


def test_the_results_has_what_recipes_are_worth_and_what_bfloat16_costs(root: Path) -> None:
    text = (root / "docs/results.md").read_text()
    for batch in BATCHES:
        numbers = [percents(arm(root, name).test_accuracy, 1) for name in (f"b{batch}", f"b{batch}-tuned")]
        assert f"| {batch:,} | {numbers[0]} | {numbers[1]} |" in text
    for row in recorded_tables(root, "recorded-bfloat16", "bfloat16").training_summary:
        if row.arm in ("bf16-sent", "bf16-kept"):
            assert row.compared_with == "autocast"
            assert re.search(rf"\| {re.escape(percents(row.test_accuracy_difference, 2))} \|$", text, re.M)
