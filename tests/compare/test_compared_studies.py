"""Compared studies and their page: what differs is named, and what is no evidence is refused."""

import re
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.compare.comparison import ComparedStudies, ComparedStudy, render, studies_of
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from html_reader import assert_sound, visible
from made_study import collected, compared, side, slower, study

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def small(**changes: Any) -> Study:
    """A study of times alone."""
    return study(**{"communication": {"runs": 0}, "batch_per_gpu": [128, 512], **changes})


def other_nccl(cell: AnyCell, record: dict[str, Any]) -> None:
    record["software"]["nccl"] = "2.30.0"


def test_settings_and_environment_that_differ_are_named_for_the_study_that_has_them() -> None:
    second = side("second", other_nccl, small(precision="bfloat16", memory_format="channels_last"))
    described = ComparedStudies([side("first", None, small()), second]).descriptions()
    assert "unlike" not in described["first"]
    settings = "precision bfloat16 (not float32), memory_format channels_last (not contiguous)"
    assert f"Settings unlike first: {settings}." in described["second"]
    assert "NCCL 2.30.0 (not 2.28.9)" in described["second"]


def test_several_environments_are_never_pooled() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("run") == 2:
            other_nccl(cell, record)

    with pytest.raises(ComparisonError, match=r"after: its records are of 2 environments.*differ in nccl\."):
        compared(change)


def test_a_study_without_a_record_is_refused() -> None:
    with pytest.raises(ComparisonError, match="empty: nothing was measured"):
        ComparedStudy("empty", study(), build_tables(study(), Collected({}, {}, {})))


def test_studies_that_share_a_record_are_refused() -> None:
    """Every pair is looked at; the same times on another day are another record."""

    def measured_again(cell: AnyCell, record: dict[str, Any]) -> None:
        record["started_at"] = record["started_at"].replace("20", "21", 1)

    plain = small(batch_per_gpu=[128])
    again = collected(plain, measured_again)
    assert len(studies_of({"a": plain, "b": plain}, [collected(plain, None), again])) == 2
    with pytest.raises(ComparisonError, match=r"^c: \d+ of its records stand in a too\. The same file in both"):
        studies_of(dict.fromkeys("abc", plain), [collected(plain, None), again, collected(plain, slower(1.2, "ddp"))])


def test_of_three_studies_each_is_compared_with_the_first_as_two_are() -> None:
    def hostile(cell: AnyCell, record: dict[str, Any]) -> None:
        slower(1.3)(cell, record)
        record["hardware"]["device_model"] = "<script>alert(1)</script>"

    first, middle, last = side("a", None, small()), side("b", hostile, small()), side("c", slower(0.5), small())
    three, two = ComparedStudies([first, middle, last]), ComparedStudies([first, last])
    assert [row for row in three.rows if row.study == "c"] == [row for row in two.rows if row.study == "c"]
    slower_b, faster_c = three.verdicts()
    assert re.match(r"b against a: slower in (\d+) of \1 configurations\.", slower_b)
    assert re.match(r"c against a: faster in (\d+) of \1 configurations\.", faster_c)
    assert {row.study for row in three.slower_than(0.05)} == {"b"}
    page = render(three, 0.05)
    assert_sound(page)
    assert "<script" not in page
    assert slower_b in visible(page)


def test_configurations_of_one_study_alone_are_no_rows() -> None:
    comparison = ComparedStudies([side(str(batch), None, small(batch_per_gpu=[batch])) for batch in (128, 512)])
    assert comparison.rows == []
    assert list(comparison.verdicts()) == ["512 against 128: no configuration is in both."]
    assert_sound(render(comparison))
