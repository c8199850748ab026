"""The search for recipes that is on record, and what its best recipes are worth."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import scipy  # its tests of means load when they are first used

from dpscale.plan.study import Study
from json_records import read_json
from recorded import recorded_tables
from rows import one

BATCHES = (128, 2048)


def trials(root: Path, batch: int) -> list[dict[str, Any]]:
    lines = (root / "results/recorded-h200-4/recipe-search/search.jsonl").read_text().splitlines()
    return [trial for trial in map(json.loads, lines) if trial["global_batch"] == batch]


def accuracy(trial: Mapping[str, Any]) -> float:
    """Return the accuracy after the last epoch on images that were held out; 0 of a trial that diverged."""
    return 0.0 if trial["diverged"] else float(trial["validation_accuracy"][-1])


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
    row = one(recorded_tables(root, "recorded-h200-4").training_summary, arm="b2048-tuned")
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
