"""The package as a wheel: complete without the repository, useful without torch; and the pins of what it requires."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import warm

pytestmark = pytest.mark.processes

BUILD = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
INSTALL = ("install", "--quiet", "--no-deps", "--no-index")


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because setuptools leaves folders beside what it builds."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "workflow/dpscale", source / "workflow/dpscale", ignore=without)
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(root / file, source)
    subprocess.run([sys.executable, *BUILD, str(out), str(source)], check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def clean(wheel: Path, metadata: Message, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it requires without any extra, and nothing else.

    The required distributions are linked from this environment: no test asks the network for them.
    """
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    programs = folder / "bin"
    subprocess.run([sys.executable, "-m", "pip", "--python", programs / "python", *INSTALL, wheel], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for required in closure(metadata.get_all("Requires-Dist", [])):
        for name in {file.parts[0] for file in required.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(required.locate_file(name))))
    return programs


def closure(requirements: list[str]) -> Iterator[Distribution]:
    """Every distribution that these requirements bring, directly or through others, as it is installed here."""
    waiting, seen = list(requirements), set()
    while waiting:
        requirement = Requirement(waiting.pop())
        needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if needed and requirement.name not in seen:
            seen.add(requirement.name)
            installed = distribution(requirement.name)
            yield installed
            waiting += installed.requires or []


def run(clean: Path, *command: str, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([clean / command[0], *command[1:]], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_file_of_the_package_is_in_the_wheel(root: Path, wheel: Path) -> None:
    package = root / "workflow/dpscale"
    files = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("dpscale/")}
    assert packed == files
    assert {Path(name).suffix for name in files} >= {".py", ".yaml", ".j2", ".css"}


def test_tables_and_audits_are_made_without_torch(root: Path, clean: Path, tmp_path: Path) -> None:
    packages = "['dpscale', 'torch', 'torchvision', 'snakemake', 'pytest']"
    list_installed = f"from importlib.util import find_spec; print([name for name in {packages} if find_spec(name)])"
    assert run(clean, "python", "-c", list_installed) == "['dpscale']\n"
    results = tmp_path / "results"
    results.mkdir()
    for recorded in (root / "results/recorded-two-gpus").iterdir():  # the smallest
        if recorded.name != "audit":
            (results / recorded.name).symlink_to(recorded)
    published = [str(root / f"config/published/study-{letter}.yaml") for letter in "ab"]
    run(clean, "dpscale", "audit", *published, "--out", str(results / "audit"))
    assert sorted(path.stem for path in (results / "audit").iterdir()) == [Path(file).stem for file in published]
    study = [str(root / "config/recorded-two-gpus.yaml")]
    run(clean, "dpscale", "tables", *study, "--results", str(results), "--out", str(tmp_path / "tables"))
    assert {path.stem for path in (tmp_path / "tables").iterdir()} > {"times", "speedup", "bandwidth", "audit"}
    assert len((tmp_path / "tables/times.csv").read_text().splitlines()) > 1


def test_a_command_that_measures_names_the_extra_it_lacks(clean: Path, tmp_path: Path) -> None:
    printed = run(clean, "dpscale", "network", "--out", str(tmp_path / "network.json"), code=1)
    extra = "dpscale[measure]"
    assert printed == f"Error: this command needs torch, which the extra {extra} brings: pip install '{extra}'\n"


def test_a_script_in_another_environment_is_diagnosed_without_torch(root: Path, clean: Path, tmp_path: Path) -> None:
    record = tmp_path / "r.json"
    # Its steps take a millisecond: enough of them fit into seconds on a busy machine, too.
    script = [str(root / "bench/diagnosed/mlp.py"), "--batch", "1"]
    python = str(warm.programs() / "python")
    answer = run(clean, "dpscale", "diagnose", "--minutes", "0.03", "--json", str(record), "--", python, *script)
    assert "A step takes" in answer
    (process,) = json.loads(record.read_text())["runs"][0]["processes"]
    assert process["status"] == "measured"
    assert {"as_it_is", "batch_kept"} < {block["probe"] for block in process["blocks"]}


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
