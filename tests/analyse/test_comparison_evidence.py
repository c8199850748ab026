"""Records that two studies share are no evidence of how they differ: they are found, and left out of both."""

import copy
from typing import Any

import pytest

from dpscale.analyse.comparison import compare, records_of
from dpscale.analyse.comparison_evidence import Named, sides
from dpscale.analyse.comparison_groups import ONLY_SECOND
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from two_studies import Change, records, slower, study

SMALL = study(batch_per_gpu=[128], communication={"runs": 0}, training={})


def named(name: str, change: Change | None = None) -> Named:
    """The study, whose records `change` was called with. Without one they are the very same as in any other."""
    collected = copy.deepcopy(records(SMALL))
    for cell, record in collected.records.items():
        if change:
            change(cell, record)
    return Named(name, SMALL, collected)


def measured_again(cell: AnyCell, record: dict[str, Any]) -> None:
    """The same times on another day: no record is the same file."""
    record["started_at"] = record["started_at"].replace("20", "21", 1)


def test_records_of_two_measurements_are_all_used() -> None:
    first, second = sides([named("before"), named("after", measured_again)])
    assert (first.same_records, second.same_records) == (0, 0)
    assert len(first.tables["records"]) == len(records(SMALL).records)


def test_a_record_of_both_is_left_out_of_both() -> None:
    first, second = sides([named("before"), named("after", slower(1.2, "ddp"))])
    whole = len(records(SMALL).records)
    kept = set(second.tables["records"]["path"])
    assert kept == set(first.tables["records"]["path"])
    assert {path.split("/")[1] for path in kept} == {"ddp"}
    assert first.same_records == second.same_records == whole - len(kept)
    rejected = second.tables["rejected"]
    assert set(rejected["reason"]) == {"the same record is in another study"}
    counted = records_of([first, second]).set_index("study").to_dict("index")
    assert counted["after"] == {"records": len(kept), "same_records": whole - len(kept), "not_used": 0}


def test_what_is_left_out_is_not_compared() -> None:
    first, second = sides([named("before"), named("after", slower(1.2, "ddp"))])
    groups = compare(first, second).tables["compared_groups"]
    assert set(groups["strategy"]) == {"ddp"}


def test_a_study_of_nothing_but_another_one_s_records_is_refused() -> None:
    with pytest.raises(ComparisonError, match=r"before: all of its \d+ records stand in another.*is no evidence"):
        sides([named("before"), named("after")])


def test_of_three_studies_every_pair_is_looked_at() -> None:
    def of_ddp_alone(cell: AnyCell, record: dict[str, Any]) -> None:
        if record["cell"].get("strategy") != "ddp":
            record["started_at"] = record["started_at"].replace("20", "22", 1)

    found = sides([named("a"), named("b", measured_again), named("c", of_ddp_alone)])
    of_ddp = sum(record["cell"].get("strategy") == "ddp" for record in records(SMALL).records.values())
    assert [side.same_records for side in found] == [of_ddp, 0, of_ddp]


def test_only_the_records_that_are_there_are_compared() -> None:
    """A study that has what the other one lacks has it alone."""
    lacking = named("before")
    for cell in [cell for cell in lacking.collected.records if cell.coordinates.get("strategy") == "dp"]:
        del lacking.collected.records[cell]
    first, second = sides([lacking, named("after", measured_again)])
    groups = compare(first, second).tables["compared_groups"]
    assert set(groups[groups["strategy"] == "dp"]["status"]) == {ONLY_SECOND}
