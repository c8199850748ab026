"""Why a step is not faster, from the record of a diagnosis: causes in the order of what they cost. Pure, no torch.

Every cost is a difference of two measured times of the same rounds (docs/method.md, "Diagnosis"). A figure is the
median over rounds, with an interval that holds for any distribution.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from dpscale.formulas.figure import Figure
from dpscale.formulas.scaling import bus_bandwidth_gb_s
from dpscale.formulas.statistics import median_of_blocks
from dpscale.records.files import Record
from dpscale.vocabulary.causes import CAUSES, NOTHING, Cause

Times = Sequence[float]

# An allreduce that reaches a smaller part of what a plain copy over the same link does has a slow link. Through sockets
# of one host an allreduce copies and adds up several times, and reaches less of it.
SLOW_LINK_SHARE = {"cuda": 0.25, "cpu": 0.05}
# Cores that are so busy are the limit where they are fewer than the processes.
BUSY_SHARE = 0.6
# A copy that reaches a smaller part of the link's data sheet has a slow link too.
SLOW_COPY_SHARE = 0.25


@dataclass(frozen=True)
class Evidence:
    """A measured figure: the name of a probe (in s per step of one batch), or of another measure with its unit."""

    name: str
    figure: Figure
    unit: str = "s"


@dataclass(frozen=True)
class Remedy:
    """What a change saves of a step of one batch per device, in s: as predicted without having tried it, and as
    measured, None where it was not tried. `words` fill its text in the vocabulary."""

    name: str
    predicted_s: Figure | None
    measured_s: Figure | None = None
    words: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A cause with what it costs: seconds of a step of one batch per device, and the part of the whole step."""

    cause: Cause
    cost_s: Figure
    share: Figure
    evidence: Sequence[Evidence]
    remedies: Sequence[Remedy]
    notes: Sequence[str] = ()

    @property
    def is_reason(self) -> bool:
        """Whether it takes enough of the step, in all of its interval more than nothing."""
        return self.share.value >= self.cause.least_share and not self.cost_s.low <= 0


@dataclass(frozen=True)
class Part:
    """A part of the whole step: the time that `probe` takes longer than `before`, or all of it where that is empty."""

    probe: str
    before: str
    seconds: Figure


@dataclass(frozen=True)
class Diagnosis:
    """The answer: reasons in their order, smaller costs in theirs, and where the time of a step goes.

    `efficiency` is the step of the fastest device alone over the whole step, both of one batch per device. `tried` is
    what was changed for no cause: it can pay without one.
    """

    reasons: Sequence[Finding]
    smaller: Sequence[Finding]
    parts: Sequence[Part]
    whole: str
    whole_s: Figure
    efficiency: Figure
    tried: Sequence[Remedy] = ()

    @property
    def is_efficient(self) -> bool:
        """Whether several devices lose no more than what is not named as a reason."""
        return is_efficient(self.efficiency)

    @property
    def first(self) -> Cause:
        """The first reason; `nothing` where there is none."""
        return self.reasons[0].cause if self.reasons else NOTHING


def is_efficient(efficiency: Figure) -> bool:
    """Whether no more is lost than what is not named as a reason."""
    return efficiency.value >= 1 - NOTHING.least_share


def diagnose(record: Record) -> Diagnosis:
    """The answer that the record of a diagnosis gives."""
    rounds = _Rounds(record)
    found = [finding for find in _FINDERS for finding in find(rounds)]
    found.sort(key=lambda finding: -finding.cost_s.value)
    # That it was started more than once is no matter of measurement: all else was measured beside the other runs.
    found.sort(key=lambda finding: finding.cause.name != "started_twice")
    return Diagnosis(
        [finding for finding in found if finding.is_reason],
        [finding for finding in found if not finding.is_reason and finding.cost_s.value > 0],
        list(_parts(rounds)),
        rounds.whole,
        median_of_blocks(rounds.step_s(rounds.whole)),
        median_of_blocks(_each(lambda alone, whole: alone / whole, rounds.ideal_s, rounds.step_s(rounds.whole))),
        list(_tried(rounds)),
    )


