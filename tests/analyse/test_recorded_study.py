"""What the study recorded on four H200 GPUs says, through the same tables as any study's."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from dpscale.records.kinds import Scope
from dpscale.tables.tables import Tables
from recorded import in_documents, recorded_tables
from rows import one, picked

PARTS = 0.03


@pytest.fixture(scope="module")
def tables(root: Path) -> Tables:
    return recorded_tables(root, "recorded")


def test_the_readme_says_that_its_records_have_no_baseline_of_their_own(root: Path, tables: Tables) -> None:
    is_older = any("timing 1" in row.older_measurements for row in tables.environments)
    said = " ".join((root / "README.md").read_text().split())
    assert ("The records of the 4 H200s above are older" in said) == is_older


def test_no_record_of_communication_is_missing(tables: Tables) -> None:
    assert not {row.kind for row in tables.missing} & {"communication", "collectives"}
    for row in tables.communication:
        if row.training_step_s.is_known:
            assert row.profiler_step_s.is_known and row.isolated_step_s.is_known


def test_the_parts_of_every_step_add_up_to_it(tables: Tables) -> None:
    assert len(tables.steps) == 6 * 2 * 2 + 5 * 4 * 2  # dp and ddp; batch 256 on 2 GPUs alone
    assert max(abs(row.difference) for row in tables.steps) < PARTS


def test_dataparallel_overlaps_nothing_and_mostly_does_not_communicate(tables: Tables) -> None:
    """By torch's source no transfer should overlap, and at batch 32 they are a small part of what E1 calls so."""
    dp = [row for row in picked(tables.communication, strategy="dp") if row.profiler_step_s.is_known]
    for row in dp:
        assert row.profiler_exposed_step_s.value == pytest.approx(row.profiler_step_s.value, rel=1e-6)
    small = picked(dp, batch_per_gpu=32)
    assert len(small) == 2
    assert all(row.profiler_step_s.value < 0.05 * row.communication_step_s.value for row in small)


def test_on_the_gpu_that_waits_least_nothing_is_faster_than_alone(tables: Tables) -> None:
    """No collective beats the same one alone; where hosts are slow, waiting is many times as long as the transfer."""
    ddp = [row for row in picked(tables.communication, strategy="ddp") if row.profiler_step_s.is_known]
    assert all(row.profiler_least_step_s.value > row.isolated_step_s.value for row in ddp)
    slow_host = one(ddp, batch_per_gpu=32, gpus=4)
    alone_s = slow_host.isolated_step_s.value
    assert slow_host.profiler_least_step_s.value < 1.5 * alone_s
    assert slow_host.profiler_step_s.value > 10 * alone_s


@pytest.mark.parametrize(
    ("batch", "milliseconds"), [(8192, [6.07, 6.95, 6.56]), (2048, [11.96, 10.62, 11.32])], ids=["8192", "2048"]
)
def test_communication_is_resolved_where_each_server_is_its_own_baseline(
    tables: Tables, batch: int, milliseconds: list[float]
) -> None:
    """ddp on 2 GPUs, E1 of an epoch: servers differ by 1.3 % of 2 s, and every one of them says the same."""
    place = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": batch, "scope": "compute"}
    blocks = picked(tables.blocks, scaling="weak", **place)
    assert [round(1e3 * block.communication_s, 2) for block in blocks] == milliseconds
    assert {block.baseline for block in blocks} == {"same run"}
    inferred = one(tables.communication, **place).communication_s
    assert 1e3 * inferred.value == pytest.approx(sum(milliseconds) / 3, abs=0.01)
    assert inferred.is_above(0)
    bandwidth = one(tables.bandwidth, **place)
    figure = bandwidth.bandwidth_gb_s
    assert bandwidth.status == "ok"
    assert 0 < figure.low < figure.value < figure.high < 100


