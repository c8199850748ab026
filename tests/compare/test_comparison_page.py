"""The page of studies: its sentences with data that make them true and data that make them false."""

import re
from dataclasses import replace
from math import nan
from typing import Any

import pytest

from dpscale.compare.comparison import ComparedStudies, compare
from dpscale.compare.page import render, summary
from dpscale.compare.rows import ComparedFiguresRow, ComparedGroupsRow
from dpscale.compare.studies import Side
from dpscale.compare.views import Views
from dpscale.compare.warnings import warnings
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.tables.tables import written
from html_reader import assert_sound, visible
from two_studies import Change, compared, side, slower, small, study

# Whole pages, again and again.
pytestmark = pytest.mark.slow
SMALL = small()


def warned(comparison: ComparedStudies) -> list[str]:
    return warnings(comparison)


def figures_told(comparison: ComparedStudies) -> list[str]:
    return [sentence for sentence, _ in Views(comparison).figures()]


@pytest.mark.parametrize(
    ("factor", "strategy", "words"),
    [
        (0.8, "ddp", ("faster", "20.00 % [19.98, 20.02]", "higher", "shorter")),
        (1.25, "dp", ("slower", "25.00 % [24.97, 25.03]", "lower", "longer")),
    ],
)
def test_what_changed_is_told_and_counted(factor: float, strategy: str, words: tuple[str, ...]) -> None:
    found = compared(slower(factor, strategy))
    outcome, change, speedup, communication = words
    verdict, same, *_ = summary(found)
    assert verdict.startswith(f"after is {outcome} than before in the compute scope: {strategy} on ")
    assert verdict.count(change) == 2
    assert "no difference is shown in the compute scope: single on 1 GPU" in same
    times, speedups, exposed, *_ = figures_told(found)
    assert f"{outcome} in 6, no difference shown in 9 of 15." in times
    assert f"Speedup: {speedup} in 6" in speedups
    assert f"(E1): {communication} in 6" in exposed


def test_settings_that_may_differ_are_said_first_and_those_of_several_once() -> None:
    names = {"first": "float32", "a": "bfloat16", "b": "bfloat16"}
    sides = [side(name, None, small(precision=precision)) for name, precision in names.items()]
    assert warned(compare(sides, ("precision",)))[0] == (
        "Settings differ, as was asked for: precision is float32 in first and bfloat16 in a and b."
    )
    assert not [sentence for sentence in warned(compared()) if "Settings differ" in sentence]


def disturbed(runs: int) -> Change:
    """In so many runs another process was on the GPUs."""

    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        others = [{"pid": 7}] if cell.coordinates.get("run", 0) <= runs else []
        before = [{**reading, "other_processes": others} for reading in record["sensors"]["before"]]
        record["sensors"] = {**record["sensors"], "before": before}

    return change


def test_a_warning_says_which_studies_it_is_about_and_what_holds_of_all_is_said_once() -> None:
    some, others = (side(name, disturbed(1), SMALL) for name in "ab")
    clean = side("c", None, SMALL)

    def of_disturbed(*sides: Side) -> list[str]:
        return [sentence for sentence in warned(compare(sides)) if "Other processes" in sentence]

    said = r"Other processes were seen on the GPUs in \d+ of \d+ runs\."
    for sides, about in {
        (clean, some): "a",
        (some, others): "Both studies",
        (some, others, replace(some, name="d")): "All studies",
        (some, clean, others): "a and b",
    }.items():
        (found,) = of_disturbed(*sides)
        assert re.fullmatch(f"{about}: {said}", found)
    assert of_disturbed(clean, replace(clean, name="d")) == []


def test_page_names_both_what_differs_and_what_one_alone_has() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        slower(1.2, "ddp")(cell, record)
        record["hardware"]["host"] = "<script>alert(1)</script>"
        record["software"]["nccl"] = "2.30.0"

    page = render(compared(change, study(batch_per_gpu=[32, 128])))
    assert_sound(page)
    assert len(page.encode()) < 300_000
    assert "<script" not in page, "in the name of a host"
    assert "default-src 'none'" in page
    text = visible(page)
    assert "after against before" in text
    assert re.search(r"after : NVIDIA H200, measured \S+\.", text)
    assert "NCCL 2.28.9 2.30.0 differs" in text
    assert "torch 2.11.0 2.11.0 same" in text
    assert re.search(r"Cores \d+ \d+ same", text)
    assert not re.search(r"Hosts \S+ \S+ same", text), "machines of one name may be several"
    assert "dp 4 512 Epoch time, s 0.7560 [0.7558, 0.7562] not planned" in text


def test_what_is_the_same_and_what_neither_has_are_said_in_a_line() -> None:
    alone = small(gpus=[1], strategies=["single"])
    text = visible(render(compare([side(name, None, alone) for name in "ab"])))
    assert not re.search(r"\w differs ", text.partition("What measured")[2])
    for lacking in ("Speedup", "Bus bandwidth alone", "Test accuracy"):
        assert f"{lacking}: nothing that both have." in text


def test_studies_of_different_batches_have_nothing_in_common() -> None:
    both = compare([side(str(batch), None, small(batch_per_gpu=[batch])) for batch in (128, 512)])
    assert summary(both)[0] == "512 and 128 have no epoch time in common."
    assert_sound(render(both))


def on_an_h100(cell: AnyCell, record: dict[str, Any]) -> None:
    slower(1.3)(cell, record)
    record["hardware"]["device_model"] = "NVIDIA H100"


def three(change: Change | None = None, of: Study | None = None, tolerance: float = nan) -> ComparedStudies:
    sides = [side("first", None, small()), side("h100", on_an_h100, small()), side("last", change, of or small())]
    return compare(sides, (), tolerance)


def test_of_three_studies_each_is_held_against_the_first_as_two_studies_are() -> None:
    found = three(slower(0.5), None, 0.05)
    first, second, guard, *own = summary(found)
    assert [answer.split(",")[0] for answer in own] == [
        f"{name}: With ddp at batch 512 per GPU" for name in ("first", "h100", "last")
    ]
    assert first.startswith("h100 is slower than first in the compute scope: ")
    assert "ddp on 4 GPUs by 30.00 % [" in first
    assert second.startswith("last is faster than first")
    assert guard.startswith("Slower by more than 5 %: h100, single on 1 GPU (compute scope) by 30.00 %")
    assert "last" not in guard
    (alone,) = compare([found.sides[0], found.sides[2]], (), 0.05).pairs
    for kind, rows, others in (
        (ComparedGroupsRow, alone.groups, found.pairs[1].groups),
        (ComparedFiguresRow, alone.figures, found.pairs[1].figures),
    ):
        assert written(kind, rows) == written(kind, others)
    page = render(found)
    assert_sound(page)
    assert len(page.encode()) < 200_000
    assert "<script" not in page


def test_groups_that_one_study_alone_has_are_listed() -> None:
    text = visible(render(three(None, small(gpus=[1, 2]))))
    assert "Not compared, as first alone has them: dp on 4 GPUs (compute scope), ddp on 4 GPUs (compute scope)." in text
