"""YAML files of the package. Every command reads some: the loader in C, where PyYAML has it, is ten times as fast."""

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def own_yaml(path: Path) -> Any:
    return yaml.load(path.read_text(), _LOADER)
