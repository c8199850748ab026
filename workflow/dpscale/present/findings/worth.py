"""Whether more devices are worth it, how sure that is, and what would decide it: in words. Numbers and decisions are
those of `analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from dpscale.analyse.answer import COMPUTE
from dpscale.analyse.answer.answer import Answer, is_none_faster, is_one_enough
from dpscale.formulas.statistics import MOST_UNITS
from dpscale.present.text.numbers import ends_of, in_unit, percent, value_of
from dpscale.present.text.words import Terms, joined, plural
from dpscale.records.progress import duration
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import MULTIPLES
from dpscale.tables.row import grouped
from dpscale.vocabulary.states import MACHINE, NOT_CONFIRMED, NOT_WORTH_IT, PROBABLY, PROBABLY_NOT, WORTH_IT


@dataclass(frozen=True)
class Deciding:
    """The measurements that would decide what is not decided: in words, and the command, if there is one."""

    words: str
    command: str = ""

    @property
    def text(self) -> str:
        return f"{self.words}: {self.command}" if self.command else f"{self.words}."


def who(rows: Sequence[AnswerRow], terms: Terms) -> str:
    """`2 and 4 GPUs`."""
    return f"{joined([f'{row.gpus:,}' for row in rows])} {terms.devices}"


def speedups(rows: Sequence[AnswerRow], terms: Terms) -> str:
    """`2 GPUs are 1.78 times as fast as 1 (1.66 to 1.90 on 2 machines) and 4 GPUs 3.65 times [3.49, 3.82]`."""
    parts = []
    for row in rows:
        are, than_one = (" are", " as fast as 1") if row is rows[0] else ("", "")
        times = f"{value_of(row.speedup, MULTIPLES)} times"
        parts.append(f"{terms.count(row.gpus)}{are} {times}{than_one}{_how_sure(row)}")
    return joined(parts)


def _how_sure(row: AnswerRow) -> str:
    """Return the interval where it decides; otherwise the least and the most of machines, or of runs."""
    if row.is_decided:
        return f" [{ends_of(row.speedup, MULTIPLES)}]"
    if (row.units or 0) > 1:
        ends = f"{in_unit(row.lowest, MULTIPLES)} to {in_unit(row.highest, MULTIPLES)}"
        return f" ({ends} {'on' if row.unit == MACHINE else 'in'} {plural(row.units or 0, row.unit)})"
    return " (one run, not confirmed)" if row.units == 1 else " (not confirmed)"


def verdicts(rows: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """Yield whether it is worth it, a sentence for all that are alike."""
    if is_one_enough(rows):
        yield f"Use 1 {terms.device}: more were not faster."
        return
    for (worth, side), alike in grouped(rows, lambda row: (row.worth, _side(row))).items():
        yield _verdict(worth, side, alike, len(alike) == len(rows), terms)
    if is_none_faster(rows):
        yield f"So far no more {terms.devices} were faster than 1."


def _side(row: AnswerRow) -> str:
    """Return on which side of the limit one run lies: for every other verdict, that follows from the verdict."""
    if row.worth != NOT_CONFIRMED:
        return ""
    return "more" if row.speedup.value > row.limit else "less"


def _verdict(worth: str, side: str, alike: Sequence[AnswerRow], are_all: bool, terms: Terms) -> str:
    named = who(alike, terms)
    limit = f"{percent(alike[0].worth_from, 2)} of what {f'the {terms.devices}' if are_all else 'they'} could give"
    units = joined(list(dict.fromkeys(row.unit for row in alike)))
    every = f"every {units} gave{', on average over its runs,' if MACHINE in units else ''}"
    if worth == WORTH_IT:
        are = {1: "That is", 2: "Both are"}.get(len(alike), "All are") if are_all else f"{named} are"
        return f"{are} worth it: more than {limit}."
    if worth == NOT_WORTH_IT:
        are = {1: "That is not", 2: "Neither is"}.get(len(alike), "None is") if are_all else f"{named} are not"
        return f"{are} worth it: less than {limit}."
    if worth == PROBABLY:
        return f"{named} are probably worth it: {every} more than {limit}."
    if worth == PROBABLY_NOT:
        return f"{named} are probably not worth it: {every} less than {limit}."
    if worth == NOT_CONFIRMED:
        return f"{named} gave {side} than {limit}, which is not confirmed."
    counts = []
    for row in alike:
        on_gpus = f" with {terms.count(row.gpus)}" if len(alike) > 1 else ""
        counts.append(f"{row.units_below:,} of {plural(row.units or 0, units)}{on_gpus}")
    return f"It is not decided whether {named} are worth it: {joined(counts)} gave less than {limit}."


def deciding(answer: Answer, terms: Terms) -> Iterator[Deciding]:
    """Yield the measurements that would decide what is not decided, one for all that ask for the same command."""
    undecided = [row for row in (*answer.several, *answer.loaded) if row.is_decided is False]
    for (unit, command), rows in grouped(undecided, lambda row: (row.unit, row.command)).items():
        if not command:
            near = f"the value is too near the limit for how much {unit}s differ"
            yield Deciding(f"To decide about {_about(rows, terms)} would take more than {MOST_UNITS} {unit}s: {near}")
            continue
        aim = "To confirm it for" if all(row.worth == NOT_CONFIRMED for row in rows) else "To decide about"
        wanted = [
            f"{_about(alike, terms)}: {_more(alike[0])}" for alike in grouped(rows, lambda row: row.more_units).values()
        ]
        is_one_machine = len(wanted) == 1 and rows[0].more_units == 1
        machine = ". There" if is_one_machine else ". On the next one"
        yield Deciding(f"{aim} {'. About '.join(wanted)}{machine if unit == MACHINE else ''}", command)
    if answer.also_missing and any(row.command for row in undecided):
        cells = plural(answer.also_missing, "missing cell")
        yield Deciding(f"The command also measures {cells} of other kinds, in a time of their own")


def _more(row: AnswerRow) -> str:
    """`at least 2 more runs (about 4 min)`, `a run on at least 3 more machines (about 4 min each)`: so many decide in
    about half of the cases (`formulas.statistics`)."""
    is_machine = row.unit == MACHINE
    more = f"{'a run on ' if is_machine else ''}at least {plural(row.more_units or 0, f'more {row.unit}')}"
    per_machine = " each" if is_machine and row.more_units != 1 else ""
    return f"{more} (about {duration(row.more_s)}{per_machine})" if isfinite(row.more_s) else more


def _about(rows: Sequence[AnswerRow], terms: Terms) -> str:
    """`2 and 4 GPUs`, `2 GPUs with data loading`, `2 and 4 GPUs, without and with data loading`."""
    without = [row for row in rows if row.scope == COMPUTE]
    loaded = [row for row in rows if row.scope != COMPUTE]
    if [row.gpus for row in without] == [row.gpus for row in loaded]:
        return f"{who(without, terms)}, without and with data loading"
    named = [who(without, terms)] if without else []
    return joined([*named, *([f"{who(loaded, terms)} with data loading"] if loaded else [])])