class _Rounds:
    """The times of a record, round by round, of a step of one batch per device."""

    def __init__(self, record: Record):
        self.record = record
        self.probes = record["probes"]
        self.cell = record["cell"]
        self.batch: int = self.cell["batch_per_gpu"]
        self.devices: int = self.cell["gpus"]
        self.on_gpu = record["settings"]["device"] == "cuda"

    def has(self, *names: str) -> bool:
        return all(name in self.probes for name in names)

    def step_s(self, name: str) -> Times:
        """The slowest rank's. Of a probe at another batch: the time that a batch of the diagnosis takes in it."""
        scale = self.batch / self.probes[name]["batch_per_gpu"]
        return [seconds * scale for seconds in self.probes[name]["step_s"]]

    def of_rank(self, rank: int) -> Times:
        """Of the plain step alone on one device."""
        return [ranks[rank] for ranks in self.probes["alone"]["rank_step_s"]]

    @property
    def fastest(self) -> int:
        return min(range(self.devices), key=lambda rank: median(self.of_rank(rank)))

    @property
    def slowest(self) -> int:
        return max(range(self.devices), key=lambda rank: median(self.of_rank(rank)))

    @property
    def in_memory(self) -> str:
        """The whole step with its batches in memory, as it was asked for."""
        return "dp" if self.has("dp") else "training" if self.has("training") else "alone"

    @property
    def whole(self) -> str:
        """All that the training does."""
        return "end_to_end" if self.has("end_to_end") else self.in_memory

    @property
    def ideal_s(self) -> Times:
        """Without any cost of using several devices: alone, at the batch that one device had before there were more."""
        return self.first_s("alone_reference") if self.has("alone_reference") else self.of_rank(self.fastest)

    def first_s(self, name: str) -> Times:
        """`step_s` of a plain step, on the first device: larger batches and graphs are timed there."""
        scale = self.batch / self.probes[name]["batch_per_gpu"]
        return [ranks[0] * scale for ranks in self.probes[name]["rank_step_s"]]

    def evidence(self, *names: str) -> list[Evidence]:
        """What was measured of these probes, as far as they are there."""
        return [
            Evidence(name, median_of_blocks(self.first_s(name) if name in _OF_FIRST else self.step_s(name)))
            for name in names
            if self.has(name)
        ]

    def found(
        self, name: str, costs: Times, evidence: Sequence[Evidence], *remedies: Remedy, notes: Sequence[str] = ()
    ) -> Finding:
        shares = _each(lambda cost, whole: cost / whole, costs, self.step_s(self.whole))
        return Finding(CAUSES[name], median_of_blocks(costs), median_of_blocks(shares), evidence, remedies, notes)


_OF_FIRST = {"alone_reference", "alone_large", "alone_graph", "alone_unsynchronised"}


def _each(formula: Callable[..., float], *times: Times) -> Times:
    """A formula round by round."""
    return [formula(*values) for values in zip(*times, strict=True)]


def _less(times: Times, others: Times) -> Times:
    return _each(lambda one, other: one - other, times, others)


def exact(value: float) -> Figure:
    """A figure that has no spread: a count, or what follows from the definition."""
    return Figure.of(value, value, value)


def _started_twice(rounds: _Rounds) -> Iterator[Finding]:
    """Runs that could share the work each do all of it: of n runs, the others do all but one nth of a step as well."""
    launches = rounds.record["launches"]
    runs = max(len(launches["same_command"]) + 1, launches["processes_of_launcher"] or 1)
    if runs > 1:
        costs = [seconds * (1 - 1 / runs) for seconds in rounds.step_s(rounds.whole)]
        evidence = [
            Evidence("same_command", exact(len(launches["same_command"])), "count"),
            Evidence("processes_of_launcher", exact(launches["processes_of_launcher"] or 1), "count"),
        ]
        yield rounds.found("started_twice", costs, evidence, Remedy("one_launch", median_of_blocks(costs)))


