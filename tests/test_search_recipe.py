"""The search for a recipe: what it proposes, how it scores, and a search that is run and gone on with."""

import json
import random
import shutil
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import search_recipe
from command_line import must
from dpscale.errors import StudyError
from dpscale.plan.study import Study
from search_recipe import BEST, DRAWN, SPACE, OneOf, as_arm, propose, read_trials, to_do, train, try_next


def trial(arm: dict[str, Any], score: float | None, global_batch: int = 128) -> dict[str, Any]:
    return {
        "arm": arm, "global_batch": global_batch, "diverged": score is None, "validation_accuracy": [score],
        "trial_s": 1.0,
    }  # fmt: skip


def is_valid(arm: dict[str, Any]) -> bool:
    whole = {"strategy": "single", "gpus": 1, "batch_per_gpu": 2048, **arm}
    try:
        Study({"study": "search", "training": {"arms": {"candidate": whole}}})
    except StudyError as error:
        assert "LAMB" not in str(error)
        return False
    return True


@given(st.integers(0, 10_000), st.integers(0, 100))
def test_proposals_are_new_and_of_the_space(seed: int, number: int) -> None:
    """First drawn in turns of the optimisers, then near one of the best, whatever diverged."""
    chance = random.Random(seed)
    trials: list[dict[str, Any]] = []
    for _ in range(number):
        arm = propose(trials, chance)
        assert arm not in [record["arm"] for record in trials]
        space = SPACE[arm["optimiser"]]
        assert set(arm) == {"optimiser", *space}
        assert all(arm[key] in draw.values for key, draw in space.items() if isinstance(draw, OneOf))
        trials.append(trial(arm, chance.choice([None, chance.random()])))
    drawn = [record["arm"]["optimiser"] for record in trials[: DRAWN * len(SPACE)]]
    assert drawn == (list(SPACE) * DRAWN)[: len(drawn)]


def test_later_proposals_change_one_of_the_best() -> None:
    chance = random.Random(1)
    trials: list[dict[str, Any]] = []
    for place in range(DRAWN * len(SPACE)):
        trials.append(trial(propose(trials, chance), place / 100))
    best = [record["arm"] for record in trials[-BEST:]]
    for _ in range(100):
        arm = propose(trials, chance)
        same = max(sum(arm[key] == parent.get(key) for key in arm) for parent in best)
        assert len(arm) / 3 < same < len(arm)


def test_most_proposals_are_arms_that_a_study_takes() -> None:
    chance = random.Random(1)
    trials: list[dict[str, Any]] = []
    for _ in range(60):
        trials.append(trial(propose(trials, chance), 0.5))
    assert sum(is_valid(record["arm"]) for record in trials) > 40


def test_every_batch_gets_equally_many_trials_in_turns(tmp_path: Path) -> None:
    out = tmp_path / "trials.jsonl"
    assert to_do([128, 2048], 2, out) == [(128, 0), (2048, 0), (128, 1), (2048, 1)]
    out.write_text("".join(json.dumps(trial({}, 0.5, batch)) + "\n" for batch in (128, 128, 2048)))
    assert to_do([128, 2048], 3, out) == [(2048, 1), (128, 2), (2048, 2)]
    assert to_do([128], 2, out) == []


def test_trials_that_were_scored_on_test_images_are_refused(root: Path) -> None:
    with pytest.raises(StudyError, match="scored on test images"):
        read_trials(root / "results/recorded/recipe-search/search-2048.jsonl")


def test_the_best_on_what_was_held_out_becomes_an_arm_that_a_study_takes() -> None:
    """Whatever its test accuracy would be: trials have none."""
    chance = random.Random(1)
    trials = [trial(propose([], chance), None)]
    while len(trials) < 9:
        arm = propose(trials, chance)
        trials += [trial(arm, len(trials) / 10)] if is_valid(arm) else []
    (name, arm), *others = yaml.safe_load(as_arm(trials)).items()
    assert (name, others) == ("b128-tuned", [])
    assert arm["tuned"] == {"trials": 9, "chosen_on": "validation"}
    assert arm.items() >= trials[-1]["arm"].items()
    study = Study({"study": "s", "training": {"arms": {name: arm}}})
    assert study.arms[name].learning_rate == trials[-1]["arm"]["learning_rate"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    must("dataset", "--source", "synthetic", "--images", 10, "--out", folder)
    return folder


@pytest.mark.processes
def test_a_trial_trains_on_nine_tenths_and_never_sees_a_test_image(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It scores the same whatever the test images are, also where they cannot be taken for images at all."""
    monkeypatch.setattr(search_recipe, "EPOCHS", 1)
    other = Path(shutil.copytree(dataset, tmp_path / "other"))
    np.save(other / "test_images.npy", 255 - np.load(dataset / "test_images.npy"))
    np.save(other / "test_labels.npy", np.load(dataset / "test_labels.npy")[::-1].copy())
    arm = {"optimiser": "sgd", "learning_rate": 0.01}
    threads = torch.get_num_threads()
    first, second = (train(arm, 8, folder) for folder in (dataset, other))
    torch.set_num_threads(threads)
    assert {**first, "trial_s": 0} == {**second, "trial_s": 0}
    assert first["held_out"]["images"] == 1
    assert len(first["validation_accuracy"]) == 1
    assert "test_accuracy" not in first


@pytest.mark.processes
def test_a_search_goes_on_from_what_stands(tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From nothing, in two processes at once; then again, where trials stand already. Nothing is trained."""
    monkeypatch.setattr("search_recipe.multiprocessing.get_context", lambda _method: get_context("fork"))
    monkeypatch.setattr(search_recipe, "train", lambda arm, global_batch, _: trial(arm, 0.5, global_batch))
    out = tmp_path / "found/trials.jsonl"

    def search(batches: list[int], minutes: float, processes: int) -> str:
        options = f"--minutes {minutes} --trials 2 --processes {processes} --dataset {dataset} --out {out}"
        of_batches = " ".join(f"--global-batch {batch}" for batch in batches)
        done = CliRunner().invoke(search_recipe.main, f"{options} {of_batches}".split())
        assert done.exit_code == 0, done.output
        return done.output

    assert "Global batch 8: 2 of 2 trials" in search([8], minutes=5, processes=2)
    first = read_trials(out)
    assert [record["global_batch"] for record in first] == [8, 8]
    assert_new(first)
    late = search([8, 4], minutes=-1, processes=1)
    assert "The time is over: the same command goes on." in late
    assert "b8-tuned:" in late
    try_next((4, 0), dataset, out, until=time.time() - 1)  # one that was waiting when the time was over
    assert read_trials(out) == first
    search([8, 4], minutes=5, processes=1)
    trials = read_trials(out)
    assert trials[:2] == first
    assert [record["global_batch"] for record in trials[2:]] == [4, 4]
    assert_new(trials)


def assert_new(trials: list[dict[str, Any]]) -> None:
    """No arm is tried twice at a batch, also where trials run at the same time."""
    tried = [(record["global_batch"], json.dumps(record["arm"], sort_keys=True)) for record in trials]
    assert len(set(tried)) == len(tried)
