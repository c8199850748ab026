"""Which studies may be compared: of settings that may differ, of one environment each, and of records of their own."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.compare.comparison import compare
from dpscale.compare.groups import ONLY_SECOND
from dpscale.compare.studies import Named, Side, differing_settings, refuse_other_settings, sides, study_row
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from rows import picked
from two_studies import ARMS, Change, changed, paired, records, side, slower, small, study

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def refused(studies: Sequence[Study], may_differ: Sequence[str] = ()) -> str:
    with pytest.raises(ComparisonError) as caught:
        refuse_other_settings(studies, may_differ)
    return str(caught.value)


def test_every_setting_that_differs_and_may_not_is_named_with_both_values() -> None:
    first, second = study(), study(communication={"runs": 0}, scopes=["end_to_end"], optimiser={"momentum": 0.5})
    said = refused([first, second])
    assert "momentum is 0.9 and 0.5; scopes is compute and end_to_end. " in said
    assert said.endswith(": --differing momentum --differing scopes")
    said = refused([first, second], ["scopes"])
    assert "momentum is" in said and "scopes" not in said


def test_settings_of_several_studies_are_named_at_once() -> None:
    studies = [
        study(),
        study(dataset={"loader_workers": 3}),
        study(precision="bfloat16"),
        study(precision="float32-strict", dataset={"loader_workers": 3}),
    ]
    workers, said = studies[0].settings.loader_workers, refused(studies)
    assert f": loader_workers is {workers} and 3; precision is float32 and bfloat16 and float32-strict. " in said
    assert said.endswith(": --differing loader_workers --differing precision")
    allowed = refuse_other_settings(studies, ["loader_workers", "precision"])
    assert [[difference.setting for difference in of_one] for of_one in allowed] == [
        ["loader_workers"], ["precision"], ["precision", "loader_workers"],
    ]  # fmt: skip


def test_studies_that_differ_are_compared_only_where_they_may() -> None:
    three = [side("a"), side("b"), Side("c", study(precision="bfloat16"), side().tables)]
    for may_differ in ((), ("momentum",)):
        with pytest.raises(ComparisonError, match=r"precision is float32 and bfloat16.*--differing precision$"):
            compare(three, may_differ)
    found = compare(three, ("precision",)).pairs
    assert [[setting.name for setting in pair.differing] for pair in found] == [[], ["precision"]]


def test_a_study_of_a_file_is_no_study_of_the_built_in_workload() -> None:
    """It has no arms, and four settings follow from its file."""
    of_file = Study({"study": "b", "workload": "b.py", "workload_sha256": "b" * 64, "dataset": {"images": 64}})
    built_in = Study({"study": "a", "dataset": {"images": 64}})
    named = set(re.findall(r"--differing (\w+)", refused([built_in, of_file])))
    assert named == {"workload", "workload_sha256", "network", "dataset_source"}


def test_settings_of_arms_that_both_have_are_named_with_the_arm_unless_they_are_the_study_s() -> None:
    other = study(training={"arms": {**ARMS, "large": {**ARMS["large"], "warmup_epochs": 1}}, "baseline": "small"})
    (setting,) = differing_settings(study(), other)
    assert (setting.name, setting.first, setting.second) == ("warmup_epochs of arm large", 0, 1)
    of_study = differing_settings(study(), study(optimiser={"learning_rate": 0.2}))
    assert [setting.name for setting in of_study] == ["learning_rate"]
    assert differing_settings(study(), study(training={"arms": {"small": ARMS["small"]}})) == []


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


def named(name: str, change: Change | None = None) -> Named:
    """A study after `change`. Without one its records are the very same as in any other."""
    return Named(name, ONE_BATCH, changed(ONE_BATCH, change))


def measured_again(cell: AnyCell, record: dict[str, Any]) -> None:
    """The same times on another day: no record is the same file."""
    record["started_at"] = record["started_at"].replace("20", "21", 1)


def test_records_of_two_measurements_are_all_used() -> None:
    for found in sides([named("before"), named("after", measured_again)]):
        assert (found.same_records, len(found.tables.records)) == (0, len(records(ONE_BATCH).records))


def test_a_record_of_both_is_left_out_of_both_and_not_compared() -> None:
    first, second = sides([named("before"), named("after", slower(1.2, "ddp"))])
    kept = {row.path for row in second.tables.records}
    assert kept == {row.path for row in first.tables.records}
    assert {path.split("/")[1] for path in kept} == {"ddp"}
    assert {row.reason for row in second.tables.rejected} == {"the same record is in another study"}
    same = len(records(ONE_BATCH).records) - len(kept)
    assert first.same_records == second.same_records == same
    counted = study_row(second)
    assert (counted.records, counted.same_records, counted.not_used) == (len(kept), same, 0)
    assert {group.strategy for group in compare([first, second]).pairs[0].groups} == {"ddp"}


def test_a_study_of_nothing_but_another_one_s_records_is_refused() -> None:
    with pytest.raises(ComparisonError, match=r"before: all of its \d+ records stand in another.*is no evidence"):
        sides([named("before"), named("after")])


def test_of_three_studies_every_pair_is_looked_at() -> None:
    def of_ddp_alone(cell: AnyCell, record: dict[str, Any]) -> None:
        if record["cell"].get("strategy") != "ddp":
            record["started_at"] = record["started_at"].replace("20", "22", 1)

    found = sides([named("a"), named("b", measured_again), named("c", of_ddp_alone)])
    of_ddp = sum(record["cell"].get("strategy") == "ddp" for record in records(ONE_BATCH).records.values())
    assert [side.same_records for side in found] == [of_ddp, 0, of_ddp]


def test_a_study_that_has_what_the_other_one_lacks_has_it_alone() -> None:
    lacking = named("before")
    for cell in [cell for cell in lacking.collected.records if cell.coordinates.get("strategy") == "dp"]:
        del lacking.collected.records[cell]
    groups = compare(sides([lacking, named("after", measured_again)])).pairs[0].groups
    assert {group.status for group in picked(groups, strategy="dp")} == {ONLY_SECOND}
