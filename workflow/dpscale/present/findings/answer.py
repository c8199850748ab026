"""The answer in words: the first screen of the page, and what a terminal shows. Numbers and decisions are those of
`analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer import COMPUTE, advice
from dpscale.analyse.answer.answer import TO_DO, Answer
from dpscale.formulas.figure import Figure
from dpscale.present.findings.worth import Deciding, deciding, speedups, verdicts, who
from dpscale.present.text.numbers import estimate, measured, percent, printed, value_of
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import Terms, capitalised, mark, states_of, text
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.vocabulary.causes import NO_CERTAIN_LOSS, NOTHING, UNKNOWN, cause
from dpscale.vocabulary.states import MACHINE, NOT_WORTH_IT, WORTH_IT

_DIGITS = 3


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
class FirstScreen:
    """The answer as people read it. `kind` is `worth`, `not-worth` or `unknown`; `sentence` is the answer, `notes`
    belong to it, and `deciding` says what would decide what is not decided; `section` is that of the page which has the
    reason's evidence, if any."""

    kind: str
    sentence: str
    notes: Sequence[str]
    deciding: Sequence[Deciding]
    table: ShownTable
    reason: str
    section: str
    to_do: Sequence[Advice]

    @property
    def on_terminal(self) -> str:
        """The answer as a terminal shows it. A command has a line of its own, to be copied."""
        lines = [self.sentence, *self.notes]
        for todo in self.deciding:
            lines += [f"{todo.words}:", f"  {todo.command}"] if todo.command else [todo.text]
        lines += ["", *self.table.lines, ""]
        lines += [f"Why not more: {self.reason}"] if self.reason else []
        lines += [f"To do: {advice.text}." for advice in self.to_do]
        return "\n".join(lines).rstrip()


def first_screen(answer: Answer, terms: Terms) -> FirstScreen:
    """Return the answer in words."""
    causes = [row for row in (answer.reason, answer.reason_with_loading) if row]
    certain = next((cause(row.cause).on(terms.device) for row in causes if row.is_reason), None)
    section_of_unknown = "steps" if any(row.cause == UNKNOWN.name for row in causes) else ""
    to_do = [_advice(row, terms) for row in answer.to_do]
    if certain:
        to_do.append(Advice(certain.change.rstrip("."), "", certain.section))
    states = {row.worth for row in answer.several}
    return FirstScreen(
        kind="worth" if WORTH_IT in states else "not-worth" if states == {NOT_WORTH_IT} else "unknown",
        sentence=" ".join(_sentences(answer, terms)),
        notes=list(_notes(answer, terms)),
        deciding=list(deciding(answer, terms)),
        table=_table(answer.rows, terms),
        reason=_reasons(answer, terms),
        section=certain.section if certain else section_of_unknown,
        to_do=to_do[:TO_DO],
    )


def in_words(answer: Answer, terms: Terms) -> list[str]:
    """Return the answer where there is room for sentences alone, with what would decide what is not decided."""
    return [*_sentences(answer, terms), *(todo.text for todo in deciding(answer, terms))]


