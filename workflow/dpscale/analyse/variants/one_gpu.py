"""One GPU, used well, beside more GPUs: the fastest variant on one of them against every variant on several."""

from collections.abc import Iterator, Sequence

from dpscale.analyse.over_runs import set_against
from dpscale.analyse.points import Point, Row, figures
from dpscale.analyse.variants.rows import Variant, fastest_of
from dpscale.formulas.figure import Figure
from dpscale.plan.cells import Configuration
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.states import DOES_NOT, HOLDS, UNDECIDED


def one_gpu_rows(variants: Sequence[Variant]) -> Iterator[Row]:
    """A row for every variant on several GPUs, at every batch per GPU that one GPU was measured at too."""
    fastest = fastest_of(variants)
    for other in variants:
        for more in other.points.values():
            if more.configuration.gpus == 1 or more.epoch is None:
                continue
            alone = Configuration(BASELINE, 1, more.configuration.batch_per_gpu), more.scope, more.environment
            if alone in fastest:
                yield _row(fastest[alone], fastest[alone].points[alone], other, more)


def _row(variant: Variant, one: Point, other: Variant, more: Point) -> Row:
    """One GPU with a variant beside several with another one: an epoch of either, and how many times as fast the one
    is."""
    assert one.epoch is not None and more.epoch is not None
    name = f"{variant.name} alone against {other.name}"
    ratio, blocks = set_against(more, one, lambda more_s, one_s: more_s / one_s, "log", name)
    return {
        "variant": variant.name,
        "other_variant": other.name,
        **more.keys,
        "full_steps_per_epoch": more.full_steps,
        "blocks": blocks,
        **figures({"epoch_s": one.epoch, "other_epoch_s": more.epoch, "ratio": ratio}),
        "as_fast": _as_fast(ratio),
    }


def _as_fast(ratio: Figure) -> str:
    """Whether an epoch on one GPU takes at most as long, as far as the 95 % interval tells."""
    low, high = ratio.interval
    if not ratio.has_interval or low < 1 <= high:
        return UNDECIDED
    return HOLDS if low >= 1 else DOES_NOT
