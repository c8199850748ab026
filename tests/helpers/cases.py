"""Tables of cases that are data, each in a YAML file named as the tests that go through it."""

from pathlib import Path
from typing import Any

import yaml


def cases(tests: str, table: str) -> Any:
    """Return a table of the file beside a module of tests."""
    return yaml.safe_load(Path(tests).with_suffix(".yaml").read_text())[table]
