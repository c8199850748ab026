"""What is of a user's file speaks of samples, and of images nowhere; test_numbers_fit.py looks at whole pages."""

import re
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU

import two_studies
from dpscale.compare.comparison import compare
from dpscale.compare.page import render as render_comparison
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
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
