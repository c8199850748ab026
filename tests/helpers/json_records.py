"""Records as their files hold them."""

import json
from pathlib import Path
from typing import Any

from dpscale.records.files import KINDS, read_record


def read_json(kind: str, path: Path) -> dict[str, Any]:
    """The keys and values of a record that its class allows. Raises RecordError."""
    read_record(KINDS[kind], path)
    return dict(json.loads(path.read_text()))
