"""NVIDIA's management library: every question has an answer, or None where GPU, driver or container gives none.

Free of torch. `python -m dpscale.measure.watch.nvml` prints how many GPUs there are.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pynvml

T = TypeVar("T")

# Devices that torch can use where this library says nothing: drivers of NVIDIA's without it, of Windows below, of AMD.
_OTHER_DEVICES = ("/dev/nvidiactl", "/dev/nvhost-ctrl", "/dev/dxg", "/dev/kfd")


def ask(query: Callable[..., T], *arguments: Any) -> T | None:
    """Return the answer of a query, None where there is none or where an argument is already None."""
    if None in arguments:
        return None
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def is_there() -> bool:
    """Whether the library answers at all; it is then ready to be asked."""
    return ask(lambda: pynvml.nvmlInit() or True) is not None


def gpu_handle(uuid: str) -> Any:
    """Return the library's handle of the GPU with this UUID, as `nvidia-smi -L` prints it; None where it knows none."""
    return ask(pynvml.nvmlDeviceGetHandleByUUID, uuid) if is_there() else None


def gpus_there(environment: Mapping[str, str]) -> int | None:
    """Count the GPUs that a process in this environment can use. None where only torch knows, which takes seconds."""
    if not is_there():
        return None if any(map(os.path.exists, _OTHER_DEVICES)) else 0
    count: int | None = ask(pynvml.nvmlDeviceGetCount)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if count is None or visible is None:
        return count
    return min(count, len([name for name in visible.split(",") if name]))


def model_here() -> str | None:
    """Return the model of this machine's first GPU. None without one, or where the library does not answer."""
    name = ask(pynvml.nvmlDeviceGetName, ask(pynvml.nvmlDeviceGetHandleByIndex, 0)) if is_there() else None
    return name.decode() if isinstance(name, bytes) else name


def count_gpus() -> int:
    """Count the GPUs that this process can use; ask torch where nothing else knows."""
    count = gpus_there(os.environ)
    if count is None:
        import torch

        count = int(torch.cuda.device_count())
    return count


if __name__ == "__main__":
    sys.stdout.write(f"{count_gpus()}\n")