def _sentences(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what every number of devices gives, and whether that is worth it."""
    if not answer.several:
        yield f"It is not known what more {terms.devices} give: none was measured beside 1 {terms.device}."
        return
    loading = "" if answer.several[0].scope == COMPUTE else ", data loading counted"
    for rows in answer.series:
        batch = f"batch {rows[0].batch_per_gpu:,} per {terms.device}{loading}"
        yield f"With {rows[0].strategy} at {batch}, {speedups(rows, terms)}."
    yield from verdicts(answer.several, terms)
    if answer.unknown:
        yield f"There is no measured speedup of {who(answer.unknown, terms)}."


def _notes(answer: Answer, terms: Terms) -> Iterator[str]:
    """Yield what must be known beside the answer, a sentence each."""
    rows = answer.several
    if loaded := [row for row in answer.loaded if row.speedup.is_known]:
        yield " ".join(_with_loading(rows, loaded, terms))
    if replaced := [row for row in rows if row.batch_per_gpu != row.asked_batch_per_gpu]:
        asked = f"Batch {replaced[0].asked_batch_per_gpu:,}, which this answer is about,"
        yield f"{asked} was not measured on {who(replaced, terms)}: the nearest one stands for it."
    if terms.device == "worker":
        yield "Workers share the cores of one machine: another one may differ, and this is no measure of GPUs."
    elif of_one_machine := [row for row in rows if row.unit != MACHINE and (row.units or 0) > 1]:
        yield f"All runs on {who(of_one_machine, terms)} are of one machine: another one may differ."
    if of_few_steps := [row for row in rows if not row.is_headline]:
        yield f"An epoch on {who(of_few_steps, terms)} has fewer than ten full steps, so these times say little."
    yield from terms.notes_of([map(mark, rows)])


def _with_loading(rows: Sequence[AnswerRow], loaded: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """Yield the speedups with loading; and the verdicts, where one differs from that without."""
    yield f"With data loading, {speedups(loaded, terms)}."
    worth_without = {row.gpus: row.worth for row in rows}
    if any(worth_without[row.gpus] != row.worth for row in loaded):
        yield from verdicts(loaded, terms)


def _table(rows: Sequence[AnswerRow], terms: Terms) -> ShownTable:
    """Return a row per number of devices. How sure efficiency and GPU-seconds are follows from the speedup."""
    headings = [
        terms.heading,
        "Epoch, s",
        "Speedup, ×",
        "Efficiency, %",
        f"{capitalised(terms.device)}-seconds, ×",
        "Worth it",
    ]
    cells = [
        [
            f"{row.gpus:,}",
            printed(row.epoch_s, SECONDS, _DIGITS).brief,
            printed(row.speedup, MULTIPLES, states=states_of(row)).brief,
            value_of(row.efficiency, PERCENT, digits=_DIGITS),
            f"{value_of(row.gpu_s_over_one, MULTIPLES)}{mark(row)}",
            text(row.worth),
        ]
        for row in rows
    ]
    caption = f"What every number of {terms.devices} gives. In brackets 95 % intervals, in parentheses two values"
    columns: list[ShownColumn[AnswerRow]] = [ShownColumn(name, is_number=name != "Worth it") for name in headings]
    return ShownTable("answer", caption, columns, cells)


def _reasons(answer: Answer, terms: Terms) -> str:
    """Say why the most devices give no more; and why with loading, where that is another known reason."""
    first, loaded = answer.reason, answer.reason_with_loading
    reasons = [reason(first, terms)] if first else []
    if loaded and loaded.is_reason and not (first and first.cause == loaded.cause):
        reasons.append(f"With data loading: {reason(loaded, terms)}")
    return " ".join(reasons)


def reason(row: CausesRow, terms: Terms) -> str:
    """Say why so many devices give no more, with its cost of a step."""
    why, where = cause(row.cause).on(terms.device), f"on {terms.count(row.gpus)}"
    by_steps = " by the time of steps" if row.is_by_steps else ""
    efficiency = f"the efficiency {where}{by_steps} is {_with_unit(row.efficiency, PERCENT)}"
    step = f"{capitalised(where)}, a step takes {_with_unit(row.whole_s, MILLISECONDS)}"
    if why == NOTHING:
        return f"Less than {percent(NOTHING.least_share, 2)} is lost: {efficiency}."
    if why == NO_CERTAIN_LOSS:
        return f"{why.sentence} {capitalised(efficiency)}."
    if why != UNKNOWN:
        return f"{capitalised(why.label)}. {why.sentence} {step}; this costs {_with_unit(row.cost_s, MILLISECONDS)}."
    in_memory = "" if row.scope == COMPUTE else f", with {terms.samples} in memory,"
    alone = f"1 {terms.device} alone{in_memory} takes {percent(row.efficiency.value, 2)} of that{by_steps}"
    if row.part:
        part = f"{row.part}: {_with_unit(row.part_s, MILLISECONDS)}"
        return f"{step}. {alone}. The largest part of the rest, by intervention, is {part}."
    return f"{step}. {alone}. We could not find out what takes the rest."


def _with_unit(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, with_unit=True, digits=_DIGITS)


def _advice(row: AdviceRow, terms: Terms) -> Advice:
    """Return what to change, with the times that it is about and the part of them that it saves."""
    less = f"{_share(row.saving)} less time"
    if row.problem in (advice.FEWER, advice.ONE_GPU):
        less = f"{_share(row.saving_gpu_s)} fewer {terms.device}-seconds"
    saving = f"{measured(row.better_s, SECONDS)} per epoch, not {measured(row.used_s, SECONDS)}, {less}"
    one, more = f"1 {terms.device}", terms.count(row.gpus)
    settings = f"the settings of the variant {row.better}"
    match row.problem:
        case advice.FEWER:
            return Advice(f"Use {one}, not {more}", saving, "times")
        case advice.STRATEGY:
            return Advice(f"Use {row.better}, not {row.used}, on {more}", saving, "speedup")
        case advice.BATCH:
            batches = f"batch {int(row.better):,} per {terms.device}, not {int(row.used):,}"
            return Advice(f"Use {batches}, if accuracy allows it", saving, "times")
        case advice.VARIANT:
            return Advice(f"Try {settings}, measured on {terms.count(row.on_gpus)}", saving, "variants")
        case advice.ONE_GPU:
            return Advice(f"Use {one} with {settings}, not {more} with {row.used}", saving, "variants")
    raise ValueError(f"no words for {row.problem}")


def _share(figure: Figure) -> str:
    share = estimate(figure, PERCENT, with_unit=True, digits=2)
    return share if figure.has_interval else f"about {share}"
