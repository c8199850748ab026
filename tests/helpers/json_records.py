"""Records as their files hold them."""

import json
from pathlib import Path
from typing import Any

from dpscale.records.files import KINDS, read_record
from dpscale.records.files_of_runs import files_of_runs, lines_of


def read_json(kind: str, path: Path) -> dict[str, Any]:
    """The keys and values of a record that its class allows. Raises RecordError."""
    read_record(KINDS[kind], path)
    return dict(json.loads(path.read_text()))


def records_in(results: Path, *folders: str) -> list[dict[str, Any]]:
    """The records in files of runs under these folders of results, or under all: `cells`, `communication`."""
    files = [file for file in files_of_runs(results) if file.parent.name in folders or not folders]
    return [json.loads(line) for file in files for line in lines_of(file)]
