"""The record of two scripts whose steps took turns."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class VersusBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps of one script without a step of the other: a block of both, or a whole run."""

    pair: int  # The block of A and the block of B that are neighbours have the same.
    script: Literal["A", "B"]
    steps: Annotated[int, Meta(ge=1)]
    seconds: Annotated[float, Meta(gt=0)]  # Of these steps. Pauses and steps at which an epoch began are none of them.
    samples: float | None  # Per step, of all ranks. None without a DataLoader.


class VersusRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """Two scripts, A and B, whose steps took turns."""

    kind: Literal["versus"]
    measurement_version: int  # Version of the measuring code.
    commands: tuple[list[str], list[str]]  # Of A and of B.
    minutes: float  # Asked for, of all blocks together.
    started_at: str  # UTC, ISO 8601, as `finished_at`.
    finished_at: str
    dpscale_version: str
    turns: Literal["blocks", "runs"]  # Both were there and blocks took turns; or whole runs did, one at a time.
    why: str | None  # Whole runs took turns, or blocks ended before their time. None where neither.
    blocks: Annotated[list[VersusBlock], Meta(min_length=2)]  # In their order; a pair has both of its blocks.
