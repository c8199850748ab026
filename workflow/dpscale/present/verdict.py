"""The verdict: is it worth using more devices here, at which batch, and what eats the rest. Computed, as findings are.

More devices are worth it where the 95 % interval of the efficiency, weak scaling, lies above `WORTH`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpscale.formulas.statistics import BLOCKS_FOR_INTERVAL
from dpscale.present import words
from dpscale.present.finding import extreme, multiple, percent, with_interval
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary.quantities import quantity

# At least half of what the devices could do is then got from them.
WORTH = 0.5


@dataclass(frozen=True)
class Verdict:
    """The answer in a few words, the sentence with its numbers, and what eats the rest where that was measured.

    `kind` is `worth`, `not-worth` or `unknown`.
    """

    kind: str
    answer: str
    sentence: str
    rest: str


@dataclass(frozen=True)
class _Series:
    """The weak speedups of a strategy on a number of devices in one environment, one row a batch, ascending.

    Speedups without a 95 % interval are not among the rows; `is_whole` says that there are none.
    """

    rows: Sequence[Row]
    is_whole: bool

    @property
    def paying(self) -> Sequence[Row]:
        return [row for row in self.rows if row["efficiency_low"] > WORTH]

    @property
    def best(self) -> Row:
        return max(self.rows, key=lambda row: row["speedup"])

    @property
    def rank(self) -> tuple[bool, int, int, float]:
        """The series that answers: one that pays, on the most devices, at the most batches, by the most."""
        return bool(self.paying), int(self.best["gpus"]), len(self.paying), float(self.best["speedup"])


def verdict(tables: Tables, terms: Terms) -> Verdict:
    """What the tables say; that they say nothing where no speedup has an interval."""
    series = _series(tables)
    if not series:
        return Verdict("unknown", "Not known yet", _why_unknown(tables, terms), "")
    chosen = max(series, key=lambda line: line.rank)
    others = [line for line in series if line is not chosen and _is_rival(line.best, chosen.best)]
    sentence = f"{_gain(chosen, terms)}{''.join(_in_contrast(line, terms) for line in others)}."
    if terms.device == "worker":
        sentence += " Workers share the cores of one machine, so this is no measure of accelerators."
    kind = "worth" if chosen.paying else "not-worth"
    return Verdict(kind, _answer(chosen, terms), sentence, _rest(tables, chosen, terms))


def _series(tables: Tables) -> list[_Series]:
    """Of the compute scope, or of the first there is."""
    speedup = words.ok(tables["speedup"])
    weak = speedup[speedup["scaling"] == "weak"]
    weak = weak[weak["scope"] == min(_decided(weak)["scope"], default="")]
    grouped = weak.sort_values("batch_per_gpu").groupby(["environment", "strategy", "gpus"], dropna=False)
    series = [_Series(words.rows(_decided(part)), len(part) == len(_decided(part))) for _, part in grouped]
    return [one for one in series if one.rows]


def _decided(speedup: pd.DataFrame) -> pd.DataFrame:
    """The rows of which an interval can say something."""
    return with_interval(with_interval(speedup, "speedup"), "efficiency")


def _is_rival(row: Row, chosen: Row) -> bool:
    """Whether another strategy does the same on the same devices."""
    return bool(row["gpus"] == chosen["gpus"] and str(row["environment"]) == str(chosen["environment"]))


def _why_unknown(tables: Tables, terms: Terms) -> str:
    if tables["records"].empty:
        return f"Nothing has been measured, so nothing is known of what more {terms.devices} buy."
    if words.ok(tables["speedup"]).empty:
        return (
            f"No configuration on several {terms.devices} was measured together with its baseline on 1 {terms.device}."
        )
    return f"No speedup has an interval: that takes at least {BLOCKS_FOR_INTERVAL} runs beside their own baseline."


def _answer(series: _Series, terms: Terms) -> str:
    count, strategy = terms.count(int(series.best["gpus"])), series.best["strategy"]
    batches = _batches(series, terms)
    if batches:
        return f"{count} are worth it with {strategy} {batches}"
    if any(row["speedup_low"] > 1 for row in series.rows):
        return f"{count} are faster than 1 with {strategy}, but not worth it"
    return f"{count} are not worth it"


def _batches(series: _Series, terms: Terms) -> str:
    """At which batches it pays: at all, from one on, or at some; "" where at none."""
    paying = [int(row["batch_per_gpu"]) for row in series.paying]
    measured = [int(row["batch_per_gpu"]) for row in series.rows]
    if not paying:
        return ""
    if paying == measured:
        every = "at every batch measured" if series.is_whole else "at every batch that has an interval"
        return every if len(measured) > 1 else f"at batch {measured[0]:,} per {terms.device}"
    if paying == measured[-len(paying) :]:
        return f"from batch {paying[0]:,} per {terms.device} on"
    return f"at batch {words.listed([f'{batch:,}' for batch in paying])} per {terms.device}"


def _gain(series: _Series, terms: Terms) -> str:
    """The speedups at the ends of what pays, and the last batch that does not; the best one where none pays."""
    if not series.paying:
        best = series.best
        return (
            f"The best of {terms.count(int(best['gpus']))} is {multiple(best, 'speedup')} the speed of 1, with "
            f"{best['strategy']}{_at(best, terms)}, an efficiency of {percent(best['efficiency'])}"
        )
    first, last = series.paying[0], series.paying[-1]
    told = f"An epoch is {multiple(first, 'speedup')} as fast as on 1 {terms.device}{_at(first, terms)}"
    if last is not first:
        told += f" and {multiple(last, 'speedup')} at {int(last['batch_per_gpu']):,}"
    below = [row for row in series.rows if row["batch_per_gpu"] < first["batch_per_gpu"]]
    return f"{told}, but {multiple(below[-1], 'speedup')} at {int(below[-1]['batch_per_gpu']):,}" if below else told


def _at(row: Row, terms: Terms) -> str:
    return f" at batch {int(row['batch_per_gpu']):,} per {terms.device}{terms.environment(row)}"


def _in_contrast(series: _Series, terms: Terms) -> str:
    """What another strategy does on as many devices."""
    batches = _batches(series, terms)
    return f"; {series.best['strategy']} pays {batches or 'at no batch'}"


def _rest(tables: Tables, series: _Series, terms: Terms) -> str:
    """Where the profiled step goes at the batch that gains least, the largest part first; and what the loader takes."""
    parts = [part for part in (_step_parts(tables, series, terms), _loader(tables, series)) if part]
    return " ".join(parts)


def _step_parts(tables: Tables, series: _Series, terms: Terms) -> str:
    losing = [row for row in series.rows if row["efficiency"] < 1]
    for row in sorted(losing, key=lambda row: row["speedup"]):
        profiled = words.rows(_of_point(tables["step_shares"], row))
        if profiled:
            break
    else:
        return ""
    step = profiled[0]
    (most, share), *others = sorted(_shares(step, terms).items(), key=lambda item: item[1], reverse=True)
    rest = ", ".join(f"{name} {percent(part)}" for name, part in others)
    return (
        f"Where least is gained,{_at(row, terms)}, {percent(row['efficiency_lost'])} of the {terms.devices}' time is "
        f"lost. The profiler sees mostly {most}: {percent(share)} of a step{_slowed(step, row, tables)}; {rest}."
    )


def _slowed(step: Row, row: Row, tables: Tables) -> str:
    """The length of the profiled step beside that of the headline one: profiling slows the host."""
    headline_s = _of_point(tables["times"], row)
    headline_s = headline_s[headline_s["scope"] == row["scope"]]["step_s"].dropna()
    if headline_s.empty:
        return ""
    unit = quantity("step_s").unit
    profiled, plain = (words.measured(step_s, unit) for step_s in (step["parts_s"], headline_s.iloc[0]))
    return f" (profiling changes this step from {plain} to {profiled})"


def _shares(step: Row, terms: Terms) -> Mapping[str, float]:
    """Shares of a profiled step without compute; waiting where it is told apart from transfer."""
    named = {
        f"{terms.devices} idle until the host has work for them": step["idle_share"],
        f"waiting for the slowest {terms.device}": step["waiting_share"],
        f"transfer between {terms.devices}": step["transfer_share"],
    }
    return {name: share for name, share in named.items() if words.is_known(share)}


def _loader(tables: Tables, series: _Series) -> str:
    """The speedup with the DataLoader in the clock, where it lies wholly below the one without."""
    row = series.paying[-1] if series.paying else series.best
    both = with_interval(words.ok(tables["speedup"]), "speedup")
    loaded = _of_point(both[(both["scaling"] == "weak") & (both["scope"] == "end_to_end")], row)
    if row["scope"] == "end_to_end" or loaded.empty:
        return ""
    other = extreme(loaded, "speedup", largest=True)
    if other["speedup_high"] >= row["speedup_low"]:
        return ""
    return (
        f"With the DataLoader in the clock, {multiple(row, 'speedup')} at batch {int(row['batch_per_gpu']):,} become "
        f"{multiple(other, 'speedup')}."
    )


def _of_point(table: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of one configuration in its environment."""
    places = [*words.POINT_COLUMNS, "environment"]
    same = [table[name].astype(str) == str(row[name]) for name in places]
    return table[pd.concat(same, axis=1).all(axis=1)]
