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
def required(project: Mapping[str, Any]) -> list[Requirement]:
    """Of the package and of all its extras."""
    extras = project["project"]["optional-dependencies"].values()
    return [Requirement(line) for lines in (project["project"]["dependencies"], *extras) for line in lines]


@pytest.fixture(scope="module")
def lines(root: Path) -> list[str]:
    return (root / "requirements.txt").read_text().splitlines()


def pins(lines: list[str]) -> dict[str, str]:
    """The pinned versions by name. Raises ValueError where a line is more or less than a name and its version."""
    stated = [line.partition("#")[0].strip() for line in lines]
    return dict(line.split("==") for line in stated if line)


def test_every_line_is_a_name_and_its_version(lines: list[str]) -> None:
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in pins(lines))
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins(lines).values())
    assert not [line for line in lines if "://" in line]


def test_the_header_says_what_makes_it(project: Mapping[str, Any], lines: list[str]) -> None:
    assert lines[1].removeprefix("#").strip() == project["tool"]["uv"]["pip"]["custom-compile-command"]


def test_everything_that_is_asked_for_is_pinned_as_asked(required: list[Requirement], lines: list[str]) -> None:
    pinned = pins(lines)
    wrong = [
        str(requirement)
        for requirement in required
        if not requirement.specifier.contains(pinned[requirement.name.lower()])
    ]
    assert not wrong


def test_where_private_parts_are_used_versions_are_bounded_above(required: list[Requirement]) -> None:
    bounded = {
        requirement.name for requirement in required if any(part.operator == "<" for part in requirement.specifier)
    }
    assert bounded == set(PRIVATE_PARTS)
