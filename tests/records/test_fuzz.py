"""Files of a study with something wrong in them: commands that read them end in one line at most, and at once.

`python -m bench.fuzz` tries thousands.
"""

from pathlib import Path
from random import Random

import pytest
from bench.fuzz import KINDS, Kind, Outcome, make_project, outcome_of, tried
from hypothesis import given, settings
from hypothesis import strategies as st

# It draws whole pages, again and again.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "project"
    make_project(folder)
    return folder


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "published files"], ids=lambda kind: kind.name)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_whatever_stands_in_a_file_is_one_line_at_once(kind: Kind, project: Path, seed: int) -> None:
    outcome = tried(kind, Random(seed), project)
    assert outcome.word in ("read", "refused"), outcome.fault


def test_a_traceback_is_seen(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpscale.plan.study.Study.read", lambda path: 1 / 0)
    monkeypatch.chdir(project)
    outcome = outcome_of(["plan", "config/fuzz.yaml"])
    assert isinstance(outcome, Outcome) and outcome.word == "traceback" and "ZeroDivisionError" in outcome.fault
