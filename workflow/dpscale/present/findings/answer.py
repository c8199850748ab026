"""The answer in words: the first screen of the page, and what a terminal shows. Numbers and decisions are those of
`analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dpscale.analyse.answer.advice import BATCH
from dpscale.analyse.answer.answer import TO_DO, Answer, is_none_faster
from dpscale.analyse.answer.series import COMPUTE
from dpscale.formulas.figure import Figure
from dpscale.present.findings.advice import Advice, advices
from dpscale.present.text.numbers import ends_of, estimate, percent, plain, value_of
from dpscale.present.text.words import Terms, capitalised, joined, mark, plural
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.tables.row import grouped
from dpscale.vocabulary.causes import NO_CERTAIN_LOSS, NOTHING, UNKNOWN, Cause, cause
from dpscale.vocabulary.states import NOT_CONFIRMED, NOT_WORTH_IT, UNDECIDED, WORTH_IT

# Numbers of devices that one sentence names, and digits of a number at most.
_NAMED, _DIGITS = 4, 3


@dataclass(frozen=True)
class FirstScreen:
    """The answer as people read it. `kind` is `worth`, `not-worth` or `unknown`; `sentences` are the answer, `notes`
    what belongs to it; `section` is that of the page which has the reason's evidence, if any."""

    kind: str
    sentences: Sequence[str]
    notes: Sequence[str]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    reason: str
    section: str
    to_do: Sequence[Advice]

    @property
    def sentence(self) -> str:
        return " ".join(self.sentences)


def first_screen(answer: Answer, terms: Terms) -> FirstScreen:
    """The answer in words."""
    found = cause(answer.reason.cause).on(terms.device) if answer.reason else NOTHING
    change = _change(found, answer) if answer.is_reason_known else ""
    to_change = [Advice(change, "", found.section)] if change else []
    return FirstScreen(
        _kind(answer),
        list(sentences(answer, terms)),
        list(notes(answer, terms)),
        *_table(answer.rows, answer.prices, terms),
        reason(answer.reason, answer.several[-1].efficiency, terms) if answer.reason else "",
        found.section,
        [*advices(answer.to_do, terms), *to_change][:TO_DO],
    )


def _change(found: Cause, answer: Answer) -> str:
    """What the cause asks for, without a larger batch where advice has that already, with its numbers."""
    change = found.change.rstrip(".")
    if found.name == "small_batch" and any(row.problem == BATCH for row in answer.to_do):
        change = capitalised(change.partition("; or ")[2])
    return change


def _kind(answer: Answer) -> str:
    states = {row.worth for row in answer.several}
    if WORTH_IT in states:
        return "worth"
    return "not-worth" if states == {NOT_WORTH_IT} or answer.is_nothing_faster else "unknown"


def sentences(answer: Answer, terms: Terms) -> Iterator[str]:
    """What every number of devices gives, and whether that is worth it."""
    if not answer.several:
        yield _why_unknown(answer, terms)
        return
    loading = "" if answer.several[0].scope == COMPUTE else ", data loading counted"
    for rows in answer.series:
        batch = f"batch {rows[0].batch_per_gpu:,} per {terms.device}{loading}"
        left = iter(rows)
        while some := list(islice(left, _NAMED)):
            yield f"With {rows[0].strategy} at {batch}, {_gains(some, terms)}."
    yield from _verdict(answer.several, answer.is_nothing_faster, terms)
    if answer.unknown:
        yield f"There is no measured speedup of {_who(answer.unknown, terms)}."


def _why_unknown(answer: Answer, terms: Terms) -> str:
    if not answer.rows:
        return f"Nothing has been measured, so it is not known what more {terms.devices} give."
    return f"It is not known what more {terms.devices} give: none was measured beside 1 {terms.device}."


def _gains(gains: Sequence[AnswerRow], terms: Terms) -> str:
    """`2 GPUs are 1.38 times as fast as 1 [1.31, 1.45] and 4 GPUs 3.65 times [3.49, 3.82]`."""
    first, *others = gains
    told = [f"{terms.count(first.gpus)} are {value_of(first.speedup, MULTIPLES)} times as fast as 1{_how_sure(first)}"]
    told += [f"{terms.count(gain.gpus)} {value_of(gain.speedup, MULTIPLES)} times{_how_sure(gain)}" for gain in others]
    return joined(told)


def _how_sure(gain: AnswerRow) -> str:
    ends = ends_of(gain.speedup, MULTIPLES)
    if ends:
        return f" [{ends}]"
    return " (one run)" if gain.speedup.kind == "one run" else " (no interval)"


def _verdict(gains: Sequence[AnswerRow], is_nothing_faster: bool, terms: Terms) -> Iterator[str]:
    """Whether it is worth it, by state; the limit stands where an interval holds it."""
    if is_nothing_faster:
        yield f"Use 1 {terms.device}: more were not faster."
        return
    for (state, side), some in grouped(gains, _state_and_side).items():
        if state == UNDECIDED:
            holds = "the interval holds the limit" if len(some) == 1 else "the intervals hold the limits"
            limits = joined([value_of(Figure(gain.limit), MULTIPLES) for gain in some])
            could = f"half of what {_who(some, terms) if len(some) == 1 else f'the {terms.devices}'} could give"
            yield f"Undecided for {_who(some, terms)}: {holds}, {limits} times ({could})."
        elif state == NOT_CONFIRMED:
            yield f"{_who(some, terms)} gave {side} than half of what they could, but that is not confirmed."
        else:
            yield f"{_worth(some, gains, terms)}: {side} than half of what the {terms.devices} could give."


def _state_and_side(gain: AnswerRow) -> tuple[str, str]:
    if gain.worth == UNDECIDED:
        return gain.worth, ""
    return gain.worth, "more" if gain.speedup.value > gain.limit else "less"


