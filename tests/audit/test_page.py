"""The page of audits, of a record or of all studies: what it says comes from the record, and it needs no other file."""

import re
from pathlib import Path

import pytest

from dpscale.audit.audit import audit
from dpscale.audit.own_table import read_table
from dpscale.audit.page import help_of, render, render_studies
from dpscale.plan.study import Study
from dpscale.records.facts import AuditRecord
from dpscale.tables.study import AuditTables
from dpscale.tables.tables import Tables
from published_factory import published

EPOCH_S = "32x1 40.00, 32x2 25.00, 128x1 30.00, 128x2 18.00, 512x1 28.00, 512x2 15.00"
SPEEDUP = {"speedup": "32x2 1.600, 128x2 1.667, 512x2 1.867"}


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]).split())


def page_of_studies(records: list[AuditRecord]) -> str:
    study = Study({"study": "h200", "dataset": {"source": "synthetic"}}).values
    return render_studies(study, Tables(**AuditTables.of(records)._asdict()), "h200.html")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "text"),
    [
        ("a", "32 2 36.93 look 1.40 → 0.700 wrong"),
        ("a", "An epoch is the same work on any number of GPUs."),
        ("a", "batch 32 on 2 GPUs: speedup 1.40; the times give 0.700: N times the ratio"),
        ("a", "batch 32 on 2 GPUs: bandwidth 0.0018 is 0.00193 GB/s: it counts 2^30 bytes a second"),
        ("d", "Some figures are not known: T(N,b) was not printed."),
        ("e", "and 2 more cells"),
        ("j", "Compute it again as the definitions below say, or call it what it is."),
    ],
)
def test_a_page_says_what_was_printed_what_it_is_and_what_to_do(
    audits: dict[str, AuditRecord], study: str, text: str
) -> None:
    assert text in text_of(render([audits[f"study-{study}"]]))


def test_what_was_assumed_or_left_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("batch,gpus,time (s),mood\n32,1,40.00,good\n32,2,25.00,good\n")
    text = text_of(render([audit(study) for study in read_table(path)]))
    assert "The column mood is left out." in text and "assumed" not in text
    path.write_text("batch,gpus,time (s),bandwidth (GB/s)\n32,1,40.00,\n32,2,25.00,6.990\n")
    text = text_of(render([audit(study) for study in read_table(path)]))
    assert "Not given, and assumed: 50,000 training images per epoch (CIFAR-10); 11,173,962 parameters" in text
    # Nothing rests on what does not give a figure.
    path.write_text(path.read_text().replace("6.990", "1.5"))
    assert "and assumed" not in text_of(render([audit(study) for study in read_table(path)]))


def test_a_file_of_several_studies_has_a_block_of_each() -> None:
    page = render([audit(published(EPOCH_S, SPEEDUP, id=name, title=name)) for name in ("first", "second")])
    assert page.count("<article") == 2 and '<a href="#audited-second">second</a>' in page


def test_a_page_needs_no_other_file_and_no_script_and_every_check_has_its_help(audits: dict[str, AuditRecord]) -> None:
    for record in audits.values():
        page = render([record])
        assert "<script" not in page and "javascript:" not in page
        assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
        assert len(page) < 60_000
        assert all(help_of(warning.check) for warning in AuditTables.of([record]).audit_warnings)


@pytest.mark.slow
def test_every_study_is_a_block_with_its_sentences(audits: dict[str, AuditRecord]) -> None:
    page = page_of_studies([*audits.values()])
    text = text_of(page)
    assert page.count("<article") == 10
    assert page.count("All columns are in <code>results/h200/tables/audit.csv</code>") == 1
    assert "Batch 32, 2 GPUs: speedup 1.40; the times give 0.700:" in text
    assert "Speedup, explained : The speedup is N * T(1,b) / T(N,b), not as defined here" in text
    assert "27.9 against 26.9 s" in text
    assert "Synthetic" not in text and "worker" not in text and "your" not in text.lower()
    assert "No published study was audited." in page_of_studies([])


def test_text_from_files_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    record = audit(published(EPOCH_S, SPEEDUP, title=evil, left_out=[evil]))
    for page in (render([record]), page_of_studies([record])):
        assert "<script" not in page and "&lt;script" in page
