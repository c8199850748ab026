"""A copy of the project with a small study in it, and a real Snakemake to run there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

STUDY = {
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
}


class Project:
    """A folder with the project's code in it, whose study can be changed and run."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def create(cls, root: Path, folder: Path) -> "Project":
        shutil.copytree(
            root / "workflow", folder / "workflow", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        shutil.copytree(root / "config", folder / "config")
        shutil.copy(root / "Snakefile", folder)
        project = cls(folder)
        project.write_study(STUDY)
        return project

    def copy(self, folder: Path) -> "Project":
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Project(folder)

    def write_study(self, study: dict) -> None:
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

    @property
    def page(self) -> Path:
        return self.folder / "report/tiny.html"


def job_counts(output: str) -> dict[str, int]:
    """The first table of job numbers in what Snakemake printed; empty where there was nothing to do."""
    if "Nothing to be done" in output:
        return {}
    table = output.split("Job stats:", 1)[1].split("\n\n", 1)[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE) if name != "total"}
