"""The chart of the memory of a step: a bar for every configuration, cut into what takes it."""

from collections.abc import Iterator, Sequence
from math import isnan
from operator import attrgetter

import altair as alt

from dpscale.plan.study import BASE
from dpscale.present.charts.bars import picture_of_bars
from dpscale.present.charts.picture import PICTURES_DRAWN, QUIET, Chart, Picture
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms, joined
from dpscale.tables.column import MB
from dpscale.tables.memory import MemoryRow
from dpscale.tables.row import in_groups

# The parts of a bar, from zero, with their colours.
PARTS = {
    "weights": ("weights_bytes", "var(--single)"),
    "gradients": ("gradients_bytes", "var(--ddp)"),
    "optimiser": ("optimiser_bytes", "var(--dp)"),
    "activations": ("saved_bytes", "var(--fsdp)"),
    "gathered": ("gathered_bytes", QUIET),
}


def parts_of(rows: Sequence[MemoryRow]) -> list[str]:
    """Return the parts that any of the rows has."""
    return [name for name, (column, _) in PARTS.items() if any(getattr(row, column) for row in rows)]


def memory(rows: Sequence[MemoryRow], terms: Terms) -> Chart:
    """Draw the memory of a step in MB by its tensors, on the device that needs most: a picture for every batch and
    environment, a bar for every strategy, number of devices and variant whose activations are seen."""
    pictures: list[Picture] = []
    seen = [row for row in rows if not isnan(row.saved_bytes)]
    unseen = [*dict.fromkeys(row.strategy for row in rows if isnan(row.saved_bytes))]
    note = f" Not {joined(unseen)}: its activations are out of sight." if unseen else ""
    for of_batch in in_groups(seen, attrgetter("batch_per_gpu", "environment"))[:PICTURES_DRAWN]:
        first = of_batch[0]
        heading = f"Memory of a step at batch {first.batch_per_gpu:,}{terms.environment(first)}"
        subtitle = f"On the {terms.device} that needs most, by its tensors.{note}"
        parts = parts_of(of_batch)
        shades = alt.Scale(domain=parts, range=[PARTS[name][1] for name in parts])
        bars = [piece for place, row in enumerate(of_batch) for piece in _bar(place, row, parts)]
        texts = [f"{named(row, terms)}: {measured(row.together_bytes, MB)}" for row in of_batch]
        name, title = f"memory-{len(pictures) + 1}", f"Memory, {MB.shown}"
        pictures.append(
            picture_of_bars(name, heading, subtitle, title, bars, texts, [alt.Color("part:N").scale(shades)])
        )
    return Chart(pictures)


def _bar(place: int, row: MemoryRow, parts: Sequence[str]) -> Iterator[dict[str, object]]:
    start = 0.0
    for name in parts:
        end = start + MB.of(getattr(row, PARTS[name][0]))
        yield {"place": place, "part": name, "start": start, "end": end}
        start = end


def named(row: MemoryRow, terms: Terms) -> str:
    """Return `ddp on 2 GPUs`, and its variant behind it."""
    return terms.group(row) if row.variant == BASE else f"{terms.group(row)}, {row.variant}"
