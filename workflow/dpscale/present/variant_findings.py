"""What the data say of the same GPUs used otherwise: variants, the limit of a GPU, and one of them against more.

As in `findings`.
"""

from collections.abc import Sequence

from dpscale.analyse.claims import is_true
from dpscale.plan.study import BASE
from dpscale.present import words
from dpscale.present.finding import (
    Finding,
    asked,
    count,
    extreme,
    finding,
    headline,
    holding,
    multiple,
    place,
    with_interval,
    with_unit,
)
from dpscale.present.words import Row, Tables, Terms
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.public_best import public_best
from dpscale.vocabulary.quantities import (
    EPOCH,
    IMAGES_PER_S,
    MILLISECONDS,
    PERCENT,
    RUN_DEVIATION,
    SECONDS,
    quantity,
)
from dpscale.vocabulary.states import DOES_NOT, HOLDS, UNDECIDED


def fastest_on_one(tables: Tables, terms: Terms) -> Finding | None:
    """The variants that are fastest on one device, in the compute scope, where that is faster than base."""
    known = with_interval(headline(words.ok(tables["variants"])), "faster")
    alone = known[(known["strategy"] == BASELINE) & (known["scope"] == "compute") & (known["faster_low"] > 1)]
    rows = [row for row in words.rows(alone) if is_true(row["is_fastest"])]
    if not rows:
        return None
    parts = []
    for (variant, _), found in _grouped(rows, "variant", "environment"):
        most, least = (extreme(found, "faster", largest=largest) for largest in (True, False))
        ends = [_faster_at(row) for row in (most, *([least] if least is not most else []))]
        parts.append(f"{variant} at {_batches(found)}{terms.environment(most)} ({', '.join(ends)})")
    return finding(
        f"On 1 {terms.device}, compared with {BASE}, the fastest variant is {'; '.join(parts)}.",
        "variants",
        rows,
        terms,
    )


def _faster_at(row: Row) -> str:
    step = words.measured(row["step_s"], MILLISECONDS)
    return f"{multiple(row, 'faster')} as fast at {int(row['batch_per_gpu']):,}, {step} per step"


def beside_the_public_best(tables: Tables, terms: Terms) -> str:
    """The most images/s that one device reaches without loading, beside the fastest published figure."""
    known = headline(words.ok(tables["variants"])).dropna(subset=["images_per_s"])
    alone = known[(known["strategy"] == BASELINE) & (known["scope"] == "compute")]
    if alone.empty or terms.own_workload:
        return ""
    most, best = extreme(alone, "images_per_s", largest=True), public_best()
    share = f", {words.measured(most['mfu'], PERCENT)} of the peak" if words.is_known(most["mfu"]) else ""
    return (
        f"The most here: {words.measured(most['images_per_s'], IMAGES_PER_S)}{share}, with {most['variant']} at batch "
        f"{int(most['batch_per_gpu']):,} on 1 {terms.device}{terms.environment(most)}. Fastest published figure found "
        f"for {best.network}: {words.whole(best.images_per_s)} images/s on one {best.gpu}, "
        f"{words.measured(best.mfu, PERCENT, digits=2)} of its bfloat16 peak."
    )


def slower_variants(tables: Tables, terms: Terms) -> Finding | None:
    """Variants whose epoch is longer than that of base on as many devices."""
    claim = "a variant is slower"
    slower = holding(tables, claim)
    if not slower:
        return None
    worst = extreme(slower, "faster", largest=False)
    return finding(
        f"A variant is slower than {BASE} in {count(tables, claim).among('comparison')}; the slowest is "
        f"{worst['variant']} with {place(worst, terms)}, {multiple(worst, 'faster')} as fast.",
        "variants",
        slower,
        terms,
    )


