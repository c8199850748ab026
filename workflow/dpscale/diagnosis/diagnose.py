"""The answer that the record of a script gives, and its words, for a terminal and as a small page.

Both have a template, and their sentences in common (`diagnosis_words.j2`); all numbers in them stand in `Diagnosis`.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from dpscale.analyse.answer.claims import FEWEST_ROUNDS, is_efficient
from dpscale.analyse.causes import FoundCause, causes_of, in_rounds
from dpscale.diagnosis.account import AS_IT_IS, StepPart, account_of, as_it_is, step_parts
from dpscale.diagnosis.finders import FINDERS, SAME_SAMPLES, shared_samples
from dpscale.formulas.figure import UNKNOWN, Figure, multiplied, ratio
from dpscale.present.text.html import TEXTS, fill
from dpscale.present.text.numbers import ends_of, estimate, measured, value_of, whole
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.present.text.words import capitalised
from dpscale.records.script import Process, ScriptRecord, devices_of
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, PLAIN, Unit
from dpscale.vocabulary.causes import MEASURES, NOTHING, PARTS, PROBES, REMEDIES, Cause
from dpscale.vocabulary.chips import chip_named

# What takes less of a step is no row of its own.
LEAST_PART_S = 1e-6
# Of a step: what no reader would change anything for.
LEAST_SHARE = 0.005
WHOLE = Unit("1", "", decimals=0)


@dataclass(frozen=True)
class Diagnosis:
    """The answer: reasons in their order, smaller costs in theirs, and where the time of a step goes.

    `efficiency` is the step of the fastest device alone over the whole step, both of one batch per device.
    """

    record: ScriptRecord
    reasons: Sequence[FoundCause]
    smaller: Sequence[FoundCause]
    parts: Sequence[StepPart]
    whole_s: Figure
    efficiency: Figure
    speedup: Figure
    chip_share: Figure
    slowed: Figure

    @property
    def is_efficient(self) -> bool:
        """Whether several devices lose no more than what is not named as a reason."""
        return is_efficient(self.efficiency)

    @property
    def first(self) -> Cause:
        """The first reason; `nothing` where there is none."""
        return self.reasons[0].cause if self.reasons else NOTHING


def diagnose_script(record: ScriptRecord) -> Diagnosis:
    """The answer that the record of a script gives."""
    account = account_of(record)
    causes = causes_of(account, (cause for find in FINDERS for cause in find(account)))
    step, n = account.step, account.devices

    def over_step(name: str) -> Figure:
        return in_rounds(lambda alone_s, step_s: alone_s / step_s, account[name], step)

    speedup, efficiency = speedup_of(record), UNKNOWN
    if not speedup.is_known and account.has("one_device"):  # DataParallel, whose step was tried on one of its devices
        speedup = over_step("one_device").sure
    if speedup.is_known:
        efficiency = multiplied(speedup, 1 / n)
    elif n == 1 or account.has("own_pace") or account.has("share_on_one_device"):
        efficiency = over_step("fastest")
    return Diagnosis(
        record=record,
        reasons=[cause for cause in causes if cause.is_reason],
        smaller=[cause for cause in causes if not cause.is_reason and cause.share.value >= LEAST_SHARE],
        parts=list(step_parts(account)),
        whole_s=step,
        efficiency=efficiency,
        speedup=speedup,
        chip_share=_chip_share(account.first, step),
        slowed=_slowed(record),
    )


def speedup_of(record: ScriptRecord) -> Figure:
    """Different samples per second of all ranks over those of one in both its runs: with the ends of both intervals
    that are farther out. Unknown where it was not run on one device."""
    several = _rate(record.ranks("diagnosed"))
    ratios = [ratio(several, _rate(run.processes)) for run in record.runs if run.purpose == "one" and run.processes]
    if not ratios or not several.is_known:
        return UNKNOWN
    low, high = min(speedup.low for speedup in ratios), max(speedup.high for speedup in ratios)
    return Figure.of(median(speedup.value for speedup in ratios), low, high)


def _rate(ranks: Sequence[Process]) -> Figure:
    """Samples per second; of an unknown batch, batches of a rank. What several ranks have in common counts once."""
    copies = 1 if shared_samples(ranks) >= SAME_SAMPLES else len(ranks)
    samples = copies * (ranks[0].batch or 1) * (ranks[0].micro_batches_per_step or 1)
    return as_it_is(ranks[0]).map(lambda seconds: samples / seconds).sure


def _slowed(record: ScriptRecord) -> Figure:
    """Return how much longer a rank's step takes with hooks than without: two processes, with their difference."""
    watched, paced = record.ranks("diagnosed"), record.ranks("paced")
    return ratio(as_it_is(watched[0]).sure, as_it_is(paced[0]).sure).map(lambda value: value - 1) if paced else UNKNOWN


