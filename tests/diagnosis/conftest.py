"""What is left of scripts that were started."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def private(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own for what is not to be left, neither a file nor a process."""
    folder = tmp_path_factory.mktemp("private")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []
    until = time.monotonic() + 5  # a process that was killed is there for a moment
    while left := [process.name for process in Path("/proc").glob("[0-9]*") if _is_in(folder, process)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


def _is_in(folder: Path, process: Path) -> bool:
    try:
        return f"DPSCALE_ATTACH={folder}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False
