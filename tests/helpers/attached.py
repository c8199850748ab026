"""Runs a training script with the hooks of `measure/attach` in it, as `dpscale diagnose` does."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import dpscale

SITE = Path(dpscale.__file__).parent / "measure/attach/site"
SCRIPTS = Path(__file__).parents[1] / "scripts"


@dataclass(frozen=True)
class Attached:
    """What a run left: its exit code and output, and the files of its processes, by rank."""

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
    minutes: float = 0.05,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    **job: Any,
) -> Attached:
    """Runs `python *command` with the hooks; `job` are further entries of its job.json."""
    out = folder / "attached"
    out.mkdir()
    (out / "job.json").write_text(json.dumps({"minutes": minutes, "seed": 0, "mode": "diagnose", **job}))
    path = os.pathsep.join([str(SITE), *(environment or {}).get("PYTHONPATH", "").split(os.pathsep)])
    variables = {**os.environ, **(environment or {}), "PYTHONPATH": path, "DPSCALE_ATTACH": str(out)}
    done = subprocess.run(
        [python, *command], env=variables, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for path_of_process in out.glob("process-*.json"):
        values = json.loads(path_of_process.read_text())
        found[values["rank"]] = values
    ranks = [found[rank] for rank in sorted(found)]
    return Attached(done.returncode, done.stdout + done.stderr, ranks, sorted(file.name for file in out.iterdir()))


def torchrun(*script: str) -> list[str]:
    """Two ranks of a script."""
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *script]
