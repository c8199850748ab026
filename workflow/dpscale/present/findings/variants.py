"""What the data say of the same GPUs used otherwise: variants, the limit of a GPU, and one of them against more.

As in `scaling`.
"""

from collections.abc import Sequence

from dpscale.analyse.answer.claims import (
    ONE_AS_FAST,
    ONE_NOT_AS_FAST,
    PREPARATION_NEVER_PAYS,
    PREPARATION_PAYS,
    VARIANT_FASTER,
    VARIANT_SLOWER,
    WEIGHS_LESS,
    WEIGHS_MORE,
    Outcome,
)
from dpscale.plan.study import BASE
from dpscale.present.findings.finding import (
    Finding,
    all_of,
    among,
    largest,
    multiple,
    place,
    says,
    smallest,
    with_loading,
)
from dpscale.present.text.numbers import measured, whole
from dpscale.present.text.words import Terms, capitalised, headline, in_order, listed, ok, plural
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import IMAGES_PER_S, MULTIPLES, PERCENT, SECONDS
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.variants import OneGpuRow, VariantsRow
from dpscale.vocabulary.public_best import public_best
from dpscale.vocabulary.states import DOES_NOT, HOLDS, UNDECIDED

Variants = Sequence[VariantsRow]


def _alone(rows: Variants) -> list[VariantsRow]:
    """Those of one device without loading that may be spoken of."""
    return [row for row in headline(ok(rows)) if row.strategy == BASELINE and row.scope == "compute"]


def fastest_on_one(tables: Tables, terms: Terms) -> Finding | None:
    """The variants that are fastest on one device, in the compute scope, where that is faster than base."""
    fastest = [row for row in _alone(tables.variants) if VARIANT_FASTER.surely(row) and row.is_fastest]
    parts = []
    for (variant, _), found in grouped(fastest, lambda row: (row.variant, row.environment)).items():
        most = largest(found, lambda row: row.faster.value)
        parts.append(
            f"On 1 {terms.device}, {variant} is the fastest variant at {_batches(found)}"
            f"{terms.environment(found[0])}: up to {measured(most.faster.value, MULTIPLES)} as fast as {BASE}."
        )
    return Finding(" ".join(parts), "variants") if parts else None


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
        f"A variant is slower than {BASE} in {among(slower, 'comparison')}. The slowest is {worst.variant} with "
        f"{place(worst, terms)}, {multiple(worst.faster)} as fast."
    )


@says(ONE_AS_FAST, of_all=True)
def one_as_fast_as_more(holds: Outcome[OneGpuRow], terms: Terms) -> str:
    """Whether one device with its fastest variant trains an epoch as fast as several, at the same batch per device."""
    fails = ONE_NOT_AS_FAST.of(holds.asked).number
    undecided = len([row for row in holds.asked if row.as_fast == UNDECIDED])
    against_base = [row for row in in_order(holds.asked) if row.other_variant == BASE]
    by_place = grouped(against_base, lambda row: (row.as_fast, row.gpus, row.strategy, row.scope, row.environment))
    return " ".join(
        [
            f"1 {terms.device} with its fastest variant is as fast as several {terms.devices} at the same batch per "
            f"{terms.device} in {among(holds, 'comparison')}, is not in {fails:,}, and {undecided:,} are undecided.",
            *(_one_beside(found, terms) for found in by_place.values()),
        ]
    )


_STATES = {HOLDS: "as fast as", DOES_NOT: "not as fast as", UNDECIDED: "undecided against"}


def _one_beside(rows: Sequence[OneGpuRow], terms: Terms) -> str:
    """`1 GPU with images_on_device is as fast as ddp on 2 GPUs with base at batches 32, 128.`"""
    first, variants = rows[0], listed(list(dict.fromkeys(row.variant for row in rows)))
    loading = with_loading(first)
    return (
        f"1 {terms.device} with {variants} is {_STATES[first.as_fast]} {terms.group(first)} with {BASE} at "
        f"{_batches(rows)}{loading}{terms.environment(first)}."
    )


@says(WEIGHS_MORE)
def communication_weighs_more(less: Outcome[VariantsRow], terms: Terms) -> str:
    """Variants that are faster on one device, and whose speedup on several lies below that of base."""
    worst, more = smallest(less.holding, lambda row: row.speedup.value), WEIGHS_LESS.of(less.asked).number
    others = f" In {more:,} the speedup lies above it." if more else ""
    return (
        f"Faster compute makes communication weigh more: a variant that is faster on 1 {terms.device} gains less than "
        f"{BASE} from more {terms.devices} in {among(less, 'comparison')}. The least is {multiple(worst.speedup)} with "
        f"{worst.variant}, {place(worst, terms)}; {BASE} has {multiple(worst.base_speedup)}.{others}"
    )


@says(PREPARATION_PAYS)
def preparation_pays(paid: Outcome[VariantsRow], terms: Terms) -> str:
    """From how many epochs on compiling and capturing have paid."""
    last = largest(paid.holding, lambda row: row.pays_from_epochs.value)
    return (
        f"Compiling or capturing pays in {among(paid, 'comparison')}. It takes longest with {last.variant}, "
        f"{place(last, terms)}: {plural(int(last.pays_from_epochs.value), 'epoch')}, as preparation takes "
        f"{measured(last.preparation_s.value, SECONDS)} and saves {measured(last.saved_s.value, SECONDS)} per epoch."
    )


@says(PREPARATION_NEVER_PAYS)
def preparation_never_pays(unpaid: Outcome[VariantsRow], terms: Terms) -> str:
    """Variants that take time to prepare and save none."""
    worst = smallest(unpaid.holding, lambda row: row.faster.value)
    return (
        f"Compiling or capturing never pays in {among(unpaid, 'comparison')}: no epoch is shorter than with {BASE}. "
        f"{capitalised(worst.variant)} with {place(worst, terms)} is {multiple(worst.faster)} as fast."
    )


def _batches(rows: Sequence[VariantsRow] | Sequence[OneGpuRow]) -> str:
    """`batches 32, 128`."""
    named = [f"{batch:,}" for batch in sorted({row.batch_per_gpu for row in rows})]
    return f"{'batch' if len(named) == 1 else 'batches'} {listed(named)}"


variant_findings = all_of(
    fastest_on_one, one_as_fast_as_more, slower_variants, communication_weighs_more,
    preparation_pays, preparation_never_pays,
)  # fmt: skip
