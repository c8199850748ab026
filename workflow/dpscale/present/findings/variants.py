"""What the data say of the same GPUs used otherwise: variants, the limit of a GPU, and one of them against more.

As in `scaling`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from dpscale.analyse.answer.claims import (
    DIFFERS_LESS,
    DIFFERS_MORE,
    ONE_AS_FAST,
    ONE_NOT_AS_FAST,
    PREPARATION_NEVER_PAYS,
    PREPARATION_PAYS,
    VARIANT_DISTORTED,
    VARIANT_FASTER,
    VARIANT_SLOWER,
    WEIGHS_LESS,
    WEIGHS_MORE,
    Outcome,
)
from dpscale.plan.study import BASE
from dpscale.present.findings.finding import Finding, all_of, among, finding, largest, multiple, place, says, smallest
from dpscale.present.text.numbers import estimate, measured, percent, whole
from dpscale.present.text.words import Terms, headline, listed, ok, plural, scope
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import IMAGES_PER_S, PERCENT, SECONDS
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.variants import KernelsRow, OneGpuRow, VariantsRow
from dpscale.vocabulary.public_best import public_best
from dpscale.vocabulary.states import DOES_NOT, HOLDS, UNDECIDED

R = TypeVar("R", VariantsRow, OneGpuRow)
Variants = Sequence[VariantsRow]


def _alone(rows: Variants) -> list[VariantsRow]:
    """Those of one device without loading that may be spoken of."""
    return [row for row in headline(ok(rows)) if row.strategy == BASELINE and row.scope == "compute"]


def fastest_on_one(tables: Tables, terms: Terms) -> Finding | None:
    """The variants that are fastest on one device, in the compute scope, where that is faster than base."""
    fastest = [row for row in _alone(tables.variants) if VARIANT_FASTER.surely(row) and row.is_fastest]
    if not fastest:
        return None
    parts = []
    for (variant, _), found in grouped(fastest, lambda row: (row.variant, row.environment)).items():
        ends = ", ".join(_faster_at(row) for row in _ends(found, lambda row: row.faster.value))
        parts.append(f"{variant} at {_batches(found)}{terms.environment(found[0])} ({ends})")
    return finding(
        f"On 1 {terms.device}, compared with {BASE}, the fastest variant is {'; '.join(parts)}.",
        "variants",
        fastest,
        terms,
    )


def _faster_at(row: VariantsRow) -> str:
    return f"{multiple(row.faster)} as fast at {row.batch_per_gpu:,}, {measured(row.epoch_s.value, SECONDS)} per epoch"


def beside_the_public_best(rows: Variants, terms: Terms) -> str:
    """The most images/s that one device reaches without loading, beside the fastest published figure."""
    known = [row for row in _alone(rows) if row.images_per_s.is_known]
    if not known or terms.own_workload:
        return ""
    most, best = largest(known, lambda row: row.images_per_s.value), public_best()
    share = f", {measured(most.mfu.value, PERCENT)} of the peak" if most.mfu.is_known else ""
    return (
        f"The most here: {measured(most.images_per_s.value, IMAGES_PER_S)}{share}, with {most.variant} at batch "
        f"{most.batch_per_gpu:,} on 1 {terms.device}{terms.environment(most)}. Fastest published figure found "
        f"for {best.network}: {whole(best.images_per_s)} images/s on one {best.gpu}, "
        f"{measured(best.mfu, PERCENT, digits=2)} of its bfloat16 peak."
    )


@says(VARIANT_SLOWER)
def slower_variants(slower: Outcome[VariantsRow], terms: Terms) -> str:
    """Variants whose epoch is longer than that of base on as many devices."""
    worst = smallest(slower.holding, lambda row: row.faster.value)
    return (
        f"A variant is slower than {BASE} in {among(slower, 'comparison')}; the slowest is {worst.variant} with "
        f"{place(worst, terms)}, {multiple(worst.faster)} as fast."
    )


@says(ONE_AS_FAST, of_all=True)
def one_as_fast_as_more(holds: Outcome[OneGpuRow], terms: Terms) -> str:
    """Whether one device with its fastest variant trains an epoch as fast as several, at the same batch per device."""
    fails = ONE_NOT_AS_FAST.of(holds.asked).number
    against_base = [row for row in holds.asked if row.other_variant == BASE]
    named = [
        _one_beside(found, terms)
        for state in _STATES
        for found in grouped(
            (row for row in against_base if row.as_fast == state),
            lambda row: (row.gpus, row.strategy, row.scope, row.environment),
        ).values()
    ]
    undecided = len([row for row in holds.asked if row.as_fast == UNDECIDED])
    rest = f"; {plural(undecided, 'comparison')} undecided" if undecided else ""
    of_base = f" Against {BASE}: {'; '.join(named)}." if named else ""
    return (
        f"1 {terms.device} with its fastest variant trains an epoch as fast as several {terms.devices} at the same "
        f"batch per {terms.device} in {among(holds, 'comparison')} and does not in {fails:,}{rest}.{of_base}"
    )


_STATES = {HOLDS: "as fast as", DOES_NOT: "not as fast as", UNDECIDED: "undecided against"}


def _one_beside(rows: Sequence[OneGpuRow], terms: Terms) -> str:
    """`1 GPU with images_on_device is as fast as ddp on 2 GPUs at batches 32 to 2,048 (4.58× [..] at 32, ...)`."""
    ends = "; ".join(
        f"{multiple(row.ratio)} at {row.batch_per_gpu:,}: {measured(row.epoch_s.value, SECONDS)} against "
        f"{measured(row.other_epoch_s.value, SECONDS)} per epoch"
        for row in _ends(rows, lambda row: row.ratio.value)
    )
    variants = listed(list(dict.fromkeys(row.variant for row in rows)))
    first = rows[0]
    return (
        f"{variants} on 1 {terms.device} is {_STATES[first.as_fast]} {terms.group(first)} at {_batches(rows)}, "
        f"{scope(first.scope)}{terms.environment(first)} ({ends})"
    )


@says(DIFFERS_LESS)
def runs_differ_less(steadier: Outcome[VariantsRow], terms: Terms) -> str:
    """Variants whose runs differ less than those of base on as many devices: a graph takes the host out of the step."""
    best, others = smallest(steadier.holding, lambda row: row.run_deviation), DIFFERS_MORE.of(steadier.asked).number
    more = f" In {others:,} they differ more." if others else ""
    return (
        f"Runs of a variant differ less than those of {BASE} in {among(steadier, 'comparison')}. They differ least "
        f"with {best.variant}, {place(best, terms)}: by a standard deviation of "
        f"{measured(best.run_deviation, PERCENT, digits=2)} of the epoch time over {best.runs} runs, "
        f"{estimate(best.deviation_ratio, PERCENT, with_unit=True)} of that of {BASE}.{more}"
    )


@says(WEIGHS_MORE)
def communication_weighs_more(less: Outcome[VariantsRow], terms: Terms) -> str:
    """Variants that are faster on one device, and whose speedup on several lies below that of base."""
    worst, more = smallest(less.holding, lambda row: row.speedup.value), WEIGHS_LESS.of(less.asked).number
    others = f" In {more:,} the speedup lies above it." if more else ""
    return (
        f"Faster compute makes communication weigh more: where a variant is faster on 1 {terms.device}, its speedup "
        f"on several lies below that of {BASE} in {among(less, 'comparison')}. The least is "
        f"{multiple(worst.speedup)} with {worst.variant}, {place(worst, terms)}, where {BASE} has "
        f"{multiple(worst.base_speedup)}.{others}"
    )


@says(PREPARATION_PAYS)
def preparation_pays(paid: Outcome[VariantsRow], terms: Terms) -> str:
    """From how many epochs on compiling and capturing have paid."""
    ends = "; ".join(
        f"from {plural(int(row.pays_from_epochs.value), 'epoch')} on with {row.variant}, {place(row, terms)} "
        f"({measured(row.preparation_s.value, SECONDS)}, saving {measured(row.saved_s.value, SECONDS)} per epoch)"
        for row in reversed(_ends(paid.holding, lambda row: row.pays_from_epochs.value))
    )
    return f"Preparation before training pays in {among(paid, 'comparison')}: {ends}."


@says(PREPARATION_NEVER_PAYS)
def preparation_never_pays(unpaid: Outcome[VariantsRow], terms: Terms) -> str:
    """Variants that take time to prepare and save none."""
    worst = smallest(unpaid.holding, lambda row: row.faster.value)
    return (
        f"Preparation never pays in {among(unpaid, 'comparison')}, as no epoch is shorter than with {BASE}; one of "
        f"them is {worst.variant} with {place(worst, terms)}, prepared for "
        f"{measured(worst.preparation_s.value, SECONDS)} and {multiple(worst.faster)} as fast."
    )


def nearest_to_the_limit(tables: Tables, terms: Terms) -> Finding | None:
    """The configuration of one device that reaches the largest share of its limit."""
    known = [row for row in _alone(tables.variants) if row.limit_share.has_interval]
    if not known:
        return None
    best = largest(known, lambda row: row.limit_share.value)
    reached, limit, higher = (
        terms.worded(measured(rate.value, IMAGES_PER_S))
        for rate in (best.images_per_s, best.limit_images_per_s, best.overlapped_limit_images_per_s)
    )
    return finding(
        f"Of variants with an interval, nearest to the limit of its {terms.device} is {best.variant} with "
        f"{place(best, terms)}: {reached} are {estimate(best.limit_share, PERCENT, with_unit=True)} of {limit}, memory "
        f"after compute, and {percent(best.overlapped_limit_share.value)} of {higher}, both at a time. Its MFU is "
        f"{estimate(best.mfu_measured, PERCENT, with_unit=True)} of the measured matrix product.",
        "variants",
        [best],
        terms,
    )


@says(VARIANT_DISTORTED)
def profiling_distorts(distorted: Outcome[KernelsRow], terms: Terms) -> str:
    """Profiled steps that are longer than the same step without the profiler: their idle share is too large."""
    worst = largest(distorted.holding, lambda row: row.profiler_slows_by)
    return (
        f"Profiling makes the step of 1 {terms.device} longer by more than it may in {among(distorted, 'profile')}, "
        f"by {percent(worst.profiler_slows_by)} at most ({worst.variant} at batch {worst.batch_per_gpu:,}): there the "
        "share that is idle is too large."
    )


def _ends(rows: Sequence[R], key: Callable[[R], float]) -> list[R]:
    """The row with the most and the one with the least, where these are two."""
    most, least = largest(rows, key), smallest(rows, key)
    return [most] if most is least else [most, least]


def _batches(rows: Sequence[VariantsRow] | Sequence[OneGpuRow]) -> str:
    """`batches 32, 128`."""
    named = [f"{batch:,}" for batch in sorted({row.batch_per_gpu for row in rows})]
    return f"{'batch' if len(named) == 1 else 'batches'} {listed(named)}"


variant_findings = all_of(
    fastest_on_one, one_as_fast_as_more, slower_variants, runs_differ_less, communication_weighs_more,
    preparation_pays, preparation_never_pays, nearest_to_the_limit, profiling_distorts,
)  # fmt: skip
