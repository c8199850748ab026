"""Waits for torch, puts the hooks in, and begins a run at the first step of an optimiser."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

OLDEST_TORCH = (2, 4)


class WhenTorchIsThere:
    """A finder of modules that finds torch as the others do, and hooks in when it has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _after(spec.loader, _hook_in)
        return spec


def wait_for_torch() -> None:
    sys.meta_path.insert(0, WhenTorchIsThere())


def _after(loader: Any, done: Any) -> None:
    real = loader.exec_module

    def exec_module(module: Any) -> None:
        real(module)
        done(module)

    loader.exec_module = exec_module


def _hook_in(torch: Any) -> None:
    """No error of ours may end the script: a process without hooks says why."""
    folder = Path(os.environ["DPSCALE_ATTACH"])
    why: str | None = None
    try:
        job = json.loads((folder / "job.json").read_text())
        if tuple(int(number) for number in torch.__version__.split(".")[:2]) < OLDEST_TORCH:
            why = f"torch {torch.__version__} is older than 2.4"
        else:
            from .run import install
            from .schedule import AttachJob

            install(AttachJob(**job), folder)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        (folder / f"problem-{os.getpid()}.json").write_text(json.dumps({"why": why}))
