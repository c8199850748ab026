"""The documentation site, as `make site` builds it in a clone."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from offline import ALL_BUT_CONTRAST, EVERYTHING, ONE_ROW_OF_EACH_LOOK, listen
from project import Clone


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    clone = Clone(root, tmp_path_factory.mktemp("site") / "project")
    clone.draw_nothing()
    assert clone.make("site") == "Documentation: build/site/index.html\n", "it is built without a warning"
    return clone.folder / "build/site"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["README", "docs/gallery", "docs/reference/tables"])
def test_a_page_is_for_everybody_and_asks_nobody_elsewhere(site: Path, browser: Browser, name: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    requests, complaints = listen(page)
    page.goto((site / f"{name}.html").as_uri())
    assert not [url for url in requests if not url.startswith(site.as_uri())]
    assert not complaints
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(ONE_ROW_OF_EACH_LOOK)
    options = EVERYTHING if width == 1280 else ALL_BUT_CONTRAST
    violations = Axe().run(page, options=options).response["violations"]
    assert not [(rule["id"], node["html"]) for rule in violations for node in rule["nodes"]]
    page.close()


def test_the_gallery_has_page_and_picture_of_every_recorded_study(site: Path, root: Path) -> None:
    gallery = (site / "docs/gallery.html").read_text()
    studies = {path.parent.name for path in root.glob("results/recorded*/cells")}
    for name in ("comparison", *studies):
        assert f'href="../studies/{name}.html"' in gallery
        assert "<td" in (site / f"studies/{name}.html").read_text()
    pictures = [(site / "docs" / source).resolve() for source in re.findall(r'<img [^>]*src="([^"]*)"', gallery)]
    assert {picture.parent.parent.name for picture in pictures if picture.is_file()} == studies
