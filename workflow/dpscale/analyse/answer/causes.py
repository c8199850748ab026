"""Why a step is not faster: causes, what each costs, and what changes save. Pure, of times by probe.

A cost is a difference of two times (docs/method.md, "Diagnosis"). To add a cause: a row in `vocabulary.causes`, and its
finder here. A finder gives None where nobody timed what would tell its causes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from dpscale.analyse.answer.probes import Link, ProbeCost, Probes, in_rounds, minus, plus
from dpscale.formulas.figure import Figure, multiplied
from dpscale.tables.column import GB_PER_S, MB, MILLISECONDS, PERCENT, PLAIN, Unit
from dpscale.vocabulary.causes import CAUSES, NOTHING, Cause

# An allreduce that reaches a smaller part of what a plain copy over the same link does has a slow link. Through sockets
# of one host an allreduce copies and adds up several times, and reaches less of it.
SLOW_LINK_SHARE = {"GPU": 0.25, "worker": 0.05}
# Where the steps wait for batches for a smaller part of what loading costs, it disturbs them.
WAITED_SHARE = 0.5
# Loading without workers costs at most so many times what its calls take: a new batch is not in caches.
LOADED_SHARE = 1.5
# Rounds that agree in the sign of a cost, where they are too few for an interval.
FEWEST_ROUNDS = 3
# Cores that are so busy are the limit where they are fewer than the processes.
BUSY_SHARE = 0.6
# A copy that reaches a smaller part of the link's data sheet has a slow link too.
SLOW_COPY_SHARE = 0.25


@dataclass(frozen=True)
class Evidence:
    """A measured figure: the name of a probe, or of another measure. Counts have no unit."""

    name: str
    figure: Figure
    unit: Unit = MILLISECONDS


@dataclass(frozen=True)
class Remedy:
    """What a change saves of a step of one batch per device, in s: as predicted without having tried it, and as
    measured, None where it was not tried. `words` fill its text in the vocabulary."""

    name: str
    predicted_s: Figure | None
    measured_s: Figure | None = None
    words: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundCause:
    """A cause with what it costs: seconds of a step of one batch per device, and the part of the whole step."""

    cause: Cause
    cost_s: Figure
    share: Figure
    evidence: Sequence[Evidence]
    remedies: Sequence[Remedy]
    notes: Sequence[str] = ()
    noise_s: float = 0.0

    @property
    def is_reason(self) -> bool:
        """Whether it takes enough of the step, surely more than nothing, and more than noise; or cannot be timed: then
        it is found only where it is certain."""
        is_large = self.share.value >= self.cause.least_share and self.cost_s.value > self.noise_s
        return not self.cost_s.is_known or (is_large and _is_surely_above_zero(self.cost_s))

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Reasons first, of them those that come first; then by cost."""
        return not self.is_reason, not self.cause.comes_first, -self.cost_s.value if self.cost_s.is_known else -inf

    def without(self, parts: "Sequence[FoundCause]") -> "FoundCause":
        """Less what its `parts` cost, which are named for themselves."""
        cost_s, share = (
            sum(values) for values in zip(*((of.cost_s.value, of.share.value) for of in parts), strict=True)
        )
        shorter, smaller = self.cost_s.map(lambda value: value - cost_s), self.share.map(lambda value: value - share)
        return replace(self, cost_s=shorter, share=smaller)


def _is_surely_above_zero(cost: Figure) -> bool:
    """In all of its interval; in every one of some rounds that are too few for one; or of no rounds."""
    if cost.has_interval or not cost.blocks:
        return not cost.low <= 0
    return len(cost.blocks) >= FEWEST_ROUNDS and min(cost.blocks.values()) > 0


Found = list[FoundCause] | None


def is_efficient(efficiency: Figure) -> bool:
    """Whether surely no more is lost than what is not named as a reason."""
    return efficiency.is_above(1 - NOTHING.least_share)


def may_lose_nothing(efficiency: Figure) -> bool:
    """Whether it is not sure that anything is lost; without an interval, whether that is little."""
    if efficiency.has_interval:
        return not efficiency.is_below(1)
    return efficiency.value >= 1 - NOTHING.least_share


def causes_of(probes: Probes, seen: Iterable[FoundCause] = ()) -> list[FoundCause]:
    """The causes that cost something, reasons first, each in the order of costs; `seen` are more of them."""
    every = [*(one for find in _FINDERS for one in find(probes) or ()), *seen]
    reasons = [one for one in every if one.is_reason]
    costs = []
    for one in every:
        parts = [part for part in reasons if one.cause.name in part.cause.within]
        costs.append(one.without(parts) if parts else one)
    return sorted((one for one in costs if not one.cost_s.value <= 0), key=lambda one: one.order)


