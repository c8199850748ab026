"""A real browser, the tables of the page's own tests, and the page of the recorded study."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.comparison import render as render_comparison
from dpscale.plan.cells import AnyCell
from made_study import side, slower, study
from requirements import without

sys.path.insert(0, str(Path(__file__).parents[1] / "present"))

# Without its windows the same browser opens a page in a fifth of the time.
CHROMIUMS = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
# One process draws all pages: to start one takes longer than to draw most of them.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--renderer-process-limit=1", "--num-raster-threads=1",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = next((path for path in CHROMIUMS if path.exists()), None)
    if not chromium:
        without(f"{CHROMIUMS[0]} is missing: apt-get install chromium-headless-shell fonts-dejavu")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def recorded_file(example: Path) -> Path:
    """The page of the study in results/recorded."""
    return example / "report/recorded.html"


@pytest.fixture(scope="session")
def published_file(recorded_file: Path) -> Path:
    """The page of other people's figures beside it."""
    return recorded_file.with_stem("recorded-audit")


@pytest.fixture(scope="session")
def compared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three studies, one with a name that fits nowhere, fewer batches, and long facts about where it ran."""

    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        slower(1.5, "ddp")(cell, record)
        record["hardware"]["host"] = "node-" + "x" * 120
        record["provenance"]["git_dirty"] = True

    compared = side("a_study_with_a_very_long_name_" * 3, change, study(batch_per_gpu=[32, 128]))
    file = tmp_path_factory.mktemp("compared") / "compared.html"
    file.write_text(render_comparison(ComparedStudies([side("before"), side("between"), compared]), 0.05))
    return file
