"""The last lines of a run, of records that were measured on GPUs."""

import subprocess
import sys
from pathlib import Path

import pytest

from project import Clone

pytestmark = pytest.mark.snakemake


def test_a_slow_server_is_named_before_the_page(root: Path, tmp_path: Path) -> None:
    """A GPU of one of the recorded servers is hot."""
    clone = Clone(root, tmp_path / "project")
    words = "partial --cores 2 --logger dpscale --configfile config/recorded-two-gpus.yaml --config gpus_available=2"
    printed = clone.run(sys.executable, "-m", "snakemake", *words.split(), stderr=subprocess.STDOUT)
    *_, server, page = printed.splitlines()
    assert server.startswith("Server 8 (vm, with GPU-8c44cb12, GPU-eb86bf1f) is slow: an epoch there takes 1.2")
    assert "To leave it out, delete its records" in server
    assert page == "page: report/recorded-two-gpus.html"