def _data_parallel(rounds: _Rounds) -> Iterator[Finding]:
    """DataParallel's step less DDP's, at the same batch per GPU. Predicted for DDP: the slowest device alone, and then
    one allreduce, of which nothing is hidden."""
    if rounds.has("dp", "training"):
        costs = _less(rounds.step_s("dp"), rounds.step_s("training"))
        allreduce_s = _allreduce_s(rounds)
        predicted = [
            dp - alone - allreduce_s
            for dp, alone in zip(rounds.step_s("dp"), rounds.of_rank(rounds.slowest), strict=True)
        ]
        remedy = Remedy("ddp", median_of_blocks(predicted), median_of_blocks(costs))
        yield rounds.found("data_parallel", costs, rounds.evidence("dp", "training", "alone"), remedy)


def _cores(rounds: _Rounds) -> float:
    """Cores that the job may use, or their time where a control group limits that."""
    cores = rounds.record["cores"]
    return float(min(cores["usable"], cores["quota"] or cores["usable"]))


def _processes(rounds: _Rounds) -> int:
    """Processes that need a core of their own: the ranks, and where GPUs compute, one to load for each."""
    loads = rounds.on_gpu and rounds.cell["loader_workers"] > 0
    return rounds.devices * (2 if loads else 1)


def _too_few_cores(rounds: _Rounds) -> Iterator[Finding]:
    """Where there are fewer cores than processes, and they are busy: what devices that compute at once, and the loader
    beside them, take longer than alone. Otherwise what the step saves on all cores of the machine."""
    whole = rounds.step_s(rounds.whole)
    evidence = [
        Evidence("cores", exact(_cores(rounds)), "count"),
        Evidence("processes", exact(_processes(rounds)), "count"),
    ]
    busy = rounds.record["cores"]["busy_share"]
    if busy is not None:
        evidence.append(Evidence("busy_share", exact(busy), "share"))
    evidence += rounds.evidence(rounds.whole, rounds.in_memory, "together", "alone", "end_to_end_all_cores")
    tried = None
    if rounds.has("end_to_end_all_cores"):
        tried = _less(whole, rounds.step_s("end_to_end_all_cores"))
    contention = _contention_s(rounds) if rounds.has("together") else None
    remedy = Remedy(
        "all_cores", median_of_blocks(contention) if contention else None, median_of_blocks(tried) if tried else None
    )
    lacking = _cores(rounds) < _processes(rounds) and busy is not None and busy >= BUSY_SHARE
    if costs := (contention if lacking and contention else tried):
        yield rounds.found("too_few_cores", costs, evidence, remedy)


def _contention_s(rounds: _Rounds) -> Times:
    """What devices that compute at once, and the loader beside them, add to the slowest device alone."""
    together = _less(rounds.step_s("together"), rounds.of_rank(rounds.slowest))
    loading = _less(rounds.step_s(rounds.whole), rounds.step_s(rounds.in_memory))
    return _each(lambda one, other: one + other, together, loading)


def _loading(rounds: _Rounds) -> Iterator[Finding]:
    """Causes of one time, what loading adds to the step: that which fewer workers save, and the rest. Where batches are
    loaded beside the step, and faster than it uses them, the step does not wait for them: loading disturbs it."""
    if not rounds.has("end_to_end", "loader"):
        return
    whole, workers = rounds.step_s("end_to_end"), rounds.cell["loader_workers"]
    found = None
    if rounds.has("end_to_end_fewer"):
        fewer = rounds.step_s("end_to_end_fewer")
        found = _too_many_workers(rounds, whole, fewer)
        yield found
        whole = fewer if found.is_reason else whole
    if any(finding.is_reason for finding in _too_few_cores(rounds)) and rounds.has("end_to_end_all_cores"):
        whole = [min(times) for times in zip(whole, rounds.step_s("end_to_end_all_cores"), strict=True)]
    costs = _less(whole, rounds.step_s(rounds.in_memory))
    evidence = [
        *rounds.evidence("end_to_end", rounds.in_memory, "loader", "end_to_end_fewer", "end_to_end_more"),
        Evidence("loader_workers", exact(workers), "count"),
    ]
    if workers and median(rounds.step_s("loader")) < median(rounds.step_s(rounds.in_memory)):
        yield rounds.found("loading_disturbs", costs, evidence)
        return
    remedies = []
    if rounds.has("end_to_end_more") and not (found and found.is_reason):
        more = rounds.probes["end_to_end_more"]["loader_workers"]
        faster = more / max(1, workers)
        predicted = _each(
            lambda whole, loader, step: whole - max(step, loader / faster),
            whole, rounds.step_s("loader"), rounds.step_s(rounds.in_memory),
        )  # fmt: skip
        measured = _less(whole, rounds.step_s("end_to_end_more"))
        remedies = [
            Remedy("more_workers", median_of_blocks(predicted), median_of_blocks(measured), {"loader_workers": more})
        ]
    yield rounds.found("slow_loader", costs, evidence, *remedies)


