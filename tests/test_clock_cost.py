"""What the clock costs a step that waits for the host: docs/method.md has what the times on record say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy  # its tests of means load when they are first used

MICRO = 1e6


@pytest.fixture
def said(method: str) -> str:
    return " ".join(method.split())


def recorded(root: Path, machine: str) -> dict[str, dict[str, Any]]:
    text = (root / f"results/recorded/clock-cost/{machine}.json").read_text()
    return {
        loop: {part: np.array(seconds) for part, seconds in parts.items()} for loop, parts in json.loads(text).items()
    }


def with_interval(values: Any, digits: int) -> str:
    interval = scipy.stats.ttest_1samp(values, 0).confidence_interval()
    return f"{values.mean():.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def test_the_method_has_what_marks_and_copies_cost(root: Path, said: str) -> None:
    found = recorded(root, "h100-1")
    cell, by_hand = found["cell"], found["by_hand"]
    step_s = float(np.median(by_hand["step_s"]))
    marks, share = with_interval(cell["mark_s"] * MICRO, 0).replace(" [", " µs ["), cell["mark_s"].mean() / step_s
    assert f"over {len(cell['step_s'])} rounds, the marks took {marks} of a step of {step_s * 1e3:.1f} ms" in said
    assert f", {share:.1%}, and copying".replace("%", " %") in said
    copies = with_interval((cell["copy_s"] - by_hand["copy_s"]) * MICRO, 0).replace(" [", " µs [")
    assert f"copying a batch as a tree of tensors took {copies} more than copying two tensors" in said


def test_the_method_has_what_an_epoch_takes_longer(root: Path, said: str) -> None:
    found = recorded(root, "h100-2")
    logarithms = np.log(found["cell"]["step_s"]) - np.log(found["by_hand"]["step_s"])
    interval = scipy.stats.ttest_1samp(logarithms, 0).confidence_interval()
    value, low, high = np.exp([logarithms.mean(), interval.low, interval.high])
    assert (
        f"over {len(logarithms)} rounds, the whole epoch was {value:.3f} [{low:.3f}, {high:.3f}] times that by hand"
        in said
    )
    assert 1.005 < low < high < 1.04, "one to three percent"
