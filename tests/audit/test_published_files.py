"""Files of published figures: read with their digits, and refused with the file and the key."""

from pathlib import Path

import pytest
import yaml
from msgspec import to_builtins

from dpscale.audit.audit import audit
from dpscale.audit.published import AUDIT_PATH, Published, Spot, collect_audits, read_all
from dpscale.errors import PublishedError, RecordError
from dpscale.records.files import write_record
from published_factory import as_printed, written


def test_whole_numbers_and_powers_of_ten_are_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml", epoch_s=None)
    path.write_text(path.read_text() + "epoch_s: {32: {1: 38, 2: 6.70e+1}}\n")
    study = Published.read(path)
    assert study.epoch_s == {Spot(32, 1): as_printed("38"), Spot(32, 2): as_printed("6.70E+1")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("epoch_s: {}", "epoch_s: {} has less than 1 property"),
        ("epoch_s: {32: {}}", "epoch_s.32: {} has less than 1 property"),
        ("epoch_s: {32: {1: .nan, 2: 1.0}}", 'epoch_s.32.1: ".nan" is not of type "number"'),
        ("epoch_s: {32: {1: -38.0, 2: 1.0}}", "epoch_s.32.1: -38.0 is less than or equal to the minimum of 0"),
        ("epoch_s: {small: {1: 38.0}}", 'epoch_s: "small" does not match'),
        (f"epoch_s: {{32: {{1: 38.0, 2{'0' * 400}: 1.0}}}}", 'epoch_s.32: "2000'),
        ("batch_sweep_s: {32: -1}", "batch_sweep_s.32: -1 is less than or equal to the minimum of 0"),
        ("published: {compute_s: {32: {2: -1.5}}}", "published.compute_s.32.2: -1.5 is less than or equal"),
        ("published: {speedups: {}}", "did you mean speedup?"),
        ("published: {bandwidth: {32: {2: 1.0}}}", 'published.bandwidth: "unit" is a required property'),
        ("published: {bandwidth: {unit: parsec}}", 'published.bandwidth.unit: "parsec" is not one of'),
        ("id: ../up", 'id: "../up" does not match'),
        (f"id: {'x' * 101}", "is longer"),
    ],
)
def test_a_bad_file_gives_one_line_with_the_file_and_the_key(tmp_path: Path, changes: str, message: str) -> None:
    path = written(tmp_path / "bad.yaml", **yaml.safe_load(f"{{{changes}}}"))
    with pytest.raises(PublishedError) as error:
        Published.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("time", ["1:07", "5e1", "0x10", "2020-01-01"])
def test_what_yaml_would_silently_turn_into_another_number_is_refused(tmp_path: Path, time: str) -> None:
    path = written(tmp_path / "bad.yaml", epoch_s=None)
    path.write_text(path.read_text() + f"epoch_s: {{32: {{1: {time}}}}}\n")
    with pytest.raises(PublishedError, match=r"bad\.yaml: "):
        Published.read(path)


def test_a_communication_time_may_be_negative(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml", published={"communication_s": {32: {2: -0.5}}})
    assert Published.read(path).quantities["communication_s"] == {Spot(32, 2): as_printed("-0.5")}


def test_two_files_of_one_study_are_refused(tmp_path: Path) -> None:
    first, second = (written(tmp_path / f"{name}.yaml") for name in ("one", "other"))
    with pytest.raises(PublishedError, match=r"other\.yaml: id: made-up"):
        read_all([first, second])


def test_an_audit_of_another_version_of_its_file_is_not_used(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml")
    with pytest.raises(RecordError, match=r"audit/made-up\.json: cannot be read"):
        collect_audits(tmp_path, [str(path)])
    record = audit(Published.read(path))
    write_record("audit", tmp_path / AUDIT_PATH.format(id="made-up"), to_builtins(record))
    assert collect_audits(tmp_path, [str(path)]) == [record]
    written(path, title="Another")
    with pytest.raises(RecordError, match="another version of its published file"):
        collect_audits(tmp_path, [str(path)])
