"""Whether more devices are worth it, how sure that is, and what would decide it: in words. Numbers and decisions are
those of `analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from dpscale.analyse.answer import COMPUTE
from dpscale.analyse.answer.answer import Answer
from dpscale.formulas.statistics import MOST_UNITS
from dpscale.present.text.numbers import ends_of, in_unit, value_of
from dpscale.present.text.sentences import sentences
from dpscale.present.text.words import Terms, joined, plural
from dpscale.records.progress import duration
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import MULTIPLES
from dpscale.tables.row import grouped
from dpscale.vocabulary.states import MACHINE, NOT_CONFIRMED


@dataclass(frozen=True)
class Deciding:
    """The measurements that would decide what is not decided: in words, and the command, if there is one."""

    words: str
    command: str = ""

    @property
    def text(self) -> str:
        return f"{self.words}: `{self.command}`." if self.command else f"{self.words}."


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
    for (worth, unit, side), alike in grouped(rows, lambda row: (row.worth, row.unit, _side(row))).items():
        below = [
            f"{row.units_below or 0:,} of {plural(row.units or 0, unit)} with {terms.count(row.gpus)}" for row in alike
        ]
        about = {"worth": worth, "unit_name": unit, "side": side, "worth_from": alike[0].worth_from, "below": below}
        yield from sentences("answer", "verdict", terms, named=who(alike, terms), **about)


def _side(row: AnswerRow) -> str:
    """Return on which side of the limit one run lies; of other verdicts nothing, since they say it."""
    if row.worth != NOT_CONFIRMED:
        return ""
    return "more" if row.speedup.value > row.limit else "less"


def deciding(answer: Answer, terms: Terms) -> Iterator[Deciding]:
    """Yield the measurements that would decide what is not decided, one for all that ask for the same command."""
    undecided = [row for row in (*answer.several, *answer.loaded) if row.is_decided is False]
    for (unit, command), rows in grouped(undecided, lambda row: (row.unit, row.command)).items():
        named = [f"{terms.count(row.gpus)}{'' if row.scope == COMPUTE else ' with data loading'}" for row in rows]
        if not command:
            near = f"the value is too near the limit for how much {unit}s differ"
            yield Deciding(f"To decide about {joined(named)} would take more than {MOST_UNITS} {unit}s: {near}")
            continue
        per_machine, where = (" each", ". On the next one") if unit == MACHINE else ("", "")
        beside = ", plus missing cells of other kinds" if answer.also_missing else ""
        time = f" (about {duration(rows[0].more_s)}{per_machine}{beside})" if isfinite(rows[0].more_s) else ""
        wanted = joined([f"{row.more_units} for {name}" for row, name in zip(rows, named, strict=True)])
        yield Deciding(f"To decide, add {unit}s{time}. At least {wanted}{where}", command)
