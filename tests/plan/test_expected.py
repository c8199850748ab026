"""Times that are expected of jobs, beside what such jobs took."""

from collections import defaultdict
from pathlib import Path

import pytest

from cases import cases
from dpscale.options import read_study
from dpscale.plan.expected import expected_s
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, states_of
from dpscale.records.progress import seconds_of
from dpscale.vocabulary.chips import chip_named

STUDY = Study({"study": "s", "gpus": [1, 2], "batch_per_gpu": [512], "baseline": "own_cells", "scopes": ["compute"]})


@pytest.mark.parametrize("name", ["recorded-two-gpus", "recorded-h200-2", "recorded-h200-4"])
def test_jobs_on_record_took_about_what_is_expected(name: str, root: Path) -> None:
    """Kind by kind; settings of variants change more than the formula knows."""
    study = read_study(root / f"config/{name}.yaml").on_any_machine()
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for state in states_of(plan(study).all_cells, study.settings, root / "results" / name):
        if state.state == DONE and state.record is not None:
            facts = getattr(state.record, "hardware", None)
            chip = chip_named(facts.device_model.split(" and ")[0]) if facts else None
            expected = expected_s(state.cell, state.cell.settings_under(study.settings), chip)
            assert expected is not None
            seconds[state.cell.kind].append((expected, seconds_of(state.record)))
    assert seconds
    for kind, pairs in seconds.items():
        ratio = sum(expected for expected, _ in pairs) / sum(took for _, took in pairs)
        assert 0.67 < ratio < 1.5, (kind, ratio)


@pytest.mark.parametrize("change", cases(__file__, "unlike"))
def test_nothing_is_expected_of_what_no_job_on_record_is_like(change: dict[str, object]) -> None:
    study = Study({**STUDY.values, "training": {"arms": {}}, **change})
    assert {expected_s(cell, study.settings) for cell in plan(study).timing} == {None}
