"""Epoch times, throughput, MFU and speedup of the points of a study."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import NamedTuple

import numpy as np

from dpscale.analyse.over_runs import over_runs
from dpscale.analyse.points import Comparison, Point, Points, Row, compare, figures
from dpscale.analyse.runs import outlier_words
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive_in_blocks, repeatability
from dpscale.plan.study import Study
from dpscale.records.files import Record
from dpscale.strategies.known import strategy
from dpscale.vocabulary.chips import chip_named


def times_row(study: Study, point: Point, network: Record | None) -> Row:
    """Epoch and step of a point, and what follows from them alone."""
    row = {**point.keys, "nodes": point.configuration.nodes, "status": point.status, "reason": point.reason}
    row |= {"runs": len(point.records), "n": point.n}
    if point.epoch is None or point.step is None:
        return row
    results = point.results
    images_per_s = derive_in_blocks(
        lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s), point.epoch, scale="log"
    )
    work = _mfu(study, point, images_per_s, network)
    energy = over_runs(point, lambda record: _energy_j(record, point.scope), "energy")
    found = {"epoch_s": point.epoch, "step_s": point.step, "images_per_s": images_per_s, **work.figures}
    found |= {} if energy is None else {"energy_j": energy}
    return {
        **row,
        **figures(found),
        "repeatability": repeatability([result["epoch_s"] for result in results]),
        "outliers": outlier_words(point.epoch),
        "first_timed_epoch_s": float(np.median([result["epoch_s"][0] for result in results])),
        "loader_processes": _loader_processes(point),
        "steps_per_epoch": results[0]["steps_per_epoch"],
        "full_steps_per_epoch": point.full_steps,
        "peak_memory_bytes": max(
            (peak for result in results for peak in result["peak_memory_bytes"] or []), default=None
        ),
        **work.facts,
    }


def _energy_j(record: Record, scope: str) -> float | None:
    """The median of a run's epochs; None where no counter tells."""
    energies = record["scopes"][scope]["energy_j"]
    return median(energies) if energies else None


def _loader_processes(point: Point) -> int:
    """DataLoader processes of all training processes together. Version 1 of the record does not say how many: every
    training process had as many as its setting."""
    recorded = point.results[0].get("loader_processes")
    if recorded is not None:
        return int(recorded)
    if point.scope == "compute":
        return 0
    configuration = point.configuration
    processes = strategy(configuration.strategy).processes(configuration.gpus)
    return processes * int(point.measured[0]["settings"]["loader_workers"])


class _Work(NamedTuple):
    """What MFU rests on, and MFU where the peak is known."""

    facts: Row
    figures: Mapping[str, Figure]


def _mfu(study: Study, point: Point, images_per_s: Figure, network: Record | None) -> _Work:
    """Work done over work that the GPUs could do at most; without a peak where the GPU's is not known."""
    if network is None or network["flop_per_image"] is None:
        return _Work({}, {})
    flop = network["flop_per_image"]["forward_backward"]
    chip = chip_named(point.records[0]["hardware"]["device_model"])
    peak = chip.peak(study["precision"]) if chip else None
    if chip is None or peak is None:
        return _Work({"flop_per_image": flop, "peak_source": "unknown"}, {})
    facts = {"flop_per_image": flop, "peak_flop_s": peak.flop_s, "peak_source": chip.source}
    gpus = point.configuration.gpus
    found = derive_in_blocks(lambda rate: scaling.mfu(flop, rate, gpus, peak.flop_s), images_per_s, scale="log")
    return _Work(facts, {"mfu": found})


def series(points: Points, batches: set[int], weak: bool) -> Iterator[Comparison]:
    """The points of the weak series of these batches per GPU, or of the strong series of these global batches."""
    for point in points.values():
        configuration = point.configuration
        batch = configuration.batch_per_gpu if weak else configuration.global_batch
        if configuration.gpus > 1 and batch in batches:
            yield compare(points, point, batch)


def speedup_row(series: str, compared: Comparison) -> Row:
    """Speedup and efficiency of a point in a `series`, `weak` or `strong`, over one GPU."""
    row = {**compared.row, "scaling": series, "nodes": compared.point.configuration.nodes}
    if not compared.blocks:
        return row
    gpus, speedup = compared.point.configuration.gpus, compared.speedup
    found = {
        "speedup": speedup,
        "efficiency": derive_in_blocks(lambda value: scaling.efficiency(value, gpus), speedup, scale="log"),
    }
    if series == "weak":
        found["speedup_from_steps"] = compared.over_blocks(
            lambda block: scaling.speedup_from_steps(gpus, block.baseline.step_s, block.parallel.step_s),
            "speedup from steps",
            "log",
        )
    return {
        **row,
        "baseline_n": sum(block.baseline_n for block in compared.blocks),
        "epoch_s": compared.over_blocks(lambda block: block.parallel.epoch_s, "epoch", "log").value,
        "baseline_epoch_s": compared.over_blocks(lambda block: block.baseline.epoch_s, "baseline", "log").value,
        **figures(found),
    }
