"""What the documents say exists, and what exists is in the documents."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpscale.schemas.validation import load_schema


def keys(node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every key that a user can write, `epochs.warmup` for one in a section."""
    for name, child in node.get("properties", {}).items():
        named_by_user = child.get("additionalProperties") or {}
        below = [*keys(child, f"{path}{name}."), *keys(named_by_user, f"{path}{name}.<name>.")]
        yield from below or [f"{path}{name}"]


@pytest.mark.parametrize("schema", ["study", "cluster", "published"])
def test_every_key_is_explained(root: Path, schema: str) -> None:
    text = (root / "config/README.md").read_text()
    # The series of batches is explained as a whole.
    missing = [key for key in keys(load_schema(schema)) if f"`{key}`" not in text and "batch_per_gpu." not in key]
    assert not missing


def test_every_entry_of_the_profile_says_why(root: Path) -> None:
    lines = (root / "workflow/profiles/slurm/config.yaml").read_text().splitlines()
    entries = yaml.safe_load("\n".join(lines))
    for name in entries:
        above = lines[next(number for number, line in enumerate(lines) if line.startswith(f"{name}:")) - 1]
        assert above.startswith("# "), name


def test_links_between_documents_lead_somewhere(root: Path) -> None:
    for document in (root / "README.md", root / "config/README.md", root / "docs/cluster.md"):
        for target, anchor in re.findall(r"\]\(([^)#:]*)(#[\w-]+)?\)", document.read_text()):
            file = document.parent / target if target else document
            assert file.exists(), f"{document}: {target}"
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
            anchors = ["#" + re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
            assert not anchor or anchor in anchors, f"{document}: {anchor}"
