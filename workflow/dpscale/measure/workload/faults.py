"""What went wrong in a user's own file, in one line."""

import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import nn

from dpscale.errors import WorkloadError

_TOP_LEVEL = (
    "the dataset or collate cannot be sent to a process of the DataLoader: define its classes and functions at the top "
    "level of the file, without lambda"
)
# By what torch and Python say: what to change.
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
# Where a strategy wraps the network, its own attributes are out of reach.
WRAPPED = re.compile(r"'(DataParallel|DistributedDataParallel)' object has no attribute")
# What ddp says where gradients are missing, and the places of their parameters among all that are trained. After so
# many, torch writes dots.
UNUSED = "Expected to have finished reduction in the prior iteration"
UNUSED_PLACES = re.compile(r"Parameter indices which did not receive grad for rank \d+: ([\d ]+)(\.\.\.)?")
NAMED = 3


def fault_of(
    error: Exception, path: Path | None, network: Callable[[], nn.Module] | None = None
) -> WorkloadError | None:
    """The fault of the file at `path` that `error` shows; None where it shows none, or there is no such file.

    `network` builds the file's network anew, for the names of its parameters.
    """
    if path is None:
        return None
    text = str(error)
    if UNUSED in text:
        return WorkloadError(
            f"workload: {path}: {_unused(text, network)} in the loss, and ddp waits for the gradients of all: leave "
            "them out, or set their requires_grad to False"
        )
    for sign, remedy in REMEDIES.items():
        if sign in text:
            return WorkloadError(f"workload: {path}: {remedy}")
    place = _place(error, path.resolve())
    if place is None:
        return None
    what = f"{type(error).__name__}: {_last_line(text)}"
    hint = ". The network is wrapped here: call it, and use nothing else of it" if WRAPPED.search(text) else ""
    return WorkloadError(f"workload: {path}, {place}: {what}{hint}. Its traceback is in the log above")


def _unused(text: str, network: Callable[[], nn.Module] | None) -> str:
    """`2 parameters of network() (head.weight, head.bias) take no part`: how many, and the first of them."""
    found = UNUSED_PLACES.search(text)
    if found is None or network is None:
        return "some parameters of network() take no part"
    # As ddp counts them: in their order, without those that are not trained.
    trained = [name for name, parameter in network().named_parameters() if parameter.requires_grad]
    names = [trained[int(place)] for place in found[1].split()]
    if len(names) == 1:
        return f"1 parameter of network() ({names[0]}) takes no part"
    at_least = "at least " if found[2] else ""
    more = f" and {at_least}{len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{at_least}{len(names)} parameters of network() ({', '.join(names[:NAMED])}{more}) take no part"


def _place(error: Exception, path: Path) -> str | None:
    """The line of the file that raised the error: in this process, or in one of the DataLoader's, whose traceback is
    the error's text."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == str(path):
            found = f"line {frame.lineno}, in {frame.name}"
            break
    else:
        found = None
    told = re.findall(rf'File "{re.escape(str(path))}", line (\d+), in (\S+)', str(error))
    if told:
        line, function = told[-1]
        return f"line {line}, in {function}"
    return found


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "without a word"
    # A DataLoader's process tells its traceback, which ends with the error itself.
    return lines[-1].split(": ", 1)[-1] if "Original Traceback" in text else lines[0]
