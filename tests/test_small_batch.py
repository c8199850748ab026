"""What docs/results.md says of small batches is what bench/small_batch.py makes of the records."""

import json
import re
from pathlib import Path

from bench.small_batch import table


def test_the_document_says_what_was_measured(root: Path) -> None:
    files = sorted((root / "results/recorded-small-batch").glob("*.json"))
    printed = "\n".join(table([json.loads(file.read_text())["times_s"] for file in files]))
    section = (root / "docs/results.md").read_text().split("### Small batches")[1].split("\n## ")[0]
    numbers = re.findall(r"[+-]?\d\.\d{3}", section)
    assert numbers
    assert [number for number in numbers if number not in printed] == []