def exact(value: float) -> Figure:
    """A figure that has no spread: a count, or what follows from the definition."""
    return Figure.of(value, value, value)


def count(name: str, value: float) -> Evidence:
    return Evidence(name, exact(value), PLAIN)


def times(probes: Probes, *names: str) -> list[Evidence]:
    """What was measured of these probes, as far as they are there."""
    return [Evidence(name, probes[name]) for name in names if probes.has(name)]


def found(
    name: str,
    probes: Probes,
    cost: ProbeCost,
    evidence: Sequence[Evidence],
    remedies: Sequence[Remedy] = (),
    notes: Sequence[str] = (),
) -> FoundCause:
    noise_s = probes.noise_s if cost.times else 0.0  # ranks of one block are told apart without it
    return FoundCause(CAUSES[name], cost.seconds, probes.share(cost), evidence, remedies, notes, noise_s)


def _started_twice(probes: Probes) -> Found:
    """Runs that could share the work each do all of it: of n runs, the others do all but one nth of a step as well."""
    launches = probes.launches
    if launches is None:
        return None
    runs = max(launches.same_command + 1, launches.of_launcher)
    cost = multiplied(probes[probes.whole], 1 - 1 / runs)
    evidence = [
        count("same_command", launches.same_command),
        count("processes_of_launcher", launches.of_launcher),
    ]
    return [found("started_twice", probes, ProbeCost(cost), evidence, [Remedy("one_launch", cost)])] if runs > 1 else []


def _data_parallel(probes: Probes) -> Found:
    """DataParallel's step less DDP's, at the same batch per device. Predicted for DDP: the slowest device alone, and
    then one allreduce, of which nothing is hidden."""
    if probes.in_memory != "dp":
        return []
    cost = probes.cost("dp", "training")
    if cost is None:
        return None
    predicted = None
    if probes.has("slowest", "allreduce"):
        predicted = minus(minus(probes["dp"], probes["slowest"]), probes["allreduce"])
    remedy = Remedy("ddp", predicted, cost.seconds)
    return [found("data_parallel", probes, cost, times(probes, "dp", "training", "alone"), [remedy])]


def _processes(probes: Probes) -> int:
    """Processes that need a core of their own: the ranks, and where GPUs compute, one to load for each."""
    loads = probes.on_gpu and probes.workers.get("end_to_end", 0) > 0
    return probes.devices * (2 if loads else 1)


def _too_few_cores(probes: Probes) -> Found:
    """Where there are fewer cores than processes, and they are busy: what devices that compute at once, and the loader
    beside them, take longer than alone. Otherwise what the step saves on all cores of the machine."""
    cores, whole, in_memory = probes.cores, probes.whole, probes.in_memory
    if cores is None:
        return None
    evidence = [count("cores", cores.usable), count("processes", _processes(probes))]
    if cores.busy_share is not None:
        evidence.append(Evidence("busy_share", exact(cores.busy_share), PERCENT))
    evidence += times(probes, whole, in_memory, "together", "alone", "end_to_end_all_cores")
    tried = minus(probes[whole], probes["end_to_end_all_cores"]) if probes.has("end_to_end_all_cores") else None
    contention = None
    if probes.has("together"):
        at_once = minus(probes["together"], probes["slowest"])
        contention = plus(at_once, minus(probes[whole], probes[in_memory]))
    lacking = cores.usable < _processes(probes) and (cores.busy_share or 0) >= BUSY_SHARE
    cost = contention if lacking and contention else tried
    remedy = Remedy("all_cores", contention, tried)
    return [found("too_few_cores", probes, ProbeCost(cost), evidence, [remedy])] if cost else []


def _too_many_workers(probes: Probes) -> Found:
    """Predicted: the time until the first batch is there is in proportion to the workers that are started."""
    cost = probes.cost("end_to_end", "end_to_end_fewer")
    if cost is None:
        return None
    few, many = probes.workers["end_to_end_fewer"], probes.workers["end_to_end"]
    predicted = multiplied(probes["start"], (1 - few / many) / probes.steps_per_epoch)
    remedy = Remedy("fewer_workers", predicted, cost.seconds, {"loader_workers": few})
    evidence = times(probes, "end_to_end", "end_to_end_fewer", probes.in_memory, "start")
    evidence.append(count("loader_workers", many))
    evidence += [count("cores", probes.cores.usable)] if probes.cores else []
    return [found("too_many_workers", probes, cost, evidence, [remedy])]


def _is_reason(found: Found) -> bool:
    return any(one.is_reason for one in found or ())


