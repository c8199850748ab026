"""Copies of the project: one with a small study in it and a real Snakemake to run there, and a fresh clone."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

import warm
from cases import cases

HELPERS = Path(__file__).parent
STUDY: dict[str, Any] = cases(__file__, "tiny")
KINDS = ("timing", "communication", "collectives", "training")


# In place of a chart.
NOTHING_DRAWN = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><g class="empty"></g></svg>'


class Copy:
    """A folder with the project's code in it, which can be changed."""

    def __init__(self, folder: Path):
        self.folder = folder

    def edit(self, file: str, old: str, new: str) -> None:
        """Change a line of the package."""
        path = self.folder / "workflow/dpscale" / file
        text = path.read_text()
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new))

    def draw_nothing(self) -> None:
        """Have pictures be empty. To draw them takes longer than all else about a page."""
        self.edit(
            "present/charts/picture.py",
            "vl_convert.vegalite_to_svg(chart.to_dict(validate=False))",
            repr(NOTHING_DRAWN),
        )


class Project(Copy):
    """A copy whose study can be changed and run.

    Its workers are stubs, for which Snakemake, the launcher and the records are as for any other: a cell takes a second
    in place of five. Its pictures are empty.
    """

    @classmethod
    def create(cls, root: Path, folder: Path, stubs: tuple[str, ...] = KINDS) -> Self:
        """A copy of the project at `root`; the workers of the kinds in `stubs` measure nothing."""
        shutil.copytree(root / "workflow", folder / "workflow", ignore=shutil.ignore_patterns("*.egg-info"))
        shutil.copytree(root / "config", folder / "config")
        shutil.copy(root / "Snakefile", folder)
        shutil.copy(root / "slurm", folder, follow_symlinks=False)
        project = cls(folder)
        project.write_study(STUDY)
        for kind in stubs:
            project._write_stub(kind, {})
        project.draw_nothing()
        return project

    def copy(self, folder: Path) -> Self:
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        return type(self)(folder)

    def write_study(self, study: Mapping[str, Any]) -> None:
        (self.folder / "study.yaml").write_text(yaml.safe_dump(study))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, "--configfile", "study.yaml"]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder / "workflow"), str(HELPERS)])}

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in a process that has loaded it. Its output has both streams."""
        _, _, snakemake, *words = self.command(*arguments)
        assert snakemake == "snakemake"
        return warm.snakemake(words, self.folder, self.environment)

    def command_line(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake as a user does. It takes a second and a half longer."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def planned(self, *arguments: str) -> dict[str, int]:
        """How many jobs of every rule a run would start now."""
        done = self.snakemake("-n", *arguments)
        assert done.returncode == 0, done.stdout
        return job_counts(done.stdout)

    def run(self, *arguments: str) -> dict[str, int]:
        """Run, and return how many jobs of every rule were started."""
        done = self.snakemake(*arguments)
        assert done.returncode == 0, done.stdout + self.logs()
        return job_counts(done.stdout)

    def run_first(self) -> None:
        """Run from nothing, and keep what was started."""
        (self.folder / "first-run.json").write_text(json.dumps(self.run()))

    @property
    def first_run(self) -> dict[str, int]:
        """How many jobs of every rule the first run started."""
        jobs: dict[str, int] = json.loads((self.folder / "first-run.json").read_text())
        return jobs

    def full_log(self) -> str:
        """Return the log of the newest run that was no dry run."""
        return max(self.folder.glob(".snakemake/log/*.log"), default=self.folder / "study.yaml").read_text()

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("results/*/logs/**/*.log")))

    def records(self, pattern: str = "run-*.json") -> list[Path]:
        return sorted(self.folder.glob(f"results/tiny/cells/**/{pattern}"))

    def record(self, strategy: str = "ddp", gpus: int = 2, run: int = 1) -> Path:
        return self.folder / f"results/tiny/cells/{strategy}/gpus-{gpus}/batch-64/run-{run}.json"

    def change_study(self, **changes: Any) -> None:
        self.write_study({**STUDY, **changes})

    def endless(self, *strategies: str, epochs: int = 10**9) -> None:
        """Have timing cells of these strategies, all where none is named, warm up for ever, without changing a setting:
        as if they were very slow; or for so many epochs of 0.05 s."""
        self._write_stub("timing", dict.fromkeys(strategies or ("single", "ddp"), epochs))

    def endless_no_more(self) -> None:
        self._write_stub("timing", {})

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Snakemake in the background, in a session of its own; what it prints is in `log`."""
        with self.log.open("w") as log:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def start_a_cell(self, *arguments: str, epochs: int = 10**9) -> subprocess.Popen[str]:
        """Snakemake that measures a cell, which warms up by now."""
        self.record().unlink()
        self.endless(epochs=epochs)
        snakemake = self.start("--until", "time", *arguments)
        wait_for(self.is_warming_up)
        return snakemake

    @property
    def log(self) -> Path:
        return self.folder / "snakemake.log"

    def is_warming_up(self) -> bool:
        """Whether the cell of the record `record()` is."""
        try:
            log = self.folder / "results/tiny/logs/cells/ddp/gpus-2/batch-64/run-1.log"
            return "warm-up epoch 2:" in log.read_text()
        except FileNotFoundError:  # Snakemake removes the log of an earlier attempt at some moment
            return False

    def _write_stub(self, kind: str, warmup_epochs: Mapping[str, int]) -> None:
        path = self.folder / f"workflow/dpscale/measure/worker/{kind}.py"
        assert path.exists(), f"no worker is called {kind}"
        path.write_text(f"from stub_cell import stub\n\nWORKER = stub({kind!r}, {warmup_epochs!r})\n")

    @property
    def page(self) -> Path:
        return self.folder / "report/tiny.html"

    @property
    def audit_page(self) -> Path:
        return self.folder / "report/tiny-audit.html"

    def page_is_partial(self) -> bool:
        return "This page is partial" in self.page.read_text()


