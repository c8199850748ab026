"""A user's file as a workload, and the one line that each of its faults is told in."""

import sys
from pathlib import Path

import pytest
import torch

from dpscale.errors import WorkloadError
from dpscale.measure.workload.from_file import fault_of, load_workload
from workload_file import written


def refusal(folder: Path, more: str, use: str = "") -> str:
    """The line that a file with `more` in it is refused with, when it is loaded or its function `use` is called."""
    with pytest.raises(WorkloadError) as caught:
        getattr(load_workload(written(folder, more=more)), use)()
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
    load_workload(written(mine, more="from found_by_workload import FOLDER\nassert FOLDER == 'mine'\n"))
    monkeypatch.delitem(sys.modules, "found_by_workload")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        # A process of a DataLoader that is spawned would import it in place of the library.
        ("torch.py", "hides Python's module torch, which is needed here: rename it"),
        ("mine.v2.py", "cannot import a file with a dot in its name: rename it"),
    ],
)
def test_a_file_that_no_process_could_import(tmp_path: Path, name: str, line: str) -> None:
    with pytest.raises(WorkloadError, match=line):
        load_workload(written(tmp_path).rename(tmp_path / name))


@pytest.mark.parametrize(
    ("more", "use", "line"),
    [
        ("del loss", "", "has no function loss(network, batch): define it"),
        ("def loss(batch): pass", "", "loss(batch) cannot be called as loss(network, batch): too many positional"),
        ("collate = 3", "", "collate is a int: make it a function collate(items)"),
        ("import sys; sys.exit(0)", "", "put what it runs under `if __name__ == '__main__':`"),
        ("def f(:", "", "cannot be loaded: SyntaxError"),
        ("def network(): return 3", "network", "network() returned a int: return a torch.nn.Module"),
        ("def network(): return nn.ReLU()", "network", "network() has no parameters to train"),
        ("def dataset(): return iter([1])", "dataset", "dataset() is not map-style"),
        ("def dataset(): return []", "dataset", "dataset() is empty"),
        ("def dataset(): return ['a']", "dataset", "makes batches without a tensor"),
    ],
)
def test_functions_that_cannot_be_used(tmp_path: Path, more: str, use: str, line: str) -> None:
    assert line in refusal(tmp_path, more, use)


def test_what_the_file_raises_is_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'" in refusal(tmp_path, "import nowhere")
    log = capfd.readouterr().err
    assert "Traceback" in log and "import nowhere" in log


@pytest.mark.parametrize(
    ("returned", "line"),
    [
        ("network(batch)", "returned a tensor of shape [3, 2]: return a scalar, such as its mean()"),
        ("network(batch).mean().item()", "returned a float: return a tensor of one number"),
        ("torch.tensor(1.0)", "does not depend on the network"),
        ("network(batch).mean() * float('nan')", "is nan in the first step"),
    ],
)
def test_a_loss_that_cannot_be_trained(tmp_path: Path, returned: str, line: str) -> None:
    workload = load_workload(written(tmp_path, more=f"def loss(network, batch): return {returned}"))
    with pytest.raises(WorkloadError) as caught:
        workload.loss(workload.network(), torch.randn(3, 4))
    assert line in str(caught.value)


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
    of_a_wrapped_network = raised_in(path, "raise AttributeError(\"'DataParallel' object has no attribute 'head'\")")
    assert "The network is wrapped here" in str(fault_of(of_a_wrapped_network, path))


def test_errors_elsewhere_are_no_faults_of_the_file(tmp_path: Path) -> None:
    assert (
        fault_of(raised_in(tmp_path / "library.py", "raise RuntimeError('NCCL error')"), tmp_path / "mine.py") is None
    )
    assert fault_of(raised_in(tmp_path / "mine.py", "raise RuntimeError"), None) is None, "of the built-in workload"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use", "uses CUDA in a process of the"),
        ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "tensors that are not dense CPU"),
        ("stack expects each tensor to be equal size, but got [1]", "differ in size"),
    ],
)
def test_errors_of_torch_say_what_to_change(tmp_path: Path, message: str, line: str) -> None:
    assert line in str(fault_of(RuntimeError(message), tmp_path / "mine.py"))
