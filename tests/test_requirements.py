"""What pyproject.toml asks for, and the pins that uv makes of it."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

# What uses private parts of a package must not meet a version that it was not tried with.
PRIVATE_PARTS = ("snakemake", "snakemake-executor-plugin-slurm", "wandb")


@pytest.fixture(scope="module")
def project(root: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())
    return found


@pytest.fixture(scope="module")
def required(project: Mapping[str, Any]) -> dict[str, list[Requirement]]:
    """Of the package, and of each of its extras."""
    extras = project["project"]["optional-dependencies"]
    return {
        name: [Requirement(line) for line in lines]
        for name, lines in {"": project["project"]["dependencies"], **extras}.items()
    }


@pytest.fixture(scope="module")
def run(root: Path) -> list[str]:
    """The lines of what `make report` runs."""
    return (root / "requirements.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def developed(root: Path) -> list[str]:
    """The lines of that and of what tests, linters and trackers add."""
    return (root / "requirements-dev.txt").read_text().splitlines()


def pins(lines: list[str]) -> dict[str, str]:
    """The pinned versions by name. Raises ValueError where a line is more or less than a name and its version."""
    stated = [line.partition("#")[0].strip() for line in lines]
    return dict(line.split("==") for line in stated if line)


def test_every_line_is_a_name_and_its_version(developed: list[str]) -> None:
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in pins(developed))
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins(developed).values())
    assert not [line for line in developed if "://" in line]


def test_the_header_says_what_makes_it(project: Mapping[str, Any], run: list[str], developed: list[str]) -> None:
    command = project["tool"]["uv"]["pip"]["custom-compile-command"]
    assert {lines[1].removeprefix("#").strip() for lines in (run, developed)} == {command}


def test_what_runs_is_a_part_of_what_is_tested_and_has_no_tracker_and_no_linter(
    run: list[str], developed: list[str]
) -> None:
    assert pins(run).items() < pins(developed).items()
    assert not {"wandb", "mlflow-skinny", "tensorboard", "pytest", "mypy", "ruff", "playwright"} & pins(run).keys()


def test_everything_that_is_asked_for_is_pinned_as_asked(
    required: dict[str, list[Requirement]], run: list[str], developed: list[str]
) -> None:
    wrong = [
        str(requirement)
        for extra, requirements in required.items()
        for requirement in requirements
        if not requirement.specifier.contains(
            pins(run if extra in ("", "measure", "workflow") else developed)[requirement.name.lower()]
        )
    ]
    assert not wrong


def test_where_private_parts_are_used_versions_are_bounded_above(required: dict[str, list[Requirement]]) -> None:
    bounded = {
        requirement.name
        for requirements in required.values()
        for requirement in requirements
        if any(part.operator == "<" for part in requirement.specifier)
    }
    assert bounded == set(PRIVATE_PARTS)
