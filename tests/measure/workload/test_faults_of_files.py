"""What is told of an error in a user's file."""

from pathlib import Path

import pytest
from torch import nn

from dpscale.measure.workload.from_file import fault_of


def raised_in(path: Path, text: str) -> Exception:
    """What running `text` as the file at `path` raises."""
    path.write_text(text)
    with pytest.raises(Exception) as caught:
        exec(compile(text, str(path.resolve()), "exec"), {})
    return caught.value


def test_the_line_of_the_file_that_raised_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    error = raised_in(path, "def loss():\n    return {}['x']\nloss()\n")
    assert str(fault_of(error, path)) == (
        f"workload: {path}, line 2, in loss: KeyError: 'x'. Its traceback is in the log above"
    )


def test_an_attribute_behind_a_strategy_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = "raise AttributeError(\"'DistributedDataParallel' object has no attribute 'head'\")"
    assert "The network is wrapped here: call it, and use nothing else of it" in str(
        fault_of(raised_in(path, text), path)
    )


def test_what_is_no_fault_of_the_file_is_not_told_as_one(tmp_path: Path) -> None:
    other, path = tmp_path / "other.py", tmp_path / "mine.py"
    error = raised_in(other, "raise RuntimeError('NCCL error')")
    assert fault_of(error, path) is None
    assert fault_of(raised_in(path, "raise RuntimeError('mine')"), None) is None, "of the built-in workload"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use",
            "uses CUDA in a process of the DataLoader",
        ),
        ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "tensors that are not dense CPU"),
        ("Can't pickle local object 'dataset.<locals>.Vectors'", "define its classes and functions at the top level"),
        ("Can't get local object 'dataset.<locals>.Vectors'", "define its classes and functions at the top level"),
        ("stack expects each tensor to be equal size, but got [1]", "differ in size"),
    ],
)
def test_what_torch_says_is_told_as_what_to_change(tmp_path: Path, said: str, told: str) -> None:
    assert told in str(fault_of(RuntimeError(said), tmp_path / "mine.py"))


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ("1", "1 parameter of network() (0.bias) takes no part in the loss"),
        ("0 2 3", "3 parameters of network() (0.weight, 1.weight, 1.bias) take no part in the loss"),
        ("0 1 2 3 4", "5 parameters of network() (0.weight, 0.bias, 1.weight and 2 more) take"),
        ("0 1 2 3 ...", "at least 4 parameters of network() (0.weight, 0.bias, 1.weight and at least 1 more) take"),
    ],
)
def test_unused_parameters_are_named(tmp_path: Path, places: str, told: str) -> None:
    """`places` as torch writes them."""
    error = RuntimeError(
        "Expected to have finished reduction in the prior iteration before starting a new one.\n"
        f"Parameter indices which did not receive grad for rank 1: {places}\n In addition, you can set"
    )
    fault = fault_of(error, tmp_path / "mine.py", lambda: nn.Sequential(*(nn.Linear(2, 2) for _ in range(3))))
    assert f"{tmp_path / 'mine.py'}: {told}" in str(fault)


def test_unused_parameters_that_torch_does_not_list(tmp_path: Path) -> None:
    error = RuntimeError("Expected to have finished reduction in the prior iteration before starting a new one.")
    assert "some parameters of network() take no part" in str(fault_of(error, tmp_path / "mine.py", nn.Identity))
