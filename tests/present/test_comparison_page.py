"""The page of two studies: its sentences with data that make them true and data that make them false."""

import re
from typing import Any

import pytest
from test_render import assert_sound, visible

from dpscale.analyse.comparison import Side, compare
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.present.comparison import render, verdict, warnings
from two_studies import Change, compared, side, slower, study

# Whole pages, again and again.
pytestmark = pytest.mark.slow


def verdict_text(change: Change | None = None, of: Study | None = None) -> str:
    found = verdict(compared(change, of))
    return "\n".join([found.answer, *found.sentences, *found.others])


def test_of_the_same_nothing_is_claimed() -> None:
    text = verdict_text()
    assert text.startswith("after against before, compute scope: no difference shown in 5 groups\n")
    assert "Epochs, compute scope: not apart beyond the intervals in 15 of 15, median 1.00×.\n" in text
    assert "Test accuracy: not apart beyond the intervals in 2 of 2." in text
    for word in ("faster", "slower", "higher", "lower", "longer", "shorter"):
        assert word not in text


def test_what_is_faster_is_counted_and_the_most_of_it_named() -> None:
    text = verdict_text(slower(0.8, "ddp"))
    assert text.startswith("after against before, compute scope: ddp on 2 GPUs: 20.00 % faster [19.98, 20.02]; ddp on")
    assert "; no difference shown: single on 1 GPU, dp on 2 GPUs, dp on 4 GPUs\n" in text
    assert "faster in 6, not apart beyond the intervals in 9 of 15, median 1.00×. Highest: ddp on " in text
    assert "Lowest" not in text.splitlines()[1]
    assert "Speedup: higher in 6" in text
    assert "(E1): shorter in 6" in text


def test_what_is_slower_is_slower() -> None:
    text = verdict_text(slower(1.25, "dp"))
    assert text.startswith("after against before, compute scope: dp on 4 GPUs: 25.00 % slower [24.97, 25.03]; dp on")
    assert "no difference shown: single on 1 GPU, ddp on 2 GPUs, ddp on 4 GPUs\n" in text
    assert "Speedup: lower in 6" in text
    assert "(E1): longer in 6" in text


def test_single_timings_carry_no_claim() -> None:
    def once(cell: AnyCell, record: dict[str, Any]) -> None:
        for scope in record.get("scopes", {}).values():
            scope |= {"epoch_s": scope["epoch_s"][:1], "step_s_median": scope["step_s_median"][:1]}

    text = verdict_text(once, study(runs=1))
    assert text.startswith("after against before, compute scope: no difference shown, as no group has 3 runs in both\n")
    assert "no interval in 15 of 15" in text


def test_settings_that_may_differ_are_said_first() -> None:
    found = warnings(compared(None, study(precision="bfloat16"), ("precision",)))
    assert found[0].startswith(
        "Settings differ, as was asked for: precision is float32 in before and bfloat16 in after."
    )
    assert not [sentence for sentence in warnings(compared()) if "Settings differ" in sentence]


def test_other_images_are_a_warning() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if "dataset" in record:
            record["dataset"]["sha256"] = "1" * 64

    assert "The images have different checksums" in " ".join(warnings(compared(change)))
    assert "checksums" not in " ".join(warnings(compared()))


def test_a_warning_says_which_study_it_is_about() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        record["provenance"]["git_dirty"] = True

    found = warnings(compared(change))
    assert [sentence for sentence in found if sentence.startswith("after: Records from a dirty commit")]
    assert not [sentence for sentence in found if sentence.startswith("before")]


def test_what_holds_of_both_studies_is_said_once() -> None:
    def dirty(records: int) -> Change:
        def change(cell: AnyCell, record: dict[str, Any]) -> None:
            record["provenance"]["git_dirty"] = cell.coordinates.get("run", 0) <= records

        return change

    alike = warnings(compare(side("before", dirty(3)), side("after", dirty(3))))
    assert sum(sentence.startswith("Both studies: Records from a dirty commit") for sentence in alike) == 1
    assert sum("dirty" in sentence for sentence in alike) == 1
    (counted,) = (
        sentence
        for sentence in warnings(compare(side("before", dirty(1)), side("after", dirty(2))))
        if "dirty" in sentence
    )
    assert re.fullmatch(
        r"before: Records from a dirty commit: \d+ of 93; after: Records from a dirty commit: \d+ of 93\. "
        r"The code that ran is not exactly the commit named\.",
        counted,
    )


def test_records_that_both_studies_have_are_a_warning() -> None:
    left_out = Side("after", side().study, side("after", slower(1.1)).tables, same_records=7)
    found = " ".join(warnings(compare(side("before"), left_out)))
    assert "after: 7 records left out. Another study has the same files, and the same file in both is no" in found
    assert "left out" not in " ".join(warnings(compared(slower(1.1))))


@pytest.fixture(scope="module")
def page() -> str:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        slower(1.2, "ddp")(cell, record)
        record["hardware"]["host"] = "<script>alert(1)</script>"
        record["software"]["nccl"] = "2.30.0"

    return render(compared(change, study(batch_per_gpu=[32, 128])))


def test_page_is_sound_small_and_needs_nothing(page: str) -> None:
    assert_sound(page)
    assert len(page.encode()) < 300_000
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_page_names_both_what_differs_and_what_one_alone_has(page: str) -> None:
    text = visible(page)
    assert "after against before" in text
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


def test_sections_without_data_say_so_in_a_line() -> None:
    values = {"communication": {"runs": 0}, "training": {}, "gpus": [1], "strategies": ["single"]}
    same_study = study(**values)
    text = visible(render(compare(side("before", None, same_study), side("after", None, same_study))))
    for sentence in ("Neither study has a speedup.", "Neither study timed collectives alone."):
        assert sentence in text
    assert "Neither study has an arm that every seed trained to its end." in text


def test_the_same_records_give_the_same_bytes(drawn: dict[str, str]) -> None:
    def made_anew() -> str:
        drawn.clear()
        return render(compare(side("before", slower(1)), side("after", slower(1.1))))

    assert made_anew() == made_anew()


def test_studies_of_different_batches_have_nothing_in_common() -> None:
    def only(batch: int) -> Change:
        def change(cell: AnyCell, record: dict[str, Any]) -> None:
            if record["kind"] == "timing" and record["cell"]["batch_per_gpu"] != batch:
                record |= {"status": "oom", "scopes": {}, "oom": {"rank": 0, "phase": "warm-up", "message": "CUDA"}}

        return change

    both = compare(side("before", only(32)), side("after", only(128)))
    assert verdict(both).answer == "after and before have no epoch time in common"
    assert_sound(render(both))
