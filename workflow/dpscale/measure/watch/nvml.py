"""NVIDIA's management library: every question has an answer, or None where GPU, driver or container gives none.

Free of torch.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

T = TypeVar("T")


def ask(query: Callable[..., T], *arguments: Any) -> T | None:
    """The answer of a query, None where there is none or where an argument is already None."""
    if None in arguments:
        return None
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def is_there() -> bool:
    """Whether the library answers at all; it is then ready to be asked."""
    return ask(lambda: pynvml.nvmlInit() or True) is not None


def gpu_handle(uuid: str | None) -> Any:
    """The library's handle of the GPU with this UUID, as `nvidia-smi -L` prints it; None where it knows none."""
    return ask(pynvml.nvmlDeviceGetHandleByUUID, uuid) if uuid and is_there() else None
