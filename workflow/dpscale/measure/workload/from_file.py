"""A workload from one Python file of a user, which is run with the user's rights, and the one line that tells what is
wrong with it."""

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset, default_collate

from dpscale import vocabulary
from dpscale.errors import WorkloadError
from dpscale.measure.workload.batches import Batch, Workload, length
from dpscale.vocabulary import own_yaml

# It lets the files of users be modules below this one: `mine.py` in the first folder of the module search that has one.
# A process of a DataLoader that is spawned, not forked, imports by name what it is sent. It has the module search of
# the process that started it, and so finds the file again.
__path__ = sys.path

# The functions of a file, and the arguments of each.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "network": (),
    "dataset": (),
    "loss": ("network", "batch"),
    "optimiser": ("parameters",),
    "collate": ("items",),
}
OPTIONAL = ("optimiser", "collate")

# Texts in errors of torch and Python, and what to change. The log has their tracebacks.
REMEDIES: Mapping[str, str] = own_yaml(vocabulary.__file__, "faults.yaml")


def load_workload(path: Path) -> Workload:
    """Return the workload in the file at `path`.

    The file is run, as `python FILE` would run it, but under another name than `__main__`; modules beside it can be
    imported, and come before those of the working folder and of libraries. What its functions return is checked when
    they are first called: they raise WorkloadError too.

    Raises WorkloadError, one line that says what to change. The traceback of what the file itself raised goes to
    stderr.
    """
    module = _run(path)
    checked = _Checked(path, {name: _function(path, module, name) for name in FUNCTIONS})
    return Workload(
        network=checked.network,
        dataset=checked.dataset,
        loss=checked.loss,
        optimiser=checked.optimiser if checked.functions["optimiser"] else None,
        collate=checked.functions["collate"],
        path=path,
    )


def _run(path: Path) -> ModuleType:
    """Return the file as a module that processes of a DataLoader can import too (`__path__`)."""
    file = path.resolve()
    hidden = sys.modules.get(file.stem)
    if hidden is not None and getattr(hidden, "__file__", None) != str(file):
        raise _error(path, f"hides Python's module {file.stem}, which is needed here: rename it")
    if sys.path[0] != str(file.parent):
        # As for `python FILE`: before all others, the working folder too.
        sys.path.insert(0, str(file.parent))
    name = f"{__name__}.{file.stem}"
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise _error(path, f"cannot be loaded: {message}") from error


def _function(path: Path, module: ModuleType, name: str) -> Any:
    """Return a function of the file; None where the file has none, and needs none. Raises WorkloadError where it needs
    one, or has one that cannot be called with its arguments."""
    arguments = FUNCTIONS[name]
    wanted = f"{name}({', '.join(arguments)})"
    function = getattr(module, name, None)
    if function is None and name not in OPTIONAL:
        raise _error(path, f"has no function {wanted}: define it")
    try:
        if function is not None:
            inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:  # ValueError: written in C, without a signature
        raise _error(path, f"{name} cannot be called as {wanted}: {error}") from error
    return function


class _Checked:
    """The functions of a file, with a look at what they return. That at the first loss waits for the device: in a step
    of the warm-up."""

    def __init__(self, path: Path, functions: Mapping[str, Any]):
        self._path = path
        self.functions = functions
        self._has_lost = False

    def network(self) -> nn.Module:
        network: nn.Module = self.functions["network"]()
        self._require(
            isinstance(network, nn.Module) and any(parameter.requires_grad for parameter in network.parameters()),
            "network() returned no torch.nn.Module that has parameters to train",
        )
        return network

    def dataset(self) -> Dataset[Any]:
        """Return the dataset, after a look at its first item."""
        dataset: Any = self.functions["dataset"]()
        self._require(
            hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and len(dataset),
            "dataset() is not map-style, or empty: return an object with __len__ and __getitem__, and with items",
        )
        batch = (self.functions["collate"] or default_collate)([dataset[0]])
        self._require(length(batch), "dataset() makes batches without a tensor: samples are counted by the first one")
        return dataset  # type: ignore[no-any-return]

    def optimiser(self, parameters: Any) -> Optimizer:
        optimiser: Optimizer = self.functions["optimiser"](parameters)
        self._require(isinstance(optimiser, Optimizer), "optimiser() returned no torch.optim.Optimizer")
        return optimiser

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        loss: Tensor = self.functions["loss"](network, batch)
        if not self._has_lost:
            is_scalar = isinstance(loss, Tensor) and not loss.dim()
            self._require(is_scalar, "loss() returned no tensor of one number: return a scalar, such as its mean()")
            depends = loss.requires_grad or not torch.is_grad_enabled()
            self._require(depends, "loss() does not depend on the network: compute it from network(...)")
            self._require(
                torch.isfinite(loss.detach()).item(),
                f"loss() is {loss.item()} in the first step: check inputs, initial weights and precision",
            )
            self._has_lost = True
        return loss

    def _require(self, condition: object, problem: str) -> None:
        if not condition:
            raise _error(self._path, problem)


def fault_of(error: Exception, path: Path | None) -> WorkloadError | None:
    """Return the fault of the file at `path` that `error` shows; None where it shows none, or there is no such file."""
    if path is None:
        return None
    text = str(error)
    for sign, remedy in REMEDIES.items():
        if sign in text:
            return _error(path, remedy)
    trace = "".join(traceback.format_exception(error, chain=False))
    # The text of an error in a process of the DataLoader is the traceback there, and comes last.
    places = re.findall(rf'File "{re.escape(str(path.resolve()))}", line (\d+), in (\S+)', trace)
    if not places:
        return None
    line, function = places[-1]
    message = f"{type(error).__name__}: {text.partition(chr(10))[0]}"
    return WorkloadError(f"workload: {path}, line {line}, in {function}: {message}. Its traceback is in the log above")


def _error(path: Path, problem: str) -> WorkloadError:
    return WorkloadError(f"workload: {path}: {problem}")
