"""A fresh clone of the project, used through make as a stranger would; the environment alone is borrowed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warm


class Clone:
    """A clone in `folder`, with what is not committed yet."""

    def __init__(self, root: Path, folder: Path):
        if not (root / ".git").exists():
            pytest.skip("no git repository here to clone")
        self.folder = folder
        subprocess.run(["git", "clone", "--quiet", str(root), str(folder)], check=True)
        for change in ("Makefile", "Snakefile", "workflow", "config", "docs"):
            if (root / change).is_dir():
                shutil.copytree(root / change, folder / change, dirs_exist_ok=True)
            else:
                shutil.copy(root / change, folder / change)

    def make(self, *targets: str) -> str:
        """What make prints; it must succeed."""
        environment_folder = Path(sys.executable).parents[1]
        if not (environment_folder / ".ready").exists():
            pytest.skip("not in an environment that make has set up")
        borrowed = [
            f"VENV={environment_folder}",
            *(f"--old-file={environment_folder}/.ready{part}" for part in ("", "-dev")),
        ]
        return self.run("make", "--no-print-directory", *targets, *borrowed, stderr=subprocess.STDOUT)

    def make_warm(self, *targets: str) -> str:
        """The same with programs that have loaded what they need; as they are, `make example` and others call them."""
        with warm.programs() as place:
            return self.make(*targets, f"BIN={place}")

    def run(self, *command: str, stderr: int = subprocess.PIPE) -> str:
        """What a command prints in the clone's folder; it must succeed."""
        alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**alone, "PYTHONPATH": str(self.folder / "workflow"), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        assert done.returncode == 0, done.stdout + (done.stderr or "")
        return done.stdout
