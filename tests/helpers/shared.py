"""What is expensive, made once for all processes of a run of the tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def of_all(factory: pytest.TempPathFactory) -> Path:
    """The folder that the processes of a run share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name`, which `make` fills; pytest-xdist's other processes wait for that. Nobody may change it."""
    base = of_all(factory)
    folder, done = base / name, base / f"{name}.done"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            make(folder)
            done.touch()
    return folder
