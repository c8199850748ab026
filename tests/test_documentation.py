"""What the documents say exists, and what exists is in the documents."""

import json
import re
import shlex
from inspect import getmembers, isfunction
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch  # noqa: F401 (to load it starts a process: not in a test)
import yaml

import dpscale
import made
from cases import cases
from dpscale.cli import main
from dpscale.formulas import scaling
from dpscale.strategies.strategy import IMAGE_BYTES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "config/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")),
    "results/recorded/README.md",
)
# Folders and files at the root that a path in a document may begin with.
ROOTS = ("workflow/", "config/", "docs/", "tests/", "bench/", "results/recorded", ".ci/", ".github/")


def spans(text: str) -> list[str]:
    """Return the texts in backquotes, outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def test_the_tables_of_keys_are_those_of_the_code(root: Path) -> None:
    """Made anew by `make format`."""
    text = (root / "config/README.md").read_text()
    assert made.with_tables(text) == text
    assert "| `runs` |" in text and "As for the study." in text
    assert made.with_tables(text.replace("| `runs` |", "| `runs_` |")) == text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_that_are_named_exist(root: Path, name: str) -> None:
    named = [
        span for span in spans((root / name).read_text()) if span.startswith(ROOTS) and not re.search(r"[<*{ ]", span)
    ]
    # A recipe may name a file that is to be made.
    missing = [path for path in named if not (root / path).exists() and path != "config/published/study-k.yaml"]
    assert not missing


def commands_of(document: Path) -> list[list[str]]:
    """The words of every command of the package in its blocks of code, without what it stands for by `<` or `...`."""
    blocks = re.findall(r"^```\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [
        shlex.split(line, comments=True)
        for line in lines
        if re.match(r"(?:\.venv/bin/)?dpscale (?!.*(?:<|\.\.\.))", line)
    ]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_have_the_options_that_documents_give_them(root: Path, name: str) -> None:
    for _, command, *arguments in commands_of(root / name):
        main.commands[command].make_context(command, arguments)


def cited(root: Path, method: str) -> set[str]:
    """The names of the package that the method cites."""
    rooms = "|".join(path.name for path in (root / "workflow/dpscale").iterdir() if path.is_dir())
    return {span for span in spans(method) if re.fullmatch(rf"({rooms})(\.\w+)+", span)}


def test_the_method_cites_code_that_exists(root: Path, method: str) -> None:
    names = cited(root, method)
    assert len(names) > 20
    for name in names:
        assert resolve_name(f"dpscale.{name}")


def test_every_formula_stands_in_the_method(root: Path, method: str) -> None:
    functions = getmembers(scaling, isfunction)
    formulas = {name for name, function in functions if function.__module__ == scaling.__name__}
    assert "communication_s" in formulas
    assert not {f"formulas.scaling.{name}" for name in formulas} - cited(root, method)


def test_the_network_in_the_method_is_the_one_that_is_trained(root: Path, method: str) -> None:
    """Its size, work and messages, as `dpscale network` wrote them."""
    facts = json.loads((root / "results/recorded/network.json").read_text())
    numbers = [facts["parameters"], facts["gradient_bytes"], facts["buffer_bytes"]]
    numbers += [bucket["bytes"] for bucket in facts["ddp_buckets"]] + [IMAGE_BYTES]
    work = [facts["flop_per_image"]["forward"], facts["flop_per_image"]["forward_backward"]]
    expected = [
        *(f"{number:,}" for number in numbers),
        *(f"{flop / 1e9:.4f}" for flop in work),
        f"{facts['tensors']} tensors",
    ]
    assert not [number for number in expected if number not in method]


@pytest.mark.parametrize(
    ("name", "sentence"),
    cases(__file__, "numbers"),
)
def test_numbers_of_the_method_are_those_of_the_code(method: str, name: str, sentence: str) -> None:
    assert sentence.format(resolve_name(f"dpscale.{name}")).replace("%", " %") in method


def test_one_version_everywhere(root: Path) -> None:
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    released = re.findall(r"^## (\d\S*) \((\S+)\)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == (dpscale.__version__, str(citation["date-released"]))
    assert str(citation["version"]) == dpscale.__version__
    assert 'dynamic = ["version"]' in (root / "pyproject.toml").read_text(), "pyproject.toml takes it from the package"
