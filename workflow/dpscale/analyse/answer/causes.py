"""Why a step is not faster: causes, what each costs, and what changes save. Pure, of times by probe.

A cost is a difference of two times (docs/method/diagnosis.md). The finders here need nothing but times by probe: of a
study or of a script. What else the processes of a script saw has its finders in `diagnosis.finders`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from dpscale.analyse.answer.probes import Link, ProbeCost, Probes, minus
from dpscale.formulas.figure import Figure
from dpscale.tables.column import MILLISECONDS, PLAIN, Unit
from dpscale.vocabulary.causes import CAUSES, NOTHING, Cause

# An allreduce that reaches a smaller part of what a plain copy over the same link does has a slow link.
SLOW_LINK_SHARE = 0.25
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
    measured, None where it was not tried."""

    name: str
    predicted_s: Figure | None
    measured_s: Figure | None = None


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
        """Whether it surely takes enough of the step, and more than noise; or cannot be timed: then it is found only
        where it is certain."""
        least = self.cause.least_share
        is_large = self.share.value >= least and not self.share.low < least
        is_more = self.cost_s.value > self.noise_s and _is_surely_above_zero(self.cost_s)
        return not self.cost_s.is_known or (is_large and is_more)

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
    every = [*(one for find in _FINDERS for one in find(probes)), *seen]
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
    evidence: Sequence[Evidence] = (),
    remedies: Sequence[Remedy] = (),
    notes: Sequence[str] = (),
) -> FoundCause:
    noise_s = probes.noise_s if cost.times else 0.0  # ranks of one block are told apart without it
    return FoundCause(CAUSES[name], cost.seconds, probes.share(cost), evidence, remedies, notes, noise_s)


def _data_parallel(probes: Probes) -> Iterator[FoundCause]:
    """DataParallel's step less DDP's, at the same batch per device."""
    if cost := probes.cost("dp", "training"):
        yield found("data_parallel", probes, cost)


def _loading(probes: Probes) -> Iterator[FoundCause]:
    """What loading adds to the step. Where workers load beside the step, and the step hardly waits for them, loading
    disturbs it."""
    in_memory, whole, workers = probes.in_memory, probes.whole, probes.workers
    cost = probes.cost(whole, in_memory) if whole != in_memory else None
    if cost is None:
        return
    evidence = times(probes, whole, in_memory)
    evidence += [count("loader_workers", workers)] if workers is not None else []
    waited = max((figure.value for figure in probes.loading_by_rank), default=cost.seconds.value)
    if waited and not workers and probes.loading_by_rank:  # nothing is loaded but in `next`
        most_s = LOADED_SHARE * waited
        cost = replace(cost, seconds=cost.seconds.map(lambda seconds: min(seconds, most_s)))
    is_ahead = probes.has("loader_at_best") and probes["loader_at_best"].value < probes[in_memory].value
    if workers and (is_ahead or waited < WAITED_SHARE * cost.seconds.value):
        yield found("loading_disturbs", probes, cost, evidence)
    else:
        yield found("slow_loader", probes, cost, evidence, [Remedy("in_time", None, cost.seconds)])


def _small_batch(probes: Probes) -> Iterator[FoundCause]:
    """What the samples of a batch take longer in it than in a larger one: in the one that a device had alone, where the
    global batch was held."""
    other, name = (
        ("alone_reference", "batch_not_scaled") if probes.keeps_global_batch else ("alone_large", "small_batch")
    )
    if cost := probes.cost("first", other):
        evidence = [*times(probes, other), count("batch_per_gpu", probes.batch)]
        yield found(name, probes, cost, evidence)


def _communication(probes: Probes) -> Iterator[FoundCause]:
    """What the allreduce adds to the step: a slow link, where it is far below a plain copy; otherwise the gradients.

    At most as long as it takes alone: what it adds beyond that is waiting for a rank that comes later.
    """
    added, link = probes.cost("training", "no_op_hook"), probes.link
    if added and link and probes.has("allreduce"):
        alone_s = probes["allreduce"].value
        cost = added.seconds.map(lambda seconds: min(seconds, alone_s))
        yield found("slow_link" if _is_slow(link) else "heavy_gradients", probes, ProbeCost(cost))


def _is_slow(link: Link) -> bool:
    """Whether an allreduce falls far short of a plain copy over the same link, or that of its data sheet."""
    of_data_sheet = link.nominal is not None and link.copy.value < SLOW_COPY_SHARE * link.nominal
    return link.bus.value < SLOW_LINK_SHARE * link.copy.value or of_data_sheet


def _slow_device(probes: Probes) -> Iterator[FoundCause]:
    """The slowest device alone less the fastest one alone, each named by all rounds together."""
    alone = probes.alone_by_device
    if probes.uneven:
        yield found("slow_device", probes, probes.uneven)
    elif len(alone) > 1:
        fast, slow = (choose(range(len(alone)), key=lambda device: alone[device].value) for choose in (min, max))
        cost = minus(alone[slow], alone[fast])
        evidence = [Evidence(f"device {device}", figure) for device, figure in enumerate(alone)]
        notes = [f"device {slow} is the slow one"]
        yield found("slow_device", probes, ProbeCost(cost), evidence, [Remedy("without_device", cost)], notes)


_FINDERS: Sequence[Callable[[Probes], Iterator[FoundCause]]] = (
    _data_parallel, _loading, _small_batch, _communication, _slow_device,
)  # fmt: skip
