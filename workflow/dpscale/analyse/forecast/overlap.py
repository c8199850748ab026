"""How much of DDP's communication backward hides: its buckets, and the batch from which on all but the last hide.

The allreduces of the buckets run one after the other, each as fast as alone, and slow no computation down; gradients
are ready at the same share of backward as in the network's facts (Li et al. VLDB 2020). Seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.statistics import derive

# What the exposed share of communication may exceed the last bucket's share of the bytes by: a small bucket has more
# latency a byte.
HIDDEN_TOLERANCE = 0.10
# The device decides how long a step takes where it computes during at least this share of it.
BUSY_SHARE = 0.90

Seconds = TypeVar("Seconds", float, NDArray[np.float64])
StepTimes = Mapping[tuple[int, int], Figure]  # by (gpus, batch per GPU): `single` on 1 GPU, `ddp` on more
Allreduce = Callable[[int, int], Figure]  # seconds by (gpus, message bytes)


@dataclass(frozen=True)
class Buckets:
    """DDP's buckets in the order in which they become ready.

    `ready_fraction` is the share of the backward pass after which a bucket's gradients are all there: increasing, in
    (0, 1], the last one 1. `backward_share` is the share of t(1,b) that is the backward pass.
    """

    sizes_bytes: tuple[int, ...]
    ready_fraction: tuple[float, ...]
    backward_share: float

    def __post_init__(self) -> None:
        increasing = all(before < after for before, after in pairwise((0.0, *self.ready_fraction)))
        if len(self.sizes_bytes) != len(self.ready_fraction) or not increasing or self.ready_fraction[-1] != 1:
            raise ValueError(f"every bucket needs a ready fraction, increasing from above 0 to 1: {self}")


def exposed_s(single_s: Seconds, bucket_s: Sequence[Seconds], buckets: Buckets) -> Seconds:
    """Time from the end of backward to the end of the last allreduce, given t(1,b) and the time of every allreduce.

    A bucket's allreduce starts when its gradients are ready and the one before has ended (Li et al. VLDB 2020).
    The last bucket is ready only when backward ends, so at least its own time is exposed.
    """
    backward_s = buckets.backward_share * single_s
    end_s = 0 * single_s
    for fraction, one_s in zip(buckets.ready_fraction, bucket_s, strict=True):
        end_s = np.maximum(end_s, fraction * backward_s) + one_s
    return end_s - backward_s


@dataclass(frozen=True)
class Backward:
    """What a device does in a step of some batch: its backward pass, and the share of the step that it computes in.

    `is_watched` where a profiler saw it; otherwise the share follows from times of other batches.
    """

    seconds: Figure
    busy_share: float
    is_watched: bool = True

    @property
    def host_decides(self) -> bool:
        """Whether the device waits for the host so long that gradients become ready when the host is, not when they
        are computed: the model of the overlap says nothing of such a step."""
        return self.busy_share < BUSY_SHARE


def inferred_backwards(step_s: StepTimes, backward_share: float) -> dict[int, Backward]:
    """Backward passes by batch where no device was watched, from t(1,b) alone.

    Where the device decides, t(1,b) grows with b: the fewest seconds per image of any batch times b is what the device
    needs, and t(1,b) beyond that is the host's. A device that is slower per image at a small batch passes for a host.
    """
    singles = {batch: estimate for (gpus, batch), estimate in sorted(step_s.items()) if gpus == 1}
    image_s = min((estimate.value / batch for batch, estimate in singles.items()), default=0.0)
    return {
        batch: Backward(
            derive(lambda step: backward_share * step, estimate), image_s * batch / estimate.value, is_watched=False
        )
        for batch, estimate in singles.items()
    }


def critical_batch(
    gpus: int, backwards: Mapping[int, Backward], allreduce: Allreduce, buckets: Buckets
) -> tuple[Figure, str]:
    """Smallest batch per GPU at which N GPUs expose the last bucket's allreduce alone, by the model of the overlap; and
    that in words. Unknown where the host decides how long every step takes.

    The backward pass by batch is interpolated between the grid's batches, linearly in the logarithms of both, never
    beyond them: at the grid's ends the words are "at most" and "above", and the batch is the end itself. A backward
    pass that is shorter at a larger batch counts as long as the longest before it. Batches at and below the largest
    one at which the host decides are left out: of them the model says nothing.
    """
    batches = sorted(backwards)
    host_bound = [batch for batch in batches if backwards[batch].host_decides]
    known = [batch for batch in batches if not host_bound or batch > host_bound[-1]]
    watched = all(backward.is_watched for backward in backwards.values())
    computes = "computes during" if watched else "would compute, as fast per image as in larger batches, during"
    if not known:
        shares = ", ".join(f"{100 * backwards[batch].busy_share:.0f} % at {batch:,}" for batch in batches)
        return UNKNOWN, (
            f"On {gpus} GPUs it is not known from which batch on communication hides: the host decides how long every "
            f"step takes. The device {computes} {shares or 'no step that was measured'}."
        )
    bucket_s = [allreduce(gpus, size) for size in buckets.sizes_bytes]
    needed_s = derive(lambda *each: _needed_backward_s(each, buckets), *bucket_s)
    batch = derive(
        lambda needed, *each: _interpolated_batch(needed, each, known),
        needed_s,
        *(backwards[batch].seconds for batch in known),
    )
    statement = (
        f"On {gpus} GPUs backward hides all communication but the last bucket's from a batch per GPU of "
        f"{_in_words(batch, known, at_most=not host_bound)} on."
    )
    if host_bound:
        statement += (
            f" At {host_bound[-1]:,} and below the host decides: the device {computes} "
            f"{100 * backwards[host_bound[-1]].busy_share:.0f} % of the step at {host_bound[-1]:,}, and communication "
            "is exposed whenever the device waits."
        )
    return batch, statement


def hidden_where_measured(profiled: Mapping[int, tuple[float, float]], buckets: Buckets) -> int | None:
    """Smallest measured batch per GPU at which no more than the last bucket's share of communication is exposed.

    `profiled` has exposed and all communication in seconds a step, by batch. None where that holds at no batch: the
    check of `critical_batch`.
    """
    share = buckets.sizes_bytes[-1] / sum(buckets.sizes_bytes) + HIDDEN_TOLERANCE
    hidden = (batch for batch, (exposed, total) in sorted(profiled.items()) if exposed <= share * total)
    return next(hidden, None)


def _needed_backward_s(bucket_s: Sequence[Any], buckets: Buckets) -> Any:
    """Shortest backward pass in which all allreduces but the last one end.

    From when bucket j is ready, the rest of backward, (1 - ready_j) of it, has to hold the allreduces of j and of all
    that follow but the last; this for every j.
    """
    needed_s = pending_s = 0 * bucket_s[-1]
    for fraction, one_s in reversed(list(zip(buckets.ready_fraction[:-1], bucket_s[:-1], strict=True))):
        pending_s = pending_s + one_s
        needed_s = np.maximum(needed_s, pending_s / (1 - fraction))
    return needed_s


def _interpolated_batch(needed_s: Any, backward_s: Sequence[Any], batches: Sequence[int]) -> Any:
    """The batch at which backward, (batches,) or (batches, draws), reaches `needed_s`; the grid's ends beyond it."""
    longest_s = np.maximum.accumulate(np.array(backward_s))
    needed_s = np.maximum(needed_s, longest_s[0])  # a single bucket needs no time at all, which has no logarithm
    each = zip(np.atleast_1d(np.log(needed_s)), np.atleast_2d(np.log(longest_s).T), strict=True)
    found = [np.exp(np.interp(needed, backward, np.log(batches))) for needed, backward in each]
    return np.reshape(np.rint(found), np.shape(needed_s))


def _in_words(batch: Figure, batches: Sequence[int], *, at_most: bool) -> str:
    """`45 [at most 32, 60]`. `at_most` where the smallest batch may not be the first one: nothing is known to be
    different below it."""

    def words(value: float) -> str:
        if value <= batches[0]:
            return f"at most {batches[0]:,}" if at_most else f"{batches[0]:,}"
        return f"above {batches[-1]:,}" if value >= batches[-1] else f"{value:,.0f}"

    value, low, high = map(words, (batch.value, batch.low, batch.high))
    return value if batch.draws is None or low == high == value else f"{value} [{low}, {high}]"
