"""torch's profiler around a piece of work."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torch.profiler import ProfilerActivity, profile

T = TypeVar("T")


def traced(work: Callable[[], T], path: Path) -> tuple[T, dict[str, Any]]:
    """What `work` returns, and the trace of what the devices did meanwhile, which is also written to `path`.

    Only the work of the devices and what launched it. Recording every operator of the host would slow the host down,
    and on fast GPUs the time of the host is of interest.
    """
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        result = work()
    profiler.export_chrome_trace(str(path))
    return result, json.loads(path.read_text())
