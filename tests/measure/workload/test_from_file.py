"""A user's file as a workload, and the one line that each of its faults is told in."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from dpscale.errors import WorkloadError
from dpscale.measure.workload.from_file import load_workload
from dpscale.plan.workload_file import checksum
from workload_file import SAMPLES, written


def told(folder: Path, more: str, use: str | None = None) -> str:
    """The line that a file with `more` in it is refused with, when it is loaded or when `use` of it is called."""
    with pytest.raises(WorkloadError) as caught:
        workload = load_workload(written(folder, more=more))
        getattr(workload, use or "")()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_a_workload(tmp_path: Path) -> None:
    path = written(tmp_path)
    workload = load_workload(path)
    network = workload.network()
    batch = {"x": torch.randn(3, 4), "y": torch.tensor([0, 1, 0])}
    assert workload.loss(network, batch) == nn.functional.cross_entropy(network(batch["x"]), batch["y"])
    assert len(workload.dataset()) == SAMPLES  # type: ignore[arg-type]
    assert (workload.name, workload.sha256, workload.path) == ("mine", checksum(path), path)
    assert workload.optimiser is None and workload.collate is None


def test_functions_that_are_optional(tmp_path: Path) -> None:
    more = (
        "def optimiser(parameters): return torch.optim.Adam(parameters)\ndef collate(items): return torch.stack(items)"
    )
    workload = load_workload(written(tmp_path, more=more))
    assert workload.optimiser is not None and workload.collate is not None
    assert isinstance(workload.optimiser(workload.network().parameters()), torch.optim.Adam)
    assert workload.collate([torch.zeros(2), torch.ones(2)]).tolist() == [[0, 0], [1, 1]]


def test_modules_beside_the_file_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_workload.py").write_text("SIZE = 7\n")
    workload = load_workload(
        written(tmp_path, more="from beside_the_workload import SIZE\ndef network():\n    return nn.Linear(SIZE, 2)\n")
    )
    assert workload.network().in_features == 7


def test_the_files_own_folder_comes_before_the_working_folder_and_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `python FILE` has it."""
    folders = [tmp_path / name for name in ("working", "other", "own")]
    for folder in folders:
        folder.mkdir()
        (folder / "found_by_workload.py").write_text(f"FOLDER = {folder.name!r}\n")
    working, other, own = folders
    monkeypatch.chdir(working)
    monkeypatch.setattr(sys, "path", [str(working), str(other), *sys.path, str(own)])
    text = """
def network():
    from found_by_workload import FOLDER
    assert FOLDER == "own"
    return nn.Linear(2, 2)
"""
    load_workload(written(own, more=text)).network()
    monkeypatch.delitem(sys.modules, "found_by_workload")


def test_a_file_that_hides_a_library(tmp_path: Path) -> None:
    """A process of a DataLoader that is spawned would import it in place of the library."""
    path = written(tmp_path).rename(tmp_path / "torch.py")
    with pytest.raises(WorkloadError, match="hides Python's module torch, which is needed here: rename it"):
        load_workload(path)


def test_a_file_that_no_process_could_import(tmp_path: Path) -> None:
    path = written(tmp_path).rename(tmp_path / "mine.v2.py")
    with pytest.raises(WorkloadError, match="cannot import a file with a dot in its name: rename it"):
        load_workload(path)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("del loss", "has no function loss(network, batch): define it"),
        ("loss = 3", "loss is a int: make it a function loss(network, batch)"),
        (
            "def loss(batch): pass",
            "loss(batch) cannot be called as loss(network, batch): too many positional arguments",
        ),
        ("def network(width): pass", "network(width) cannot be called as network(): missing a required argument"),
        ("collate = 3", "collate is a int: make it a function collate(items)"),
        ("import sys; sys.exit(0)", "put what it runs under `if __name__ == '__main__':`"),
        ("def f(:", "cannot be loaded: SyntaxError"),
    ],
)
def test_a_file_without_the_right_functions(tmp_path: Path, more: str, line: str) -> None:
    assert line in told(tmp_path, more)


def test_what_the_file_raises_is_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'" in told(tmp_path, "import nowhere")
    log = capfd.readouterr().err
    assert "Traceback" in log and "import nowhere" in log


@pytest.mark.parametrize(
    ("more", "use", "line"),
    [
        ("def network(): return 3", "network", "network() returned a int: return a torch.nn.Module"),
        ("def network(): return nn.ReLU()", "network", "network() has no parameters to train"),
        ("def dataset(): return iter([1])", "dataset", "dataset() is not map-style"),
        ("def dataset(): return []", "dataset", "dataset() is empty"),
        ("def dataset(): return ['a']", "dataset", "makes batches without a tensor"),
    ],
)
def test_functions_that_return_what_cannot_be_used(tmp_path: Path, more: str, use: str, line: str) -> None:
    assert line in told(tmp_path, more, use)


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
