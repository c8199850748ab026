"""Published studies made up for a test: times in, figures derived by a convention of the tool's own space."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from dpscale.audit.published import Published, Spot
from dpscale.formulas.rounded import Number

PARAMETERS = 11_173_962
MINIMAL = {
    "id": "made-up",
    "title": "Made up for a test",
    "dataset_images": 50_000,
    "epoch_s": {32: {1: 38.0, 2: 67.0}},
    "published": {"speedup": {32: {2: 0.57}}},
}

# Numbers by place, a plain pair of batch per GPU and GPUs will do; or as text: `32x1 40.00, 32x2 25.00`.
ByPlace = Mapping[tuple[int, int], Any] | Mapping[Spot, Any] | str


def written(path: Path, **changes: Any) -> Path:
    """A valid file with some keys changed; None takes a key out."""
    values = {key: value for key, value in {**MINIMAL, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(values))
    return path


def published(
    epoch_s: ByPlace,
    quantities: Mapping[str, ByPlace],
    batch_sweep_s: Mapping[int, Any] | None = None,
    **changes: Any,
) -> Published:
    """A study; numbers are given as they are printed, as text or as decimals."""
    values: dict[str, Any] = {
        "id": "made-up",
        "title": "Made up for a test",
        "sha256": "0" * 64,
        "dataset_images": 50_000,
        "parameters_trained": PARAMETERS,
        "bandwidth_unit": "GB/s",
    }
    return Published(
        **{**values, **changes},
        batch_sweep_s=by_place({(batch, 1): time for batch, time in (batch_sweep_s or {}).items()}),
        epoch_s=by_place(epoch_s),
        quantities={name: by_place(table) for name, table in quantities.items()},
    )


def with_table(study: Published, quantity: str, table: ByPlace) -> Published:
    """The study with one quantity printed so."""
    return replace(study, quantities={**study.quantities, quantity: by_place(table)})


def by_place(table: ByPlace) -> dict[Spot, Number]:
    if isinstance(table, str):
        cells = dict(cell.split() for cell in table.split(", "))
        return {Spot(*map(int, place.split("x"))): as_printed(number) for place, number in cells.items()}
    return {Spot(*place): as_printed(number) for place, number in table.items()}


def as_printed(number: Any) -> Number:
    return number if isinstance(number, Number) else Number.of(Decimal(number))
