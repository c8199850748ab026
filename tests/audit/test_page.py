"""The page of one audited study: what it says comes from the record, and it needs no other file."""

import re
from pathlib import Path
from typing import Any

from dpscale.audit.audit import audit
from dpscale.audit.checks import SEVERITIES
from dpscale.audit.page import HELP, answer, render
from dpscale.audit.reading.own_table import read_table
from published_factory import published

EPOCH_S = "32x1 40.00, 32x2 25.00, 128x1 30.00, 128x2 18.00, 512x1 28.00, 512x2 15.00"
SPEEDUP = "32x2 1.600, 128x2 1.667, 512x2 1.867"


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]).split())


def test_a_clean_table_has_nothing_to_look_at() -> None:
    record = audit(published(EPOCH_S, {"speedup": SPEEDUP}))
    assert answer(record) == "Nothing calls for a second look: 3 figures were checked."
    page = render(record)
    assert "Which cells to look at" not in page
    assert "1.600 1.60" in text_of(page)


def test_figures_are_counted_by_the_worst_that_is_said_of_them(audits: dict[str, dict[str, Any]]) -> None:
    assert answer(audit(published(EPOCH_S, {"speedup": f"{SPEEDUP}, 512x2 1.876"}))) == (
        "1 figure is not what it is called, or not what your times give."
    )
    # 12 times above the peak; 10 computes that are totals, 1 communication, 10 bandwidths with their unit.
    assert answer(audits["study-e"]).startswith("12 figures are impossible; 21 figures are not what they are called")
    assert answer(audits["study-f"]).endswith("figures are worth a look.")


def test_a_page_says_what_was_printed_and_what_it_is(audits: dict[str, dict[str, Any]]) -> None:
    text = text_of(render(audits["study-a"]))
    assert "batch 32 on 2 GPUs: 1.40 is 0.700, slower than one GPU" in text
    assert "32 2 36.93 look 1.40 wrong 0.700" in text
    assert "An epoch is the same work on any number of GPUs." in text
    assert "labelled GB/s, is 2^30 bytes a second (6 cells)" in text


def test_what_cannot_be_computed_is_a_word() -> None:
    cancelled = "32x1 40.0, 32x2 20.0, 128x2 18.0"
    text = text_of(render(audit(published(cancelled, {"communication_s": "32x2 0.0, 128x2 1.0"}))))
    assert "not resolvable" in text and "not known" in text


def test_a_figure_that_follows_from_a_doubtful_time_has_a_caution() -> None:
    compute = "32x2 20.00, 128x2 15.00, 512x2 14.00"
    study = published(f"{EPOCH_S}, 128x1 33.00", {"speedup": SPEEDUP, "compute_s": compute})
    text = text_of(render(audit(study)))
    assert "Caution: what is computed here and follows from T(1,b) of 33.00 s, which other figures contradict" in text
    assert "Caution" not in text_of(render(audit(published(EPOCH_S, {"speedup": SPEEDUP}))))


def test_what_was_assumed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("batch,gpus,time (s)\n32,1,40.00\n32,2,25.00\n")
    text = text_of(render(audit(read_table(path))))
    assert "Not given, and assumed: 50,000 training images per epoch (CIFAR-10); 11,173,962 parameters" in text
    assert "1.60" in text


def test_a_global_batch_is_headed_as_one() -> None:
    for batch, heading in (("per_gpu", "Batch"), ("global", "Global batch")):
        page = render(audit(published(EPOCH_S, {"speedup": SPEEDUP}, batch=batch)))
        assert f'<th scope="col">{heading}</th>' in page


def test_every_check_of_a_published_study_has_its_help(audits: dict[str, dict[str, Any]]) -> None:
    """But for those that say themselves what would be otherwise."""
    checks = {warning["check"] for record in audits.values() for warning in record["warnings"]}
    without = checks - set(HELP)
    assert without == {
        "T(N,b) - T(1,b)/N would give another bandwidth", "T(1,b)/speedup is not compute plus communication",
        "speedup over 2 GPUs", "bandwidth is not what it is called",
    }  # fmt: skip
    text = text_of(render(audits["study-j"]))
    assert "Speedup is over one GPU." in text
    assert "Compute it again as the definitions below say, or call it what it is." in text


def test_the_worst_stands_first(audits: dict[str, dict[str, Any]]) -> None:
    page = render(audits["study-e"])
    states = re.findall(r'<span class="state (\w+)">', page)
    assert states == sorted(states, key=SEVERITIES.index)
    assert set(states) == set(SEVERITIES)
    assert "impossible</span> time that the GPU cannot reach" in page
    assert "The clock was stopped before the GPU was done." in page
    assert ['class="impossible"' in shown for shown in (page, render(audits["study-d"]))] == [True, False]


def test_a_page_needs_no_other_file_and_no_script(audits: dict[str, dict[str, Any]]) -> None:
    for record in audits.values():
        page = render(record)
        assert "<script" not in page and "javascript:" not in page
        assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
        assert len(page) < 60_000


def test_text_from_files_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    unmeasured = [{"batch_per_gpu": 2048, "gpus": 1, "why": evil}]
    page = render(audit(published(EPOCH_S, {"speedup": SPEEDUP}, title=evil, unmeasured=unmeasured)))
    assert "<script" not in page
    assert page.count("&lt;script") >= 2
