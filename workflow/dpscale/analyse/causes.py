"""Why a step is not faster: causes, what each costs, and what changes save. Pure, of times by probe.

A cost is a difference of two times (docs/method/diagnosis.md). The finders here need nothing but times by probe. What
else a study has is found in `analyse.causes_of_study`, what else the processes of a script saw in `diagnosis.finders`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from operator import sub, truediv

from dpscale.analyse.answer.claims import is_large_cost
from dpscale.formulas import OnServer
from dpscale.formulas.figure import Figure, less, share_of
from dpscale.formulas.statistics import median_of_blocks
from dpscale.tables.column import MILLISECONDS, PLAIN, Unit
from dpscale.vocabulary.causes import CAUSES, Cause

# Where the steps wait for batches for a smaller part of what loading costs, it disturbs them.
WAITED_SHARE = 0.5
# Loading without workers costs at most so many times what its calls take: a new batch is not in caches.
LOADED_SHARE = 1.5
# Cores that are so busy are the limit where they are fewer than the processes.
BUSY_SHARE = 0.6


@dataclass(frozen=True)
class ProbeCost:
    """Seconds of a step, the part of the whole step where that is known better than from them, and whether they are the
    difference of two probes."""

    seconds: Figure
    share: Figure | None = None
    is_of_probes: bool = False


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Times by probe, in which causes are found, whoever timed them: seconds of one batch per device, by name.

    Of a script those of `vocabulary.causes.PROBES`. Of the plain step alone there are `first`, `fastest` and `slowest`:
    a device each, of all rounds together. Beside the steps of a study stands `loader_at_best`.
    Figures of the same rounds have them as blocks, which makes differences round by round; others are independent. What
    nobody timed or looked at is missing.
    """

    times: Mapping[str, Figure]
    whole: str
    """The probe that does all that the training does."""
    in_memory: str
    """The same with its batches in memory."""
    devices: int
    batch: int
    on_gpu: bool = True
    loading: ProbeCost | None = None
    """What loading adds, where that is known better than from two times."""
    workers: int | None = None
    """Loader workers per process."""
    cores: float = inf
    """Cores of a process and its loader workers."""
    alone_by_device: Sequence[Figure] = ()
    loading_by_rank: Sequence[Figure] = ()
    """What every rank waits for its batches, of a step."""
    noise_s: float = 0.0
    """What two equal probes of a round differ by: a difference of rounds that is no larger is no cost."""

    def __getitem__(self, name: str) -> Figure:
        return self.times[name]

    def has(self, *names: str) -> bool:
        return all(name in self.times for name in names)

    def cost(self, longer: str, shorter: str) -> ProbeCost | None:
        """Return what one probe takes longer than another; None where nobody timed that."""
        if not self.has(longer, shorter):
            return None
        return ProbeCost(minus(self[longer], self[shorter]), is_of_probes=True)

    def share(self, cost: ProbeCost) -> Figure:
        """Return the part of the whole step that a cost is. Of other runs the ratio may seem to be more than all."""
        if cost.seconds.blocks:
            return in_rounds(truediv, cost.seconds, self[self.whole])
        share = cost.share or share_of(cost.seconds, self[self.whole])
        return replace(share, high=min(share.high, 1.0))


def of_rounds(values: Sequence[float] | Mapping[int, float]) -> Figure:
    """Return the median over rounds, in their order or by their numbers, with an interval for any distribution."""
    by_number = values if isinstance(values, Mapping) else dict(enumerate(values))
    blocks = {OnServer(f"round {number}", 0): value for number, value in by_number.items()}
    return replace(median_of_blocks(list(by_number.values())), blocks=blocks)


def in_rounds(formula: Callable[..., float], *figures: Figure) -> Figure:
    """Return a formula's median over the rounds that all figures have."""
    rounds = [block for block in figures[0].blocks if all(block in figure.blocks for figure in figures)]
    values = {block: formula(*(figure.blocks[block] for figure in figures)) for block in rounds}
    return replace(median_of_blocks(list(values.values())), blocks=values)


def minus(figure: Figure, subtracted: Figure) -> Figure:
    """Return a difference round by round, where both have rounds; a figure without counts as exact beside one with.
    Otherwise both are independent."""
    if figure.blocks and subtracted.blocks:
        return in_rounds(sub, figure, subtracted)
    return figure.map(lambda value: value - subtracted.value) if figure.blocks else less(figure, subtracted)


@dataclass(frozen=True)
class Evidence:
    """A measured figure: the name of a probe, or of another measure. Counts have no unit."""

    name: str
    figure: Figure
    unit: Unit = MILLISECONDS


