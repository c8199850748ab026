"""The verdict: is it worth using more devices here, at which batch, and where the time goes. Computed, as findings are.

Every batch has a state, by the 95 % interval of its efficiency, weak scaling: it lies above half (worth it), wholly
below (not), or neither, or there is none (undecided). Where the time goes is told by intervention, from the ladder,
never by the profiler.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer.claims import LOADER_TAKES, RUNG_TAKES_TIME
from dpscale.analyse.answer.series import (
    COMPUTE,
    END_TO_END,
    BatchesOfSeries,
    Series,
    answering,
    configuration_of,
    series_of,
)
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present.findings.finding import largest, multiple
from dpscale.present.text.numbers import estimate, measured, percent
from dpscale.present.text.words import Terms, batches, capitalised, ok, state
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import MILLISECONDS, PERCENT
from dpscale.tables.communication import LadderRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ScopesRow, SpeedupRow, TimesRow
from dpscale.vocabulary.states import NOT_WORTH_IT, UNDECIDED, WORTH_IT

_NOT_SHOWN = f"not shown (fewer than {HEADLINE_STEPS} full steps per epoch)"
# What ends a series, under Coverage: no gap in it.
_ENDS = ("oom", "capped")


@dataclass(frozen=True)
class Verdict:
    """The answer in a few words, the sentence with its numbers, the answer with loading in the clock, and where the
    time goes as far as that was measured.

    `kind` is `worth`, `not-worth` or `unknown`. `series` is the one that answers, if any.
    """

    kind: str
    answer: str
    sentence: str
    loading: str
    rest: str
    series: Series | None = None


def verdict(tables: Tables, terms: Terms) -> Verdict:
    """What the tables say; that they say nothing where there is no speedup."""
    chosen, others, loaded = answering(tables.speedup)
    if chosen is None:
        return Verdict("unknown", "Not known yet", _why_unknown(bool(tables.records), terms), "", "")
    contrasts = (f" {_answer(other, terms)}.{_loaders_beside(other, chosen, tables.times)}" for other in others)
    sentence = f"{_gain(chosen, terms)}.{''.join(contrasts)}"
    if terms.device == "worker":
        sentence += " Workers share the cores of one machine, so this is no measure of accelerators."
    rest = (_where_the_time_goes(tables.ladder, chosen, terms), _loader(tables.scopes, chosen))
    return Verdict(
        _kind(chosen),
        _whole_answer(chosen, loaded, terms),
        sentence,
        _loading(chosen, loaded, tables.times, terms),
        " ".join(filter(None, rest)),
        chosen.series,
    )


def _kind(series: BatchesOfSeries) -> str:
    if series.of(WORTH_IT):
        return "worth"
    return "not-worth" if series.shown and not series.of(UNDECIDED) else "unknown"


def _why_unknown(is_measured: bool, terms: Terms) -> str:
    if not is_measured:
        return f"Nothing has been measured, so nothing is known of what more {terms.devices} buy."
    return f"No configuration on several {terms.devices} was measured together with its baseline on 1 {terms.device}."


def _whole_answer(chosen: BatchesOfSeries, loaded: BatchesOfSeries | None, terms: Terms) -> str:
    """`Yes: 4 GPUs are worth it with ddp at batch 128 per GPU, with and without loading; 32: undecided`.

    With and without loading are told together where every batch is in the same state.
    """
    states = _states(chosen)
    first = "Yes: " if WORTH_IT in states else "No: " if UNDECIDED not in states and NOT_WORTH_IT in states else ""
    same = loaded is not None and states == _states(loaded)
    return f"{first}{_answer(chosen, terms, 'with and without loading' if same else '')}"


def _answer(series: BatchesOfSeries, terms: Terms, how: str = "") -> str:
    """`4 GPUs are worth it with ddp at batches 128 to 2,048 per GPU, without loading; 32: undecided`."""
    devices, strategy = terms.count(series.series.gpus), series.series.strategy
    whether = f"{devices} are worth it with {strategy}"
    states = _states(series)
    scope = how or ("with loading" if series.scope == END_TO_END else "without loading")
    first = f"Not known: whether {whether}, {scope}"
    for told, said in (
        (WORTH_IT, whether),
        (UNDECIDED, f"Undecided: whether {whether}"),
        (NOT_WORTH_IT, f"{devices} are not worth it with {strategy}"),
    ):
        if told in states:
            first = f"{said} at {_at_batches(states.pop(told), series)} per {terms.device}, {scope}"
            break
    return f"{first}{_also(states, series)}"


def _states(series: BatchesOfSeries) -> dict[str, list[int]]:
    """The batches in every state, those that say most first."""
    shown = {row.batch_per_gpu: row.worth for row in series.shown}
    states: dict[str, list[int]] = {name: [] for name in (WORTH_IT, UNDECIDED, NOT_WORTH_IT, _NOT_SHOWN)}
    for row in series.rows:
        if row.status not in _ENDS:
            named = shown.get(row.batch_per_gpu, _NOT_SHOWN) if row.status == "ok" else state(row.status)
            states.setdefault(named, []).append(row.batch_per_gpu)
    return {name: found for name, found in states.items() if found}


def _also(states: Mapping[str, Sequence[int]], series: BatchesOfSeries) -> str:
    """`; 32: undecided; 8,192: not shown (fewer than 10 full steps per epoch)`."""
    named = {**{name: name for name in states}, NOT_WORTH_IT: "not worth it"}
    return "".join(f"; {batches(found, series.batches)}: {named[name]}" for name, found in states.items())


def _at_batches(found: Sequence[int], series: BatchesOfSeries) -> str:
    return f"{'batch' if len(found) == 1 else 'batches'} {batches(found, series.batches)}"


def _gain(series: BatchesOfSeries, terms: Terms) -> str:
    """The speedups at the ends of what pays, and the last batch before that; the best one where none pays."""
    if not series.shown:
        return f"No epoch of a batch has {HEADLINE_STEPS} full steps, so none of them speaks for its configuration"
    paying = series.of(WORTH_IT)
    if not paying:
        best = series.best
        return (
            f"The best of {best.strategy} on {terms.count(best.gpus)} is {multiple(best.speedup)} the "
            f"speed of 1 {terms.at_batch(best)}, an efficiency of {percent(best.efficiency.value)}"
        )
    first, last = paying[0], paying[-1]
    sentence = f"An epoch is {multiple(first.speedup)} as fast as on 1 {terms.device} {terms.at_batch(first)}"
    if last is not first:
        sentence += f" and {multiple(last.speedup)} at {last.batch_per_gpu:,}"
    below = [row for row in series.shown if row.batch_per_gpu < first.batch_per_gpu]
    but = f", but {multiple(below[-1].speedup)} at {below[-1].batch_per_gpu:,}" if below else ""
    return f"{sentence}{but}"


def _loaders_beside(other: BatchesOfSeries, chosen: BatchesOfSeries, times: Sequence[TimesRow]) -> str:
    """With loading in the clock, with how many loader processes another strategy does what it does."""
    return _loader_processes(times, [chosen.series, other.series]) if other.scope == END_TO_END else ""


def _loading(chosen: BatchesOfSeries, loaded: BatchesOfSeries | None, times: Sequence[TimesRow], terms: Terms) -> str:
    """The same answer with loading in the clock, with states of its own, and who loads."""
    if chosen.scope == END_TO_END:
        return "Without loading nothing was measured."
    if loaded is None:
        return "Loading was not measured."
    loaders = _loader_processes(times, [loaded.series])
    if _states(chosen) == _states(loaded):
        return loaders.strip()
    return f"{capitalised(_answer(loaded, terms))}.{loaders}"


def _loader_processes(times: Sequence[TimesRow], of: Sequence[Series]) -> str:
    """` DataLoader processes in total: ddp 8, single 2.`; nothing where that is not known."""
    loaded = [row for row in ok(times) if row.scope == END_TO_END and row.loader_processes is not None]
    named = {}
    for series in (*of, Series(BASELINE, 1, of[0].environment)):
        numbers = sorted({row.loader_processes or 0 for row in loaded if series_of(row) == series})
        if numbers:
            named[series.strategy] = " or ".join(f"{number:,}" for number in numbers)
    if not named:
        return ""
    return f" DataLoader processes in total: {', '.join(f'{name} {number}' for name, number in named.items())}."


def _where_the_time_goes(ladder: Sequence[LadderRow], series: BatchesOfSeries, terms: Terms) -> str:
    """What takes most of the loss at the batch that gains least, by intervention."""
    losing = sorted((row for row in series.shown if row.efficiency.value < 1), key=lambda row: row.speedup.value)
    if not losing:
        return ""
    for row in losing:
        rungs = sorted(_at(row, ladder), key=lambda rung: rung.order)
        if rungs:
            break
    else:
        return "Where the time goes was not measured by intervention."
    least = "least" if row is losing[0] else "least of the batches with a ladder"
    where = f"Where {row.strategy} gains {least}, {terms.at_batch(row)} on {terms.count(row.gpus)}"
    most = largest(rungs[1:], lambda rung: rung.difference_s.value)
    part_s, lost_s = most.difference_s.value, rungs[-1].beyond_alone_s.value
    if lost_s <= 0 or part_s <= 0:
        return f"{where}, the ladder of one change at a time shows no loss against 1 {terms.device} alone."
    longer = f"{where}, a step takes {measured(lost_s, MILLISECONDS)} longer than on 1 {terms.device} alone."
    what = f"{'are' if ',' in most.adds else 'is'} {most.adds}{_certainty(most)}."
    has_interval = RUNG_TAKES_TIME.asks(most)
    part = estimate(most.difference_s, MILLISECONDS, True) if has_interval else measured(part_s, MILLISECONDS)
    if part_s > lost_s:
        return f"{longer} What adds most, {part}, {what} Other changes take time away."
    return f"{longer} Of that {part} {what}"


def _at(row: SpeedupRow, ladder: Iterable[LadderRow]) -> list[LadderRow]:
    """The rungs of a configuration."""
    return [rung for rung in ladder if configuration_of(rung) == configuration_of(row)]


def _certainty(rung: LadderRow) -> str:
    """How sure a rung's difference is, where it is not above zero with its interval."""
    if RUNG_TAKES_TIME.asks(rung):
        return "" if RUNG_TAKES_TIME.holds(rung) else ", not told from zero"
    return f", of one process, whose steps repeat to {measured(rung.repeatability, PERCENT, 2)}"


def _loader(scopes: Sequence[ScopesRow], series: BatchesOfSeries) -> str:
    """The speedup with the DataLoader in the clock, where it lies wholly below the one without."""
    if series.scope != COMPUTE or not series.shown:
        return ""
    row = (series.of(WORTH_IT) or [series.best])[-1]
    beside = (one for one in scopes if series_of(one) == series.series and one.batch_per_gpu == row.batch_per_gpu)
    both = next((one for one in beside if LOADER_TAKES.surely(one)), None)
    if both is None:
        return ""
    return (
        f"Including data loading, the speedup at batch {row.batch_per_gpu:,} is {multiple(both.end_to_end_speedup)}, "
        f"not {multiple(both.speedup)}."
    )
