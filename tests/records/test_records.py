"""Records: nothing is half-written, nothing foreign is used, nothing is lost; settings and versions grow."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from dpscale.analyse.tables import build_tables
from dpscale.errors import RecordError
from dpscale.plan.cells import Configuration, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.present.findings.cautions import other_cautions
from dpscale.present.text.words import Terms
from dpscale.records.collect import collect, differences
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import JsonRecord, set_aside
from dpscale.records.kinds import TimingRecord
from dpscale.records.outdated import find_outdated
from json_records import read_json
from record_factory import network_facts, timing_record, typed, write
from stub_cell import measure_stub

VALUES = {
    "study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32], "scopes": ["compute"],
    "runs": 2, "communication": {"runs": 0},
}  # fmt: skip
STUDY = Study(VALUES)
CELL = TimingCell(Configuration("ddp", 2, 32), 1)


def record(**changes: Any) -> JsonRecord:
    return {**timing_record(CELL, STUDY.settings, [1.0, 1.1]), **changes}


def older_record(cell: TimingCell, epoch_s: list[float]) -> JsonRecord:
    """A record of version 1 of the measurement, which has no baseline."""
    return {**timing_record(cell, STUDY.settings, epoch_s), "measurement_version": 1}


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path, CELL, record())
    assert read_json("timing", path) == record()
    assert [file.name for file in path.parent.iterdir()] == ["run-1.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"},
        {"surprise": 1},
        {"preparation_s": float("nan")},
    ],
)
def test_what_the_schema_forbids_is_not_written(tmp_path: Path, change: JsonRecord) -> None:
    with pytest.raises((RecordError, ValueError)):
        write(tmp_path, CELL, record(**change))
    assert not list(tmp_path.rglob("*.json*"))


@pytest.mark.parametrize(("change", "difference"), cases(__file__, "foreign"))
def test_records_of_another_study_are_named_and_not_used(tmp_path: Path, change: JsonRecord, difference: str) -> None:
    write(tmp_path, CELL, record(**change))
    collected = collect(tmp_path, [CELL], STUDY.settings)
    assert not collected.records
    assert difference in collected.rejected[CELL]


def test_setting_aside_never_overwrites(tmp_path: Path) -> None:
    names = []
    for content in "abc":
        (tmp_path / "run-1.json").write_text(content)
        names.append(set_aside(tmp_path / "run-1.json").name)
    assert names == [f"run-1.json.set-aside-{n}" for n in (1, 2, 3)]
    assert [(tmp_path / name).read_text() for name in names] == ["a", "b", "c"]


def named(without: str = "", **settings: Any) -> JsonRecord:
    """A record of CELL with other settings, one of which it does not name."""
    settings = {**record()["settings"], **settings}
    scopes = dict.fromkeys(settings["scopes"], record()["scopes"]["compute"])
    return record(settings={name: value for name, value in settings.items() if name != without}, scopes=scopes)


@pytest.mark.parametrize("name", STUDY.settings.names())
def test_a_setting_that_a_record_does_not_name_has_its_default(name: str, tmp_path: Path) -> None:
    default = getattr(type(STUDY.settings)(), name)
    study = Study({**VALUES, "scopes": ["compute", "end_to_end"]})
    assert getattr(study.settings, name) == default
    write(tmp_path, CELL, named(without=name, scopes=["compute", "end_to_end"]))
    assert list(collect(tmp_path, [CELL], study.settings).records) == [CELL]


def test_another_value_of_a_setting_that_a_record_does_not_name_is_another_measurement() -> None:
    study = Study({**VALUES, "precision": "bfloat16"})
    assert differences(typed(TimingRecord, named(without="precision")), CELL, study.settings) == [
        "precision is float32, the study says bfloat16"
    ]


def test_a_setting_that_is_not_known_may_have_changed_the_number() -> None:
    with pytest.raises(RecordError, match="names settings that this dpscale does not know: turbo"):
        typed(TimingRecord, named(turbo=True))


def test_an_older_measurement_is_shown_and_measured_again(tmp_path: Path) -> None:
    for cell in plan(STUDY).timing:
        write(tmp_path, cell, older_record(cell, [1.0, 1.1]))
    collected = collect(tmp_path, plan(STUDY).timing, STUDY.settings)
    assert set(collected.records) == set(plan(STUDY).timing)
    tables = build_tables(STUDY, collected)
    assert [row.measurement_versions for row in tables.environments] == ["timing 1"]
    (caution, *_) = other_cautions(tables, Terms.of(STUDY.values, tables))
    assert "Timing 1: one GPU alone was timed in jobs of its own" in caution
    assert {row.status for row in tables.speedup} == {"ok"}
    outdated = find_outdated(STUDY, plan(STUDY), tmp_path)
    assert len(outdated.rejected_records) == len(plan(STUDY).timing)
    assert "measurement_version is 1, this dpscale measures 2" in outdated.reasons[0]


def test_an_older_measurement_may_have_had_other_settings() -> None:
    older = {"measurement_version": 1}
    assert differences(typed(TimingRecord, {**named(turbo=True), **older}), CELL, STUDY.settings, older_too=True) == []
    assert "precision is bfloat16, the study says float32" in differences(
        typed(TimingRecord, {**named(precision="bfloat16"), **older}), CELL, STUDY.settings, older_too=True
    )


def test_versions_are_never_pooled(tmp_path: Path) -> None:
    for cell in plan(STUDY).timing:
        # Run 1 is measured anew, twice as fast.
        anew = timing_record(cell, STUDY.settings, [1.0, 1.1])
        write(tmp_path, cell, anew if cell.run == 1 else older_record(cell, [2.0, 2.2]))
    tables = build_tables(STUDY, collect(tmp_path, plan(STUDY).timing, STUDY.settings))
    assert {row.measurement_versions for row in tables.environments} == {"timing 1", "timing 2"}
    times = [row for row in tables.times if row.strategy == "ddp"]
    assert [row.runs for row in times] == [1, 1]
    assert sorted(row.epoch_s.value for row in times) == pytest.approx([1.05, 2.1])


def test_older_facts_of_a_network_have_defaults_and_what_nobody_reads() -> None:
    older = typed(NetworkRecord, {**network_facts(STUDY.settings), "traffic_elements_per_image": 8_691_230})
    assert (older.bytes_per_image, older.fsdp_unit_bytes, older.ddp_broadcast_bytes) == ((12_288, 40), [], None)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB; unmounted after the test."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root here")
    yield folder
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.processes
def test_a_record_on_a_full_disk(folder: Path) -> None:
    (folder / "filler").write_bytes(b"x" * 65536)
    with pytest.raises(RecordError, match="no record can be written: No space left on device"):
        measure_stub(folder / "record.json")
    assert [path.name for path in folder.iterdir()] == ["filler"]
