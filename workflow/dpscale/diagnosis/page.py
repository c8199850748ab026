"""A diagnosis in words, for a terminal and as a small page. Computes nothing: numbers are of `analyse.answer`."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dpscale.analyse.causes import Evidence, FoundCause, Remedy
from dpscale.diagnosis.diagnose import Diagnosis, StepPart, devices_of
from dpscale.formulas.figure import Figure
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import ABSENT, ends_of, estimate, measured, value_of, whole
from dpscale.present.text.table import ShownColumn, ShownTable
from dpscale.records.script import ScriptRecord
from dpscale.tables.column import MILLISECONDS, MULTIPLES, PERCENT, PLAIN, Unit
from dpscale.vocabulary.causes import NOTHING, PROBES, REMEDIES

# What is measured beside the steps.
_MEASURES = {
    "cores": "cores that may be used",
    "processes": "processes that need a core",
    "loader_workers": "loader workers per process",
    "batch_per_gpu": "batch per {device}",
    "gradient_bytes": "gradients",
    "seconds": "time that it took in all",
    "times": "how often",
    "calls": "calls in a step",
    "steps": "steps, on one {device} as on all",
    "runs": "processes that train alone",
    "batches_of_epoch": "batches of an epoch, on one {device} as on all",
    "same_samples": "samples that ranks have in common",
    "exchanged": "sent per second of it",
    "busy_gpu": "of a step the GPU computes",
    "kernels": "kernels of a step",
    "devices": "{devices} of one process",
    "threads": "threads of all loader workers",
    "other_cores": "cores that were busy with other processes",
}
_PARTS = {
    "fastest": "the plain step on the fastest {device} alone",
    "slowest": "the slowest {device} is slower",
    "own_pace": "the slowest {device} is another one each time",
    "exchanged": "exchange of gradients, and waiting in it",
    "as_it_is": "loading",
}


@dataclass(frozen=True)
class ToldCause:
    """A finding in words."""

    label: str
    sentence: str
    cost: str
    evidence: Sequence[str]
    change: str
    code: str
    savings: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class DiagnosisWords:
    """The answer in words."""

    title: str
    short: str
    reasons: Sequence[ToldCause]
    smaller: Sequence[ToldCause]
    parts: ShownTable
    facts: Sequence[tuple[str, str]]
    tried: Sequence[str]
    cautions: Sequence[str]


def told(diagnosis: Diagnosis, record: ScriptRecord) -> DiagnosisWords:
    """The answer of a diagnosis, with what was asked."""
    processes = record.diagnosed.processes
    device = "GPU" if processes[0].device == "cuda" else "worker"
    return DiagnosisWords(
        title=shlex.join(record.command),
        short=_short(diagnosis, device, devices_of(processes)),
        reasons=[told_cause(finding, device) for finding in diagnosis.reasons],
        smaller=[told_cause(finding, device) for finding in diagnosis.smaller],
        parts=_parts(diagnosis.parts, device),
        facts=list(_facts(diagnosis, record)),
        tried=[_saving(remedy, device) for remedy in diagnosis.tried],
        cautions=diagnosis.cautions,
    )


def text(diagnosis: Diagnosis, record: ScriptRecord) -> str:
    """The answer as a terminal shows it."""
    answer = told(diagnosis, record)
    lines = [answer.title, "", answer.short]
    for number, reason in enumerate(answer.reasons, start=1):
        lines += ["", f"{number}. {reason.label}: costs {reason.cost}", f"   {reason.sentence}"]
        lines += [f"   - {evidence}" for evidence in reason.evidence]
        lines.append(f"   What to change: {reason.change}")
        if reason.code:
            lines.append(f"      {reason.code}")
        lines += [f"   Saves: {saving}" for saving in reason.savings]
    if answer.smaller:
        lines += ["", "Smaller, or not told from nothing:"]
        for reason in answer.smaller:
            notes = f" ({'; '.join(reason.notes)})" if reason.notes else ""
            lines.append(f"   {reason.label}: {reason.cost}{notes}")
    if answer.tried:
        lines += ["", "Tried as well, on the whole step:", *(f"   {saving}" for saving in answer.tried)]
    lines += ["", "Where the time of a step goes, one batch per device:"]
    lines += [f"   {line}" for line in answer.parts.lines]
    lines += ["", *answer.cautions] if answer.cautions else []
    return "\n".join(lines)


def render(diagnosis: Diagnosis, record: ScriptRecord) -> str:
    """The answer as a page that needs no other file. Pure, but for reading its own template."""
    return fill("diagnosis.html.j2", answer=told(diagnosis, record))


def _short(diagnosis: Diagnosis, device: str, devices: int) -> str:
    """How many times as fast it is, the largest reason, and how well the devices are used."""
    sentences = []
    steps = " between pauses" if any(map(_is_rare, diagnosis.reasons)) else ""
    if diagnosis.speedup.is_known:
        value, ends = value_of(diagnosis.speedup, MULTIPLES), ends_of(diagnosis.speedup, MULTIPLES)
        interval = f" (95 % interval: {ends})" if ends else ""
        several = f"{devices} {device}{'s' if devices > 1 else ''}"
        sentences.append(f"{several} are {value} times as fast as 1{steps}{interval}.")
    if diagnosis.reasons:
        sentences.extend(_reasons(diagnosis.reasons))
    elif diagnosis.is_efficient:
        sentences.append(f"{NOTHING.label.capitalize()}.")
    else:
        sentences.append("No cause stands out: see where the time goes.")
    efficient = f"; it is {_share(diagnosis.efficiency)} efficient" if devices > 1 else ""
    sentences.append(f"A step takes {_seconds(diagnosis.whole_s)}{steps}{efficient}.")
    if diagnosis.chip_share.is_known:
        sentences.append(f"It uses {_share(diagnosis.chip_share)} of what the GPU can compute.")
    elif device == "GPU":
        sentences.append("What part of the GPU it uses is not known.")
    return " ".join(sentences)


def _reasons(reasons: Sequence[FoundCause]) -> Iterator[str]:
    """The largest one that has a cost, after those that come first and have none; then the rest."""
    unmeasured = list(takewhile(lambda reason: not reason.cost_s.is_known, reasons))
    if unmeasured:
        yield f"First: {_labels(unmeasured)}. What that costs was not measured."
    with_cost = reasons[len(unmeasured) :]
    if not with_cost:
        return
    largest, *smaller = with_cost
    share = f", {_share_of(largest)}" if largest.share.is_known else ""
    line = next((f" ({note})" for note in largest.notes if ", line " in note), "")
    yield f"The largest reason{' that was measured' if unmeasured else ''}: {largest.cause.label}{share}{line}."
    if smaller:
        yield f"Then: {_labels(smaller)}."


def _labels(reasons: Sequence[FoundCause]) -> str:
    return ", ".join(reason.cause.label for reason in reasons)


def told_cause(finding: FoundCause, device: str) -> ToldCause:
    """A finding in words; `device` is what it is called, `GPU` or `worker`."""
    cause = finding.cause.on(device)
    return ToldCause(
        cause.label,
        cause.sentence,
        _cost(finding),
        [*(_evidence(evidence, device) for evidence in finding.evidence), *finding.notes],
        cause.change,
        cause.code,
        [f"{_saving(remedy, device)}{_beyond(remedy, finding)}" for remedy in finding.remedies],
        finding.notes,
    )


def _cost(finding: FoundCause) -> str:
    share = f" a step, {_share_of(finding)}" if finding.share.is_known else ""
    return f"{_seconds(finding.cost_s)}{share}"


def _share_of(finding: FoundCause) -> str:
    return f"{_share(finding.share)} of the {'time' if _is_rare(finding) else 'step'}"


def _is_rare(finding: FoundCause) -> bool:
    """Whether it was timed beside the steps, now and then."""
    return any(evidence.name == "seconds" for evidence in finding.evidence)


def _evidence(evidence: Evidence, device: str) -> str:
    name = PROBES.get(evidence.name) or _MEASURES.get(evidence.name, evidence.name)
    figure = whole(evidence.figure.value) if evidence.unit is PLAIN else _figure(evidence.figure, evidence.unit)
    return f"{_of(name, device)}: {figure}"


def _saving(remedy: Remedy, device: str) -> str:
    name = _of(REMEDIES[remedy.name], device)
    predicted = [f"predicted {_seconds(remedy.predicted_s)}"] if remedy.predicted_s else []
    tried = f"measured {_seconds(remedy.measured_s)}" if remedy.measured_s else "not tried"
    return f"{name}: {', '.join([*predicted, tried])}"


def _beyond(remedy: Remedy, finding: FoundCause) -> str:
    """Why a remedy saves more than its cause costs, where it does."""
    saved = max((figure.value for figure in (remedy.predicted_s, remedy.measured_s) if figure), default=0.0)
    return "; it shortens other parts of the step too" if saved > finding.cost_s.value else ""


def _parts(parts: Sequence[StepPart], device: str) -> ShownTable:
    """Return the parts of a step, one after the other."""
    return ShownTable(
        name="parts",
        caption="Each row is what the step of that row takes longer than the one before. Medians over rounds, with "
        "intervals",
        columns=[ShownColumn("Time"), ShownColumn("Part", is_number=False)],
        cells=[[_seconds(row.seconds), _of(_PARTS[row.probe], device)] for row in parts],
    )


def _facts(diagnosis: Diagnosis, record: ScriptRecord) -> Iterator[tuple[str, str]]:
    run = record.diagnosed
    first, machine = run.processes[0], run.processes[0].machine
    yield "Devices", f"{devices_of(run.processes)} × {first.device_model or first.device}"
    yield "Strategy", f"{first.strategy}, {first.backend or 'no backend'}"
    yield "Cores", f"{machine.cores_usable or ABSENT} usable of {machine.cores or ABSENT}"
    yield "torch", f"{first.torch}, Python {first.python}"
    yield "Steps", f"{first.steps:,} in {run.wall_s:.0f} s, the first one after {run.to_first_step_s:.0f} s"
    if diagnosis.slowed.has_interval:
        yield "Hooks lengthen a step by", _share(diagnosis.slowed)
    yield "Measured", record.finished_at


def _of(text: str, device: str) -> str:
    return text.replace("{devices}", f"{device}s").replace("{device}", device)


def _seconds(figure: Figure) -> str:
    """In ms; what is not known is said to be."""
    if not figure.is_known:
        return "a time that is not known"
    return _figure(figure, MILLISECONDS)


def _share(figure: Figure) -> str:
    return _figure(figure, PERCENT)


def _figure(figure: Figure, unit: Unit) -> str:
    """`26.3 ms [25.9, 26.8]`: without an interval the number alone."""
    is_wide = figure.has_interval and figure.low < figure.high
    return estimate(figure, unit, with_unit=True) if is_wide else measured(figure.value, unit)
