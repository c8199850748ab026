"""Python imports this before any script, where its folder is on PYTHONPATH: hooks go in as soon as torch is there.

It first runs the sitecustomize that would have been found without this one.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OLDEST_TORCH = (2, 4)
# Read at once: a script may empty its environment.
FOLDER = os.environ.get("DPSCALE_ATTACH")


def run_the_other() -> None:
    """Run the sitecustomize of the user's environment, under its own name."""
    path = [folder for folder in sys.path if Path(folder).resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class WhenTorchIsThere:
    """A finder of modules that finds torch as the others do, and hooks in when it has been imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            real = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                real(module)
                hook_in(module, self.folder)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def hook_in(torch: Any, folder: Path) -> None:
    """Load the folder above as a package of its own, which puts hooks in.

    No error of ours may end the script: a process without hooks says why.
    """
    why = None
    try:
        if tuple(int(number) for number in torch.__version__.split(".")[:2]) < OLDEST_TORCH:
            why = f"torch {torch.__version__} is older than 2.4"
        else:
            init = HERE.parent / "__init__.py"
            spec: Any = importlib.util.spec_from_file_location(
                "dpscale_attach", init, submodule_search_locations=[str(HERE.parent)]
            )
            sys.modules["dpscale_attach"] = importlib.util.module_from_spec(spec)
            job_type = importlib.import_module("dpscale_attach.schedule").AttachJob
            job = job_type(**json.loads((folder / "job.json").read_text()))
            importlib.import_module("dpscale_attach.run").install(job, folder)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        (folder / f"problem-{os.getpid()}.json").write_text(json.dumps({"why": why}))


try:
    run_the_other()
finally:
    if sys.version_info >= (3, 9) and FOLDER:
        if "torch" in sys.modules:
            hook_in(sys.modules["torch"], Path(FOLDER))
        else:
            sys.meta_path.insert(0, WhenTorchIsThere(Path(FOLDER)))
