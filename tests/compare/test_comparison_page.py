"""The page of studies: its sentences with data that make them true and data that make them false."""

import re
from dataclasses import replace
from math import nan
from typing import Any

import pytest

from dpscale.compare.comparison import ComparedStudies, compare
from dpscale.compare.page import render, summary
from dpscale.compare.sentences import answers, tallies
from dpscale.compare.views import Views
from dpscale.compare.warnings import terms_of, warnings
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from html_reader import assert_sound, visible
from two_studies import Change, compared, out_of_memory, side, slower, small, study

# Whole pages, again and again.
pytestmark = pytest.mark.slow


def verdict_text(comparison: ComparedStudies) -> str:
    (pair,), terms = comparison.pairs, terms_of(comparison)
    return "\n".join([*answers(pair, terms), *tallies(pair, terms)])


def warned(comparison: ComparedStudies) -> list[str]:
    return warnings(comparison, terms_of(comparison))


def test_of_the_same_nothing_is_claimed() -> None:
    text = verdict_text(compared())
    assert text.startswith("after against before, compute scope: no difference shown in 5 groups\n")
    assert "Epochs, compute scope: not apart beyond the intervals in 15 of 15, median 1.00×.\n" in text
    assert "Test accuracy: not apart beyond the intervals in 2 of 2." in text
    for word in ("faster", "slower", "higher", "lower", "longer", "shorter"):
        assert word not in text


def test_what_is_faster_is_counted_and_the_most_of_it_named() -> None:
    text = verdict_text(compared(slower(0.8, "ddp")))
    assert text.startswith("after against before, compute scope: ddp on 2 GPUs: 20.00 % faster [19.98, 20.02]; ddp on")
    assert "; no difference shown: single on 1 GPU, dp on 2 GPUs, dp on 4 GPUs\n" in text
    assert "faster in 6, not apart beyond the intervals in 9 of 15, median 1.00×. Highest: ddp on " in text
    assert "Lowest" not in text.splitlines()[1]
    assert "Speedup: higher in 6" in text
    assert "(E1): shorter in 6" in text


def test_what_is_slower_is_slower() -> None:
    text = verdict_text(compared(slower(1.25, "dp")))
    assert text.startswith("after against before, compute scope: dp on 4 GPUs: 25.00 % slower [24.97, 25.03]; dp on")
    assert "no difference shown: single on 1 GPU, ddp on 2 GPUs, ddp on 4 GPUs\n" in text
    assert "Speedup: lower in 6" in text
    assert "(E1): longer in 6" in text


def test_single_timings_carry_no_claim() -> None:
    text = verdict_text(compared(slower(3), study(runs=1)))
    assert text.startswith(
        "after against before, compute scope: no difference shown, as no group has two runs in both\n"
    )
    assert "no interval in 15 of 15" in text


def test_settings_that_may_differ_are_said_first_and_those_of_several_once() -> None:
    names = {"first": "float32", "a": "bfloat16", "b": "bfloat16"}
    sides = [side(name, None, small(precision=precision)) for name, precision in names.items()]
    assert warned(compare(sides, ("precision",)))[0] == (
        "Settings differ, as was asked for: precision is float32 in first and bfloat16 in a and b."
    )
    assert not [sentence for sentence in warned(compared()) if "Settings differ" in sentence]


def test_other_images_are_a_warning() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if "dataset" in record:
            record["dataset"]["sha256"] = "1" * 64

    assert "The images have different checksums" in " ".join(warned(compared(change)))
    assert "checksums" not in " ".join(warned(compared()))


def dirty(runs: int) -> Change:
    """So many runs are of a dirty commit."""

    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        record["provenance"]["git_dirty"] = cell.coordinates.get("run", 0) <= runs

    return change


def test_a_warning_says_which_studies_it_is_about_and_what_holds_of_all_is_said_once() -> None:
    def of_dirty(*runs: int) -> list[str]:
        sides = [side(name, dirty(number)) for name, number in zip("abc", runs, strict=False)]
        return [sentence for sentence in warned(compare(sides)) if "dirty" in sentence]

    meaning = r"The code that ran is not exactly the commit named\."
    for runs, expected in {
        (-1, -1): None,
        (-1, 3): r"b: Records from a dirty commit: \d+ of 93\. ",
        (3, 3): r"Both studies: Records from a dirty commit: \d+ of 93\. ",
        (3, 3, 3): r"All studies: Records from a dirty commit: \d+ of 93\. ",
        (3, -1, 3): r"a and c: Records from a dirty commit: \d+ of 93\. ",
        (1, 2): r"a: Records from a dirty commit: \d+ of 93; b: Records from a dirty commit: \d+ of 93\. ",
    }.items():
        found = of_dirty(*runs)
        assert len(found) == (expected is not None)
        assert not found or re.fullmatch(f"{expected}{meaning}", found[0]), found


