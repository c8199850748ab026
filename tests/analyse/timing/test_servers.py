"""A slow server is named, and no other: by its epochs beside those of other servers at the same configurations."""

from collections.abc import Collection
from pathlib import Path

import pytest

from dpscale.analyse.answer.claims import SLOW_SERVER
from dpscale.analyse.tables import build_tables
from dpscale.present.findings.cautions import slow_servers
from dpscale.tables.timing import ServersRow
from made_study import Change, collected, study
from record_factory import on_server
from recorded import RECORDED, recorded_tables
from rows import one

NODES = ("gn1", "gn2", "gn3")


def rows(slow_runs: Collection[int], factor: float, batches: Collection[int] = (32, 128, 512)) -> list[ServersRow]:
    """Every run is on a node of its own; epochs of the slow ones take so many times as long."""
    timed = study(batch_per_gpu=list(batches), communication={"runs": 0})
    return list(build_tables(timed, collected(timed, on_nodes(slow_runs, factor))).servers)


def on_nodes(slow_runs: Collection[int], factor: float) -> Change:
    def change(cell, record):  # type: ignore[no-untyped-def]
        record = on_server(record, cell.run, host=NODES[cell.run - 1])
        record["provenance"]["job_id"] = "7"
        if cell.run in slow_runs:
            for scope in record.get("scopes", {}).values():
                scope["epoch_s"] = [seconds * factor for seconds in scope["epoch_s"]]
                scope["rank_epoch_s"] = [[seconds * factor] for (seconds,) in scope["rank_epoch_s"]]
        return record

    return change


def test_a_node_that_takes_twice_as_long_is_named_with_what_leaves_it_out() -> None:
    of_study = rows([2], 2.0)
    slow = one(of_study, host="gn2")
    assert slow.times_as_long.value == pytest.approx(2, rel=1e-3)
    assert slow.times_as_long.has_interval
    assert SLOW_SERVER.of(of_study).holding == [slow]
    (sentence,) = slow_servers(of_study)
    assert "gn2" in sentence
    assert "2.00 [2.00, 2.00] times as long" in sentence
    assert sentence.endswith("snakemake --profile slurm --slurm-exclude-failed-nodes gn2.")


@pytest.mark.parametrize(
    ("slow_runs", "factor", "batches"),
    [
        pytest.param((), 1.0, (32, 128, 512), id="none is slow"),
        pytest.param((2,), 1.04, (32, 128, 512), id="little"),
        pytest.param((2,), 2.0, (32,), id="too few configurations for an interval"),
    ],
)
def test_no_other_is_named(slow_runs: Collection[int], factor: float, batches: Collection[int]) -> None:
    of_study = rows(slow_runs, factor, batches)
    assert {row.host for row in of_study} == set(NODES)
    assert not slow_servers(of_study)


def test_only_the_recorded_server_with_a_hot_gpu_is_slow(root: Path) -> None:
    for results in RECORDED:
        tables = recorded_tables(root, results)
        hot = {device for row in tables.records for device in filter(None, row.hot_devices.split("; "))}
        slow = SLOW_SERVER.of(tables.servers).holding
        if results == "recorded-two-gpus":
            assert [bool(hot & set(row.gpu_uuids.split("; "))) for row in slow] == [True]
        else:
            assert not slow
