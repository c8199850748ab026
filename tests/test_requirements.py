"""What pyproject.toml asks for, and the pins that uv makes of it."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The requirements of the package (under ""), and of each of its extras.
REQUIRED = {
    extra: list(map(Requirement, lines))
    for extra, lines in {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items()
}


def pins(file: Path) -> dict[str, str]:
    """The pinned versions by name. Raises ValueError where a line is more or less than a name and its version."""
    stated = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return dict(line.split("==") for line in stated if line)


# What `make report` runs, and that with what tests and linters add.
RUN, DEVELOPED = (pins(ROOT / f"requirements{more}.txt") for more in ("", "-dev"))


def test_what_runs_is_a_part_of_what_is_tested_and_has_no_linter() -> None:
    assert RUN.items() < DEVELOPED.items()
    assert not {"pytest", "mypy", "ruff", "playwright"} & RUN.keys()


def test_everything_that_is_asked_for_is_pinned_as_asked() -> None:
    for extra, requirements in REQUIRED.items():
        pinned = RUN if extra in ("", "measure", "workflow") else DEVELOPED
        for requirement in requirements:
            assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement
