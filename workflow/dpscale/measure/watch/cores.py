"""Which cores the threads of a process may use."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def bind(cores: Iterable[int]) -> None:
    """All threads of this process; what it starts inherits that."""
    allowed = set(cores)
    for thread in _threads():
        os.sched_setaffinity(thread, allowed)


@contextmanager
def on_all_cores() -> Iterator[None]:
    """All threads of this process, and what it starts, may use all cores of the machine, as far as the kernel lets
    them."""
    before = {thread: os.sched_getaffinity(thread) for thread in _threads()}
    try:
        bind(range(os.cpu_count() or 1))
        yield
    finally:
        for thread, cores in before.items():
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:  # it has ended
                continue


def _threads() -> list[int]:
    return [int(thread.name) for thread in Path("/proc/self/task").iterdir()]
