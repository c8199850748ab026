"""The section on variants in a real browser: nothing overlaps, nothing is cut off, and axe finds nothing."""

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser
from variant_tables import with_variants

import variant_study
from dpscale.present.study.page import render
from offline import LABELS_THAT_OVERLAP, TEXT_OUTSIDE_ITS_CHART, Scheme, opened

# Not what passes: that is ten times as long. A scheme changes colours and nothing else, and the width none of them.
ONLY_VIOLATIONS = {"resultTypes": ["violations"], "selectors": False}
OPTIONS: dict[tuple[Scheme, int], dict[str, Any]] = {
    ("light", 1200): ONLY_VIOLATIONS,
    ("dark", 1200): {**ONLY_VIOLATIONS, "runOnly": ["color-contrast"]},
    ("light", 390): {**ONLY_VIOLATIONS, "rules": {"color-contrast": {"enabled": False}}},
}


@pytest.fixture(scope="module")
def variants_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("variants") / "variants.html"
    file.write_text(render(variant_study.study().values, with_variants()))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_section_can_be_read(browser: Browser, variants_file: Path, width: int, scheme: Scheme) -> None:
    page = opened(browser, variants_file, width, scheme)
    assert page.locator("#variants svg[role=img]").count() == 4
    assert page.evaluate(TEXT_OUTSIDE_ITS_CHART) == []
    assert page.evaluate(LABELS_THAT_OVERLAP) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if options := OPTIONS.get((scheme, width)):
        found = Axe().run(page, context={"include": [["#variants"]]}, options=options)
        assert found.violations_count == 0, found.generate_report()
    page.close()
