"""From records to tables of times: every configuration has a row, and no figure stands where none can."""

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
from record_factory import timing_record
from rows import apart, one, picked


def test_out_of_memory_is_a_state_of_its_own_and_no_other_baseline_is_borrowed(tmp_path: Path) -> None:
    tables = measured(tmp_path, oom=[("single", 1, 128), ("dp", 2, 32)], skip=[("single", 1, 32)])
    dp: dict[str, Any] = {"strategy": "dp", "batch_per_gpu": 32}
    assert (one(tables.times, **dp).status, one(tables.speedup, **dp).status) == ("oom", "oom")
    for batch, reason in ((128, "oom"), (32, "missing")):
        without = one(tables.speedup, strategy="ddp", batch_per_gpu=batch, scaling="weak")
        assert (without.status, without.speedup.is_known) == ("no baseline", False)
        assert f"one device alone at batch {batch}: {reason}" in without.reason


def test_points_of_every_state_stand_in_one_table(tmp_path: Path) -> None:
    values = {**TIMED, "strategies": ["single", "ddp"], "batch_per_gpu": [32, 128, 40_000]}
    tables = measured(tmp_path, values, oom=[("ddp", 2, 128)], skip=[("ddp", 2, 64), ("single", 1, 40_000)])
    assert {(row.strategy, row.batch_per_gpu): row.status for row in tables.times} == {
        ("single", 32): "ok", ("single", 128): "ok", ("single", 40_000): "missing",
        ("ddp", 32): "ok", ("ddp", 64): "missing", ("ddp", 128): "oom", ("ddp", 40_000): "capped",
    }  # fmt: skip


def test_a_scope_that_was_finished_before_memory_ran_out_counts(tmp_path: Path) -> None:
    values = {**TIMED, "scopes": ["compute", "end_to_end"]}

    def out_of_memory(cell: TimingCell, record: JsonRecord) -> JsonRecord:
        oom = timing_record(cell, Study(values).settings, None)
        return {**oom, "scopes": {"compute": record["scopes"]["compute"]}}

    tables = measured(tmp_path, values, change=out_of_memory)
    assert {row.scope: row.status for row in picked(tables.times, **DDP)} == {"compute": "ok", "end_to_end": "oom"}
    assert one(tables.bandwidth, **DDP).parameters == 11_173_962


def test_environments_are_never_mixed(tmp_path: Path) -> None:
    """A second GPU model for one run: its own rows, its own baseline or none."""

    def on_another(cell: TimingCell, record: JsonRecord) -> JsonRecord:
        if (*place_of(cell), cell.run) == ("ddp", 2, 32, 2):
            record["hardware"]["device_model"] = "Other GPU"
        return record

    tables = measured(tmp_path, change=on_another)
    assert [row.environment for row in tables.environments] == ["A", "B"]
    first, second = (one(tables.speedup, environment=letter, **DDP) for letter in "AB")
    assert (first.status, first.blocks, second.status) == ("ok", 1, "no baseline")
    assert "not measured on the same servers" in second.reason


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


def test_strategies_are_compared_in_the_same_place_alone() -> None:
    pair = [timed("dp", Figure(3.0)), timed("ddp", Figure(2.0))]
    elsewhere = [timed("dp", Figure(9.0), "end_to_end"), timed("single", Figure(8.0))]
    (row,) = complete(Tables(times=[*pair, *elsewhere])).strategy_pairs
    assert (row.strategy, row.other_strategy, row.ratio) == ("ddp", "dp", 1.5)
