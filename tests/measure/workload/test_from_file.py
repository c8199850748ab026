"""A user's file as a workload, and the one line that each of its faults is told in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import warm
from cases import cases
from dpscale.errors import WorkloadError
from dpscale.measure.workload import from_file
from dpscale.measure.workload.from_file import fault_of, load_workload
from workload_file import SAMPLES, written


def refusal(folder: Path, more: str) -> str:
    """The line that a file with `more` in it is refused with, when it is loaded or its functions are called."""
    with pytest.raises(WorkloadError) as caught:
        workload = load_workload(written(folder, more=more))
        workload.dataset()
        workload.loss(workload.network(), torch.randn(3, 4))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_modules_beside_the_file_come_before_the_working_folder_and_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of `python FILE`."""
    working, library, mine = folders = [tmp_path / name for name in ("working", "library", "mine")]
    for folder in folders:
        folder.mkdir()
        (folder / "found_by_workload.py").write_text(f"FOLDER = {folder.name!r}\n")
    monkeypatch.chdir(working)
    monkeypatch.setattr(sys, "path", [str(working), str(library), *sys.path, str(mine)])
    monkeypatch.setattr(from_file, "__path__", sys.path)
    load_workload(written(mine, more="from found_by_workload import FOLDER\nassert FOLDER == 'mine'\n"))
    monkeypatch.delitem(sys.modules, "found_by_workload")


def test_a_file_that_hides_a_library(tmp_path: Path) -> None:
    """A process of a DataLoader that is spawned would import it in place of the library."""
    with pytest.raises(WorkloadError, match="hides Python's module torch, which is needed here: rename it"):
        load_workload(written(tmp_path).rename(tmp_path / "torch.py"))


@pytest.mark.parametrize(("more", "line"), cases(__file__, "unusable"))
def test_functions_that_cannot_be_used(tmp_path: Path, more: str, line: str) -> None:
    assert line in refusal(tmp_path, more)


def test_what_the_file_raises_is_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'" in refusal(tmp_path, "import nowhere")
    log = capfd.readouterr().err
    assert "Traceback" in log and "import nowhere" in log


def raised_in(path: Path, text: str) -> Exception:
    """The error that running `text` as the file at `path` raises."""
    path.write_text(text)
    with pytest.raises(Exception) as caught:
        exec(compile(text, str(path.resolve()), "exec"), {})
    return caught.value


def test_the_line_of_the_file_that_raised_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    error = raised_in(path, "def loss():\n    return {}['x']\nloss()\n")
    assert str(fault_of(error, path)).startswith(f"workload: {path}, line 2, in loss: KeyError: 'x'.")


def test_errors_elsewhere_are_no_faults_of_the_file(tmp_path: Path) -> None:
    assert (
        fault_of(raised_in(tmp_path / "library.py", "raise RuntimeError('NCCL error')"), tmp_path / "mine.py") is None
    )
    assert fault_of(raised_in(tmp_path / "mine.py", "raise RuntimeError"), None) is None, "of the built-in workload"


def test_an_error_of_torch_says_what_to_change(tmp_path: Path) -> None:
    error = RuntimeError("stack expects each tensor to be equal size, but got [1]")
    assert "define collate(items)" in str(fault_of(error, tmp_path / "mine.py"))


# Collates with a function, and makes items with a class, of the file; both need a module beside it.
MORE = """
from beside_the_workload import ONE

class Vectors(Vectors):
    def __getitem__(self, index):
        return torch.full((2,), float(index + ONE))

def collate(items):
    return {"x": torch.stack(items), "threads": [torch.get_num_threads()] * ONE}
"""
LOAD = """
import multiprocessing
import sys
from pathlib import Path

multiprocessing.set_start_method("spawn", force=True)

from dpscale.measure.workload.from_file import fault_of
from dpscale.measure.workload.from_file import load_workload
from dpscale.measure.workload.loading import LoadedEpochs, samples_of_epoch

workload = load_workload(Path(sys.argv[1]))
samples = samples_of_epoch(workload, int(sys.argv[2]))
epoch = LoadedEpochs(samples, (0, 1, 5), 2, False, workload.collate)
try:
    print(sorted(number for batch in epoch for number, _ in batch["x"].tolist()))
except Exception as error:
    sys.exit(str(fault_of(error, workload.path)))
"""


def loaded(path: Path, samples: int) -> subprocess.CompletedProcess[str]:
    return warm.python(["-c", LOAD, str(path), str(samples)], path.parent.parent, os.environ)


@pytest.mark.processes
def test_they_find_classes_and_functions_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "beside_the_workload.py").write_text("ONE = 1\n")
    done = loaded(written(tmp_path, MORE), SAMPLES - 1)
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.split()) == SAMPLES - 1


@pytest.mark.processes
def test_what_they_cannot_be_sent_is_told(tmp_path: Path) -> None:
    local = """
def dataset():
    class Local(Vectors):
        pass
    return Local()
"""
    done = loaded(written(tmp_path, local), SAMPLES)
    assert done.returncode == 1
    assert "define its classes and functions at the top level of the file" in done.stdout
