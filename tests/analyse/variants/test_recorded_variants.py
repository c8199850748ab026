"""The variants that are on record: docs/results.md has their numbers."""

import re
from pathlib import Path

from dpscale.tables.timing import VariantsRow
from recorded import in_documents, recorded_tables
from rows import one


def test_the_results_has_what_one_gpu_gives(root: Path) -> None:
    def row(variant: str, batch: str) -> VariantsRow:
        place = {"gpus": 1, "scope": "compute", "batch_per_gpu": int(batch.replace(",", ""))}
        return one(recorded_tables(root, "recorded-h200-4").variants, variant=variant, **place)

    text = (root / "docs/results.md").read_text()
    lines = re.findall(r"^\| ([\d,]+) \| ([^|]+) \| ([\d,]+) \| ([\d.]+) × \| ([\d.]+) % \|$", text, re.M)
    assert {batch for batch, *_ in lines} == {"32", "128", "512", "2,048"}
    for batch, *numbers in lines:
        base, best = row("base", batch), row("switches", batch)
        assert best.is_fastest
        assert numbers == [
            in_documents(base.images_per_s, 0),
            f"{best.images_per_s.value:,.0f}",
            f"{best.images_per_s.value / base.images_per_s.value:.1f}",
            f"{100 * best.mfu_measured.value:.0f}",
        ]
