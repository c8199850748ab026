"""What docs/results.md says of small batches is what bench/small_batch.py makes of the records."""

import json
from pathlib import Path

from bench.small_batch import table


def test_the_document_says_what_was_measured(root: Path) -> None:
    files = sorted((root / "results/recorded-small-batch").glob("*.json"))
    lines = [line.split() for line in table([json.loads(file.read_text())["times_s"] for file in files])]
    document = (root / "docs/results.md").read_text().split("### Small batches")[1].split("\n## ")[0]
    for name, *words in (("ddp",), ("ddp,", "views,", "10", "MiB"), ("copies",)):
        of_variant = next(line for line in lines if line[1 : line.index("ms") - 1] == [name, *words])
        step, _, _, *speedup = of_variant[of_variant.index("ms") - 1 :]
        assert f"| {step} | {' '.join(speedup)} |" in document
    added = [float(line[-2]) for line in lines if line and line[-1] == "ms"][-5:]
    assert (
        f"one GPU {added[0]:.3f} ms; both at once {added[1]:+.3f}; compiled stage by stage {added[2]:+.3f}" in document
    )
    assert f"gradients {added[3]:+.3f}; averaging\nthem and sending averages {added[4]:+.3f}" in document
