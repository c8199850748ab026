"""Tables of a study with variants: all of one, and single rows for findings."""

from typing import Any

from page_tables import IMAGES, ROOT, around, tables, with_steps

from dpscale.tables.tables import Tables
from recorded import recorded_tables


def with_variants() -> Tables:
    """The study that is on record with the most of them."""
    return recorded_tables(ROOT, "recorded-h200-4")


def variant_row(variant: str, epoch_s: float, **more: Any) -> dict[str, Any]:
    """A row of variants.csv: one GPU at batch 128 unless said otherwise. Quantities are known to 1 %."""
    where = {name: more.pop(name) for name in ("strategy", "gpus", "batch", "scope") if name in more}
    row = {
        "variant": variant, **with_steps(**{"strategy": "single", "gpus": 1, "batch": 128, **where}), "status": "ok",
        "runs": 3, "n": 6, "is_fastest": False,
    }  # fmt: skip
    for name, value in {"epoch_s": epoch_s, "images_per_s": IMAGES / epoch_s, **more}.items():
        row |= around(name, value) if isinstance(value, float) else {name: value}
    return row


BASE = variant_row("base", 3.0)
FAST = variant_row("graph", 1.0, faster=3.0, is_fastest=True)
SLOW = variant_row("bf16", 4.0, faster=0.75)
PREPARED: dict[str, Any] = {
    "preparation_s": 30.0,
    "faster": 3.0,
    "pays_from_epochs_low": 14,
    "pays_from_epochs_high": 16,
}
PAYS = variant_row("graph", 1.0, **PREPARED, saved_s=2.0, pays_from_epochs=15, pays="yes")
NEVER = variant_row("compiled", 4.0, **{**PREPARED, "faster": 0.75}, saved_s=-1.0, pays="never")


def of_variants(*rows: dict[str, Any]) -> Tables:
    return tables(variants=list(rows))
