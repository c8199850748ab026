"""The answer in words: whether more devices are worth it, how sure that is, and what would decide it; the first screen
of the page, and what a terminal shows. Numbers and decisions are those of `analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from dpscale.analyse.answer import COMPUTE, advice
from dpscale.analyse.answer.answer import TO_DO, Answer
from dpscale.formulas.statistics import MOST_UNITS
from dpscale.present.text.numbers import ends_of, in_unit, plain, printed, value_of
from dpscale.present.text.sentences import sentences
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, capitalised, joined, loading, mark, plural, states_of, text
from dpscale.records.progress import duration
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS
from dpscale.tables.row import grouped
from dpscale.vocabulary.causes import UNKNOWN, Cause, cause
from dpscale.vocabulary.states import (
    MACHINE,
    NOT_CONFIRMED,
    NOT_WORTH_IT,
    PROBABLY,
    PROBABLY_NOT,
    UNDECIDED,
    WORTH_IT,
)


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
    """`2 GPUs are 1.78 times as fast as 1 (1.66 to 1.90 on 2 machines) and 4 GPUs 3.65 times [3.49, 3.82]`: as in the
    table, the interval, or what there is without one."""
    parts = []
    for row in rows:
        are, than_one = (" are", " as fast as 1") if row is rows[0] else ("", "")
        times = f"{value_of(row.speedup, MULTIPLES)} times"
        parts.append(f"{terms.count(row.gpus)}{are} {times}{than_one}{_how_sure(row)}")
    return joined(parts)


def _how_sure(row: AnswerRow) -> str:
    """Return the interval; without one, the least and the most of machines, or of runs."""
    if row.speedup.has_interval:
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


LESS = "less"


def _side(row: AnswerRow) -> str:
    """Return on which side of the limit one run lies; of other verdicts nothing, since they say it."""
    if row.worth != NOT_CONFIRMED:
        return ""
    return "more" if row.speedup.value > row.limit else LESS


def deciding(answer: Answer, terms: Terms) -> Iterator[Deciding]:
    """Yield the measurements that would decide what is not decided, one for all that ask for the same command."""
    undecided = [row for row in (*answer.several, *answer.loaded) if row.is_decided is False]
    asking_alike = grouped(undecided, lambda row: (row.unit, row.command))
    for (unit, command), rows in asking_alike.items():
        named = [f"{terms.count(row.gpus)}{'' if row.scope == COMPUTE else ' with data loading'}" for row in rows]
        if not command:
            near = f"the value is too near the limit for how much {unit}s differ"
            yield Deciding(f"To decide about {joined(named)} would take more than {MOST_UNITS} {unit}s: {near}")
            continue
        per_machine, where = (" each", ". On the next one") if unit == MACHINE else ("", "")
        beside = ", plus missing measurements of other kinds" if answer.also_missing else ""
        time = f" (about {duration(rows[0].more_s)}{per_machine}{beside})" if isfinite(rows[0].more_s) else ""
        wanted = joined([f"{row.more_units} for {name}" for row, name in zip(rows, named, strict=True)])
        if len({row.more_units for row in rows}) == 1:
            wanted = str(rows[0].more_units)
        about = f" about {named[0]}" if len(named) == 1 else ""
        yield Deciding(f"To decide{about}, add {unit}s{time}: at least {wanted}{where}", command)


_DIGITS, _EFFICIENCY_DIGITS, _ASSUMED_DIGITS = 3, 2, 2
# Where on the page the numbers of a piece of advice are.
_SECTIONS = {
    advice.FEWER: "times",
    advice.STRATEGY: "speedup",
    advice.BATCH: "times",
    advice.VARIANT: "variants",
    advice.ONE_GPU: "variants",
}


@dataclass(frozen=True)
class Advice:
    """A change to make, its saving if that was measured, and the section of the page that shows it."""

    change: str
    saving: str
    section: str

    @property
    def text(self) -> str:
        return f"{self.change}: {self.saving}" if self.saving else self.change


@dataclass(frozen=True)
class Headline:
    """The answer in one number: how many times as fast, with what, which share of what they could give that is, the
    verdict in a word, and what it rests on; and what is found with data loading, where that was measured too."""

    speedup: str
    devices: str
    share: str
    verdict: str
    rests_on: str
    with_loading: str


@dataclass(frozen=True)
class FirstScreen:
    """The answer as people read it. `kind` is `worth`, `not-worth` or `unknown`; `sentence` is the answer, and `notes`
    belong to it; `section` is that of the page which has the reason's evidence, if any. `further` notes stand behind
    what to do, and `deciding`, what would decide what is not decided."""

    kind: str
    headline: Headline | None
    sentence: str
    notes: Sequence[str]
    table: ShownTable
    reason: str
    section: str
    to_do: Sequence[Advice]
    further: Sequence[str]
    deciding: Sequence[Deciding]

    @property
    def on_terminal(self) -> str:
        """The answer as a terminal shows it. A command has a line of its own, to be copied."""
        lines = [self.sentence, *self.notes, "", *self.table.lines, ""]
        lines += [f"Why not more: {self.reason}"] if self.reason else []
        lines += [*(f"To do: {advice.text}." for advice in self.to_do), *self.further]
        for todo in self.deciding:
            lines += [f"{todo.words}:", f"  {todo.command}"] if todo.command else [todo.text]
        return "\n".join(lines).rstrip()


def first_screen(answer: Answer, terms: Terms) -> FirstScreen:
    """Return the answer in words."""
    causes = [row for row in (answer.reason, answer.reason_with_loading) if row]
    certain = next((cause(row.cause).on(terms.device) for row in causes if row.is_reason), None)
    section_of_unknown = "steps" if any(row.cause == UNKNOWN.name for row in causes) else ""
    states = {row.worth for row in answer.several}
    return FirstScreen(
        kind="worth" if WORTH_IT in states else "not-worth" if states == {NOT_WORTH_IT} else "unknown",
        headline=_headline(answer, terms) if answer.several else None,
        sentence=" ".join(_sentences(answer, terms)),
        notes=list(_notes(answer, terms)),
        table=_table(answer, terms),
        reason=_reasons(answer, terms),
        section=certain.section if certain else section_of_unknown,
        to_do=_to_do(answer, certain, terms),
        further=list(_further(answer, terms)),
        deciding=list(deciding(answer, terms)),
    )


def _scope(answer: Answer) -> str:
    """` without data loading` of the answer's numbers where both scopes were measured, ` with data loading` where that
    alone was; otherwise nothing."""
    if answer.several and answer.several[0].scope != COMPUTE:
        return " with data loading"
    return " without data loading" if any(row.speedup.is_known for row in answer.loaded) else ""


def _headline(answer: Answer, terms: Terms) -> Headline:
    row = answer.several[-1]
    loaded = next((loaded for loaded in answer.loaded if loaded.gpus == row.gpus and loaded.speedup.is_known), None)
    return Headline(
        speedup=f"{value_of(row.speedup, MULTIPLES)}×",
        devices=f"with {terms.count(row.gpus)}",
        share=f"{value_of(row.efficiency, PERCENT, digits=_EFFICIENCY_DIGITS)} % of what they could give",
        verdict=_verdict(row),
        rests_on=", ".join([*([plural(row.units, row.unit)] if row.units else []), loading(row.scope)]),
        with_loading=f"with it: {value_of(loaded.speedup, MULTIPLES)}×, {_verdict(loaded)}" if loaded else "",
    )


def _verdict(row: AnswerRow) -> str:
    """Return the verdict in a word or two: `probably worth it`, `worth it? undecided`."""
    if row.worth in (UNDECIDED, NOT_CONFIRMED):
        return f"{NOT_WORTH_IT + ' ' if _side(row) == LESS else ''}{WORTH_IT}? {row.worth}"
    return WORTH_IT if row.worth == WORTH_IT else f"{row.worth} {WORTH_IT}"


def in_words(answer: Answer, terms: Terms) -> list[str]:
    """Return the answer where there is room for sentences alone, with what would decide what is not decided."""
    return [*_sentences(answer, terms), *(todo.text for todo in deciding(answer, terms))]


def _sentences(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what every number of devices gives, and whether that is worth it."""
    if not answer.several:
        yield f"It is not known what more {terms.devices} give: none was measured beside 1 {terms.device}."
        return
    for rows in answer.series:
        batch = f"batch {rows[0].batch_per_gpu:,} per {terms.device}{_scope(answer)}"
        yield f"With {rows[0].strategy} at {batch}, {speedups(rows, terms)}."
    yield from verdicts(answer.several, terms)
    if answer.unknown:
        yield f"There is no measured speedup of {who(answer.unknown, terms)}."