def _loading(probes: Probes) -> Found:
    """What loading adds to the step, but for what fewer workers or more cores save of it. Where batches are loaded
    beside the step, and faster than it uses them, the step does not wait for them: loading disturbs it."""
    in_memory = probes.in_memory
    loaded = "as_it_is" if probes.has("as_it_is") else "end_to_end"
    cost = probes.cost(loaded, in_memory) if loaded != in_memory else None
    if cost is None:
        return None
    whole, fewer_pay = probes[loaded], _is_reason(_too_many_workers(probes))
    if fewer_pay:
        whole = probes["end_to_end_fewer"]
    if probes.has("end_to_end_all_cores") and _is_reason(_too_few_cores(probes)):
        whole = in_rounds(min, whole, probes["end_to_end_all_cores"])
    if whole is not probes[loaded]:
        cost = ProbeCost(minus(whole, probes[in_memory]))
    loader = "loader" if probes.has("loader") else "loader_at_best"
    evidence = times(probes, loaded, in_memory, loader, "end_to_end_fewer", "end_to_end_more")
    workers = probes.workers.get("end_to_end")
    evidence += [count("loader_workers", workers)] if workers is not None else []
    waited = max((figure.value for figure in probes.loading_by_rank), default=cost.seconds.value)
    if waited and not workers and loaded == "as_it_is":  # nothing is loaded but in `next`
        most_s = LOADED_SHARE * waited
        cost = replace(cost, seconds=cost.seconds.map(lambda seconds: min(seconds, most_s)))
    is_ahead = probes.has(loader) and probes[loader].value < probes[in_memory].value
    if workers and (is_ahead or waited < WAITED_SHARE * cost.seconds.value):
        return [found("loading_disturbs", probes, cost, evidence)]
    remedies = [] if fewer_pay else list(_more_workers(probes, whole))
    remedies += [Remedy("in_time", None, cost.seconds)] if probes.has("batch_kept") else []
    return [found("slow_loader", probes, cost, evidence, remedies)]


def _more_workers(probes: Probes, whole: Figure) -> Iterator[Remedy]:
    """Predicted: as much faster as there are more of them, until the step is what takes time."""
    if probes.has("end_to_end_more", "loader"):
        more = probes.workers["end_to_end_more"]
        faster = more / max(1, probes.workers["end_to_end"])
        predicted = in_rounds(
            lambda whole, loader, step: whole - max(step, loader / faster),
            whole, probes["loader"], probes[probes.in_memory],
        )  # fmt: skip
        measured = minus(whole, probes["end_to_end_more"])
        yield Remedy("more_workers", predicted, measured, {"loader_workers": more})


def _small_batch(probes: Probes) -> Found:
    """On a GPU what a CUDA graph saves, in which the host launches the step as one piece. Otherwise what the samples of
    a batch take longer in it than in a larger one. Where the global batch was held, the batch is small for that."""
    # A step that waits for numbers hardly depends on its batch either, on a GPU, and no graph can hold it.
    if probes.keeps_global_batch or (probes.on_gpu and probes.has("alone_unsynchronised")):
        return []
    cost = probes.cost("first", "alone_graph" if probes.has("alone_graph") else "alone_large")
    if cost is None:
        return None
    evidence = [Evidence("alone", probes["first"]), *times(probes, "alone_graph", "alone_large")]
    evidence.append(count("batch_per_gpu", probes.batch))
    remedies = [*_larger_batch(probes, "large"), *_cuda_graph(probes)]
    return [found("small_batch", probes, cost, evidence, remedies)]


def _larger_batch(probes: Probes, which: str) -> list[Remedy]:
    """The whole step at the `large` or the `reference` batch. Predicted: all that it has beyond the plain step stays as
    long per step."""
    for name in ("dp", "training"):
        if probes.has(name, "first", f"{name}_{which}", f"alone_{which}"):
            batch = probes.batches[f"alone_{which}"]
            part = probes.batch / batch
            # The step, less what it has beyond the plain one for `part` of the batch, less the plain step at the other.
            spread = plus(multiplied(probes[name], 1 - part), multiplied(probes["first"], part))
            predicted, measured = (
                minus(spread, probes[f"alone_{which}"]),
                minus(probes[name], probes[f"{name}_{which}"]),
            )
            return [Remedy("larger_batch", predicted, measured, {"batch_per_gpu": batch})]
    return []


def _cuda_graph(probes: Probes) -> Iterator[Remedy]:
    """The whole step as a graph. Predicted: the plain step as one, and then one allreduce, nothing hidden."""
    if probes.has("alone_graph", "training", "training_graph"):
        predicted = minus(minus(probes["training"], probes["alone_graph"]), probes["allreduce"])
        yield Remedy("cuda_graph", predicted, minus(probes["training"], probes["training_graph"]))
    elif probes.has("alone_graph") and probes.devices == 1:
        yield Remedy("cuda_graph", None, minus(probes["first"], probes["alone_graph"]))


