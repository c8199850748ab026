"""The chart of the memory of a step: a bar for every configuration, cut into what takes it."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import altair as alt

from dpscale.plan.study import BASE
from dpscale.present.charts.picture import PICTURES_DRAWN, WIDTH, Chart, Picture, layer, picture
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms
from dpscale.tables.column import MB
from dpscale.tables.memory import MemoryRow
from dpscale.tables.row import in_groups

# The parts of a bar, from zero, with their colours.
PARTS = {
    "weights": ("weights_bytes", "var(--single)"),
    "gradients": ("gradients_bytes", "var(--ddp)"),
    "optimiser": ("optimiser_bytes", "var(--dp)"),
    "activations": ("saved_bytes", "var(--fsdp)"),
}
# Pixels: from one bar to the next, a bar's thickness, and from the middle of both to its text and to itself.
_STEP, _THICK, _TO_TEXT, _TO_BAR = 40, 16, -10, 8


def memory(rows: Sequence[MemoryRow], terms: Terms) -> Chart:
    """Draw the memory of a step in MB by its tensors, on the device that needs most: a picture for every batch and
    environment, a bar for every strategy, number of devices and variant."""
    pictures: list[Picture] = []
    for of_batch in in_groups(rows, attrgetter("batch_per_gpu", "environment"))[:PICTURES_DRAWN]:
        first = of_batch[0]
        heading = f"Memory of a step at batch {first.batch_per_gpu:,}{terms.environment(first)}"
        subtitle = f"On the {terms.device} that needs most, by its tensors. {terms.data_note}"
        layers = _layers(of_batch, terms)
        pictures.append(picture(f"memory-{len(pictures) + 1}", heading, subtitle, layers, alt.Step(_STEP)))
    return Chart(pictures)


def _layers(rows: Sequence[MemoryRow], terms: Terms) -> list[alt.Chart]:
    y = alt.Y("place:O").axis(None)
    colours = alt.Scale(domain=[*PARTS], range=[shade for _, shade in PARTS.values()])
    bars = layer(part for place, row in enumerate(rows) for part in _bar(place, row))
    texts = layer({"place": place, "text": _text(row, terms)} for place, row in enumerate(rows))
    return [
        bars.mark_bar(size=_THICK, yOffset=_TO_BAR).encode(
            alt.X("start:Q").title(f"Memory, {MB.shown}").axis(tickCount=5),
            y,
            alt.Color("part:N").scale(colours),
            x2=alt.X2("end:Q"),
        ),
        texts.mark_text(yOffset=_TO_TEXT, limit=WIDTH).encode(y, alt.Text("text:N"), x=alt.XValue(0)),
    ]


def _bar(place: int, row: MemoryRow) -> Iterator[dict[str, object]]:
    start = 0.0
    for part, (column, _) in PARTS.items():
        end = start + MB.of(getattr(row, column))
        yield {"place": place, "part": part, "start": start, "end": end}
        start = end


def _text(row: MemoryRow, terms: Terms) -> str:
    """Name a bar and its length: `ddp on 2 GPUs, accumulate-4: 350 MB`."""
    name = terms.group(row) if row.variant == BASE else f"{terms.group(row)}, {row.variant}"
    return f"{name}: {measured(sum(getattr(row, column) for column, _ in PARTS.values()), MB)}"
