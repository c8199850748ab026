"""The page of three studies: its sentences with data that make them true and data that make them false."""

from typing import Any

import pytest
from test_render import assert_sound, visible

from dpscale.analyse.comparison_studies import Overview, overview
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.present.comparison_studies import figures, point, render, summary, warnings
from dpscale.present.comparison_warnings import terms_of
from two_studies import Change, side, slower, study

pytestmark = pytest.mark.slow


def small(**changes: Any) -> Study:
    return study(**{"communication": {"runs": 0}, "training": {}, "batch_per_gpu": [128, 512], **changes})


def on_an_h100(cell: AnyCell, record: dict[str, Any]) -> None:
    slower(1.3)(cell, record)
    record["hardware"]["device_model"] = "NVIDIA H100"
    record["provenance"]["git_dirty"] = True


def three(change: Change | None = None, of: Study | None = None, tolerance: float | None = None) -> Overview:
    sides = [side("first", None, small()), side("h100", on_an_h100, small()), side("last", change, of or small())]
    return overview(sides, ("precision",), tolerance)


def text_of(studies: Overview) -> str:
    return visible(render(studies))


def test_the_page_is_sound_and_needs_nothing() -> None:
    page = render(three(slower(0.5), None, 0.05))
    assert_sound(page)
    assert len(page.encode()) < 100_000
    assert "<script" not in page


def test_there_is_one_row_per_study_with_device_and_figures() -> None:
    studies = three(None, small(runs=1))
    view = figures(studies, terms_of(studies.sides))
    assert [row[:2] for row in view.cells] == [
        ["first", "NVIDIA H200"],
        ["h100", "NVIDIA H100"],
        ["last", "NVIDIA H200"],
    ]
    headings = [column.heading for column in view.columns]
    throughput = headings.index("Throughput, images/s: ddp on 4 GPUs, compute scope")
    assert "[no interval: one run]" in view.cells[2][throughput]
    assert "no interval" not in view.cells[0][throughput]


def test_a_state_stands_in_place_of_a_figure_that_a_study_lacks() -> None:
    def without_memory(cell: AnyCell, record: dict[str, Any]) -> None:
        if record["kind"] == "timing" and record["cell"]["strategy"] == "single":
            record |= {"status": "oom", "scopes": {}, "oom": {"rank": 0, "phase": "warm-up", "message": "CUDA"}}

    studies = three(without_memory)
    view = figures(studies, terms_of(studies.sides))
    assert ["OOM" in row for row in view.cells] == [False, False, True]


def test_every_study_is_told_against_the_first() -> None:
    said = summary(three(slower(0.5)))
    assert said[0].startswith("h100 against first, compute scope: ")
    assert "ddp on 4 GPUs: 30.00 % slower [" in said[0]
    assert "ddp on 4 GPUs: 50.0" in said[1]
    assert "faster" in said[1]
    assert "slower" not in said[1]


def test_without_a_change_none_is_told() -> None:
    assert summary(three())[1] == "last against first, compute scope: no difference shown in 5 groups"


def test_what_is_slower_than_is_tolerated_is_told_with_its_study() -> None:
    (_, _, guard) = summary(three(None, None, 0.05))
    assert guard.startswith("Slower by more than 5 %: h100, compute scope, single on 1 GPU: 30.00 % slower")
    assert "last" not in guard


def test_it_says_where_its_figures_are_from() -> None:
    studies = three(None, small(batch_per_gpu=[128]))
    assert point(studies, terms_of(studies.sides)).startswith(
        "Figures are of ddp on 4 GPUs at batch 128 per GPU, the largest that all studies timed, and of 1 GPU at that"
    )


def test_without_a_point_in_common_it_says_so() -> None:
    studies = three(None, small(batch_per_gpu=[32]))
    assert point(studies, terms_of(studies.sides)).startswith("No configuration was timed in all studies")
    assert_sound(render(studies))


def test_a_setting_that_several_do_not_share_is_said_once() -> None:
    first, *others = (side(name, None, small(precision=precision)) for name, precision in (
        ("first", "float32"), ("a", "bfloat16"), ("b", "bfloat16"),
    ))  # fmt: skip
    assert warnings(overview([first, *others], ("precision",)))[0] == (
        "Settings differ, as was asked for: precision is float32 in first and bfloat16 in a and b."
    )
    assert not [sentence for sentence in warnings(three()) if "Settings differ" in sentence]


def test_a_warning_of_all_studies_is_said_once_and_one_of_some_with_their_names() -> None:
    one_run = [side(name, change, small(runs=1)) for name, change in (("a", None), ("b", slower(2)), ("c", slower(3)))]
    once = [sentence for sentence in warnings(overview(one_run)) if "a single run" in sentence]
    assert len(once) == 1
    assert once[0].startswith("All studies: Configurations measured in a single run: 10 of 10. How much runs differ")
    dirty = [sentence for sentence in warnings(three()) if "dirty commit" in sentence]
    assert [sentence.split(":")[0] for sentence in dirty] == ["h100"]


def test_groups_without_a_difference_and_those_not_compared_are_listed() -> None:
    text = text_of(three(None, small(gpus=[1, 2])))
    assert "last against first Compute scope, single on 1 GPU: no difference shown [" in text
    assert "Not compared, first alone has them: dp on 4 GPUs (compute scope), ddp on 4 GPUs (compute scope)." in text
    assert "h100 against first Compute scope" not in text
