"""What is told of records: what was seen while they were made, what is missing, and what all of it took."""

from pathlib import Path
from typing import Any

from dpscale.analyse.tables import complete
from dpscale.plan.cells import TimingCell
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow
from made_study import DDP, measured, place_of
from record_factory import watched
from rows import one, picked

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


def test_absences_are_counted_once_per_configuration_the_most_frequent_first() -> None:
    absent = [("ddp", "end_to_end", "capped"), *((name, "compute", "oom") for name in ("dp", "ddp")),
              ("ddp", "end_to_end", "oom")]  # fmt: skip
    times = [TimesRow(strategy=name, gpus=4, scope=scope, status=status) for name, scope, status in absent]
    counted = [(row.status, row.configurations) for row in complete(Tables(times=times)).absences]
    assert counted == [("oom", 2), ("capped", 1)]
