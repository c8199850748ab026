"""A disk that is full, on a real file system: one line, and no damaged file."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpscale.errors import RecordError
from stub_cell import measure_stub

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB; unmounted after the test."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root here")
    yield folder
    subprocess.run(["umount", str(folder)], capture_output=True)


def test_a_record_on_a_full_disk(folder: Path) -> None:
    (folder / "filler").write_bytes(b"x" * 65536)
    with pytest.raises(RecordError, match=r"record\.json: cannot be written: No space left on device"):
        measure_stub(folder / "record.json")
    assert [path.name for path in folder.iterdir()] == ["filler"]
