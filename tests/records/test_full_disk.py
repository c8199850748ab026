"""A disk that is full and a folder that is read-only, on real file systems: one line, and no damaged file."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import dpscale
from dpscale.errors import RecordError
from stub_cell import measure_stub

pytestmark = pytest.mark.processes

Mount = Callable[..., Path]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a file system of 64 kB with the options asked for; unmounted after the test."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(*options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", ",".join(("size=64k", *options)), "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting a file system needs root here")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


def test_a_record_on_a_full_disk(mounted: Mount) -> None:
    folder = mounted()
    (folder / "filler").write_bytes(b"x" * 65536)
    with pytest.raises(RecordError, match=r"record\.json: cannot be written: No space left on device"):
        measure_stub(folder / "record.json")
    assert [path.name for path in folder.iterdir()] == ["filler"]


def test_a_record_in_a_read_only_folder(mounted: Mount) -> None:
    with pytest.raises(RecordError, match=r"record\.json: cannot be written: Read-only file system"):
        measure_stub(mounted("ro") / "record.json")


def test_a_dataset_on_a_full_disk(mounted: Mount) -> None:
    folder = mounted()
    done = dpscale("dataset", "--source", "synthetic", "--images", 5000, "--out", folder)
    assert done.returncode == 1
    assert "written. Free space or fix permissions" in done.stderr.splitlines()[-1]
    assert not list(folder.iterdir())
