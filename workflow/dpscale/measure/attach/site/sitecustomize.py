"""Python imports this before any script, where its folder is on PYTHONPATH: what training does is watched from then on.

It first runs the sitecustomize that would have been found without this one.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run_the_other() -> None:
    """Run the sitecustomize of the user's environment, under its own name."""
    path = [folder for folder in sys.path if Path(folder).resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def attach() -> None:
    """Loads the folder above as a package of its own, and waits for torch."""
    spec = importlib.util.spec_from_file_location(
        "dpscale_attach", HERE.parent / "__init__.py", submodule_search_locations=[str(HERE.parent)]
    )
    if spec and spec.loader:
        package = importlib.util.module_from_spec(spec)
        sys.modules["dpscale_attach"] = package
        spec.loader.exec_module(package)
        importlib.import_module("dpscale_attach.start").wait_for_torch()


try:
    run_the_other()
finally:
    if sys.version_info >= (3, 9) and "DPSCALE_ATTACH" in os.environ:
        attach()