class Clone(Copy):
    """A clone in `folder`, with what is not committed yet."""

    def __init__(self, root: Path, folder: Path):
        if not (root / ".git").exists():
            pytest.skip("no git repository here to clone")
        super().__init__(folder)
        subprocess.run(["git", "clone", "--quiet", str(root), str(folder)], check=True)
        for change in ("Makefile", "Snakefile", "workflow", "config", "docs"):
            if (root / change).is_dir():
                shutil.copytree(root / change, folder / change, dirs_exist_ok=True)
            else:
                shutil.copy(root / change, folder / change)

    def make(self, *targets: str) -> str:
        """Call make with programs that have loaded what they need; it must succeed. Return its output."""
        environment_folder = Path(sys.executable).parents[1]
        if not (environment_folder / ".ready").exists():
            pytest.skip("not in an environment that make has set up")
        borrowed = [
            f"VENV={environment_folder}",
            *(f"--old-file={environment_folder}/.ready{suffix}" for suffix in ("", "-dev")),
        ]
        words = ["make", "--no-print-directory", *targets, *borrowed, f"BIN={warm.programs()}"]
        return self.run(*words, stderr=subprocess.STDOUT)

    def run(self, *command: str, stderr: int = subprocess.PIPE) -> str:
        """Run a command in the clone's folder, which must succeed. Return its output."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**environment, "PYTHONPATH": str(self.folder / "workflow"), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        assert done.returncode == 0, done.stdout + (done.stderr or "")
        return done.stdout


def job_counts(output: str) -> dict[str, int]:
    """The first table of job numbers in what Snakemake printed; empty where there was nothing to do."""
    if "Nothing to be done" in output:
        return {}
    table = output.split("Job stats:", 1)[1].split("\n\n", 1)[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE) if name != "total"}


def wait_for(condition: Callable[[], object], timeout_s: float = 240) -> None:
    """A state, however slow the machine: the limit only ends what hangs."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
