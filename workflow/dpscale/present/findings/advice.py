"""What to do, in words: rows of the table `advice`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer import advice
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured
from dpscale.present.text.words import Terms
from dpscale.tables.answer import AdviceRow
from dpscale.tables.column import PERCENT, SECONDS


@dataclass(frozen=True)
class Advice:
    """A change to make, what it saves if that was measured, and the section of the page that shows it."""

    what: str
    saving: str
    section: str

    @property
    def text(self) -> str:
        return f"{self.what}: {self.saving}" if self.saving else self.what


def advices(rows: Sequence[AdviceRow], terms: Terms) -> list[Advice]:
    """Return the advice in the table's order, in words."""
    worded = []
    for row in rows:
        is_elsewhere = row.problem == advice.VARIANT and row.on_gpus != row.gpus
        wording, section = _ON_FEWER if is_elsewhere else _WORDED[row.problem]
        names = {"better": row.better, "used": row.used}
        if row.problem == advice.BATCH:
            names = {name: f"{int(batch):,}" for name, batch in names.items()}
        action = wording.format(device=terms.device, devices=terms.devices, gpus=row.gpus, on_gpus=row.on_gpus, **names)
        times = f"{measured(row.better_s, SECONDS)} per epoch, not {measured(row.used_s, SECONDS)}"
        times = f"on {terms.count(row.on_gpus)} {times}" if is_elsewhere else times
        worded.append(Advice(action, f"{times}, {_saving(row, terms)}", section))
    return worded


def _saving(row: AdviceRow, terms: Terms) -> str:
    if row.problem in (advice.FEWER, advice.ONE_GPU):
        return f"{_share(row.saving_gpu_s)} fewer {terms.device}-seconds"
    return f"{_share(row.saving)} less time"


def _share(figure: Figure) -> str:
    share = estimate(figure, PERCENT, with_unit=True, digits=2)
    return share if figure.has_interval else f"about {share}"


# By problem: how it is worded, and the section that has the evidence.
_WORDED: Mapping[str, tuple[str, str]] = {
    advice.FEWER: ("Use 1 {device}, not {gpus:,}", "times"),
    advice.STRATEGY: ("Use {better}, not {used}, on {gpus:,} {devices}", "speedup"),
    advice.BATCH: ("Use batch {better} per {device}, not {used}, if accuracy allows it", "times"),
    advice.VARIANT: ("Use the settings of the variant {better}", "variants"),
    advice.ONE_GPU: ("Use 1 {device} with the settings of the variant {better}, not {gpus:,} with {used}", "variants"),
}
# Of a variant that was not measured on as many devices: its times are those of fewer.
_ON_FEWER = "Try the settings of the variant {better} on {gpus:,} {devices}", "variants"
