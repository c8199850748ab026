"""A workload from one Python file of a user, which is run with the user's rights, and the one line that tells what is
wrong with it."""

import importlib.util
import inspect
import re
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
from dpscale.measure.workload.batches import Batch, Workload, length
from dpscale.plan.study import checksum

# The functions of a file, and the arguments of each.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "network": (),
    "dataset": (),
    "loss": ("network", "batch"),
    "optimiser": ("parameters",),
    "collate": ("items",),
}
OPTIONAL = ("optimiser", "collate")

_TOP_LEVEL = (
    "the dataset or collate cannot be sent to a process of the DataLoader: define its classes and functions at the top "
    "level of the file, without lambda"
)
# Errors of torch and Python, and what to change.
REMEDIES: Mapping[str, str] = {
    "Cannot re-initialize CUDA in forked subprocess": (
        "the dataset uses CUDA in a process of the DataLoader: return tensors on the CPU, dpscale copies them"
    ),
    "only dense CPU tensors can be pinned": (
        "the dataset returns tensors that are not dense CPU tensors: return such, dpscale copies them"
    ),
    "default_collate: batch must contain": (
        "torch's collate cannot make a batch of the dataset's items: let them be tensors, numbers, tuples or "
        "dictionaries of such, or define collate(items)"
    ),
    "Can't pickle ": _TOP_LEVEL,
    "Can't get local object": _TOP_LEVEL,
    "stack expects each tensor to be equal size": (
        "items of the dataset differ in size, and torch's collate cannot make a batch of them: define collate(items)"
    ),
}
# The attributes of a network that a strategy wraps are out of reach.
WRAPPED = re.compile(r"'(DataParallel|DistributedDataParallel)' object has no attribute")
# ddp's error where gradients are missing, with the places of their parameters among all that are trained.
UNUSED = "Expected to have finished reduction in the prior iteration"
UNUSED_PLACES = re.compile(r"Parameter indices which did not receive grad for rank \d+: ([\d ]+)")
NAMED = 3


def load_workload(path: Path) -> Workload:
    """Return the workload in the file at `path`.

    The file is run, as `python FILE` would run it, but under another name than `__main__`; modules beside it can be
    imported, and come before those of the working folder and of libraries. What its functions return is checked when
    they are first called: they raise WorkloadError too.

    Raises WorkloadError, one line that says what to change. The traceback of what the file itself raised goes to
    stderr.
    """
    sha256 = checksum(path)
    module = _run(path)
    functions = {name: _function(path, module, name) for name in FUNCTIONS}
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
    """Return the file as a module that processes of a DataLoader can import too (`files`)."""
    file = path.resolve()
    if "." in file.stem:
        raise _error(path, "Python cannot import a file with a dot in its name: rename it")
    hidden = sys.modules.get(file.stem)
    if hidden is not None and getattr(hidden, "__file__", None) != str(file):
        raise _error(path, f"hides Python's module {file.stem}, which is needed here: rename it")
    if sys.path[0] != str(file.parent):
        # As for `python FILE`: before all others, the working folder too.
        sys.path.insert(0, str(file.parent))
    name = f"{files.__name__}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _error(path, "is not a Python file: its name must end with .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise _error(
            path, "ends the program when it is loaded: put what it runs under `if __name__ == '__main__':`"
        ) from error
    except Exception as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise _error(path, f"cannot be loaded: {message}") from error
    return module


