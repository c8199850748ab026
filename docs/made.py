"""Documents that are made: keys of a study and columns of tables, of the code; the gallery, of recorded studies.

`python docs/made.py` writes the tables of config/README.md anew, those of recorded_numbers.py, the chart of efficiency,
and the page that README shows, with its picture where that changed and a Chromium is there; the site's own pages are
made with the site.
"""

import inspect
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from bench_numbers import markdown
from costs import COSTS, costs_file
from dpscale.cli import main
from dpscale.loaded import LoadedStudy
from dpscale.options import read_study
from dpscale.schemas.validation import load_schema
from dpscale.strategies.known import STRATEGIES
from dpscale.tables.tables import TABLES
from recorded_numbers import DOCUMENTS, TWO_H100, study_file, with_made, with_marked

DOCS = Path(__file__).parent
ROOT = DOCS.parent
# The files of the charts that the gallery shows of a study, and README of the study that its first table is of.
SPEEDUP, EFFICIENCY = "speedup-1.svg", "efficiency-1.svg"
KEYS = ROOT / "config/README.md"
TWO_GPUS = ROOT / "config" / f"{TWO_H100}.yaml"
PAGE, PICTURE = DOCS / "example.html", DOCS / "page.png"
CHAPTERS = re.findall(r"\(method/(.*)\.md\)$", (DOCS / "method.md").read_text(), re.MULTILINE)

Schema = Mapping[str, Any]
LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
KINDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "`true`, `false`",
    "null": "`null`",
}