def _batch_not_scaled(probes: Probes) -> Found:
    """What the samples of a small batch take longer on a device than in the global batch that it had alone."""
    if not probes.keeps_global_batch:
        return []
    cost = probes.cost("first", "alone_reference")
    if cost is None:
        return None
    evidence = times(probes, "alone", "alone_reference")
    evidence += [count("batch_per_gpu", probes.batch), count("global_batch", probes.batches["alone_reference"])]
    return [found("batch_not_scaled", probes, cost, evidence, _larger_batch(probes, "reference"))]


def _communication(probes: Probes) -> Found:
    """What the allreduce adds to the step: a slow link, where it is far below a plain copy; otherwise the gradients.

    At most as long as it takes alone: what it adds beyond that is waiting for a rank that comes later.
    """
    added, link = probes.cost("training", "no_op_hook"), probes.link
    if added is None or link is None or not probes.has("allreduce"):
        return [] if probes.in_memory == "dp" else None
    alone_s = probes["allreduce"].value
    cost = added.seconds.map(lambda seconds: min(seconds, alone_s))
    evidence = [Evidence(name, seconds) for name, seconds in added.times.items()]
    evidence += [Evidence("gradient_bytes", exact(link.gradient_bytes), MB), *times(probes, "allreduce")]
    evidence += [Evidence("bus", link.bus, GB_PER_S), Evidence("copy", link.copy, GB_PER_S)]
    evidence += [] if link.nominal is None else [Evidence("nominal", exact(link.nominal), GB_PER_S)]
    half = list(_half_the_bytes(probes, cost, alone_s))
    if _is_slow(link, probes.on_gpu):
        possible_s = alone_s * (1 - link.bus.value / link.copy.value)
        saved = cost.map(lambda seconds: min(seconds, possible_s))
        return [found("slow_link", probes, ProbeCost(cost), evidence, [Remedy("full_link", saved), *half])]
    larger = _larger_batch(probes, "large") or _larger_batch(probes, "reference")
    return [found("heavy_gradients", probes, ProbeCost(cost), evidence, [*larger, *half])]


def _half_the_bytes(probes: Probes, cost: Figure, alone_s: float) -> Iterator[Remedy]:
    """Gradients in bfloat16. Predicted: the allreduce takes half its time, of which what was hidden saves nothing; and
    they are converted, both ways."""
    if probes.has("bfloat16_gradients"):
        conversion_s = probes["conversion"].value
        predicted = cost.map(lambda seconds: min(seconds, alone_s / 2) - conversion_s)
        yield Remedy("bfloat16_gradients", predicted, minus(probes["training"], probes["bfloat16_gradients"]))


def _is_slow(link: Link, on_gpu: bool) -> bool:
    """Whether an allreduce falls far short of a plain copy over the same link, or that of its data sheet."""
    of_data_sheet = link.nominal is not None and link.copy.value < SLOW_COPY_SHARE * link.nominal
    return link.bus.value < SLOW_LINK_SHARE["GPU" if on_gpu else "worker"] * link.copy.value or of_data_sheet


def _slow_device(probes: Probes) -> Found:
    """The slowest device alone less the fastest one alone, each named by all rounds together."""
    alone, together = probes.alone_by_device, probes.together_by_device
    if probes.uneven:
        return [found("slow_device", probes, probes.uneven, times(probes, "together", "training"))]
    if not together:
        return None
    fast, slow = (choose(range(len(alone)), key=lambda device: alone[device].value) for choose in (min, max))
    if fast == slow:
        return []
    evidence = [Evidence(f"device {device}", figure) for device, figure in enumerate(alone)]
    remedy = Remedy("without_device", minus(together[slow], together[fast]))
    notes = [f"device {slow} is the slow one"]
    if others := probes.others_on.get(slow):
        notes.append(f"other processes on it: {', '.join(map(str, others))}")
    return [found("slow_device", probes, ProbeCost(minus(alone[slow], alone[fast])), evidence, [remedy], notes)]


def _hidden_synchronisation(probes: Probes) -> Found:
    """The step less the same step in which the host waits for no number."""
    cost = probes.cost("first", "alone_unsynchronised")
    if cost is None:
        return None
    evidence = times(probes, "alone", "alone_unsynchronised", "training", "training_unsynchronised")
    whole = probes.cost("training", "training_unsynchronised")
    remedy = Remedy("no_waiting", cost.seconds, whole.seconds if whole else None)
    return [found("hidden_synchronisation", probes, cost, evidence, [remedy], probes.waits_at)]


_FINDERS: Sequence[Callable[[Probes], Found]] = (
    _started_twice, _data_parallel, _too_few_cores, _too_many_workers, _loading, _small_batch, _batch_not_scaled,
    _communication, _slow_device, _hidden_synchronisation,
)  # fmt: skip
