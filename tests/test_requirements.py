"""What pyproject.toml asks for, and the pins that uv makes of it."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# What uses private parts of a package must not meet a version that it was not tried with.
PRIVATE_PARTS = ("snakemake", "snakemake-executor-plugin-slurm")


@pytest.fixture(scope="module")
def required(root: Path) -> dict[str, list[Requirement]]:
    """The requirements of the package (under ""), and of each of its extras."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lines_by_extra = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: list(map(Requirement, lines)) for extra, lines in lines_by_extra.items()}


def pins(file: Path) -> dict[str, str]:
    """The pinned versions by name. Raises ValueError where a line is more or less than a name and its version."""
    stated = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return dict(line.split("==") for line in stated if line)


@pytest.fixture(scope="module")
def run(root: Path) -> dict[str, str]:
    """Pins of what `make report` runs."""
    return pins(root / "requirements.txt")


@pytest.fixture(scope="module")
def developed(root: Path) -> dict[str, str]:
    """Pins of that and of what tests and linters add."""
    return pins(root / "requirements-dev.txt")


def test_what_runs_is_a_part_of_what_is_tested_and_has_no_linter(
    run: dict[str, str], developed: dict[str, str]
) -> None:
    assert run.items() < developed.items()
    assert not {"pytest", "mypy", "ruff", "playwright"} & run.keys()


def test_everything_that_is_asked_for_is_pinned_as_asked(
    required: dict[str, list[Requirement]], run: dict[str, str], developed: dict[str, str]
) -> None:
    for extra, requirements in required.items():
        pinned = run if extra in ("", "measure", "workflow") else developed
        for requirement in requirements:
            assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement


def test_where_private_parts_are_used_versions_are_bounded_above(required: dict[str, list[Requirement]]) -> None:
    bounded = {
        requirement.name
        for requirements in required.values()
        for requirement in requirements
        if any(bound.operator == "<" for bound in requirement.specifier)
    }
    assert bounded == set(PRIVATE_PARTS)
