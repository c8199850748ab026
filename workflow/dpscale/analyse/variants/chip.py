"""What a point gets of its GPU: MFU and limits by what that GPU reached in a matrix product and in a copy."""

from collections.abc import Callable
from dataclasses import dataclass

from dpscale.analyse.over_runs import over_runs
from dpscale.analyse.points import Point
from dpscale.formulas import limits, scaling
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive_in_blocks
from dpscale.plan.study import Study
from dpscale.records.files import Record


def against_the_chip(study: Study, point: Point, network: Record | None) -> dict[str, Figure]:
    """Rates of the GPU, MFU against its matrix product, and the limits in images/s of all the point's GPUs with the
    share of each that is reached, by column. Only what the records hold; no limit knows of communication."""
    product, copy = (_rate(point, name) for name in ("matrix_flop_per_s", "copy_bytes_per_s"))
    if network is None or point.epoch is None or product is None or copy is None:
        return {}
    rates = {"matrix_flop_per_s": product, "copy_bytes_per_s": copy}
    if network["flop_per_image"] is None:
        return rates
    gpus, flop = point.configuration.gpus, network["flop_per_image"]["forward_backward"]
    images_per_s = derive_in_blocks(
        lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s), point.epoch, scale="log"
    )
    found = {
        **rates,
        "mfu_measured": derive_in_blocks(
            lambda rate, flop_per_s: scaling.mfu(flop, rate, gpus, flop_per_s), images_per_s, product, scale="log"
        ),
    }
    elements = network.get("traffic_elements_per_image")
    if elements is None:
        return found
    work = _Work.of(study, point, network, elements)
    for name, limit in (("limit", work.limit), ("overlapped_limit", work.overlapped_limit)):
        most = derive_in_blocks(limit, product, copy, scale="log", label=name)
        found[f"{name}_images_per_s"] = most
        found[f"{name}_share"] = derive_in_blocks(_share, images_per_s, most, scale="log", label=name)
    return found


@dataclass(frozen=True)
class _Work:
    """What a step does: FLOP of an image, and bytes of a step on each of the GPUs."""

    gpus: int
    batch: int
    flop_per_image: float
    bytes_per_step: float

    @classmethod
    def of(cls, study: Study, point: Point, network: Record, elements: float) -> "_Work":
        batch = point.configuration.batch_per_gpu
        step_bytes = limits.traffic_bytes_per_step(
            elements, batch, limits.ELEMENT_BYTES[study["precision"]], network["parameters"]
        )
        flop = network["flop_per_image"]["forward_backward"]
        return cls(point.configuration.gpus, batch, flop, step_bytes)

    def limit(self, flop_per_s: float, bytes_per_s: float) -> float:
        """Images/s of all GPUs, memory after compute."""
        return self._of_all(limits.limit_images_per_s, flop_per_s, bytes_per_s)

    def overlapped_limit(self, flop_per_s: float, bytes_per_s: float) -> float:
        """Images/s of all GPUs, both at a time."""
        return self._of_all(limits.overlapped_limit_images_per_s, flop_per_s, bytes_per_s)

    def _of_all(self, formula: Callable[[float, float], float], flop_per_s: float, bytes_per_s: float) -> float:
        compute_s = limits.compute_s_per_image(self.flop_per_image, flop_per_s)
        memory_s = limits.memory_s_per_image(self.bytes_per_step, self.batch, bytes_per_s)
        return self.gpus * formula(compute_s, memory_s)


def _rate(point: Point, name: str) -> Figure | None:
    def of_record(record: Record) -> float | None:
        rate: float | None = (record.get("chip") or {}).get(name)
        return rate

    return over_runs(point, of_record, name)


def _share(images_per_s: float, limit: float) -> float:
    return images_per_s / limit
