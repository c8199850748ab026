"""Training under accelerate, Lightning and transformers, unchanged. `make test-frameworks` installs them and runs this.

Each is imported by its own script alone, with the Python of FRAMEWORKS (an environment of their own), or of the tests.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attached import run_attached, torchrun

pytestmark = pytest.mark.processes
PYTHON = os.environ.get("FRAMEWORKS", sys.executable)
HERE = Path(__file__).parent


def is_installed(*names: str) -> bool:
    """Under one of these names."""
    return any(subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True).returncode == 0 for name in names)


@pytest.mark.parametrize(
    ("framework", "command", "expected"),
    [
        ("accelerate", torchrun("in_accelerate.py"), {"micro_batches_per_step": 2}),
        ("lightning", ["in_lightning.py"], {"micro_batches_per_step": 1, "strategy": "ddp"}),
        ("transformers", torchrun("in_transformers.py"), {"micro_batches_per_step": 2}),
    ],
)
def test_two_ranks_under(framework: str, command: list[str], expected: dict[str, Any], tmp_path: Path) -> None:
    if not is_installed(framework, f"pytorch_{framework}"):
        pytest.skip(f"{framework} is not installed: make test-frameworks")
    command = [str(HERE / word) if word.endswith(".py") else word for word in command]
    run = run_attached(tmp_path, command, minutes=0.1, python=PYTHON)
    assert run.code == 0, run.output
    assert [process["status"] for process in run.processes] == ["measured", "measured"], run.output
    assert {name: run.processes[0][name] for name in expected} == expected
    assert {"no_allreduce", "batch_kept"} <= set(run.probes())
    assert run.probes(0) == run.probes(1)
