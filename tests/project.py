"""A copy of the project with a small study in it, and a real Snakemake to run there."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

STUDY: dict[str, Any] = {
    "study": "tiny",
    "device": "cpu",
    "strategies": ["single", "ddp"],
    "gpus": [1, 2],
    "batch_per_gpu": [64],
    "scopes": ["compute"],
    "epochs": {"timed": 1},
    "runs": 2,
    "dataset": {"source": "synthetic", "images": 128, "loader_workers": 0},
    "network": {"width": 4},
    "communication": {"runs": 0},
}


class Project:
    """A folder with the project's code in it, whose study can be changed and run."""

    first_run: dict[str, int]  # what the run from nothing started, where there was one

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def create(cls, root: Path, folder: Path) -> Self:
        shutil.copytree(
            root / "workflow", folder / "workflow", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        shutil.copytree(root / "config", folder / "config")
        shutil.copy(root / "Snakefile", folder)
        shutil.copy(root / "slurm", folder, follow_symlinks=False)
        project = cls(folder)
        project.write_study(STUDY)
        return project

    def copy(self, folder: Path) -> Self:
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        return type(self)(folder)

    def write_study(self, study: dict[str, Any]) -> None:
        (self.folder / "study.yaml").write_text(yaml.safe_dump(study))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, "--configfile", "study.yaml"]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder / "workflow")}

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
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

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("results/*/logs/**/*.log")))

    def records(self, pattern: str = "run-*.json") -> list[Path]:
        return sorted(self.folder.glob(f"results/tiny/cells/**/{pattern}"))

    def record(self, strategy: str = "ddp", gpus: int = 2, run: int = 1) -> Path:
        return self.folder / f"results/tiny/cells/{strategy}/gpus-{gpus}/batch-64/run-{run}.json"

    def change_study(self, **changes: Any) -> None:
        self.write_study({**STUDY, **changes})

    def endless(self, workers: str = "True", epochs: int = 10**9, undo: bool = False) -> None:
        """Have cells warm up for ever, without changing a setting: as if they were very slow.

        Only those for which `workers`, an expression of the worker's code, is true; or for so many epochs.
        """
        path = self.folder / "workflow/dpscale/measure/worker/timing.py"
        whole, slow = "range(self.settings.warmup_epochs)", f"range({epochs} if {workers} else 1)"
        text = path.read_text()
        assert (slow if undo else whole) in text
        path.write_text(text.replace(slow, whole) if undo else text.replace(whole, slow))

    @property
    def page(self) -> Path:
        return self.folder / "report/tiny.html"

    def page_is_partial(self) -> bool:
        return "This page is partial" in self.page.read_text()


def job_counts(output: str) -> dict[str, int]:
    """The first table of job numbers in what Snakemake printed; empty where there was nothing to do."""
    if "Nothing to be done" in output:
        return {}
    table = output.split("Job stats:", 1)[1].split("\n\n", 1)[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE) if name != "total"}


def wait_for(condition: Callable[[], object], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def running_in(folder: Path) -> list[int]:
    """Processes whose working folder is `folder`: Snakemake, cells and their workers."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder and "Z" not in state(entry):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def state(process: Path) -> str:
    return (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