def _too_many_workers(rounds: _Rounds, whole: Times, fewer: Times) -> Finding:
    """Predicted: the time until the first batch is there is in proportion to the workers that are started."""
    few, many = rounds.probes["end_to_end_fewer"]["loader_workers"], rounds.cell["loader_workers"]
    starts = rounds.probes["end_to_end"]["start_s"]
    predicted = [start * (1 - few / many) / rounds.record["steps_per_epoch"] for start in starts]
    costs = _less(whole, fewer)
    remedy = Remedy("fewer_workers", median_of_blocks(predicted), median_of_blocks(costs), {"loader_workers": few})
    evidence = [
        *rounds.evidence("end_to_end", "end_to_end_fewer", rounds.in_memory),
        Evidence("start", median_of_blocks(starts)),
        Evidence("loader_workers", exact(many), "count"),
        Evidence("cores", exact(_cores(rounds)), "count"),
    ]
    return rounds.found("too_many_workers", costs, evidence, remedy)


def _small_batch(rounds: _Rounds) -> Iterator[Finding]:
    """On a GPU what a CUDA graph saves, in which the host launches the step as one piece. Otherwise what the samples of
    a batch take longer in it than in a larger one. Where the global batch was held, the batch is small for that."""
    other = "alone_graph" if rounds.has("alone_graph") else "alone_large"
    # A step that waits for numbers hardly depends on its batch either, on a GPU, and no graph can hold it.
    waits = rounds.on_gpu and rounds.has("alone_unsynchronised")
    if rounds.has("alone_reference") or waits or not rounds.has(other):
        return
    evidence = rounds.evidence("alone_graph", "alone_large")
    evidence.insert(0, Evidence("alone", median_of_blocks(rounds.first_s("alone"))))
    evidence.append(Evidence("batch_per_gpu", exact(rounds.batch), "count"))
    costs = _less(rounds.first_s("alone"), rounds.first_s(other))
    yield rounds.found("small_batch", costs, evidence, *_larger_batch(rounds), *_cuda_graph(rounds))


def _larger_batch(rounds: _Rounds) -> Iterator[Remedy]:
    """The whole step at a larger batch. Predicted: all that it has beyond the plain step stays as long per step."""
    if not rounds.has("training", "training_scaled"):
        return
    batch = rounds.probes["training_scaled"]["batch_per_gpu"]
    larger = "alone_reference" if rounds.has("alone_reference") else "alone_large"
    if not rounds.has(larger) or rounds.probes[larger]["batch_per_gpu"] != batch:
        return
    training, part = rounds.step_s("training"), rounds.batch / batch
    predicted = [
        whole - ((whole - plain) * part + large)
        for whole, plain, large in zip(training, rounds.first_s("alone"), rounds.first_s(larger), strict=True)
    ]
    measured = _less(training, rounds.step_s("training_scaled"))
    yield Remedy("larger_batch", median_of_blocks(predicted), median_of_blocks(measured), {"batch_per_gpu": batch})


