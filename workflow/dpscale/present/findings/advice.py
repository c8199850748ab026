"""What to do, in words: rows of the table `advice`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer import advice
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured
from dpscale.present.text.words import Terms
from dpscale.tables.answer import AdviceRow
from dpscale.tables.column import PERCENT, SECONDS


@dataclass(frozen=True)
class Advice:
    """What to do, what that saves if it was measured, and the section of the page that shows it."""

    what: str
    saving: str
    section: str

    @property
    def text(self) -> str:
        return f"{self.what}: {self.saving}" if self.saving else self.what


def advices(rows: Sequence[AdviceRow], terms: Terms) -> list[Advice]:
    """In the table's order."""
    found = []
    for row in rows:
        worded, section = _WORDED[row.problem]
        times = f"{measured(row.better_s, SECONDS)} per epoch, not {measured(row.used_s, SECONDS)}"
        found.append(Advice(worded(row, terms), f"{times}, {_saving(row, terms)}", section))
    return found


def _saving(row: AdviceRow, terms: Terms) -> str:
    if row.problem in (advice.FEWER, advice.ONE_GPU):
        return f"{_share(row.saving_gpu_s)} fewer {terms.device}-seconds"
    return f"{_share(row.saving)} less time"


def _share(figure: Figure) -> str:
    told = estimate(figure, PERCENT, with_unit=True, digits=2)
    return told if figure.has_interval else f"about {told}"


def _fewer(row: AdviceRow, terms: Terms) -> str:
    return f"Use 1 {terms.device}, not {row.gpus:,}"


def _strategy(row: AdviceRow, terms: Terms) -> str:
    return f"Use {row.better}, not {row.used}, on {terms.count(row.gpus)}"


def _batch(row: AdviceRow, terms: Terms) -> str:
    return f"Use batch {int(row.better):,} per {terms.device}, not {int(row.used):,}, if accuracy allows it"


def _variant(row: AdviceRow, terms: Terms) -> str:
    return f"Use the settings of {row.better} on every {terms.device} (measured on {row.on_gpus})"


def _one_device(row: AdviceRow, terms: Terms) -> str:
    return f"Use 1 {terms.device} with the settings of {row.better}, not {row.gpus:,} with {row.used}"


# By problem: how it is worded, and the section that has the evidence.
_WORDED: Mapping[str, tuple[Callable[[AdviceRow, Terms], str], str]] = {
    advice.FEWER: (_fewer, "times"),
    advice.STRATEGY: (_strategy, "speedup"),
    advice.BATCH: (_batch, "times"),
    advice.VARIANT: (_variant, "variants"),
    advice.ONE_GPU: (_one_device, "variants"),
}
