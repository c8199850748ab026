"""Temporary folders: those of killed processes go with a later one, those of living ones stay."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dpscale.records.temporary import TemporaryFolder

HOLDER = "from dpscale.records.temporary import TemporaryFolder as T; folder = T(); print(flush=True); input()"


@pytest.mark.processes
def test_a_later_process_deletes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "dpscale-of-somebody").mkdir()
    words = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        (held,) = tmp_path.glob("dpscale-run-*")
        os.utime(held, (1, 1))
        with TemporaryFolder():
            assert held.exists()
        process.kill()
    with TemporaryFolder() as folder:
        assert {path.name for path in tmp_path.iterdir()} == {Path(folder).name, "dpscale-of-somebody"}
    assert [path.name for path in tmp_path.iterdir()] == ["dpscale-of-somebody"]
