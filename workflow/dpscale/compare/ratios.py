"""Epoch times over those of the first study, with 95 % intervals: at every batch, and over all batches of a strategy.

Studies were measured apart, so nothing is paired. A ratio is of geometric means over servers, or over the runs of one,
with Welch's interval of the logarithms. The intervals of the batches of a group hold together.

One batch says little where servers differ much. A run often keeps its server over its batches, so over all batches it
has one figure: the geometric mean of its epoch times. If every run at every batch counted as a unit, the interval would
be too narrow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpscale.formulas.figure import UNKNOWN, Figure, estimate_of_blocks, units_of
from dpscale.formulas.on_server import OnServer
from dpscale.formulas.statistics import best_of, ratio_of_blocks
from dpscale.present.text.words import mark, rank
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow

SLOWER, FASTER, NO_DIFFERENCE, NO_INTERVAL = "slower", "faster", "no difference shown", "no interval"
# An interval without a width lies beside one by the last digit of its computation.
_LAST_DIGITS = 1e-12

Epochs = Mapping[int, Figure]  # by batch per device


class Group(NamedTuple):
    """A strategy on so many devices in a scope, whose batches are pooled."""

    scope: str
    strategy: str
    gpus: int


@dataclass(frozen=True)
class Measurement:
    """A study at a batch that two studies have, or over all batches (None) that it has with the first."""

    study: str
    group: Group
    batch: int | None
    epoch_s: Figure = UNKNOWN
    ratio: Figure = UNKNOWN
    """Its epoch time over that of the first study."""
    speedup: Figure = UNKNOWN
    mark: str = ""

    @property
    def verdict(self) -> str:
        """The side of one on which the whole interval lies; "" of the first study, or where that has no time."""
        if not self.ratio.has_interval:
            return NO_INTERVAL if self.ratio.is_known else ""
        if self.ratio.is_above(1 + _LAST_DIGITS):
            return SLOWER
        return FASTER if self.ratio.is_below(1 - _LAST_DIGITS) else NO_DIFFERENCE


def measurements(studies: Mapping[str, Tables]) -> Iterator[Measurement]:
    """Yield all that two studies or more have a time of, group by group as people read them. `studies` are the tables
    by the name of their study, those of the first study first."""
    name_of_first = next(iter(studies))
    epochs = {name: epochs_by_group(tables.times) for name, tables in studies.items()}
    speedups = {
        (name, row.scope, row.strategy, row.gpus, row.batch_per_gpu): row
        for name, tables in studies.items()
        for row in tables.speedup
        if row.scaling == "weak"
    }
    groups = {group for of_study in epochs.values() for group in of_study}
    for group in sorted(groups, key=lambda group: (group.scope, rank(group.strategy), group.gpus)):
        of_studies = {name: of_study[group] for name, of_study in epochs.items() if group in of_study}
        first = of_studies.get(name_of_first, {})
        ratios = {name: ratios_of_group(first, times) for name, times in of_studies.items() if name != name_of_first}
        for batch in sorted({batch for times in of_studies.values() for batch in times}):
            with_time = [name for name, times in of_studies.items() if batch in times]
            for name in with_time if len(with_time) > 1 else ():
                ratio = ratios.get(name, {}).get(batch, UNKNOWN)
                row = speedups.get((name, *group, batch))
                speedup, of_other_runs = (row.speedup, mark(row)) if row else (UNKNOWN, "")
                yield Measurement(name, group, batch, of_studies[name][batch], ratio, speedup, of_other_runs)
        for name, by_batch in ratios.items():
            over_all = ratio_over_batches(first, of_studies[name]) if len(by_batch) > 1 else UNKNOWN
            if over_all.is_known:
                yield Measurement(name, group, None, ratio=over_all)


def epochs_by_group(rows: Iterable[TimesRow]) -> dict[Group, dict[int, Figure]]:
    """Return the epoch times that are known, by group and batch."""
    epochs: dict[Group, dict[int, Figure]] = {}
    for row in rows:
        if row.epoch_s.is_known:
            epochs.setdefault(Group(row.scope, row.strategy, row.gpus), {})[row.batch_per_gpu] = row.epoch_s
    return epochs


def ratio_of(epoch_s: Figure, first_epoch_s: Figure) -> Figure:
    """Return an epoch time over the first study's, with Welch's interval over the servers of both, or the runs of
    one."""
    times = ratio_of_blocks(units_of(epoch_s.blocks), units_of(first_epoch_s.blocks))
    is_one_machine = times.has_interval and (epoch_s.is_one_machine or first_epoch_s.is_one_machine)
    return replace(times, kind="one machine") if is_one_machine else times


def ratios_of_group(first: Epochs, second: Epochs) -> dict[int, Figure]:
    """Return the ratio at every batch that both studies have, with 95 % intervals that hold for all batches at once."""
    ratios = {batch: ratio_of(second[batch], first[batch]) for batch in sorted(first.keys() & second.keys())}
    with_interval = sum(ratio.has_interval for ratio in ratios.values())
    for batch, ratio in ratios.items():
        units = min(len(units_of(epochs[batch].blocks)) for epochs in (first, second))
        ratios[batch] = best_of(ratio, max(with_interval, 1), units)
    return ratios


def ratio_over_batches(first: Epochs, second: Epochs) -> Figure:
    """Return the ratio over the batches that both studies have two runs of; where there is none, over all that both
    have.

    A run that lacks one of them is left out; without any run the ratio is not known. What runs took decides nothing.
    """
    common = first.keys() & second.keys()
    repeated = {batch for batch in common if min(len(first[batch].blocks), len(second[batch].blocks)) > 1}
    figures = [_figures_of_runs([epochs[batch].blocks for batch in repeated or common]) for epochs in (second, first)]
    return ratio_of(*map(estimate_of_blocks, figures)) if all(figures) else UNKNOWN


def _figures_of_runs(epoch_s: Sequence[Mapping[OnServer, float]]) -> dict[OnServer, float]:
    """Return the geometric mean over batches of every run that has all of them; `epoch_s` are the times of each batch
    by run."""
    whole_runs = [run for run in (epoch_s[0] if epoch_s else ()) if all(run in of_batch for of_batch in epoch_s)]
    return {run: float(np.exp(np.log([of_batch[run] for of_batch in epoch_s]).mean())) for run in whole_runs}
