"""A small study with known speedups, through its records and the real tables, up to the first screen of its page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpscale.analyse.answer.answer import answer_of
from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import TimingCell
from dpscale.plan.plan import expected_cells, plan
from dpscale.plan.study import Study
from dpscale.present.findings.answer import FirstScreen, first_screen
from dpscale.present.text.words import Terms
from dpscale.records.collect import collect
from dpscale.tables.tables import Tables
from record_factory import on_gpus, timing_record, write

VALUES = {
    "study": "s", "strategies": ["single", "ddp"], "gpus": [1, 2, 4], "batch_per_gpu": [128], "scopes": ["compute"],
    "runs": 3, "communication": {"runs": 0},
}  # fmt: skip
ALONE_S = 8.0
# The speedups of every run by number of GPUs, or by strategy, number of GPUs and batch.
Gains = Mapping[Any, Sequence[float]]


def answered_tables(
    results: Path,
    gains: Gains,
    loaded: Gains | None = None,
    one_server: bool = False,
    **values: Any,
) -> Tables:
    """One GPU takes `ALONE_S`; runs are on servers of their own."""
    study = Study({**VALUES, **({"scopes": ["compute", "end_to_end"]} if loaded else {}), **values})
    for cell in plan(study.on_any_machine()).timing:
        times = [_epoch_s(speedups, cell) for speedups in (gains, loaded) if speedups is not None]
        if all(times):
            server = 0 if one_server else cell.run
            uuids = [f"GPU-{server}-{device}" for device in range(cell.gpus)]
            records = [timing_record(cell, study.settings, epoch_s, _alone(cell)) for epoch_s in times]
            if loaded is not None:
                records[0]["scopes"]["end_to_end"] = records[1]["scopes"]["end_to_end"]
            write(results, cell, on_gpus(records[0], *uuids, host=f"node{server}"))
    return build_tables(study, collect(results, expected_cells(study), study.settings))


def _epoch_s(gains: Gains, cell: TimingCell) -> list[float]:
    """Return the times of two epochs; none where the run was not made."""
    if cell.gpus == 1:
        return [ALONE_S, ALONE_S]
    point = cell.configuration
    speedups = gains.get((point.strategy, point.gpus, point.batch_per_gpu)) or gains.get(point.gpus, ())
    return [ALONE_S / speedup for speedup in speedups[cell.run - 1 : cell.run] for _ in range(2)]


def _alone(cell: TimingCell) -> Any:
    return None if cell.gpus == 1 else {cell.configuration.batch_per_gpu: ([ALONE_S] * 2, [ALONE_S] * 2)}


def screen_of(tables: Tables, device: str = "cuda", per_gpu_hour: float | None = None) -> FirstScreen:
    terms = Terms.of(Study({**VALUES, "device": device}).values, tables)
    return first_screen(answer_of(tables, per_gpu_hour), terms)
