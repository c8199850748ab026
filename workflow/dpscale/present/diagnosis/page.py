"""A diagnosis in words, for a terminal and as a small page. Computes nothing: numbers are of `analyse.answer`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer.causes import Evidence, FoundCause, Remedy
from dpscale.analyse.answer.diagnosis import Diagnosis, StepPart
from dpscale.formulas.figure import Figure
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import estimate, measured, whole
from dpscale.records.files import Record
from dpscale.tables.column import MILLISECONDS, PERCENT, PLAIN, Unit
from dpscale.vocabulary.causes import NOTHING, PROBES, REMEDIES

# What is measured beside the steps.
_MEASURES = {
    "same_command": "other processes of the same command",
    "processes_of_launcher": "processes that a launcher says it started",
    "cores": "cores that may be used",
    "busy_share": "how busy they are, loader and step together",
    "processes": "processes that need a core",
    "loader_workers": "loader workers per process",
    "loader_at_best": "its samples by as many loader processes at their fastest",
    "start": "from the loader's start to its first batch",
    "batch_per_gpu": "batch per {device}",
    "global_batch": "global batch",
    "gradient_bytes": "gradients",
    "allreduce": "their allreduce with nothing else running",
    "bus": "its bus bandwidth",
    "copy": "a plain copy between two {devices}",
    "nominal": "the link's data sheet",
}
_PARTS = {
    "fastest": "the plain step on the fastest {device} alone",
    "slowest": "the slowest {device} is slower",
    "together": "all {devices} at once, nothing shared",
    "no_op_hook": "DDP's own work, without allreduce",
    "training": "allreduce, and waiting in it",
    "dp": "DataParallel in place of DDP",
    "end_to_end": "loading",
}


@dataclass(frozen=True)
class ToldCause:
    """A finding in words."""

    label: str
    sentence: str
    cost: str
    share: str
    evidence: Sequence[str]
    change: str
    savings: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class DiagnosisWords:
    """The answer in words."""

    title: str
    short: str
    reasons: Sequence[ToldCause]
    smaller: Sequence[ToldCause]
    parts: Sequence[tuple[str, str]]
    facts: Sequence[tuple[str, str]]
    tried: Sequence[str]


def told(diagnosis: Diagnosis, record: Record) -> DiagnosisWords:
    """The answer of a diagnosis, with what was asked."""
    device = _device(record)
    return DiagnosisWords(
        title=_title(record, device),
        short=_short(diagnosis),
        reasons=[told_cause(finding, device) for finding in diagnosis.reasons],
        smaller=[told_cause(finding, device) for finding in diagnosis.smaller],
        parts=[_part(part, device) for part in diagnosis.parts],
        facts=list(_facts(record)),
        tried=[_saving(remedy, device) for remedy in diagnosis.tried],
    )


def text(diagnosis: Diagnosis, record: Record) -> str:
    """The answer as a terminal shows it."""
    answer = told(diagnosis, record)
    lines = [answer.title, "", answer.short]
    for number, reason in enumerate(answer.reasons, start=1):
        lines += ["", f"{number}. {reason.label}: costs {reason.cost}, {reason.share} of the step"]
        lines += [f"   {reason.sentence}"]
        lines += [f"   - {evidence}" for evidence in reason.evidence]
        lines += [f"   What to change: {reason.change}"]
        lines += [f"   Saves: {saving}" for saving in reason.savings]
    if answer.smaller:
        lines += ["", "Smaller, or not told from nothing:"]
        lines += [f"   {reason.label}: {reason.cost}, {reason.share}{_noted(reason)}" for reason in answer.smaller]
    if answer.tried:
        lines += ["", "Tried as well, on the whole step:", *(f"   {saving}" for saving in answer.tried)]
    lines += ["", "Where the time of a step goes, one batch per device:"]
    lines += [f"   {seconds:>28}  {part}" for part, seconds in answer.parts]
    return "\n".join(lines)


def render(diagnosis: Diagnosis, record: Record) -> str:
    """The answer as a page that needs no other file. Pure, but for reading its own template."""
    return fill("diagnosis.html.j2", answer=told(diagnosis, record))


def _noted(reason: ToldCause) -> str:
    return f" ({'; '.join(reason.notes)})" if reason.notes else ""


def _device(record: Record) -> str:
    return "GPU" if record["settings"]["device"] == "cuda" else "worker"


def _title(record: Record, device: str) -> str:
    cell = record["cell"]
    gpus = f"{cell['gpus']} {device}{'s' if cell['gpus'] > 1 else ''}"
    batch = f"batch {cell['batch_per_gpu']:,} per {device}"
    held = ", the global batch held" if cell["global_batch_held"] else ""
    return f"{workload_name(record)}: {cell['strategy']} on {gpus}, {batch}{held}"


def workload_name(record: Record) -> str:
    """The user's file, or the built-in network."""
    settings = record["settings"]
    workload = str(settings.get("workload", ""))
    return workload if workload.endswith(".py") else str(settings["network"])