def _notes(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what must be known beside the answer, a sentence each."""
    rows = answer.several
    if loaded := [row for row in answer.loaded if row.speedup.is_known]:
        yield " ".join(_with_loading(loaded, terms))
    if replaced := [row for row in rows if row.batch_per_gpu != row.asked_batch_per_gpu]:
        asked = f"Batch {replaced[0].asked_batch_per_gpu:,}, which this answer is about,"
        yield f"{asked} was not measured on {who(replaced, terms)}: the nearest one stands for it."
    if terms.device == "worker":
        another = "another one, or another hour, may differ"
        yield f"Workers share the cores of one machine: {another}, and this is no measure of GPUs."
    elif of_one_machine := [row for row in rows if row.unit != MACHINE and (row.units or 0) > 1]:
        yield f"All runs on {who(of_one_machine, terms)} are of one machine: another one may differ."
    if of_few_steps := [row for row in rows if not row.is_headline]:
        yield f"An epoch on {who(of_few_steps, terms)} has fewer than ten full steps, so these times say little."


def _further(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what twice as many would give, and what marks in the table mean."""
    rows = answer.several
    if rows and rows[-1].worth not in (NOT_WORTH_IT, PROBABLY_NOT) and terms.device != "worker":
        yield from _twice_as_many(rows[-1], _scope(answer), terms)
    yield from terms.notes_of([map(mark, rows)])


def _twice_as_many(row: AnswerRow, scope: str, terms: Terms) -> list[str]:
    """Say what twice as many would give if the efficiency stays, or falls once more: assumptions, no measurement."""
    level, growing = (plain(speedup, _ASSUMED_DIGITS) for speedup in (row.twice_if_level, row.twice_if_growing))
    falls = isfinite(row.twice_if_growing) and growing != level
    return sentences("answer", "twice_as_many", terms, row=row, scope=scope, level=level, growing=growing * falls)


def _with_loading(loaded: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """Yield the speedups with loading, and the verdicts."""
    yield f"With data loading, {speedups(loaded, terms)}."
    yield from verdicts(loaded, terms)


def _table(answer: Answer, terms: Terms) -> ShownTable:
    """Return a row per number of devices. How sure efficiency and GPU-seconds are follows from the speedup."""
    headings = [
        terms.heading,
        "Speedup, ×",
        "Efficiency, %",
        "Worth it",
        "Epoch, s",
        f"{capitalised(terms.device)}-seconds, ×",
    ]
    cells = [
        [
            f"{row.gpus:,}",
            printed(row.speedup, MULTIPLES, states=states_of(row)).brief,
            value_of(row.efficiency, PERCENT, digits=_EFFICIENCY_DIGITS),
            f"{'no' if side == LESS else 'yes'}, {row.worth}" if (side := _side(row)) else text(row.worth),
            printed(row.epoch_s, SECONDS, _DIGITS).brief,
            f"{value_of(row.gpu_s_over_one, MULTIPLES)}{mark(row)}",
        ]
        for row in answer.rows
    ]
    caption = f"What every number of {terms.devices} gives{_scope(answer)}"
    columns: list[ShownColumn[AnswerRow]] = [ShownColumn(name, is_number=name != "Worth it") for name in headings]
    return ShownTable("answer", caption, columns, cells).with_legend()


def _reasons(answer: Answer, terms: Terms) -> str:
    """Say why the most devices give no more; and why with loading, where that is another known reason."""
    first, loaded = answer.reason, answer.reason_with_loading
    reasons = [reason(first, terms, _scope(answer).strip())] if first else []
    if loaded and loaded.is_reason and not (first and first.cause == loaded.cause):
        reasons.append(reason(loaded, terms, "with data loading"))
    return " ".join(reasons)


def reason(row: CausesRow, terms: Terms, about: str = "") -> str:
    """Say why so many devices give no more, with its cost of a step; first what that is about, if it must be said."""
    why, is_in_memory = cause(row.cause).on(terms.device), row.scope == COMPUTE
    words = " ".join(sentences("answer", "reason", terms, row=row, why=why, is_in_memory=is_in_memory))
    return f"{capitalised(about)}: {words[0].lower()}{words[1:]}" if about else words


def _to_do(answer: Answer, reason_to_change: Cause | None, terms: Terms) -> list[Advice]:
    """Return what to do: the tables' advice, then what ends a certain reason; and how many devices to use, where that
    is at least probable, as training takes them: with loading where that was measured. One is enough until a certain
    reason has gone. The number is not said of workers, and where other advice is about it."""
    to_do = [_advice(row, _scope(answer), terms) for row in answer.to_do]
    if reason_to_change:
        to_do.append(Advice(reason_to_change.change.rstrip("."), "", reason_to_change.section))
    rows = [row for row in answer.loaded if row.speedup.is_known] or answer.several
    is_about_number = any(row.problem in (advice.FEWER, advice.ONE_GPU) for row in answer.to_do)
    if not rows or terms.device == "worker" or is_about_number:
        return to_do[:TO_DO]
    scope = "" if rows[0].scope == COMPUTE else f" {loading(rows[0].scope)}"
    if worth := [row for row in rows if row.worth in (WORTH_IT, PROBABLY)]:
        best = worth[-1]
        to_do.insert(0, Advice(f"Use {terms.count(best.gpus)}", f"they are {_verdict(best)}{scope}", "speedup"))
    elif all(row.worth in (NOT_WORTH_IT, PROBABLY_NOT) for row in rows):
        more = f"more are {_verdict(rows[-1])}{scope}"
        if reason_to_change:
            return [*to_do[: TO_DO - 1], Advice(f"Use {terms.count(1)} until then", more, "speedup")]
        to_do.insert(0, Advice(f"Use {terms.count(1)}", more, "speedup"))
    return to_do[:TO_DO]


def _advice(row: AdviceRow, scope: str, terms: Terms) -> Advice:
    """Return what to change, with the times that it is about and the part of them that it saves."""
    change, saving = sentences("answer", "advice", terms, row=row, scope=scope, problems=advice)
    return Advice(change, saving, _SECTIONS[row.problem])
