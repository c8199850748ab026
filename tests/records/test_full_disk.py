"""A disk that is full and a folder that is read-only, on real file systems: one line, and no damaged file."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

CELL = "time --strategy single --gpus 1 --batch-per-gpu 32 --device cpu --width 4 --timed-epochs 1 --scopes compute"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
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


def dpscale(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dpscale", *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    assert dpscale("dataset", "--source", "synthetic", "--images", "64", "--out", str(folder)).returncode == 0
    return folder


def time_cell(dataset: Path, out: Path) -> subprocess.CompletedProcess[str]:
    source = ["--dataset-source", "synthetic", "--epoch-images", "64", "--dataset", str(dataset)]
    return dpscale(*CELL.split(), *source, "--out", str(out))


def test_a_record_on_a_full_disk(mounted: Callable[..., Path], dataset: Path) -> None:
    folder = mounted()
    (folder / "filler").write_bytes(b"x" * 65536)
    done = time_cell(dataset, folder / "record.json")
    assert done.returncode == 1
    assert "record.json: cannot be written: No space left on device" in done.stderr.splitlines()[-1]
    assert [path.name for path in folder.iterdir()] == ["filler"]


def test_a_record_in_a_read_only_folder(mounted: Callable[..., Path], dataset: Path) -> None:
    done = time_cell(dataset, mounted("ro") / "record.json")
    assert done.returncode == 1
    assert "record.json: cannot be written: Read-only file system" in done.stderr.splitlines()[-1]


def test_a_dataset_on_a_full_disk(mounted: Callable[..., Path]) -> None:
    folder = mounted()
    done = dpscale("dataset", "--source", "synthetic", "--images", "5000", "--out", str(folder))
    assert done.returncode == 1
    assert "written. Free space or fix permissions" in done.stderr.splitlines()[-1]
    assert not list(folder.iterdir())