def _cuda_graph(rounds: _Rounds) -> Iterator[Remedy]:
    """The whole step as a graph. Predicted: the plain step as one, and then one allreduce, nothing hidden."""
    if rounds.has("alone_graph", "training", "training_graph"):
        whole, allreduce_s = rounds.step_s("training"), _allreduce_s(rounds)
        predicted = [saved - allreduce_s for saved in _less(whole, rounds.first_s("alone_graph"))]
        measured = _less(whole, rounds.step_s("training_graph"))
        yield Remedy("cuda_graph", median_of_blocks(predicted), median_of_blocks(measured))
    elif rounds.has("alone_graph") and rounds.devices == 1:
        saved = _less(rounds.first_s("alone"), rounds.first_s("alone_graph"))
        yield Remedy("cuda_graph", None, median_of_blocks(saved))


def _batch_not_scaled(rounds: _Rounds) -> Iterator[Finding]:
    """What the samples of a small batch take longer on a device than in the global batch that it had alone."""
    if rounds.has("alone_reference"):
        costs = _less(rounds.first_s("alone"), rounds.first_s("alone_reference"))
        evidence = rounds.evidence("alone", "alone_reference")
        evidence.append(Evidence("batch_per_gpu", exact(rounds.batch), "count"))
        evidence.append(Evidence("global_batch", exact(rounds.probes["alone_reference"]["batch_per_gpu"]), "count"))
        yield rounds.found("batch_not_scaled", costs, evidence, *_larger_batch(rounds))


def _communication(rounds: _Rounds) -> Iterator[Finding]:
    """What the allreduce adds to the step: a slow link, where it is far below a plain copy; otherwise the gradients.

    At most as long as it takes alone: what it adds beyond that is waiting for a rank that comes later.
    """
    if not rounds.has("training", "no_op_hook"):
        return
    alone_s = _allreduce_s(rounds)
    costs = [min(cost, alone_s) for cost in _less(rounds.step_s("training"), rounds.step_s("no_op_hook"))]
    link, allreduce = rounds.record["link"], rounds.record["allreduce"]
    bus, copy, nominal = _bus_gb_s(rounds), median_of_blocks(link["copy_gb_s"]), link["nominal_gb_s"]
    evidence = [
        *rounds.evidence("training", "no_op_hook"),
        Evidence("gradient_bytes", exact(allreduce["bytes"]), "bytes"),
        Evidence("allreduce", median_of_blocks(allreduce["seconds"])),
        Evidence("bus", bus, "GB/s"),
        Evidence("copy", copy, "GB/s"),
    ]
    if nominal is not None:
        evidence.append(Evidence("nominal", exact(nominal), "GB/s"))
    if is_slow_link(rounds.record["settings"]["device"], bus.value, copy.value, nominal):
        possible_s = alone_s * (1 - bus.value / copy.value)
        saved = [min(cost, possible_s) for cost in costs]
        remedies = [Remedy("full_link", median_of_blocks(saved)), *_half_the_bytes(rounds, costs, alone_s)]
        yield rounds.found("slow_link", costs, evidence, *remedies)
    else:
        yield rounds.found(
            "heavy_gradients", costs, evidence, *_larger_batch(rounds), *_half_the_bytes(rounds, costs, alone_s)
        )


def _half_the_bytes(rounds: _Rounds, costs: Times, alone_s: float) -> Iterator[Remedy]:
    """Gradients in bfloat16. Predicted: the allreduce takes half its time, of which what was hidden saves nothing; and
    they are converted, both ways."""
    if rounds.has("bfloat16_gradients"):
        conversion_s = median(rounds.record["allreduce"]["conversion_s"])
        predicted = [min(cost, alone_s / 2) - conversion_s for cost in costs]
        measured = _less(rounds.step_s("training"), rounds.step_s("bfloat16_gradients"))
        yield Remedy("bfloat16_gradients", median_of_blocks(predicted), median_of_blocks(measured))


def is_slow_link(device: str, bus_gb_s: float, copy_gb_s: float, nominal_gb_s: float | None) -> bool:
    """Whether an allreduce falls far short of a plain copy over the same link, or that of its data sheet; all in GB/s
    (10^9 bytes). `device` is `cuda` or `cpu`."""
    of_data_sheet = nominal_gb_s is not None and copy_gb_s < SLOW_COPY_SHARE * nominal_gb_s
    return bus_gb_s < SLOW_LINK_SHARE[device] * copy_gb_s or of_data_sheet