def test_the_method_has_what_the_barrier_of_version_1_made_of_a_short_epoch(
    root: Path, tables: Tables, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 2048, "scope": "compute"}
    row, bandwidth = one(tables.communication, **place), one(tables.bandwidth, **place)
    said = " ".join(method.split())
    monkeypatch.setattr(Scope, "slowest_rank_epoch_s", property(lambda scope: scope.epoch_s))
    with_barrier = one(recorded_tables.__wrapped__(root, "recorded").communication, **place)
    without_ms, with_ms = (1e3 * of.communication_s.value for of in (row, with_barrier))
    assert (
        f"communication time of an epoch is {without_ms:.2f} ms; with the barrier it would be {with_ms:.2f} ms" in said
    )
    by_step = bandwidth.allreduce_bytes_per_step / row.communication_step_s.value / 1e9
    assert f"epoch implies {bandwidth.bandwidth_gb_s.value:.0f} GB/s, that of its step {by_step:.0f} GB/s" in said
    assert f"has {row.full_steps_per_epoch} full steps in an epoch" in said


# Weak speedups without loading that rest on two servers; docs/method/statistics.md, "Two servers".
OF_TWO = {
    ("ddp", 2, 32): ("1.54 [1.04, 2.28]", 21), ("ddp", 2, 128): ("1.78 [1.33, 2.38]", 21),
    ("ddp", 4, 32): ("2.92 [2.20, 3.88]", 21), ("dp", 2, 32): ("0.39 [0.26, 0.56]", 21),
    ("dp", 2, 512): ("1.60 [0.95, 2.71]", 21), ("dp", 4, 128): ("0.81 [0.47, 1.38]", 21),
    ("ddp", 4, 512): ("3.87 [3.79, 3.96]", 0), ("ddp", 4, 2048): ("3.94 [3.93, 3.94]", 0),
}  # fmt: skip


@pytest.mark.parametrize("place", OF_TWO, ids=lambda place: "-".join(map(str, place)))
def test_what_two_servers_say_with_the_spread_of_the_others(tables: Tables, place: tuple[str, int, int]) -> None:
    names = dict(zip(("strategy", "gpus", "batch_per_gpu"), place, strict=True))
    row = one(tables.speedup, scaling="weak", scope="compute", **names)
    assert (in_documents(row.speedup, 2), row.borrowed_from, row.servers) == (*OF_TWO[place], 2)


@pytest.mark.parametrize("study", ["recorded-two-gpus", "recorded-h200-2"])
def test_three_servers_and_more_borrow_nothing(root: Path, study: str) -> None:
    rows = [row for row in recorded_tables(root, study).speedup if row.status == "ok"]
    assert {row.borrowed_from for row in rows if (row.servers or 0) >= 3} == {0}
    assert min(row.servers or 0 for row in rows if row.scope == "compute") >= 3


def test_its_readme_has_the_times_of_its_records(root: Path, tables: Tables) -> None:
    results = root / "results/recorded"
    said = " ".join((results / "README.md").read_text().split())

    def records(pattern: str) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(results.glob(pattern))]

    loaded_s = [
        epoch_s
        for record in records("cells/ddp/gpus-4/batch-128/run-*.json")
        for epoch_s in record["scopes"]["end_to_end"]["epoch_s"]
    ]
    assert f"`end_to_end` scope took {min(loaded_s):.2f} to {max(loaded_s):.2f} s." in said
    epochs_s = [
        median(epoch["epoch_s"] for epoch in record["epochs"]) for record in records("training/b512/seed-[123].json")
    ]
    assert "`b512` took {:.2f} s per epoch on the sixth, {:.2f} and {:.2f} s".format(*epochs_s) in said
    here_s = one(tables.communication, strategy="ddp", gpus=4, batch_per_gpu=32).training_step_s.value
    steps_s = [row.step_s for row in picked(tables.runs, strategy="ddp", gpus=4, batch_per_gpu=32, scope="compute")]
    first, second, third = (f"{1e3 * step_s:.1f}" for step_s in sorted(steps_s))
    told = f"took {1e3 * here_s:.1f} ms there, in the three runs of the timing cells {first}, {second} and {third} ms."
    assert told in said
