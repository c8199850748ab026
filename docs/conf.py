"""The documentation site: Sphinx reads the documents where they stand, and what `made.py` writes of the code.

Run by `make site`. The first page is README.md; without network, and without a request to elsewhere in the browser.
"""

import os
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
os.chdir(ROOT)
sys.path.insert(0, str(DOCS))

import made  # noqa: E402

project = "dpscale"
copyright = "2026 The dpscale authors"
root_doc = "README"
extensions = ["myst_parser", "sphinx_click"]
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "config/README.md"]
RECORDED = tuple(
    f"results/{name}/README"
    for name in ("recorded-two-gpus", "recorded", "recorded-strategies", "recorded-strategies-gpt")
)
include_patterns += ["examples/README.md", *(f"{name}.md" for name in RECORDED)]
exclude_patterns = [".*", "build", "data", "handin", "tests", "workflow", "results/*/*/**"]
myst_heading_anchors = 4
# Words after ``` are for whoever reads the file; a block without one is no Python.
highlight_language = "none"
smartquotes = False
suppress_warnings = ["myst.header"]
html_theme = "furo"
html_title = "dpscale"
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # read by requests, which a browser refuses a page of files
html_static_path = ["site.css"]
html_css_files = ["site.css"]

# Left of every page. README.md has no such list: where it is read as a file, links lead on.
NAVIGATION = {
    "Tutorials": ("docs/assignment", "docs/cluster", "docs/diagnose", "docs/own-table"),
    "How to": ("docs/guide", "examples/README"),
    "Results": (
        "docs/gallery",
        "docs/results",
        "docs/upstream/cudnn_search_per_thread",
        "docs/upstream/snakemake_executor_slurm",
        *RECORDED,
    ),
    "Reference": ("config/README", "docs/reference/commands", "docs/reference/tables"),
    "Method": ("docs/method", *(f"docs/method/{name}" for name in made.CHAPTERS)),
    "The project": ("docs/architecture", "CONTRIBUTING", "CHANGELOG"),
}


# What the theme leaves out for the keyboard and for readers of the screen.
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper colwidths-auto docutils container">': '<div class="table-wrapper" tabindex="0">',
}


def add_navigation(_: Sphinx, document: str, source: list[str]) -> None:
    if document == root_doc:
        for caption, pages in NAVIGATION.items():
            listed = "\n".join(f"/{page}" for page in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def finish(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    out = Path(app.outdir)
    for page in [*out.glob("*.html"), *out.glob("*/*.html"), *out.glob("docs/*/*.html")]:
        text = page.read_text()
        for theme, ours in ACCESSIBLE.items():
            text = text.replace(theme, ours)
        page.write_text(text)
    made.write_study_pages(out / "studies")
    (out / "index.html").write_text('<meta http-equiv="refresh" content="0; url=README.html">\n')


def keep_stars(app: Sphinx, command: object, lines: list[str]) -> None:
    """Help texts are plain: `*.yaml` begins no emphasis."""
    lines[:] = [line.replace("*", r"\*") for line in lines]


def setup(app: Sphinx) -> None:
    made.write_documents()
    app.connect("source-read", add_navigation)
    app.connect("sphinx-click-process-description", keep_stars)
    app.connect("build-finished", finish)