@dataclass(frozen=True)
class Remedy:
    """A change, and the seconds that it saves of a step of one batch per device: as predicted without having tried it,
    and as measured, None where it was not tried."""

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
        return not self.cost_s.is_known or is_large_cost(self.cost_s, self.share, self.cause.least_share, self.noise_s)

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Reasons first, of them those that come first; then by cost."""
        return not self.is_reason, not self.cause.comes_first, -self.cost_s.value if self.cost_s.is_known else -inf

    def without(self, parts: "Sequence[FoundCause]") -> "FoundCause":
        """Return the cause less what its `parts` cost, which are named for themselves."""
        parts_s = sum(cause.cost_s.value for cause in parts)
        parts_share = sum(cause.share.value for cause in parts)
        return replace(
            self,
            cost_s=self.cost_s.map(lambda seconds: seconds - parts_s),
            share=self.share.map(lambda share: share - parts_share),
        )


def causes_of(probes: Probes, seen: Iterable[FoundCause] = ()) -> list[FoundCause]:
    """Return the causes that cost something, reasons first, each in the order of costs; `seen` are more of them."""
    causes = [*(cause for find in _FINDERS for cause in find(probes)), *seen]
    reasons = [cause for cause in causes if cause.is_reason]
    costs = [
        cause.without([reason for reason in reasons if cause.cause.name in reason.cause.within]) for cause in causes
    ]
    return sorted((cause for cause in costs if not cause.cost_s.value <= 0), key=lambda cause: cause.order)


def exact(value: float) -> Figure:
    """Return a figure that has no spread: a count, or what follows from the definition."""
    return Figure.of(value, value, value)


def count(name: str, value: float) -> Evidence:
    return Evidence(name, exact(value), PLAIN)


def times(probes: Probes, *names: str) -> list[Evidence]:
    """Return the times of these probes, as far as they were measured."""
    return [Evidence(name, probes[name]) for name in names if probes.has(name)]


def found(
    name: str,
    probes: Probes,
    cost: ProbeCost,
    evidence: Sequence[Evidence] = (),
    remedies: Sequence[Remedy] = (),
    notes: Sequence[str] = (),
) -> FoundCause:
    noise_s = probes.noise_s if cost.is_of_probes else 0.0  # ranks of one block are told apart without it
    return FoundCause(CAUSES[name], cost.seconds, probes.share(cost), evidence, remedies, notes, noise_s)


def _loading(probes: Probes) -> Iterator[FoundCause]:
    """The step with loading less that without. Where workers load beside the step, and the step hardly waits for them,
    loading disturbs it."""
    workers = probes.workers
    cost = probes.loading or probes.cost(probes.whole, probes.in_memory)
    if cost is None or probes.whole == probes.in_memory:
        return
    evidence = times(probes, probes.whole, probes.in_memory)
    evidence += [count("loader_workers", workers)] if workers is not None else []
    waited = max((figure.value for figure in probes.loading_by_rank), default=cost.seconds.value)
    if waited and not workers and probes.loading_by_rank:  # nothing is loaded but in `next`
        most_s = LOADED_SHARE * waited
        cost = replace(cost, seconds=cost.seconds.map(lambda seconds: min(seconds, most_s)))
    is_ahead = probes.has("loader_at_best") and probes["loader_at_best"].value < probes[probes.in_memory].value
    if workers is not None and probes[probes.in_memory].value > 0:
        # What loads one batch in a step's time now; without workers, in the time that it adds.
        loaded_s = workers * probes[probes.whole].value if workers else cost.seconds.value
        needed = ceil(max(1.0, loaded_s / probes[probes.in_memory].value))
        has_cores = needed < probes.cores  # and one for the process itself
        evidence.append(count("workers_needed", needed) if has_cores else count("cores_of_process", probes.cores))
    if workers and (is_ahead or waited < WAITED_SHARE * cost.seconds.value):
        yield found("loading_disturbs", probes, cost, evidence)
    else:
        yield found("slow_loader", probes, cost, evidence, [Remedy("in_time", None, cost.seconds)])


def _batch_not_scaled(probes: Probes) -> Iterator[FoundCause]:
    """The samples' time in this batch less that in the one that a device had alone, where the global batch was held."""
    if cost := probes.cost("first", "alone_reference"):
        evidence = [*times(probes, "alone_reference"), count("batch_per_gpu", probes.batch)]
        yield found("batch_not_scaled", probes, cost, evidence)


def _slow_device(probes: Probes) -> Iterator[FoundCause]:
    """The slowest device alone less the fastest one alone, each named by all rounds together."""
    steps = probes.alone_by_device
    if len(steps) > 1:
        fast, slow = (choose(range(len(steps)), key=lambda device: steps[device].value) for choose in (min, max))
        cost = minus(steps[slow], steps[fast])
        evidence = [Evidence(f"device {device}", figure) for device, figure in enumerate(steps)]
        notes = [f"device {slow} is the slow one"]
        yield found("slow_device", probes, ProbeCost(cost), evidence, [Remedy("without_device", cost)], notes)


def _uneven_ranks(probes: Probes) -> Iterator[FoundCause]:
    """A step whose ranks all wait for its slowest, less the steps of the slowest rank."""
    if probes.has("own_pace"):
        late = minus(probes["own_pace"], probes["slowest"])
        yield found("uneven_ranks", probes, ProbeCost(late), _of_ranks(probes.alone_by_device))


def _loader_of_one_rank(probes: Probes) -> Iterator[FoundCause]:
    """The wait of a rank for its batches less that of the rank after it, where it is twice as long."""
    loading = sorted(enumerate(probes.loading_by_rank), key=lambda rank_and_wait: -rank_and_wait[1].value)
    if len(loading) < 2:
        return
    (slowest_rank, longest), (_, second) = loading[:2]
    if longest.value > 2 * second.value:
        cost = ProbeCost(minus(longest, second))
        notes = [f"rank {slowest_rank} is the slow one"]
        yield found("loader_of_one_rank", probes, cost, _of_ranks(probes.loading_by_rank), notes=notes)


def _of_ranks(figures: Sequence[Figure]) -> list[Evidence]:
    return [Evidence(f"rank {rank}", figure) for rank, figure in enumerate(figures)]


_FINDERS: Sequence[Callable[[Probes], Iterator[FoundCause]]] = (
    _loading, _batch_not_scaled, _slow_device, _uneven_ranks, _loader_of_one_rank,
)  # fmt: skip