def _worth(some: Sequence[AnswerRow], gains: Sequence[AnswerRow], terms: Terms) -> str:
    """`Both are worth it`, `Neither is worth it`, `4 GPUs are not worth it`."""
    is_worth = some[0].worth == WORTH_IT
    if len(some) < len(gains):
        return f"{_who(some, terms)} are {'' if is_worth else 'not '}worth it"
    if len(some) == 1:
        return f"That is {'' if is_worth else 'not '}worth it"
    both = ("Both are", "Neither is") if len(some) == 2 else ("All are", "None is")
    return f"{both[not is_worth]} worth it"


def _who(some: Sequence[AnswerRow], terms: Terms) -> str:
    """`2 and 4 GPUs`."""
    return f"{joined([f'{one.gpus:,}' for one in some])} {terms.devices}"


def notes(answer: Answer, terms: Terms) -> Iterator[str]:
    """What must be known beside the answer, a sentence each."""
    rows = answer.several
    yield from _loading(rows, terms)
    yield from _batches(rows, terms)
    for row in rows:
        if row.faster_strategy:
            faster = f"{value_of(row.faster_speedup, MULTIPLES)} times [{ends_of(row.faster_speedup, MULTIPLES)}]"
            yield f"{row.faster_strategy} is faster on {terms.count(row.gpus)}: {faster}."
    for row in answer.above_ideal:
        gave = f"{terms.count(row.gpus)} gave more than {row.gpus:,} times the speed"
        yield f"{gave}, which is seldom true: look at the time of 1 {terms.device}."
    if terms.device == "worker":
        yield "Workers share the cores of one machine: another one may differ, and this is no measure of GPUs."
    elif of_one := [row for row in rows if row.speedup.is_one_machine]:
        yield f"All runs on {_who(of_one, terms)} are of one machine: another one may differ."
    few = [row for row in rows if not row.is_headline]
    if few:
        yield f"An epoch on {_who(few, terms)} has fewer than ten full steps, so these times say little."
    yield from terms.notes_of([map(mark, rows)])
    if answer.rejected:
        yield f"{plural(answer.rejected, 'record')} could not be used: Provenance says why."


def _loading(rows: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """The speedups with loading; and the verdict, where that is another one."""
    known = [row for row in rows if row.end_to_end_speedup.is_known]
    if not known:
        return
    gains = [replace(row, speedup=row.end_to_end_speedup, worth=row.end_to_end_worth) for row in known]
    told = [f"With data loading, {_gains(gains, terms)}."]
    if [row.worth for row in known] != [row.end_to_end_worth for row in known]:
        told.extend(_verdict(gains, is_none_faster(gain.speedup for gain in gains), terms))
    yield " ".join(told)


def _batches(rows: Sequence[AnswerRow], terms: Terms) -> Iterator[str]:
    """That another batch stands for the one that was asked for."""
    other = [row for row in rows if row.batch_per_gpu != row.asked_batch_per_gpu]
    if other:
        asked = f"Batch {other[0].asked_batch_per_gpu:,}, which this answer is about,"
        yield f"{asked} was not measured on {_who(other, terms)}: the nearest one stands for it."


def _table(rows: Sequence[AnswerRow], prices: Sequence[float], terms: Terms) -> tuple[list[str], list[list[str]]]:
    """A row per number of devices, with what an epoch costs if that is known."""
    headings = [terms.heading, "Epoch, s", "Speedup, ×", "Efficiency, %", f"{terms.device}-seconds, ×", "Worth it"]
    cells = [
        [
            f"{row.gpus:,}",
            _figure(row.epoch_s, SECONDS),
            estimate(row.speedup, MULTIPLES, mark=mark(row)),
            _figure(row.efficiency, PERCENT),
            estimate(row.gpu_s_over_one, MULTIPLES, mark=mark(row)),
            row.worth or "–",
        ]
        for row in rows
    ]
    if not prices:
        return headings, cells
    with_price = [[*line, plain(price, 3)] for line, price in zip(cells, prices, strict=True)]
    return [*headings, "Price per epoch"], with_price


def reason(row: CausesRow, efficiency: Figure, terms: Terms) -> str:
    """Why the most devices give no more, with what that costs of a step; `efficiency` is the answer's."""
    found, where = cause(row.cause).on(terms.device), f"on {terms.count(row.gpus)}"
    is_loaded = row.scope != COMPUTE
    step = f"a step{' with data loading' if is_loaded else ''} takes {_with_unit(row.whole_s, MILLISECONDS)}"
    if found in (NOTHING, NO_CERTAIN_LOSS):
        return f"{found.sentence} The efficiency {where} is {_with_unit(efficiency, PERCENT)}."
    if found == UNKNOWN:
        alone = f"1 {terms.device} alone{f', with {terms.samples} in memory,' if is_loaded else ''}"
        share = percent(row.efficiency.value, 2)
        return (
            f"{capitalised(where)}, {step}. {alone} takes {share} of that. We could not find out what takes the rest."
        )
    cost = _with_unit(row.cost_s, MILLISECONDS)
    return f"{capitalised(found.label)}. {found.sentence} {capitalised(where)}, {step}; this costs {cost}."


def _figure(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, digits=_DIGITS)


def _with_unit(figure: Figure, unit: Unit) -> str:
    return estimate(figure, unit, with_unit=True, digits=_DIGITS)


def text(screen: FirstScreen) -> str:
    """The answer as a terminal shows it."""
    lines = [screen.sentence, *screen.notes, "", *_aligned([screen.headings, *screen.rows]), ""]
    lines += [f"Why not more: {screen.reason}"] if screen.reason else []
    lines += [f"To do: {advice.text}." for advice in screen.to_do]
    return "\n".join(lines).rstrip()


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