def _bus_gb_s(rounds: _Rounds) -> Figure:
    """Bus bandwidth of the allreduce of a large message (docs/method.md, "Bandwidth")."""
    timed = rounds.record["link"]["allreduce"]
    return median_of_blocks(
        [bus_bandwidth_gb_s("allreduce", rounds.devices, timed["bytes"], seconds) for seconds in timed["seconds"]]
    )


def _allreduce_s(rounds: _Rounds) -> float:
    return float(median(rounds.record["allreduce"]["seconds"]))


def _slow_device(rounds: _Rounds) -> Iterator[Finding]:
    """The slowest device alone less the fastest one alone, each named by all rounds together."""
    fast, slow = rounds.fastest, rounds.slowest
    if fast == slow:
        return
    costs = _less(rounds.of_rank(slow), rounds.of_rank(fast))
    evidence = [Evidence(f"device {rank}", median_of_blocks(rounds.of_rank(rank))) for rank in range(rounds.devices)]
    together = rounds.probes["together"]["rank_step_s"]
    predicted = [ranks[slow] - ranks[fast] for ranks in together]
    notes = [f"device {slow} is the slow one", *_others_on(rounds, slow)]
    remedy = Remedy("without_device", median_of_blocks(predicted))
    yield rounds.found("slow_device", costs, evidence, remedy, notes=notes)


def _others_on(rounds: _Rounds, device: int) -> Iterator[str]:
    """Other processes that the driver saw on a GPU."""
    readings = rounds.record["sensors"]["before"]
    others = readings[device]["other_processes"] if device < len(readings) else None
    if others:
        yield f"other processes on it: {', '.join(str(process['pid']) for process in others)}"


def _hidden_synchronisation(rounds: _Rounds) -> Iterator[Finding]:
    """The step less the same step in which the host waits for no number."""
    if not rounds.has("alone_unsynchronised"):
        return
    costs = _less(rounds.first_s("alone"), rounds.first_s("alone_unsynchronised"))
    evidence = rounds.evidence("alone", "alone_unsynchronised", "training", "training_unsynchronised")
    remedy = Remedy("no_waiting", median_of_blocks(costs))
    if rounds.has("training", "training_unsynchronised"):
        measured = _less(rounds.step_s("training"), rounds.step_s("training_unsynchronised"))
        remedy = replace(remedy, measured_s=median_of_blocks(measured))
    notes = [
        f"{seen['file']}, line {seen['line']}: {seen['code']} ({seen['calls']} in a step)"
        for seen in rounds.record["synchronisations"]
    ]
    yield rounds.found("hidden_synchronisation", costs, evidence, remedy, notes=notes)


_FINDERS: Sequence[Callable[[_Rounds], Iterator[Finding]]] = (
    _started_twice, _data_parallel, _too_few_cores, _loading, _small_batch, _batch_not_scaled, _communication,
    _slow_device, _hidden_synchronisation,
)  # fmt: skip


def _tried(rounds: _Rounds) -> Iterator[Remedy]:
    """What computing in bfloat16 and pinned memory save of the whole step."""
    for name, slow, fast in (
        ("bfloat16", rounds.in_memory, "bfloat16"),
        ("pinned_memory", "end_to_end_unpinned", "end_to_end"),
    ):
        if rounds.has(slow, fast):
            saved = _less(rounds.step_s(slow), rounds.step_s(fast))
            yield Remedy(name, None, median_of_blocks(saved))


def _parts(rounds: _Rounds) -> Iterator[Part]:
    """From the fastest device alone to all that the training does, each less the one before."""
    yield Part("fastest", "", median_of_blocks(rounds.of_rank(rounds.fastest)))
    before_name, before = "fastest", rounds.of_rank(rounds.fastest)
    for name in ("slowest", "together", "no_op_hook", "training", "dp", "end_to_end"):
        if name == "slowest" and rounds.devices > 1:
            times = rounds.of_rank(rounds.slowest)
        elif rounds.has(name):
            times = rounds.step_s(name)
        else:
            continue
        yield Part(name, before_name, median_of_blocks(_less(times, before)))
        before_name, before = name, times
