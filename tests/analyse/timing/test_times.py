"""From records to tables of times: every configuration has a row, and no figure stands where none can; and what is
told of records."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpscale.analyse.tables import complete
from dpscale.formulas.figure import Figure, estimate_of_blocks
from dpscale.plan.cells import TimingCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow
from made_study import DDP, TIMED, measured, place_of, tables_of
from record_factory import timing_record, watched
from rows import apart, one, picked


def test_out_of_memory_is_a_state_of_its_own_and_no_other_baseline_is_borrowed(tmp_path: Path) -> None:
    tables = measured(tmp_path, oom=[("single", 1, 128), ("dp", 2, 32)], skip=[("single", 1, 32)])
    dp: dict[str, Any] = {"strategy": "dp", "batch_per_gpu": 32}
    assert (one(tables.times, **dp).status, one(tables.speedup, **dp).status) == ("oom", "oom")
    for batch, reason in ((128, "oom"), (32, "missing")):
        without = one(tables.speedup, strategy="ddp", batch_per_gpu=batch, scaling="weak")
        assert (without.status, without.speedup.is_known) == ("no baseline", False)
        assert f"one device alone at batch {batch}: {reason}" in without.reason


def test_a_scope_that_was_finished_before_memory_ran_out_counts(tmp_path: Path) -> None:
    values = {**TIMED, "scopes": ["compute", "end_to_end"]}

    def out_of_memory(cell: TimingCell, record: JsonRecord) -> JsonRecord:
        oom = timing_record(cell, Study(values).settings, None)
        return {**oom, "scopes": {"compute": record["scopes"]["compute"]}}

    tables = measured(tmp_path, values, change=out_of_memory)
    assert {row.scope: row.status for row in picked(tables.times, **DDP)} == {"compute": "ok", "end_to_end": "oom"}
    assert one(tables.bandwidth, **DDP).parameters == 11_173_962


def test_rejected_records_are_listed_and_their_rows_say_why(tmp_path: Path) -> None:
    measured(tmp_path)
    for run, runs, reason in ((1, 1, "run 1 missing"), (2, 0, "record not used: ")):
        (tmp_path / f"cells/ddp/gpus-2/batch-32/run-{run}.json").write_text("{")
        tables = tables_of(tmp_path)
        assert "is damaged" in tables.rejected[0].reason
        times = one(tables.times, **DDP)
        assert times.runs == runs
        assert times.reason.startswith(reason)


AT: dict[str, Any] = {"gpus": 4, "batch_per_gpu": 32, "global_batch": 128, "environment": "A"}


def timed(strategy: str, epoch: Figure, scope: str = "compute") -> TimesRow:
    return TimesRow(strategy=strategy, **AT, scope=scope, status="ok", epoch_s=epoch)


def test_scopes_stand_side_by_side_with_what_loading_adds_in_each_run() -> None:
    """Runs differ by a factor of two. Loading adds 1 s to each; the last was not timed with it."""
    alone_s = {1: 2.0, 2: 3.0, 3: 4.0, 4: 9.0}
    loaded_s = {run: seconds + 1.0 for run, seconds in alone_s.items() if run < 4}
    times = [
        timed("ddp", estimate_of_blocks(apart(alone_s))),
        timed("ddp", estimate_of_blocks(apart(loaded_s)), "end_to_end"),
        timed("dp", Figure(2.5)),
    ]
    (row,) = complete(Tables(times=times)).scopes
    assert (row.loader_s.value, *row.loader_s.interval) == pytest.approx((1.0, 1.0, 1.0))
    assert row.loading_ratio.value == pytest.approx((3 / 2 * 4 / 3 * 5 / 4) ** (1 / 3))
    (row,) = complete(Tables(times=[replace(row, epoch_s=Figure(2.0)) for row in times])).scopes
    assert not row.loader_s.is_known, "no run timed both"


LOG = "12:00:00 warm-up epoch 1\nError: stopped after 5 s\n"


def test_cells_that_failed_are_told_from_those_never_tried(tmp_path: Path) -> None:
    path = "cells/ddp/gpus-2/batch-32/run-2.json"
    log = (tmp_path / "logs" / path).with_suffix(".log")
    log.parent.mkdir(parents=True)
    log.write_text(LOG)
    tables = measured(tmp_path, skip=[("ddp", 2, 32), ("dp", 2, 32)])
    failed = one(tables.missing, path=path)
    assert (failed.status, failed.reason) == ("failed", "Error: stopped after 5 s")
    assert failed.log == f"{log}:\n{LOG.rstrip()}"
    assert [row.status for row in tables.missing].count("missing") == 3
    assert one(tables.times, strategy="dp", batch_per_gpu=32).status == "missing"
    tried = one(tables.times, **DDP)
    assert (tried.status, tried.reason) == ("failed", "Error: stopped after 5 s")


def test_what_was_seen_during_the_clock_stands_in_the_table_of_records(tmp_path: Path) -> None:
    """The largest of what two GPUs showed during the last timed epoch of a ddp record."""
    gpus = [{**watched(1)["gpus"][0], "slowed_s": {"power": seconds, "thermal": 0.0}} for seconds in (0.25, 1.5)]
    gpus[1]["clock_event_reasons"] = ["software thermal slowdown"]

    def change(cell: TimingCell, record: dict[str, Any]) -> dict[str, Any]:
        if place_of(cell) == ("ddp", 2, 32):
            for number, gpu in enumerate(record["hardware"]["gpus"]):
                gpu["uuid"] = f"GPU-0000000{number}-9c01"
            record["scopes"]["compute"]["watched"][-1] |= {"gpus": gpus, "other_processes": 2}
        return record

    row = picked(measured(tmp_path, change=change).records, **DDP)[0]
    assert (row.slowed_s, row.other_processes) == (1.5, 2)
    assert row.hot_devices == "GPU-00000001"