def test_records_that_both_studies_have_are_a_warning() -> None:
    left_out = replace(side("after", slower(1.1)), same_records=7)
    found = " ".join(warned(compare([side("before"), left_out])))
    assert "after: 7 records left out. Another study has the same files, and the same file in both is no" in found
    assert "left out" not in " ".join(warned(compared(slower(1.1))))


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
    assert re.search(r"after : NVIDIA H200, measured \S+, commit \w+\.", text)
    assert "NCCL 2.28.9 2.30.0 differs" in text
    assert "torch 2.11.0 2.11.0 same" in text
    assert re.search(r"Cores \d+ \d+ same", text)
    assert not re.search(r"Hosts \S+ \S+ same", text), "machines of one name may be several"
    assert "What differs here is what the differences below can come from." in text
    alone = text[text.index("Configurations that one study alone has") :]
    assert "dp 4 512 0.7560 [0.7558, 0.7562] not planned" in alone


def test_of_the_same_environment_the_page_says_so() -> None:
    text = visible(render(compared()))
    assert "Both were measured on the same kind of GPU with the same software." in text
    assert "Every configuration that one study has an epoch time of in its own settings, the other one has too." in text


@pytest.mark.parametrize(("studies", "none"), [(2, "Neither study"), (3, "No study")])
def test_sections_without_data_say_so_in_a_line(studies: int, none: str) -> None:
    same_study = small(gpus=[1], strategies=["single"])
    text = visible(render(compare([side(str(number), None, same_study) for number in range(studies)])))
    for lacking in ("has a speedup.", "timed collectives alone.", "has an arm that every seed trained to its end."):
        assert f"{none} {lacking}" in text


def test_the_same_records_give_the_same_bytes(drawn: dict[str, str]) -> None:
    def made_anew() -> str:
        drawn.clear()
        return render(compare([side("before", slower(1)), side("after", slower(1.1))]))

    assert made_anew() == made_anew()


def test_studies_of_different_batches_have_nothing_in_common() -> None:
    small_alone, large_alone = (
        out_of_memory(lambda at: at.batch_per_gpu != 32),
        out_of_memory(lambda at: at.batch_per_gpu != 128),
    )
    both = compare([side("32", small_alone), side("128", large_alone)])
    assert summary(both)[:1] == ["128 and 32 have no epoch time in common"]
    assert_sound(render(both))


def on_an_h100(cell: AnyCell, record: dict[str, Any]) -> None:
    slower(1.3)(cell, record)
    record["hardware"]["device_model"] = "NVIDIA H100"


def three(change: Change | None = None, of: Study | None = None, tolerance: float = nan) -> ComparedStudies:
    sides = [side("first", None, small()), side("h100", on_an_h100, small()), side("last", change, of or small())]
    return compare(sides, (), tolerance)


def test_of_three_studies_each_is_told_against_the_first() -> None:
    found = three(slower(0.5), None, 0.05)
    first, second, guard, *own = summary(found)
    assert [answer.split(",")[0] for answer in own] == [
        f"{name}: With ddp at batch 512 per GPU" for name in ("first", "h100", "last")
    ]
    assert first.startswith("h100 against first, compute scope: ")
    assert "ddp on 4 GPUs: 30.00 % slower [" in first
    assert "ddp on 4 GPUs: 50.0" in second
    assert "slower" not in second
    assert guard.startswith("Slower by more than 5 %: h100, compute scope, single on 1 GPU: 30.00 % slower")
    assert "last" not in guard
    page = render(found)
    assert_sound(page)
    assert len(page.encode()) < 200_000
    assert "<script" not in page


def test_without_a_change_none_is_told() -> None:
    assert summary(three())[1:2] == ["last against first, compute scope: no difference shown in 5 groups"]


def test_there_is_one_row_per_study_with_its_device_and_its_answer() -> None:
    found = three(None, small(runs=1))
    views = Views(found, terms_of(found))
    assert [row[:2] for row in views.studies().cells] == [
        ["first", "NVIDIA H200"], ["h100", "NVIDIA H100"], ["last", "NVIDIA H200"],
    ]  # fmt: skip
    told = [(row[0], row[-1]) for row in views.answers().cells if row[1] == "4"]
    assert told == [("first", "worth it"), ("h100", "worth it"), ("last", "not confirmed")]


def test_groups_without_a_difference_and_those_not_compared_are_listed() -> None:
    text = visible(render(three(None, small(gpus=[1, 2]))))
    assert "last against first Compute scope, single on 1 GPU: no difference shown [" in text
    assert "Not compared, first alone has them: dp on 4 GPUs (compute scope), ddp on 4 GPUs (compute scope)." in text
    assert "h100 against first Compute scope" not in text