def _function(path: Path, module: ModuleType, name: str) -> Any:
    """Return a function of the file; None where the file has none, and needs none. Raises WorkloadError where it needs
    one, or has one that cannot be called with its arguments."""
    arguments = FUNCTIONS[name]
    wanted = f"{name}({', '.join(arguments)})"
    if not hasattr(module, name):
        if name in OPTIONAL:
            return None
        raise _error(path, f"has no function {wanted}: define it")
    function = getattr(module, name)
    if not callable(function):
        raise _error(path, f"{name} is a {type(function).__name__}: make it a function {wanted}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C, without a signature
        return function
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise _error(path, f"{name}{signature} cannot be called as {wanted}: {error}") from error
    return function


def _require_finite(path: Path, network: nn.Module) -> None:
    """Raise WorkloadError where a trained network has weights that are no numbers: it trained nothing."""
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise _error(
            path,
            "weights are not finite after some epochs: lower optimiser.learning_rate, or define optimiser(parameters)",
        )


class _Checked:
    """The functions of a file, with a look at what they return."""

    def __init__(self, path: Path, functions: Mapping[str, Any]):
        self._path = path
        self._functions = functions

    def network(self) -> nn.Module:
        network = self._functions["network"]()
        if not isinstance(network, nn.Module):
            raise _error(self._path, f"network() returned a {type(network).__name__}: return a torch.nn.Module")
        if not any(parameter.requires_grad for parameter in network.parameters()):
            raise _error(self._path, "network() has no parameters to train: return a network with some")
        return network

    def dataset(self) -> Dataset[Any]:
        """Return the dataset, after a look at its first item."""
        dataset: Any = self._functions["dataset"]()
        if isinstance(dataset, IterableDataset) or not (
            hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        ):
            raise _error(self._path, "dataset() is not map-style: return an object with __len__ and __getitem__")
        if not len(dataset):
            raise _error(self._path, "dataset() is empty: return at least one batch of items")
        batch = (self._functions["collate"] or default_collate)([dataset[0]])
        if not length(batch):
            raise _error(
                self._path, "dataset() makes batches without a tensor: dpscale counts samples by the first tensor"
            )
        return dataset  # type: ignore[no-any-return]

    def optimiser(self, parameters: Any) -> Optimizer:
        optimiser = self._functions["optimiser"](parameters)
        if not isinstance(optimiser, Optimizer):
            kind = type(optimiser).__name__
            raise _error(self._path, f"optimiser() returned a {kind}: return a torch.optim.Optimizer")
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
            if problem := _problem_of_loss(loss):
                raise _error(self._path, f"loss() {problem}")
            self._is_checked = True
        return loss


def _problem_of_loss(loss: Any) -> str | None:
    if not isinstance(loss, Tensor):
        return f"returned a {type(loss).__name__}: return a tensor of one number"
    if loss.dim():
        return f"returned a tensor of shape {list(loss.shape)}: return a scalar, such as its mean()"
    if not loss.requires_grad:
        return "does not depend on the network: compute it from network(...)" if torch.is_grad_enabled() else None
    if not torch.isfinite(loss.detach()).item():
        return f"is {loss.item()} in the first step: check inputs, initial weights and precision"
    return None


def fault_of(
    error: Exception, path: Path | None, network: Callable[[], nn.Module] | None = None
) -> WorkloadError | None:
    """Return the fault of the file at `path` that `error` shows; None where it shows none, or there is no such file.

    `network` builds the file's network anew, for the names of its parameters.
    """
    if path is None:
        return None
    text = str(error)
    if UNUSED in text:
        return _error(
            path,
            f"{_unused(text, network)} in the loss, and ddp waits for the gradients of all: leave them out, or set "
            "their requires_grad to False",
        )
    for sign, remedy in REMEDIES.items():
        if sign in text:
            return _error(path, remedy)
    trace = "".join(traceback.format_exception(error, chain=False))
    # The text of an error in a process of the DataLoader is the traceback there, and comes last.
    places = re.findall(rf'File "{re.escape(str(path.resolve()))}", line (\d+), in (\S+)', trace)
    if not places:
        return None
    line, function = places[-1]
    hint = ". The network is wrapped here: call it, and use nothing else of it" if WRAPPED.search(text) else ""
    return WorkloadError(
        f"workload: {path}, line {line}, in {function}: {type(error).__name__}: {_message(text)}{hint}. Its traceback "
        "is in the log above"
    )


def _unused(text: str, network: Callable[[], nn.Module] | None) -> str:
    """Return which parameters take no part, by the first of them."""
    listed = UNUSED_PLACES.search(text)
    if listed is None or network is None:
        return "some parameters of network() take no part"
    # As ddp counts them: in their order, without those that are not trained.
    trained = [name for name, parameter in network().named_parameters() if parameter.requires_grad]
    names = [trained[int(place)] for place in listed[1].split()]
    more = ", ..." if len(names) > NAMED else ""
    return f"parameters of network() ({', '.join(names[:NAMED])}{more}) take no part"


def _message(text: str) -> str:
    """Return an error's own message in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "without a word"
    # The traceback of a DataLoader's process ends with the error itself.
    return lines[-1].split(": ", 1)[-1] if "Original Traceback" in text else lines[0]


def _error(path: Path, problem: str) -> WorkloadError:
    return WorkloadError(f"workload: {path}: {problem}")
