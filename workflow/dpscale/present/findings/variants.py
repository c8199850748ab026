"""The same GPU used otherwise, beside the fastest published figure."""

from collections.abc import Sequence

from dpscale.present.findings.finding import largest
from dpscale.present.text.numbers import measured, whole
from dpscale.present.text.words import Terms, headline, ok
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import IMAGES_PER_S, PERCENT
from dpscale.tables.variants import VariantsRow
from dpscale.vocabulary.networks import public_best


def beside_the_public_best(rows: Sequence[VariantsRow], terms: Terms) -> str:
    """The most images/s that one device reaches without loading, beside the fastest published figure."""
    alone = (row for row in headline(ok(rows)) if row.strategy == BASELINE and row.scope == "compute")
    known = [row for row in alone if row.images_per_s.is_known]
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
