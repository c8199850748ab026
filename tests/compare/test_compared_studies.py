"""Which studies may be compared: of settings that may differ, of one environment each, and of records of their own."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.compare.comparison import compare
from dpscale.compare.studies import Side, differing_settings, refuse_other_settings, sides
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from two_studies import ARMS, Change, changed, paired, side, slower, small, study

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def named(studies: Sequence[Study]) -> dict[str, Study]:
    return dict(zip("abcd", studies, strict=False))


def refused(studies: Sequence[Study], may_differ: Sequence[str] = ()) -> str:
    with pytest.raises(ComparisonError) as caught:
        refuse_other_settings(named(studies), may_differ)
    return str(caught.value)


def test_settings_of_several_studies_are_named_at_once() -> None:
    studies = [
        study(),
        study(dataset={"loader_workers": 3}),
        study(precision="bfloat16"),
        study(precision="float32-strict", dataset={"loader_workers": 3}),
    ]
    workers, said = studies[0].settings.loader_workers, refused(studies)
    assert f": precision is float32 and bfloat16 and float32-strict; loader_workers is {workers} and 3. " in said
    assert said.endswith(": --differing precision --differing loader_workers")
    allowed = refuse_other_settings(named(studies), ["loader_workers", "precision"])
    assert [found.setting for found in allowed] == ["precision", "loader_workers"]
    assert allowed[0].values == {"a": "float32", "b": "float32", "c": "bfloat16", "d": "float32-strict"}


def test_a_study_of_a_file_is_no_study_of_the_built_in_workload() -> None:
    """It has no arms, and four settings follow from its file."""
    of_file = Study({"study": "b", "workload": "b.py", "workload_sha256": "b" * 64, "dataset": {"images": 64}})
    built_in = Study({"study": "a", "dataset": {"images": 64}})
    named = set(re.findall(r"--differing (\w+)", refused([built_in, of_file])))
    assert named == {"workload", "workload_sha256", "network", "dataset_source"}


def test_settings_of_arms_that_both_have_are_named_with_the_arm_unless_they_are_the_study_s() -> None:
    other = study(training={"arms": {**ARMS, "large": {**ARMS["large"], "warmup_epochs": 1}}, "baseline": "small"})
    (setting,) = differing_settings(named([study(), other]))
    assert (setting.name, setting.values) == ("warmup_epochs of arm large", {"a": "0", "b": "1"})
    of_study = differing_settings(named([study(), study(optimiser={"learning_rate": 0.2})]))
    assert [setting.name for setting in of_study] == ["learning_rate"]
    without = study(training={"arms": {"small": ARMS["small"]}})
    assert differing_settings(named([study(), without])) == []
    assert [setting.name for setting in differing_settings(named([study(), without, other]))] == [
        "warmup_epochs of arm large"
    ]


def test_several_environments_are_never_pooled() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("run") == 2:
            record["software"]["nccl"] = "2.30.0"

    with pytest.raises(ComparisonError, match=r"after: its records are of 2 environments.*differ in nccl\."):
        paired(change)


def test_a_study_without_a_record_is_refused() -> None:
    empty = Side("empty", study(), build_tables(study(), Collected({}, {}, {})))
    with pytest.raises(ComparisonError, match="empty: nothing was measured"):
        compare([side(), empty])


ONE_BATCH = small(batch_per_gpu=[128])


def measured_again(cell: AnyCell, record: dict[str, Any]) -> None:
    """The same times on another day: no record is the same file."""
    record["started_at"] = record["started_at"].replace("20", "21", 1)


def test_studies_that_share_a_record_are_refused() -> None:
    """Every pair is looked at; the same times on another day are another record."""

    def made(change: Change | None = None) -> Collected:
        return changed(ONE_BATCH, change)

    again = made(measured_again)
    studies = named([ONE_BATCH] * 3)
    assert len(sides({name: studies[name] for name in "ab"}, [made(), again])) == 2
    with pytest.raises(ComparisonError, match=r"^c: \d+ of its records stand in a too\. The same file in both"):
        sides(studies, [made(), again, made(slower(1.2, "ddp"))])