def keys(node: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Every key that a user can write, `epochs.warmup` for one in a section, its schema, and whether it is required."""
    for name, child in node.get("properties", {}).items():
        named_by_user = child.get("additionalProperties") or {}
        is_section = child.get("type") == "object" and "properties" in child
        if not is_section:
            yield f"{path}{name}", child, name in node.get("required", [])
        if child.get("type") == "object":
            yield from keys(child, f"{path}{name}.")
            yield from keys(named_by_user, f"{path}{name}.<name>.")


def allowed(node: Schema) -> str:
    """What a key may be, in words."""
    if "enum" in node:
        return ", ".join(f"`{one}`" for one in node["enum"])
    if "array" in node.get("type", "") and "items" in node:
        return "list of " + allowed(node["items"])
    if "$ref" in node:
        return ", ".join(f"`{one}`" for one in STRATEGIES)
    stated = node.get("type", "anything")
    kinds = [stated] if isinstance(stated, str) else stated
    limits = "".join(f" {word} {node[limit]}" for limit, word in LIMITS.items() if limit in node)
    return " or ".join(KINDS.get(kind, kind) + limits * (kind in ("integer", "number")) for kind in kinds)


# By the name between the marks of config/README.md: the schema, and what its keys begin with.
KEY_TABLES = {
    "study": ("study", ""),
    "variants": ("study", "variants.<name>."),
    "arms": ("study", "training.arms.<name>."),
    "cluster": ("cluster", ""),
    "published": ("published", ""),
}


def key_table(name: str) -> str:
    """The keys of one of `KEY_TABLES`, as a table in Markdown."""
    schema, start = KEY_TABLES[name]
    found = {key: (node, required) for key, node, required in keys(load_schema(schema))}
    others = () if start else ("variants.<name>.", "training.arms.<name>.")
    rows = []
    for key, (node, required) in found.items():
        if key.startswith(start) and not key.startswith(others):
            default = f"`{json.dumps(node['default'])}`" if "default" in node else "*required*" if required else ""
            meaning = node["description"]
            of_study = re.search(r" Without it ([\w.]+)\.$", meaning)
            if of_study and of_study[1] in found:
                meaning, default = "As for the study.", f"`{of_study[1]}`"
            rows.append(
                (
                    f"`{key.removeprefix(start)}`",
                    meaning.replace("|", "\\|").replace("<", "&lt;"),
                    default,
                    allowed(node),
                )
            )
    return markdown(("key", "meaning", "default", "allowed"), rows)


def with_tables(text: str) -> str:
    """The text of config/README.md with its tables made anew."""
    return with_marked(text, "keys", key_table)


def tables_page() -> str:
    """Every table of a study with its columns."""
    text = "# Tables and columns\n\nFiles of `results/<study>/tables/`; in Python, frames of `dpscale.load(study)`. "
    text += "A column with three names is a figure and the ends of its interval; [method](../method.md) says more.\n"
    for name, kind in TABLES.items():
        rows = [
            (", ".join(f"`{one}`" for one in column.names), column.definition, column.unit.stored)
            for column in kind.columns().values()
        ]
        text += f"\n## {name}\n\n{inspect.getdoc(kind)}\n\n{markdown(('column', 'definition', 'unit'), rows)}"
    return text


def recorded() -> Iterator[tuple[str, Path, LoadedStudy]]:
    """The studies that are committed, each with its name, its study file and its results."""
    for folder in sorted((ROOT / "results").glob("recorded*/cells")):
        name = folder.parent.name
        file = study_file(name)
        yield name, file, LoadedStudy(read_study(file), folder.parent)


def gallery_page() -> str:
    text = "# Gallery\n\nEvery recorded study, what it answers, and its page. Intervals are 95 %. "
    text += "A study may plan more cells than were measured.\n\n"
    rows = []
    for name, _, study in recorded():
        machine = study.tables.environments[0].device_model
        gpus = max(row.gpus for row in study.tables.answer)
        measured, missing = len(study.tables.records), len(study.tables.missing)
        cells = f"{measured} of {measured + missing}"
        link = f'<a href="../studies/{name}.html">{name}</a>'
        picture = f'<img src="../studies/{name}/charts/{SPEEDUP}" alt="{name}: speedup against GPUs" width="360">'
        rows.append((f"{link}<br>{picture}", machine, f"{gpus}", cells, study.answer.split("\n")[0]))
    text += markdown(("study", "GPU", "GPUs", "cells measured", "answer"), rows)
    return text + '\n<a href="../studies/comparison.html">All studies of ResNet-18 side by side</a>.\n'


def write_documents() -> None:
    """The pages of the site that nobody wrote."""
    for name, text in (("reference/tables.md", tables_page()), ("gallery.md", gallery_page())):
        (DOCS / name).write_text(text)


def example_page(folder: Path) -> tuple[str, str]:
    """README's page, of two GPUs, and its chart of efficiency, an SVG. `folder` takes what they are made of."""
    run("tables", TWO_GPUS, "--results", ROOT / "results" / TWO_GPUS.stem, "--out", folder)
    run("report", TWO_GPUS, "--tables", folder, "--out", folder / "page.html", "--charts", folder / "charts")
    return (folder / "page.html").read_text(), (folder / "charts" / EFFICIENCY).read_text()


def with_picture(page: str) -> None:
    """Write README's page; where what it says changed, its first screen as a picture too, if there is a browser."""
    is_new = not PAGE.exists() or words_of(PAGE.read_text()) != words_of(page)
    PAGE.write_text(page)
    browser = shutil.which("chromium-headless-shell")
    if is_new and browser:
        size = ("--window-size=1280,800", "--hide-scrollbars", "--no-sandbox")
        subprocess.run([browser, *size, f"--screenshot={PICTURE}", PAGE.as_uri()], check=True, capture_output=True)
        Image.open(PICTURE).convert("RGB").quantize(128).save(PICTURE, optimize=True)


def words_of(page: str) -> str:
    """Return a page without its charts, which fonts of a machine decide."""
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def write_study_pages(folder: Path) -> None:
    """The page of every recorded study, and one that compares those of the built-in network."""
    run("audit", *(ROOT / "config/published").glob("*.yaml"), "--out", ROOT / "results/recorded/audit")
    compared = []
    for name, file, study in recorded():
        tables = folder / name
        run("tables", file, "--results", study.results, "--out", tables)
        run(
            "report", file, "--tables", tables, "--out", folder / f"{name}.html",
            "--charts", tables / "charts",
        )  # fmt: skip
        compared += [file] * (file.stem == name)
    run("compare", *compared, "--out", folder / "comparison.html")


def run(command: str, *arguments: str | Path) -> None:
    """A command of dpscale, without what it prints."""
    with redirect_stdout(io.StringIO()):
        main([command, *map(str, arguments)], standalone_mode=False)


if __name__ == "__main__":
    COSTS.write_text(costs_file())
    KEYS.write_text(with_tables(KEYS.read_text()))
    for document in (ROOT / name for name in DOCUMENTS):
        document.write_text(with_made(document.read_text()))
    with TemporaryDirectory() as made:
        page, chart = example_page(Path(made))
        (DOCS / "efficiency.svg").write_text(chart)
        with_picture(page)
