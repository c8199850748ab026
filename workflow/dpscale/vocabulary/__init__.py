"""YAML files of the package. Every command reads some: the loader in C, where PyYAML has it, is ten times as fast."""

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def own_yaml(module: str, name: str) -> Any:
    """Return the contents of the file `name` beside the file of `module`."""
    return yaml.load(Path(module).with_name(name).read_text(), _LOADER)
