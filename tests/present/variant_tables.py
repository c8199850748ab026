"""Tables of a study with variants: all of one, and single rows for findings."""

from typing import Any

from page_tables import IMAGES, ROOT, around, key, tables

from dpscale.tables.tables import Tables
from recorded import recorded_tables


def with_variants() -> Tables:
    """The study that is on record with the most of them."""
    return recorded_tables(ROOT, "recorded-h200-4")


def variant_row(variant: str, epoch_s: float, spread: float = 0.01, **more: Any) -> dict[str, Any]:
    """A row of variants.csv: one GPU at batch 128 unless said otherwise; quantities by name are known to `spread`."""
    where = {name: more.pop(name) for name in ("strategy", "gpus", "batch", "scope") if name in more}
    place = key(**{"strategy": "single", "gpus": 1, "batch": 128, **where})
    quantities = {name: more.pop(name) for name in list(more) if isinstance(more[name], float)}
    row = {
        "variant": variant, **place, "status": "ok", "runs": 3, "n": 6,
        "full_steps_per_epoch": IMAGES // place["global_batch"], "is_fastest": False,
        **around("epoch_s", epoch_s, spread),
        **around("images_per_s", IMAGES / epoch_s, spread),
    }  # fmt: skip
    for name, value in quantities.items():
        row |= around(name, value, spread)
    return {**row, **more}


BASE = variant_row("base", 3.0)
FAST = variant_row("graph", 1.0, faster=3.0, is_fastest=True)
SLOW = variant_row("bf16", 4.0, faster=0.75)


def of_variants(*rows: dict[str, Any]) -> Tables:
    return tables(variants=list(rows))