def _chip_share(rank: Process, step: Figure) -> Figure:
    """Return the share of the arithmetic that the device could do at the precision that is used."""
    chip, flops, sizes = chip_named(rank.device_model or ""), rank.flops_per_step, rank.dtypes
    if chip is None or not flops:
        return UNKNOWN
    is_half = rank.switches.autocast or max(sizes, key=sizes.__getitem__, default="") in ("bfloat16", "float16")
    peak = chip.most("bfloat16" if is_half else "float32" if rank.switches.tf32 else "float32-strict")
    return step.map(lambda seconds: flops / seconds / peak.flop_s).sure


def text(diagnosis: Diagnosis) -> str:
    """The answer as a terminal shows it."""
    return TEXTS.get_template("diagnosis.txt.j2").render(_for_templates(diagnosis)).rstrip()


def render(diagnosis: Diagnosis) -> str:
    """The answer as a page that needs no other file. Pure, but for reading its own templates."""
    return fill("diagnosis.html.j2", **_for_templates(diagnosis))


def _for_templates(diagnosis: Diagnosis) -> dict[str, object]:
    """Return what the templates say, and how they write numbers. Devices are called `GPU` or `worker`."""
    ranks = diagnosis.record.ranks("diagnosed")
    device = "GPU" if ranks[0].device == "cuda" else "worker"

    def on_device(text: str) -> str:
        return text.replace("{devices}", f"{device}s").replace("{device}", device)

    return {
        "answer": diagnosis,
        "title": shlex.join(diagnosis.record.command),
        "run": diagnosis.record.diagnosed,
        "ranks": ranks,
        "device": device,
        "devices": devices_of(ranks),
        "is_watched": ranks[0].status == "observed" and all(block.probe in AS_IT_IS for block in ranks[0].blocks),
        "has_few_rounds": len(diagnosis.whole_s.blocks) < FEWEST_ROUNDS,
        "nothing": NOTHING,
        "is_rare": _is_rare,
        "has_rare": any(map(_is_rare, diagnosis.reasons)),
        "slower": diagnosis.speedup.map(lambda value: 1 / value if value else inf),
        "parts": _parts(diagnosis.parts, on_device),
        "on_device": on_device,
        "capitalised": capitalised,
        "number": _number,
        "seconds": lambda figure: _number(figure) if figure.is_known else "a time that is not known",
        "share": lambda figure: _number(figure, PERCENT),
        "times": lambda figure: value_of(figure, _multiples(figure)),
        "ends": lambda figure: ends_of(figure, _multiples(figure)),
        "measures": {**PARTS, **MEASURES, **PROBES},
        "remedies": REMEDIES,
    }


def _multiples(figure: Figure) -> Unit:
    """Return how a ratio is written: a large one without digits that say nothing."""
    return MULTIPLES if figure.value < 10 else WHOLE


def _is_rare(finding: FoundCause) -> bool:
    """Whether it was timed beside the steps, now and then: it is a part of the whole time."""
    return any(evidence.name == "seconds" for evidence in finding.evidence)


def _number(figure: Figure, unit: Unit = MILLISECONDS) -> str:
    """`26.3 ms [25.9, 26.8]`: without an interval the number alone; of a count without a unit."""
    if unit is PLAIN:
        return whole(figure.value)
    is_wide = figure.has_interval and figure.low < figure.high
    return estimate(figure, unit, with_unit=True) if is_wide else measured(figure.value, unit)


def _parts(parts: Sequence[StepPart], on_device: Callable[[str], str]) -> ShownTable:
    """Return the parts of a step, which exclude each other and add up to it."""
    return ShownTable(
        name="parts",
        caption="Parts exclude each other and add up to the step. Means over rounds, with 95 % intervals",
        columns=[ShownColumn("Time"), ShownColumn("Part", is_number=False)],
        cells=[[_number(row.seconds), _part(row, on_device)] for row in parts if row.seconds.value >= LEAST_PART_S],
    )


def _part(row: StepPart, on_device: Callable[[str], str]) -> str:
    if row.place:
        return f"your code at {row.place.file}:{row.place.line}: {row.place.code}"
    return on_device(PARTS[row.name])
