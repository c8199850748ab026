"""Runs a training script with the hooks of `diagnosis/attach` in it, as `dpscale diagnose` does."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from subprocess import PIPE, STDOUT
from typing import Any

import dpscale
import warm

SITE = Path(dpscale.__file__).parent / "diagnosis/attach/site"
AS_MANY_AS_FIT = 1000  # rounds
SCRIPTS = Path(__file__).parents[1] / "scripts"


@dataclass(frozen=True)
class Attached:
    """The result of a run: its exit code and output, and the files of its processes, by rank."""

    code: int
    output: str
    processes: list[dict[str, Any]]
    files: list[str]

    def pace(self, probe: str, rank: int = 0) -> float:
        """Seconds per step: the median over blocks of one probe."""
        blocks = [block for block in self.processes[rank]["blocks"] if block["probe"] == probe]
        return float(median(block["seconds"] / block["steps"] for block in blocks))

    def probes(self, rank: int = 0) -> list[str]:
        """The probe of each block, in their order."""
        return [block["probe"] for block in self.processes[rank]["blocks"]]


def run_attached(
    folder: Path,
    command: Sequence[str],
    minutes: float = 0.1,
    rounds: int = 1,
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    **job: Any,
) -> Attached:
    """Runs `python *command` with the hooks; `job` are further entries of its job.json. Where no `python` is named, its
    processes have loaded torch already."""
    out = folder / "attached"
    out.mkdir()
    (out / "job.json").write_text(json.dumps({"minutes": minutes, "rounds": rounds, "mode": "diagnose", **job}))
    path = os.pathsep.join([str(SITE), *(environment or {}).get("PYTHONPATH", "").split(os.pathsep)])
    variables = {**os.environ, **(environment or {}), "PYTHONPATH": path, "DPSCALE_ATTACH": str(out)}
    if python is None:
        done = warm.python(command, folder, variables)
    else:
        done = subprocess.run([python, *command], env=variables, cwd=folder, stdout=PIPE, stderr=STDOUT, text=True)
    by_rank: dict[int, dict[str, Any]] = {}
    for path_of_process in out.glob("process-*.json"):
        values = json.loads(path_of_process.read_text())
        by_rank[values["rank"]] = values
    processes = [by_rank[rank] for rank in sorted(by_rank)]
    return Attached(done.returncode, done.stdout, processes, sorted(file.name for file in out.iterdir()))


def torchrun(*script: str) -> list[str]:
    """Two ranks of a script."""
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *script]
