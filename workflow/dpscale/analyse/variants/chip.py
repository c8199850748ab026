"""What a point gets of its GPU: MFU and limits by what that GPU reached in a matrix product and in a copy."""

from collections.abc import Callable
from dataclasses import replace

from dpscale.analyse.timing.points import Point
from dpscale.formulas import limits
from dpscale.formulas.figure import Figure, moved
from dpscale.formulas.statistics import derive_in_blocks
from dpscale.plan.study import Study
from dpscale.records.files import Record
from dpscale.tables.variants import VariantsRow


def beside_the_chip(row: VariantsRow, study: Study, point: Point, network: Record | None) -> VariantsRow:
    """With rates of the GPU, MFU against its matrix product, and the limits in images/s of all the point's GPUs with
    the share of each that is reached. Only what the records hold; no limit knows of communication."""
    product, copy = _rate(point, "matrix_flop_per_s"), _rate(point, "copy_bytes_per_s")
    if network is None or not (product.is_known and copy.is_known):
        return row
    row = replace(row, matrix_flop_per_s=product, copy_bytes_per_s=copy)
    if network["flop_per_image"] is None:
        return row
    gpus, flop = row.gpus, network["flop_per_image"]["forward_backward"]

    def limit(images_per_s: Callable[..., float], *rates: Figure) -> Figure:
        """In images/s of all GPUs, by a formula of one GPU's rates."""
        return derive_in_blocks(lambda *of_run: gpus * images_per_s(*of_run), *rates)

    def reached(limit: Figure) -> Figure:
        """Throughput over a limit, both as they are shown, with the interval of the runs moved there."""
        in_runs = derive_in_blocks(
            lambda epoch_s, rate: study.epoch_images / epoch_s / rate, point.measured_epoch, limit
        )
        return moved(in_runs, row.images_per_s.value / limit.value)

    row = replace(row, mfu_measured=reached(limit(lambda flop_per_s: flop_per_s / flop, product)))
    elements = network.get("traffic_elements_per_image")
    if elements is None:
        return row
    batch, element_bytes = row.batch_per_gpu, limits.ELEMENT_BYTES[study["precision"]]
    step_bytes = limits.traffic_bytes_per_step(elements, batch, element_bytes, network["parameters"])

    def together(flop_per_s: float, bytes_per_s: float) -> float:
        return limits.limit_images_per_s(
            limits.compute_s_per_image(flop, flop_per_s), limits.memory_s_per_image(step_bytes, batch, bytes_per_s)
        )

    both = limit(together, product, copy)
    return replace(row, limit_images_per_s=both, limit_share=reached(both))


def _rate(point: Point, name: str) -> Figure:
    def of_record(record: Record) -> float | None:
        rate: float | None = (record.get("chip") or {}).get(name)
        return rate

    return point.over_runs(of_record)