def one_as_fast_as_more(tables: Tables, terms: Terms) -> Finding | None:
    """Whether one device with its fastest variant trains an epoch as fast as several, at the same batch per device."""
    rows = asked(tables, "one GPU is as fast as more")
    if not rows:
        return None
    holds, fails = (count(tables, claim) for claim in ("one GPU is as fast as more", "one GPU is not as fast as more"))
    against_base = [row for row in rows if row["other_variant"] == BASE]
    undecided = [row for row in rows if row["as_fast"] == UNDECIDED]
    named = [
        _one_beside(found, state, terms)
        for state in _STATES
        for _, found in _grouped(
            [row for row in against_base if row["as_fast"] == state], "gpus", "strategy", "scope", "environment"
        )
    ]
    rest = f"; {words.plural(len(undecided), 'comparison')} undecided" if undecided else ""
    of_base = f" Against {BASE}: {'; '.join(named)}." if named else ""
    return finding(
        f"1 {terms.device} with its fastest variant trains an epoch as fast as several {terms.devices} at the same "
        f"batch per {terms.device} in {holds.among('comparison')} and does not in {fails.number:,}{rest}.{of_base}",
        "one_gpu",
        rows,
        terms,
    )


_STATES = {HOLDS: "as fast as", DOES_NOT: "not as fast as", UNDECIDED: "undecided against"}


def _one_beside(rows: Sequence[Row], state: str, terms: Terms) -> str:
    """`1 GPU with images_on_device is as fast as ddp on 2 GPUs at batches 32 to 2,048 (4.58× [..] at 32, ...)`."""
    most, least = (extreme(rows, "ratio", largest=largest) for largest in (True, False))
    ends = [
        f"{multiple(row, 'ratio')} at {int(row['batch_per_gpu']):,}: {_epochs(row)}"
        for row in (most, *([least] if least is not most else []))
    ]
    variants = words.listed(list(dict.fromkeys(str(row["variant"]) for row in rows)))
    return (
        f"{variants} on 1 {terms.device} is {_STATES[state]} {most['strategy']} on {terms.count(int(most['gpus']))} at "
        f"{_batches(rows)}, {words.scope(most['scope'])}{terms.environment(most)} ({'; '.join(ends)})"
    )


def _epochs(row: Row) -> str:
    """`0.515 s against 1.08 s per epoch`."""
    one, more = (words.measured(row[name], EPOCH.unit) for name in ("epoch_s", "other_epoch_s"))
    return f"{one} against {more} per epoch"


def runs_differ_less(tables: Tables, terms: Terms) -> Finding | None:
    """Variants whose runs differ less than those of base on as many devices: a graph takes the host out of the step."""
    claim = "runs of a variant differ less"
    steadier = holding(tables, claim)
    if not steadier:
        return None
    best = extreme(steadier, "run_deviation", largest=False)
    others = count(tables, "runs of a variant differ more")
    more = f" In {others.number:,} they differ more." if others.number else ""
    return finding(
        f"Runs of a variant differ less than those of {BASE} in {count(tables, claim).among('comparison')}. They "
        f"differ least with {best['variant']}, {place(best, terms)}: by a standard deviation of "
        f"{words.measured(best['run_deviation'], RUN_DEVIATION.unit, digits=2)} of the epoch time over "
        f"{int(best['runs'])} runs, {with_unit(best, 'deviation_ratio')} of that of {BASE}.{more}",
        "variants",
        steadier,
        terms,
    )


def communication_weighs_more(tables: Tables, terms: Terms) -> Finding | None:
    """Variants that are faster on one device, and whose speedup on several lies below that of base."""
    claim = "communication weighs more in a variant"
    less = holding(tables, claim)
    if not less:
        return None
    worst = extreme(less, "speedup", largest=False)
    base = words.estimate(worst, "base_speedup", quantity("base_speedup").unit, with_unit=True)
    gains_more = count(tables, "communication weighs less in a variant")
    others = f" In {gains_more.number:,} the speedup lies above it." if gains_more.number else ""
    return finding(
        f"Faster compute makes communication weigh more: where a variant is faster on 1 {terms.device}, its speedup "
        f"on several lies below that of {BASE} in {count(tables, claim).among('comparison')}. The least is "
        f"{multiple(worst, 'speedup')} with {worst['variant']}, {place(worst, terms)}, where {BASE} has {base}."
        f"{others}",
        "variants",
        less,
        terms,
    )


