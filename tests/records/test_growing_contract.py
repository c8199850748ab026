"""The contract grows without orphaning anything: settings that are younger than a record, and older measurements."""

from pathlib import Path
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.errors import RecordError
from dpscale.plan.cells import Configuration, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.present.findings.cautions import other_cautions
from dpscale.present.text.words import Terms
from dpscale.records.collect import collect, differences
from dpscale.records.kinds import TimingRecord
from dpscale.records.outdated import find_outdated
from record_factory import older_timing_record, timing_record, typed, write

VALUES = {
    "study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32], "scopes": ["compute"],
    "runs": 2, "communication": {"runs": 0},
}  # fmt: skip
STUDY = Study(VALUES)
CELL = TimingCell(Configuration("ddp", 2, 32), 1)


def record(without: str = "", **settings: Any) -> dict[str, Any]:
    """A record of CELL, its settings changed, and one of them not named."""
    whole = timing_record(CELL, STUDY.settings, [1.0, 1.1])
    named = {**whole["settings"], **settings}
    return {**whole, "settings": {name: value for name, value in named.items() if name != without}}


@pytest.mark.parametrize("name", STUDY.settings.names())
def test_a_setting_that_a_record_does_not_name_has_its_default(name: str, tmp_path: Path) -> None:
    default = STUDY.settings.default_of(name)
    study = Study({**VALUES, "scopes": ["compute", "end_to_end"]})
    assert getattr(study.settings, name) == default
    write(tmp_path, CELL, record(without=name, scopes=["compute", "end_to_end"]))
    assert list(collect(tmp_path, [CELL], study.settings).records) == [CELL]


def test_another_value_of_a_setting_that_a_record_does_not_name_is_another_measurement() -> None:
    other = Study({**VALUES, "precision": "bfloat16"})
    assert differences(typed(TimingRecord, record(without="precision")), CELL, other.settings) == [
        "precision is float32, the study says bfloat16"
    ]


def test_a_setting_that_is_not_known_may_have_changed_the_number() -> None:
    with pytest.raises(RecordError, match="names settings that this dpscale does not know: turbo"):
        typed(TimingRecord, record(turbo=True))


def test_an_older_measurement_is_shown_and_measured_again(tmp_path: Path) -> None:
    for cell in plan(STUDY).timing:
        write(tmp_path, cell, older_timing_record(cell, STUDY.settings, [1.0, 1.1]))
    collected = collect(tmp_path, plan(STUDY).timing, STUDY.settings)
    assert set(collected.records) == set(plan(STUDY).timing)
    tables = build_tables(STUDY, collected)
    assert [row.measurement_versions for row in tables.environments] == ["timing 1"]
    assert [row.older_measurements for row in tables.environments] == ["timing 1"]
    assert (
        "Records are of older versions of this program. Timing 1: one GPU alone was timed in jobs of its own, not in "
        "the parallel ones." in other_cautions(tables, Terms.of(STUDY.values, tables))[0]
    )
    assert {row.status for row in tables.speedup} == {"ok"}
    outdated = find_outdated(STUDY, plan(STUDY), tmp_path)
    assert len(outdated.rejected_records) == len(plan(STUDY).timing)
    assert "measurement_version is 1, this dpscale measures 2" in outdated.reasons[0]


def test_an_older_measurement_may_have_had_other_settings() -> None:
    older = {"measurement_version": 1}
    assert differences(typed(TimingRecord, {**record(turbo=True), **older}), CELL, STUDY.settings, older_too=True) == []
    assert "precision is bfloat16, the study says float32" in differences(
        typed(TimingRecord, {**record(precision="bfloat16"), **older}), CELL, STUDY.settings, older_too=True
    )


def test_versions_are_never_pooled(tmp_path: Path) -> None:
    for cell in plan(STUDY).timing:
        # Run 1 is measured anew, twice as fast.
        anew = timing_record(cell, STUDY.settings, [1.0, 1.1])
        write(tmp_path, cell, anew if cell.run == 1 else older_timing_record(cell, STUDY.settings, [2.0, 2.2]))
    tables = build_tables(STUDY, collect(tmp_path, plan(STUDY).timing, STUDY.settings))
    assert {row.measurement_versions for row in tables.environments} == {"timing 1", "timing 2"}
    times = [row for row in tables.times if row.strategy == "ddp"]
    assert [row.runs for row in times] == [1, 1]
    assert sorted(row.epoch_s.value for row in times) == pytest.approx([1.05, 2.1])
