"""Where a step waits for a number of its device, and the same step without waiting."""

import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# What gives Python a number of a tensor.
NUMBERS = ("item", "tolist", "__bool__", "__float__", "__int__")
_TORCH = str(Path(torch.__file__).parent)

Place = tuple[str, int]  # file and line


def waits_of(step: Callable[[], None], file: Path | None, on_gpu: bool) -> list[dict[str, Any]]:
    """The lines of the user's `file`, or of what it calls, at which one step asks the device for a number. None without
    a file."""
    if file is None:
        return []
    places = _warned_of(step, str(file.resolve())) if on_gpu else _asked_for(step, str(file.resolve()))
    return [
        {"file": name, "line": line, "code": _code(name, line), "calls": calls}
        for (name, line), calls in places.items()
    ]


def _warned_of(step: Callable[[], None], file: str) -> Counter[Place]:
    """By torch's own mode, which warns at every call that waits for the GPU."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode(before)
    # What a warning names is the frame that called torch. The project's own steps wait for nothing.
    own = str(Path(__file__).parents[2])
    return Counter(
        (warning.filename, warning.lineno)
        for warning in seen
        if "synchronizing CUDA operation" in str(warning.message)
        and (warning.filename == file or not warning.filename.startswith((_TORCH, own)))
    )


def _asked_for(step: Callable[[], None], file: str) -> Counter[Place]:
    """By watching for the operation that gives Python a number. On a CPU nobody waits for it."""
    seen: Counter[Place] = Counter()

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.aten._local_scalar_dense.default and (place := _caller(file)):
                seen[place] += 1
            return function(*args, **(kwargs or {}))

    with Watching():  # type: ignore[no-untyped-call]
        step()
    return seen


def _caller(file: str) -> Place | None:
    """The innermost line outside of torch, where the user's file has called it."""
    frames = [frame for frame in traceback.extract_stack() if not frame.filename.startswith((_TORCH, "<"))]
    places = [(frame.filename, frame.lineno or 0) for frame in frames if frame.filename != __file__]
    return places[-1] if any(name == file for name, _ in places) else None


def _code(file: str, line: int) -> str:
    try:
        return Path(file).read_text().splitlines()[line - 1].strip()
    except (OSError, IndexError):
        return ""


class KeptNumbers:
    """Numbers that a step asked for, given to the next steps at once, in the order of asking: nobody waits.

    `within` is for a block of steps; `begin` for every one of them.
    """

    def __init__(self, device_type: str):
        self._device_type = device_type
        self._known: dict[tuple[str, int], Any] = {}
        self._asked = 0

    def begin(self) -> None:
        self._asked = 0

    @contextmanager
    def within(self) -> Iterator[None]:
        methods = {name: getattr(Tensor, name) for name in NUMBERS}
        try:
            for name, method in methods.items():
                setattr(Tensor, name, self._keeping(name, method))
            yield
        finally:
            for name, method in methods.items():
                setattr(Tensor, name, method)

    def _keeping(self, name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def method(tensor: Tensor) -> Any:
            if tensor.device.type != self._device_type:
                return ask(tensor)
            key = name, self._asked
            self._asked += 1
            if key not in self._known:
                self._known[key] = ask(tensor)
            return self._known[key]

        return method
