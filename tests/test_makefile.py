"""The Makefile: its list of targets, and what documents say of them."""

import re
import subprocess
from pathlib import Path

import pytest


@pytest.mark.processes
def test_what_targets_do_stands_in_one_column(root: Path) -> None:
    shown = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    lines = [re.match(r"  make ([a-z-]+) +(?=\S)", line) for line in shown.splitlines()]
    named = [line for line in lines if line]
    assert {"report", "assignment", "test-frameworks"} <= {line[1] for line in named}
    assert len(named) == len(lines) and len({line.end() for line in named}) == 1


def test_documents_name_the_target_that_installs_trackers(root: Path) -> None:
    (target,) = re.findall(
        r"^([a-z-]+): .*\n\t\$\(call install,.*\$\(TRACKERS\)\)$", (root / "Makefile").read_text(), re.M
    )
    assert f"In a clone, `make {target}` installs all of them" in (root / "docs/exports.md").read_text()
