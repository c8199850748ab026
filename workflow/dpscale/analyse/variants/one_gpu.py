"""One GPU, used well, beside more GPUs: the fastest variant on one of them against every variant on several."""

from collections.abc import Iterator, Sequence

from dpscale.analyse.timing.points import Point
from dpscale.analyse.variants.measured import Variant, fastest_of, times_as_fast
from dpscale.formulas.figure import Figure
from dpscale.plan.cells import Configuration
from dpscale.strategies.known import BASELINE
from dpscale.tables.variants import OneGpuRow
from dpscale.vocabulary.states import DOES_NOT, HOLDS, UNDECIDED


def one_gpu_rows(variants: Sequence[Variant]) -> Iterator[OneGpuRow]:
    """A row for every variant on several GPUs, at every batch per GPU that one GPU was measured at too."""
    fastest = fastest_of(variants)
    for other in variants:
        for more in other.points.values():
            alone = Configuration(BASELINE, 1, more.configuration.batch_per_gpu), more.scope, more.environment
            if more.configuration.gpus > 1 and more.epoch.is_known and alone in fastest:
                yield _row(fastest[alone].name, fastest[alone].points[alone], other.name, more)


def _row(variant: str, one: Point, other: str, more: Point) -> OneGpuRow:
    """One GPU with a variant beside several with another one: an epoch of either, and how many times as fast the one
    is."""
    ratio, units = times_as_fast(one, more)
    return OneGpuRow(
        **more.place,
        variant=variant,
        other_variant=other,
        full_steps_per_epoch=more.full_steps,
        units=units,
        epoch_s=one.epoch,
        other_epoch_s=more.epoch,
        ratio=ratio,
        as_fast=_as_fast(ratio),
    )


def _as_fast(ratio: Figure) -> str:
    """Whether an epoch on one GPU takes at most as long, as far as the 95 % interval tells."""
    if ratio.has_interval and ratio.low >= 1:
        return HOLDS
    return DOES_NOT if ratio.is_below(1) else UNDECIDED