def preparation_pays(tables: Tables, terms: Terms) -> Finding | None:
    """From how many epochs on compiling and capturing have paid."""
    claim = "preparation pays"
    rows = holding(tables, claim)
    if not rows:
        return None
    first, last = (extreme(rows, "pays_from_epochs", largest=largest) for largest in (False, True))
    ends = [
        f"from {words.plural(int(row['pays_from_epochs']), 'epoch')} on with {row['variant']}, {place(row, terms)} "
        f"({words.measured(row['preparation_s'], SECONDS)}, saving {words.measured(row['saved_s'], SECONDS)} per epoch)"
        for row in (first, *([last] if last is not first else []))
    ]
    return finding(
        f"Preparation before training pays in {count(tables, claim).among('comparison')}: {'; '.join(ends)}.",
        "variants",
        rows,
        terms,
    )


def preparation_never_pays(tables: Tables, terms: Terms) -> Finding | None:
    """Variants that take time to prepare and save none."""
    claim = "preparation never pays"
    rows = holding(tables, claim)
    if not rows:
        return None
    worst = extreme(rows, "faster", largest=False)
    return finding(
        f"Preparation never pays in {count(tables, claim).among('comparison')}, as no epoch is shorter than with "
        f"{BASE}; one of them is {worst['variant']} with {place(worst, terms)}, prepared for "
        f"{words.measured(worst['preparation_s'], SECONDS)} and {multiple(worst, 'faster')} as fast.",
        "variants",
        rows,
        terms,
    )


def nearest_to_the_limit(tables: Tables, terms: Terms) -> Finding | None:
    """The configuration of one device that reaches the largest share of its limit."""
    known = with_interval(headline(words.ok(tables["variants"])), "limit_share")
    alone = known[(known["strategy"] == BASELINE) & (known["scope"] == "compute")]
    if alone.empty:
        return None
    best = extreme(alone, "limit_share", largest=True)
    of_product = with_unit(best, "mfu_measured")
    overlapped = words.measured(best["overlapped_limit_share"], PERCENT)
    reached, limit, higher = (
        terms.worded(words.measured(best[name], quantity(name).unit))
        for name in ("images_per_s", "limit_images_per_s", "overlapped_limit_images_per_s")
    )
    return finding(
        f"Of variants with an interval, nearest to the limit of its {terms.device} is {best['variant']} with "
        f"{place(best, terms)}: {reached} are {with_unit(best, 'limit_share')} of {limit}, memory after compute, and "
        f"{overlapped} of {higher}, both at a time. Its MFU is {of_product} of the measured matrix product.",
        "variants",
        [best],
        terms,
    )


def profiling_distorts(tables: Tables, terms: Terms) -> Finding | None:
    """Profiled steps that are longer than the same step without the profiler: their idle share is too large."""
    claim = "profiling a variant distorts"
    rows = holding(tables, claim)
    if not rows:
        return None
    worst = extreme(rows, "profiler_slows_by", largest=True)
    return finding(
        f"Profiling makes the step of 1 {terms.device} longer by more than it may in "
        f"{count(tables, claim).among('profile')}, by {words.measured(worst['profiler_slows_by'], PERCENT)} at most "
        f"({worst['variant']} at batch {int(worst['batch_per_gpu']):,}): there the share that is idle is too large.",
        "kernels",
        rows,
        terms,
    )


VARIANT_FINDINGS = (
    fastest_on_one,
    one_as_fast_as_more,
    slower_variants,
    runs_differ_less,
    communication_weighs_more,
    preparation_pays,
    preparation_never_pays,
    nearest_to_the_limit,
    profiling_distorts,
)


def _batches(rows: Sequence[Row]) -> str:
    """`batches 32, 128`."""
    named = sorted({int(row["batch_per_gpu"]) for row in rows})
    return f"{'batch' if len(named) == 1 else 'batches'} {words.listed([f'{batch:,}' for batch in named])}"


def _grouped(rows: Sequence[Row], *names: str) -> list[tuple[tuple[str, ...], list[Row]]]:
    """The rows that are equal in these columns, in the order of the first of each."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(str(row[name]) for name in names), []).append(row)
    return list(found.items())
