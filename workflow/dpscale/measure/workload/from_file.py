"""A workload from one Python file of a user, which is run with the user's rights."""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset, IterableDataset, default_collate

from dpscale.errors import WorkloadError
from dpscale.measure.workload import files
from dpscale.measure.workload.batches import Batch, length
from dpscale.measure.workload.workload import Workload
from dpscale.plan.workload_file import checksum

# By function: what it is called with.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "network": (),
    "dataset": (),
    "loss": ("network", "batch"),
    "optimiser": ("parameters",),
    "collate": ("items",),
}
OPTIONAL = ("optimiser", "collate")


def load_workload(path: Path) -> Workload:
    """The workload in the file at `path`.

    The file is run, as `python FILE` would run it, but under another name than `__main__`; modules beside it can be
    imported, and come before those of the working folder and of libraries. What its functions return is checked when
    they are first called: they raise WorkloadError too.

    Raises WorkloadError, one line that says what to change. The traceback of what the file itself raised goes to
    stderr.
    """
    sha256 = checksum(path)
    module = _run(path)
    functions: dict[str, Any] = {
        name: None if name in OPTIONAL and not hasattr(module, name) else _function(path, module, name, takes)
        for name, takes in FUNCTIONS.items()
    }
    checked = _Checked(path, functions)
    return Workload(
        name=path.stem,
        network=checked.network,
        dataset=checked.dataset,
        loss=_CheckedLoss(path, functions["loss"]),
        optimiser=checked.optimiser if functions["optimiser"] else None,
        collate=functions["collate"],
        path=path,
        sha256=sha256,
        verify=partial(_require_finite, path),
    )


def _run(path: Path) -> ModuleType:
    """The file as a module that processes of a DataLoader can import too (`files`)."""
    file = path.resolve()
    if "." in file.stem:
        raise WorkloadError(f"workload: {path}: Python cannot import a file with a dot in its name: rename it")
    known = sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) != str(file):
        raise WorkloadError(f"workload: {path}: hides Python's module {file.stem}, which is needed here: rename it")
    if sys.path[0] != str(file.parent):
        # As for `python FILE`: before all others, the working folder too.
        sys.path.insert(0, str(file.parent))
    name = f"{files.__name__}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise WorkloadError(f"workload: {path}: is not a Python file: its name must end with .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise WorkloadError(
            f"workload: {path}: ends the program when it is loaded: put what it runs under `if __name__ == '__main__':`"
        ) from error
    except Exception as error:
        traceback.print_exc()
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise WorkloadError(f"workload: {path}: cannot be loaded: {told}") from error
    return module


def _require_finite(path: Path, network: nn.Module) -> None:
    """Raise WorkloadError where a trained network has weights that are no numbers: it trained nothing."""
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise WorkloadError(
            f"workload: {path}: weights are not finite after some epochs: lower optimiser.learning_rate, or define "
            "optimiser(parameters)"
        )


def _function(path: Path, module: ModuleType, name: str, takes: tuple[str, ...]) -> Callable[..., Any]:
    """Raises WorkloadError where the file has no such function, or one that cannot be called with what it is given."""
    wanted = f"{name}({', '.join(takes)})"
    function = getattr(module, name, None)
    if function is None:
        raise WorkloadError(f"workload: {path}: has no function {wanted}: define it")
    if not callable(function):
        raise WorkloadError(f"workload: {path}: {name} is a {type(function).__name__}: make it a function {wanted}")
    try:
        inspect.signature(function).bind(*takes)
    except TypeError as error:
        found = inspect.signature(function)
        raise WorkloadError(f"workload: {path}: {name}{found} cannot be called as {wanted}: {error}") from error
    except ValueError:  # written in C, without a signature
        pass
    return function  # type: ignore[no-any-return]


class _Checked:
    """The functions of a file, with a look at what they return."""

    def __init__(self, path: Path, functions: Mapping[str, Any]):
        self._path = path
        self._functions = functions

    def _fault(self, name: str, what: str) -> WorkloadError:
        return WorkloadError(f"workload: {self._path}: {name}() {what}")

    def network(self) -> nn.Module:
        network = self._functions["network"]()
        if not isinstance(network, nn.Module):
            raise self._fault("network", f"returned a {type(network).__name__}: return a torch.nn.Module")
        if not any(parameter.requires_grad for parameter in network.parameters()):
            raise self._fault("network", "has no parameters to train: return a network with some")
        return network

    def dataset(self) -> Dataset[Any]:
        """The dataset, after a look at its first item."""
        dataset = self._functions["dataset"]()
        if isinstance(dataset, IterableDataset) or not (
            hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        ):
            raise self._fault("dataset", "is not map-style: return an object with __len__ and __getitem__")
        if not len(dataset):
            raise self._fault("dataset", "is empty: return at least one batch of items")
        batch = (self._functions["collate"] or default_collate)([dataset[0]])
        if not length(batch):
            raise self._fault("dataset", "makes batches without a tensor: dpscale counts samples by the first tensor")
        return dataset  # type: ignore[no-any-return]

    def optimiser(self, parameters: Any) -> Optimizer:
        optimiser = self._functions["optimiser"](parameters)
        if not isinstance(optimiser, Optimizer):
            raise self._fault("optimiser", f"returned a {type(optimiser).__name__}: return a torch.optim.Optimizer")
        return optimiser


class _CheckedLoss:
    """The loss of a file. Its first value is looked at, which waits for the device: in a step of the warm-up."""

    def __init__(self, path: Path, loss: Callable[[nn.Module, Batch], Tensor]):
        self._path = path
        self._loss = loss
        self._is_checked = False

    def __call__(self, network: nn.Module, batch: Batch) -> Tensor:
        loss = self._loss(network, batch)
        if not self._is_checked:
            self._check(loss)
            self._is_checked = True
        return loss

    def _check(self, loss: Any) -> None:
        where = f"workload: {self._path}: loss()"
        if not isinstance(loss, Tensor):
            raise WorkloadError(f"{where} returned a {type(loss).__name__}: return a tensor of one number")
        if loss.dim():
            raise WorkloadError(
                f"{where} returned a tensor of shape {list(loss.shape)}: return a scalar, such as its mean()"
            )
        if not loss.requires_grad:
            if torch.is_grad_enabled():
                raise WorkloadError(f"{where} does not depend on the network: compute it from network(...)")
            return
        if not torch.isfinite(loss.detach()).item():
            raise WorkloadError(
                f"{where} is {loss.item()} in the first step: check inputs, initial weights and precision"
            )
