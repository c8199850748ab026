"""Tables in which everything that somebody else wrote is one and the same text."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from page_tables import (
    absent_row,
    arm_row,
    audited,
    environment_row,
    epoch_row,
    missing_row,
    record_row,
    study,
    tables,
    times_row,
)

from dpscale.audit.page import render_studies
from dpscale.present.page import render
from dpscale.tables.tables import Tables
from dpscale.terminal import with_names
from once import once

ROOT = Path(__file__).parents[2]
RTL_OVERRIDE = "\u202e"
HOSTILE = {
    "markup": (
        '<script>window.ran = 1</script> "><img src=x onerror=\'window.ran = 1\'><svg onload="window.ran = 1"> '
        "</td></table></main></style></title><script>window.ran = 1</script><!-- "
        "\"'`&quot;&amp; onclick=window.ran=1 x=' {{ 7 * 7 }}{% raw %}"
    ),
    "NaN": "NaN",
    "controls": f"abc{RTL_OVERRIDE}gnp.exe\u2066 12 \u200f34\u2069 \u05d0\u05d1\u05d2 \x1b[31mred\x00\x07\x9b\ufffe",
    "long": "x" * 1_000 + " lorem ipsum" * 90,
}
BENIGN = "text"

# Columns that hold what a machine, a user or a publication calls something.
_WRITTEN_BY_OTHERS = {
    "times": ["reason"],
    "records": ["path", "host", "git_commit", "job_id", "gpu_uuids"],
    "environments": [
        "device_model", "cpu_model", "driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python", "links",
        "hosts", "dataset_sha256",
    ],
    "missing": ["reason", "log"],
    "rejected": ["path", "reason"],
    "training_summary": ["arm", "remedies", "reason"],
    "training": ["arm"],
    "training_curves": ["arm"],
    "absences": ["reason"],
    "audit_findings": ["title", "sentence"],
    "audit_warnings": ["check", "detail"],
}  # fmt: skip


def hostile(text: str) -> tuple[Mapping[str, Any], Tables]:
    """A study and its tables, small, in which `text` stands wherever somebody else's text can."""
    configuration: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch": 32}
    data = tables(
        times=[times_row(7.7, strategy="single", gpus=1, batch=32), absent_row("failed", "", **configuration)],
        records=[record_row(strategy="single", gpus=1, batch=32)],
        environments=[environment_row()],
        missing=[missing_row("failed", "", "log", **configuration)],
        rejected=[{"path": "", "reason": ""}],
        training_summary=[arm_row("arm", 0.7)],
        training=[epoch_row("arm", 1, epoch, 0.5) for epoch in (1, 2)],
    )
    data = audited(ROOT, data)
    changed: dict[str, Any] = {
        name: [replace(row, **dict.fromkeys(columns, with_names(text))) for row in getattr(data, name)]
        for name, columns in _WRITTEN_BY_OTHERS.items()
    }
    arms = {"arm": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}}
    values = study(training={"arms": arms, "baseline": "arm", "target_accuracy": 0.7})
    return {**values, "study": with_names(text)}, replace(data, **changed)


@cache
@once
def hostile_page(text: str) -> str:
    """The page of that study. Many tests look at it."""
    return render(*hostile(text), "audit.html")


@cache
def hostile_audit_page(text: str) -> str:
    """The page of other people's figures beside it."""
    values, data = hostile(text)
    return render_studies(values, data, "page.html")