def _short(diagnosis: Diagnosis) -> str:
    efficiency = _share(diagnosis.efficiency)
    step = _seconds(diagnosis.whole_s)
    if not diagnosis.reasons:
        if diagnosis.is_efficient:
            return f"{NOTHING.label.capitalize()}: {efficiency} efficient. A step takes {step}."
        return f"No cause stands out. A step takes {step}, and is {efficiency} efficient: see where the time goes."
    reasons = [finding.cause.label for finding in diagnosis.reasons]
    others = f" Then: {', '.join(reasons[1:])}." if reasons[1:] else ""
    return f"First reason: {reasons[0]}.{others} A step takes {step}; it is {efficiency} efficient."


def told_cause(finding: FoundCause, device: str) -> ToldCause:
    """A finding in words; `device` is what it is called, `GPU` or `worker`."""
    return ToldCause(
        finding.cause.label,
        finding.cause.sentence,
        _seconds(finding.cost_s),
        _share(finding.share),
        [*(_evidence(evidence, device) for evidence in finding.evidence), *finding.notes],
        finding.cause.change,
        [f"{_saving(remedy, device)}{_beyond(remedy, finding)}" for remedy in finding.remedies],
        finding.notes,
    )


def _evidence(evidence: Evidence, device: str) -> str:
    name = PROBES.get(evidence.name) or _MEASURES.get(evidence.name, evidence.name)
    figure = whole(evidence.figure.value) if evidence.unit is PLAIN else _figure(evidence.figure, evidence.unit)
    return f"{_of(name, device)}: {figure}"


def _saving(remedy: Remedy, device: str) -> str:
    name = _of(REMEDIES[remedy.name].format(device=device, devices=f"{device}s", **remedy.words), device)
    predicted = [f"predicted {_seconds(remedy.predicted_s)}"] if remedy.predicted_s else []
    tried = f"measured {_seconds(remedy.measured_s)}" if remedy.measured_s else "not tried"
    return f"{name}: {', '.join([*predicted, tried])}"


def _beyond(remedy: Remedy, finding: FoundCause) -> str:
    """Why a remedy saves more than its cause costs, where it does."""
    saved = max((figure.value for figure in (remedy.predicted_s, remedy.measured_s) if figure), default=0.0)
    return "; it shortens other parts of the step too" if saved > finding.cost_s.value else ""


def _part(part: StepPart, device: str) -> tuple[str, str]:
    return _of(_PARTS[part.probe], device), _seconds(part.seconds)


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    hardware, cell = record["hardware"], record["cell"]
    yield "Devices", f"{cell['gpus']} × {hardware['device_model']}"
    yield "Cores", f"{record['cores']['usable']} usable of {record['cores']['of_machine']}"
    yield "Loader workers", f"{cell['loader_workers']} per process"
    if record["link"]:
        yield "Link", record["link"]["kind"]
    yield "torch", record["software"]["torch"]
    yield "Measured", record["finished_at"]
    yield "Command", record["provenance"]["command"]


def _of(text: str, device: str) -> str:
    return text.replace("{devices}", f"{device}s").replace("{device}", device)


def _seconds(figure: Figure) -> str:
    return _figure(figure, MILLISECONDS)


def _share(figure: Figure) -> str:
    return _figure(figure, PERCENT)


def _figure(figure: Figure, unit: Unit) -> str:
    """`26.3 ms [25.9, 26.8]`: without an interval the number alone."""
    is_wide = figure.has_interval and figure.low < figure.high
    return estimate(figure, unit, with_unit=True) if is_wide else measured(figure.value, unit)
