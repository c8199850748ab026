"""The verdict: is it worth using more devices here, at which batch, and where the time goes. Computed, as findings are.

Every batch has a state, by the 95 % interval of its efficiency, weak scaling: it lies above half (worth it), wholly
below (not), or neither, or there is none (undecided). Where the time goes is told by intervention, from the ladder,
never by the profiler.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpscale.analyse.claims import has_interval, is_range, is_true
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.finding import extreme, multiple, percent, with_interval, with_unit
from dpscale.present.words import Row, Tables, Terms
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.quantities import MILLISECONDS, quantity
from dpscale.vocabulary.states import NOT_WORTH_IT, UNDECIDED, WORTH_IT

_COMPUTE, _END_TO_END = "compute", "end_to_end"
_NOT_SHOWN = f"not shown (fewer than {HEADLINE_STEPS} full steps per epoch)"
# What ends a series, under Coverage: no gap in it.
_ENDS = ("oom", "capped")


@dataclass(frozen=True)
class Verdict:
    """The answer in a few words, the sentence with its numbers, the answer with loading in the clock, and where the
    time goes as far as that was measured.

    `kind` is `worth`, `not-worth` or `unknown`. `series` is a row of the strategy and devices that answer, if any.
    """

    kind: str
    answer: str
    sentence: str
    loading: str
    rest: str
    series: Row | None = None


@dataclass(frozen=True)
class _Series:
    """The weak speedups of a strategy on a number of devices in one scope and environment, one row a batch, ascending.

    Batches without a speedup are among them.
    """

    rows: Sequence[Row]

    @property
    def batches(self) -> Sequence[int]:
        return [int(row["batch_per_gpu"]) for row in self.rows]

    @property
    def shown(self) -> Sequence[Row]:
        """Those with a speedup whose epochs have steps enough to speak of."""
        return [row for row in self.rows if row["status"] == "ok" and is_true(row["is_headline"])]

    @property
    def any(self) -> Row:
        return next(row for row in self.rows if row["status"] == "ok")

    def of(self, worth: str) -> Sequence[Row]:
        """The rows in this state."""
        return [row for row in self.shown if row["worth"] == worth]

    @property
    def paying(self) -> Sequence[Row]:
        return self.of(WORTH_IT)

    @property
    def best(self) -> Row:
        """Of those shown, if any."""
        return max(self.shown or [self.any], key=lambda row: row["speedup"])

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int, float]:
        """The series that answers: one that pays, or may, on the most devices, at the most batches, by the most."""
        states = bool(self.paying), bool(self.paying or self.of(UNDECIDED)), bool(self.shown)
        return *states, int(self.best["gpus"]), len(self.paying), float(self.best["speedup"])

    @property
    def kind(self) -> str:
        if self.paying:
            return "worth"
        return "not-worth" if self.shown and not self.of(UNDECIDED) else "unknown"


def verdict(tables: Tables, terms: Terms) -> Verdict:
    """What the tables say; that they say nothing where there is no speedup."""
    series = _series(tables)
    if not series:
        return Verdict("unknown", "Not known yet", _why_unknown(tables, terms), "", "")
    first_scope = min(str(line.any["scope"]) for line in series)
    rivals = [line for line in series if line.any["scope"] == first_scope]
    chosen = max(rivals, key=lambda line: line.rank)
    others = [line for line in rivals if line is not chosen and _is_rival(line.any, chosen.any)]
    sentence = f"{_gain(chosen, terms)}.{''.join(_in_contrast(line, chosen, tables, terms) for line in others)}"
    if terms.device == "worker":
        sentence += " Workers share the cores of one machine, so this is no measure of accelerators."
    rest = [_where_the_time_goes(tables, chosen, terms), _loader(tables, chosen)]
    loaded = _with_loading(series, chosen)
    return Verdict(
        chosen.kind,
        _whole_answer(chosen, loaded, terms),
        sentence,
        _loading(chosen, loaded, tables, terms),
        " ".join(filter(None, rest)),
        chosen.any,
    )


def _series(tables: Tables) -> list[_Series]:
    """Of every scope and environment, those with a speedup. Rows without a record have no environment: they belong to
    each."""
    speedup = tables["speedup"]
    weak = speedup[speedup["scaling"] == "weak"].sort_values("batch_per_gpu")
    found = []
    for key in words.rows(words.ok(weak)[["scope", "environment", "strategy", "gpus"]].drop_duplicates()):
        same = (weak["scope"] == key["scope"]) & (weak["strategy"] == key["strategy"]) & (weak["gpus"] == key["gpus"])
        here = weak["environment"].isna() | (weak["environment"].astype(str) == str(key["environment"]))
        found.append(_Series(words.rows(weak[same & here])))
    return found


def _is_rival(row: Row, chosen: Row) -> bool:
    """Whether another strategy does the same on the same devices."""
    return bool(row["gpus"] == chosen["gpus"] and str(row["environment"]) == str(chosen["environment"]))


def _why_unknown(tables: Tables, terms: Terms) -> str:
    if tables["records"].empty:
        return f"Nothing has been measured, so nothing is known of what more {terms.devices} buy."
    return f"No configuration on several {terms.devices} was measured together with its baseline on 1 {terms.device}."


def _whole_answer(chosen: _Series, loaded: _Series | None, terms: Terms) -> str:
    """`Yes: 4 GPUs are worth it with ddp at batch 128 per GPU, with and without loading; 32: undecided`.

    With and without loading are told together where every batch is in the same state.
    """
    states = _states(chosen)
    first = "Yes: " if WORTH_IT in states else "No: " if UNDECIDED not in states and NOT_WORTH_IT in states else ""
    same = loaded is not None and states == _states(loaded)
    return f"{first}{_answer(chosen, terms, 'with and without loading' if same else '')}"


def _answer(series: _Series, terms: Terms, how: str = "") -> str:
    """`4 GPUs are worth it with ddp at batches 128 to 2,048 per GPU, without loading; 32: undecided`."""
    row = series.any
    whether = f"{terms.count(int(row['gpus']))} are worth it with {row['strategy']}"
    states = _states(series)
    scope = how or ("with loading" if row["scope"] == _END_TO_END else "without loading")
    if WORTH_IT in states:
        first = f"{whether} at {_at_batches(states.pop(WORTH_IT), series)} per {terms.device}, {scope}"
    elif UNDECIDED in states:
        batches = _at_batches(states.pop(UNDECIDED), series)
        first = f"Undecided: whether {whether} at {batches} per {terms.device}, {scope}"
    elif NOT_WORTH_IT in states:
        batches = _at_batches(states.pop(NOT_WORTH_IT), series)
        first = f"{whether.replace('are worth', 'are not worth')} at {batches} per {terms.device}, {scope}"
    else:
        first = f"Not known: whether {whether}, {scope}"
    return f"{first}{_also(states, series)}"


def _states(series: _Series) -> dict[str, list[int]]:
    """The batches in every state, those that say most first."""
    shown = {int(row["batch_per_gpu"]): str(row["worth"]) for row in series.shown}
    states: dict[str, list[int]] = {state: [] for state in (WORTH_IT, UNDECIDED, NOT_WORTH_IT, _NOT_SHOWN)}
    for row in series.rows:
        if row["status"] in _ENDS:
            continue
        batch = int(row["batch_per_gpu"])
        state = shown.get(batch, _NOT_SHOWN) if row["status"] == "ok" else words.state(row["status"])
        states.setdefault(state, []).append(batch)
    return {state: batches for state, batches in states.items() if batches}


def _also(states: Mapping[str, Sequence[int]], series: _Series) -> str:
    """`; 32: undecided; 8,192: not shown (fewer than 10 full steps per epoch)`."""
    named = {**{state: state for state in states}, NOT_WORTH_IT: "not worth it"}
    return "".join(f"; {words.batches(batches, series.batches)}: {named[state]}" for state, batches in states.items())


def _at_batches(batches: Sequence[int], series: _Series) -> str:
    noun = "batch" if len(batches) == 1 else "batches"
    return f"{noun} {words.batches(batches, series.batches)}"


def _gain(series: _Series, terms: Terms) -> str:
    """The speedups at the ends of what pays, and the last batch before that; the best one where none pays."""
    if not series.shown:
        return f"No epoch of a batch has {HEADLINE_STEPS} full steps, so none of them speaks for its configuration"
    if not series.paying:
        best = series.best
        return (
            f"The best of {best['strategy']} on {terms.count(int(best['gpus']))} is {multiple(best, 'speedup')} the "
            f"speed of 1 {terms.at_batch(best)}, an efficiency of {percent(best['efficiency'])}"
        )
    first, last = series.paying[0], series.paying[-1]
    sentence = f"An epoch is {multiple(first, 'speedup')} as fast as on 1 {terms.device} {terms.at_batch(first)}"
    if last is not first:
        sentence += f" and {multiple(last, 'speedup')} at {int(last['batch_per_gpu']):,}"
    below = [row for row in series.shown if row["batch_per_gpu"] < first["batch_per_gpu"]]
    return (
        f"{sentence}, but {multiple(below[-1], 'speedup')} at {int(below[-1]['batch_per_gpu']):,}"
        if below
        else sentence
    )


def _in_contrast(series: _Series, chosen: _Series, tables: Tables, terms: Terms) -> str:
    """What another strategy does on as many devices; with loading in the clock, with how many loader processes."""
    with_loading = series.any["scope"] == _END_TO_END
    loaders = _loader_processes(tables, [chosen.any, series.any]) if with_loading else ""
    return f" {_answer(series, terms)}.{loaders}"


def _with_loading(series: Sequence[_Series], chosen: _Series) -> _Series | None:
    """The series of the same strategy and devices with loading in the clock, beside one without it."""
    row = chosen.any
    if row["scope"] == _END_TO_END:
        return None
    for line in series:
        same = line.any["scope"] == _END_TO_END and line.any["strategy"] == row["strategy"]
        if same and _is_rival(line.any, row):
            return line
    return None


def _loading(chosen: _Series, loaded: _Series | None, tables: Tables, terms: Terms) -> str:
    """The same answer with loading in the clock, with states of its own, and who loads."""
    if chosen.any["scope"] == _END_TO_END:
        return "Without loading nothing was measured."
    if loaded is None:
        return "Loading was not measured."
    loaders = _loader_processes(tables, [loaded.any])
    if _states(chosen) == _states(loaded):
        return loaders.strip()
    return f"{words.capitalised(_answer(loaded, terms))}.{loaders}"


def _loader_processes(tables: Tables, of: Sequence[Row]) -> str:
    """` DataLoader processes in total: ddp 8, single 2.`; nothing where that is not known."""
    times = words.ok(tables["times"]).dropna(subset=["loader_processes"])
    times = times[(times["scope"] == _END_TO_END)]
    named = {}
    for row in [*of, {**of[0], "strategy": BASELINE, "gpus": 1}]:
        same = times[
            (times["strategy"] == row["strategy"])
            & (times["gpus"] == row["gpus"])
            & (times["environment"].astype(str) == str(row["environment"]))
        ]
        found = sorted({int(number) for number in same["loader_processes"]})
        if found:
            named[str(row["strategy"])] = " or ".join(f"{number:,}" for number in found)
    if not named:
        return ""
    return f" DataLoader processes in total: {', '.join(f'{name} {number}' for name, number in named.items())}."


def _where_the_time_goes(tables: Tables, series: _Series, terms: Terms) -> str:
    """What takes most of the loss at the batch that gains least, by intervention."""
    losing = sorted((row for row in series.shown if row["efficiency"] < 1), key=lambda row: row["speedup"])
    if not losing:
        return ""
    for row in losing:
        known = _of_point(tables["ladder"], row)
        rungs = words.rows(known.dropna(subset=["part_of_headline_s"]).sort_values("order"))
        if rungs:
            break
    else:
        return "Where the time goes was not measured by intervention."
    least = "least" if row is losing[0] else "least of the batches with a ladder"
    where = f"Where {row['strategy']} gains {least}, {terms.at_batch(row)} on {terms.count(int(row['gpus']))}"
    most = extreme(rungs[1:], "part_of_headline_s", largest=True)
    lost_s = rungs[-1]["beyond_alone_s"]
    if lost_s <= 0 or most["part_of_headline_s"] <= 0:
        return f"{where}, the ladder of one change at a time shows no loss against 1 {terms.device} alone."
    part, lost = (words.measured(seconds, MILLISECONDS) for seconds in (most["part_of_headline_s"], lost_s))
    longer = f"{where}, a step takes {lost} longer than on 1 {terms.device} alone, by the ladder scaled to that step."
    what = f"{_is(most)} {most['adds']}: {_certainty(most)}"
    if most["part_of_headline_s"] > lost_s:
        return f"{longer} What adds most, {part}, {what}; other changes take time away."
    return f"{longer} Of that {part} {what}."


def _is(rung: Row) -> str:
    return "are" if "," in str(rung["adds"]) else "is"


def _certainty(rung: Row) -> str:
    """How sure a rung's difference is, in the ladder's own time."""
    difference = f"{with_unit(rung, 'difference_s', 'ladder')} as the ladder timed it"
    if has_interval(rung, "difference_s"):
        against_zero = "above zero beyond its interval" if rung["difference_s_low"] > 0 else "not told from zero"
        return f"{difference}, {against_zero}"
    if is_range(rung, "difference_s"):
        return f"{difference}, without an interval"
    repeats = words.measured(rung["repeatability"], quantity("repeatability", "ladder").unit, 2)
    return f"{difference}, of one process, whose steps repeat to {repeats}"


def _loader(tables: Tables, series: _Series) -> str:
    """The speedup with the DataLoader in the clock, where it lies wholly below the one without."""
    row = series.paying[-1] if series.paying else series.best
    both = with_interval(words.ok(tables["speedup"]), "speedup")
    loaded = _of_point(both[(both["scaling"] == "weak") & (both["scope"] == _END_TO_END)], row)
    if row["scope"] == _END_TO_END or loaded.empty or not has_interval(row, "speedup") or not series.shown:
        return ""
    other = extreme(loaded, "speedup", largest=True)
    if other["speedup_high"] >= row["speedup_low"]:
        return ""
    return (
        f"Including data loading, the speedup at batch {int(row['batch_per_gpu']):,} is {multiple(other, 'speedup')}, "
        f"not {multiple(row, 'speedup')}."
    )


def _of_point(table: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of one configuration in its environment."""
    places = [*words.POINT_COLUMNS, "environment"]
    same = [table[name].astype(str) == str(row[name]) for name in places]
    return table[pd.concat(same, axis=1).all(axis=1)]
