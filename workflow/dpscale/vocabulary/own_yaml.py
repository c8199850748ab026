"""YAML files of the package. Every command reads some: the loader in C, where PyYAML has it, is ten times as fast."""

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def own_yaml(module: str, name: str) -> Any:
    """What the file `name` holds, which lies beside the `module` of this file."""
    return yaml.load(Path(module).with_name(name).read_text(), _LOADER)
