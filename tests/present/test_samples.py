"""Pages of studies whose workload is a user's file speak of samples, and of images nowhere."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from page_tables import GPU, environment_row, h200_with_steps, study, tables
from variant_tables import with_variants

import two_studies
from dpscale.compare.comparison import compare
from dpscale.compare.page import render as render_comparison
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.present.study.page import render
from dpscale.tables.quantities import BATCH, MFU, THROUGHPUT
from html_reader import visible

# Whole pages.
pytestmark = pytest.mark.slow

OF_A_FILE: dict[str, Any] = {"workload": "train/gpt.py", "workload_sha256": "c" * 64, "dataset": {"images": 50_000}}
ATTRIBUTES = re.compile(r'\s(?:aria-label|title|alt|data-[a-z]+)="([^"]*)"')


def text_of(page: str) -> str:
    """What a reader sees or hears of a page."""
    return " ".join([visible(page), *ATTRIBUTES.findall(page)])


def with_images(text: str) -> list[str]:
    """The sentences that speak of images. Names of settings, such as `images_on`, are the same in every study."""
    return re.findall(r"(?i)[^.;]*\bimages?\b[^.;]*", text)


@cache
def page(of_a_file: bool) -> str:
    """With steps, estimates and a forecast beyond an epoch; variants; and two environments of other samples."""
    found, others = h200_with_steps(), with_variants()
    word = "samples" if of_a_file else "images"
    environments = [environment_row("A"), {**environment_row("B"), "dataset_sha256": "d" * 64}]
    data = replace(
        found,
        times=[replace(row, reason=row.reason.replace("images", word)) for row in found.times],
        absences=[replace(row, reason=row.reason.replace("images", word)) for row in found.absences],
        environments=tables(environments=environments).environments,
        variants=others.variants,
        one_gpu=others.one_gpu,
    )
    return text_of(render(study(**OF_A_FILE) if of_a_file else study(), data))


def test_the_page_of_a_file_has_no_images() -> None:
    assert with_images(page(of_a_file=True)) == []
    for said in ("Throughput, {}s/s", "Batch per GPU, {}s", "50,000 {}s per epoch", "{}s on the host"):
        assert said.replace("{}", "sample") in page(of_a_file=True)
        assert said.replace("{}", "sample") not in page(of_a_file=False)
        assert said.replace("{}", "image") in page(of_a_file=False)


def test_the_vocabulary_in_the_words_of_a_study() -> None:
    own = replace(GPU, own_workload=True)
    assert (GPU.heading_of(THROUGHPUT), own.heading_of(THROUGHPUT)) == ("Throughput, images/s", "Throughput, samples/s")
    assert own.heading_of(BATCH) == "Batch per GPU, samples"
    assert GPU.worded(MFU.definition) == MFU.definition
    assert own.worded(MFU.definition).startswith("FLOP of a sample times samples/s")
    assert own.worded("Images") == "Samples"


def compared_study(**changes: Any) -> Study:
    values = {"training": {}, "communication": {"runs": 0}, "batch_per_gpu": [128, 512]}
    return two_studies.study(**{**values, **changes})


def other_checksum(cell: AnyCell, record: dict[str, Any]) -> None:
    record["dataset"] = {**record.get("dataset", {}), "sha256": "e" * 64}


def test_comparisons_of_files_have_no_images() -> None:
    for more, word in ((OF_A_FILE, "samples"), ({}, "images")):
        one = two_studies.side("one", None, compared_study(**more))
        other = two_studies.side("other", other_checksum, compared_study(**more))
        text = text_of(render_comparison(compare([one, other])))
        assert f"{word.capitalize()}, SHA-256" in text
        found = with_images(text)
        assert bool(found) == (word == "images"), found
