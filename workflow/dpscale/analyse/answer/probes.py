"""Times by probe: what causes are found in, whoever timed them. A script's record offers it, and a study's tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import sub, truediv

from dpscale.formulas.figure import Figure, less, share_of
from dpscale.formulas.on_server import OnServer
from dpscale.formulas.statistics import median_of_blocks


@dataclass(frozen=True)
class ProbeCost:
    """Seconds of a step, the part of the whole step where that is known better than from them, and the times that they
    are the difference of, by probe."""

    seconds: Figure
    share: Figure | None = None
    times: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """Bandwidths of the link between devices, in GB/s (10^9 bytes): of a large allreduce, of a plain copy, and of its
    data sheet, None where that is not known."""

    bus: Figure
    copy: Figure
    nominal: float | None


@dataclass(frozen=True, kw_only=True)
class Probes:
    """What was timed of a step: seconds of one batch per device, by name.

    Of a script those of `vocabulary.causes.PROBES`. Of the plain step alone there are `first`, `fastest` and `slowest`:
    a device each, of all rounds together. Beside steps stand `allreduce` of the whole gradient and `loader_at_best`.
    Figures of the same rounds have them as blocks, which makes differences round by round; others are independent. What
    nobody timed or looked at is missing.
    """

    times: Mapping[str, Figure]
    whole: str
    """All that the training does."""
    in_memory: str
    """The same with its batches in memory."""
    devices: int
    batch: int
    on_gpu: bool = True
    keeps_global_batch: bool = False
    costs: Mapping[tuple[str, str], ProbeCost] = field(default_factory=dict)
    """What one probe takes longer than another, where that is known better than from their times."""
    workers: int | None = None
    """Loader workers per process."""
    link: Link | None = None
    alone_by_device: Sequence[Figure] = ()
    uneven: ProbeCost | None = None
    """What the slowest of devices at once takes longer than the fastest, where nobody timed each alone."""
    loading_by_rank: Sequence[Figure] = ()
    """What every rank waits for its batches, of a step."""
    noise_s: float = 0.0
    """What two equal probes of a round differ by: a difference of rounds that is no larger is no cost."""

    def __getitem__(self, name: str) -> Figure:
        return self.times[name]

    def has(self, *names: str) -> bool:
        return all(name in self.times for name in names)

    def cost(self, longer: str, shorter: str) -> ProbeCost | None:
        """What one probe takes longer than another; None where nobody timed that."""
        if (longer, shorter) in self.costs:
            return self.costs[longer, shorter]
        times = {name: self[name] for name in (longer, shorter) if self.has(name)}
        return ProbeCost(minus(*times.values()), times=times) if len(times) > 1 else None

    def share(self, cost: ProbeCost) -> Figure:
        """Of the whole step. Of other runs the ratio may seem to be more than all."""
        if cost.seconds.blocks:
            return in_rounds(truediv, cost.seconds, self[self.whole])
        share = cost.share or share_of(cost.seconds, self[self.whole])
        return replace(share, high=min(share.high, 1.0))


def of_rounds(values: Sequence[float] | Mapping[int, float]) -> Figure:
    """The median over rounds, in their order or by their numbers, with an interval that holds for any distribution."""
    by_number = values if isinstance(values, Mapping) else dict(enumerate(values))
    blocks = {OnServer(f"round {number}", 0): value for number, value in by_number.items()}
    return replace(median_of_blocks(list(by_number.values())), blocks=blocks)


def in_rounds(formula: Callable[..., float], *figures: Figure) -> Figure:
    """A formula round by round, of rounds that all have."""
    first, *others = (figure.blocks for figure in figures)
    shared = [block for block in first if all(block in blocks for blocks in others)]
    values = {block: formula(*(figure.blocks[block] for figure in figures)) for block in shared}
    return replace(median_of_blocks(list(values.values())), blocks=values)


def minus(figure: Figure, other: Figure) -> Figure:
    """Round by round; what is of no round counts as exact beside rounds. Otherwise of independent figures."""
    if figure.blocks and other.blocks:
        return in_rounds(sub, figure, other)
    return figure.map(lambda value: value - other.value) if figure.blocks else less(figure, other)
