"""Files of published figures: read with their digits, and refused with the file and the key."""

from pathlib import Path

import pytest
import yaml

from dpscale.audit.reading.published import Published, Spot, read_all
from dpscale.errors import PublishedError
from published_factory import as_printed, written

STUDIES = tuple(f"study-{letter}" for letter in "abcdefghij")


@pytest.mark.parametrize("name", STUDIES[:4])
def test_the_studies_are_as_they_were_published(root: Path, name: str) -> None:
    assert (root / f"config/published/{name}.yaml").read_bytes() == original(root, name).read_bytes()


@pytest.mark.parametrize("name", STUDIES[4:])
def test_studies_have_every_figure_that_was_published(root: Path, name: str) -> None:
    """What their authors state in words stands under keys beside it."""
    given = Published.read(original(root, name))
    study = Published.read(root / f"config/published/{name}.yaml")
    assert study.epoch_s == given.epoch_s
    assert study.batch_sweep_s == given.batch_sweep_s
    for quantity, table in given.quantities.items():
        assert {place: study.quantities[quantity][place] for place in table} == table


def original(root: Path, name: str) -> Path:
    """The file as it was handed over; the test is skipped where that is not beside this checkout."""
    path = root.parent / "shared/published" / f"{name}.yaml"
    if not path.exists():
        pytest.skip("the originals are not beside this checkout")
    return path


def test_numbers_keep_the_digits_that_were_printed(root: Path) -> None:
    study = Published.read(root / "config/published/study-a.yaml")
    assert str(study.quantities["speedup"][Spot(32, 2)]) == "1.40"
    assert study.batch_sweep_s[Spot(32_768, 1)] == as_printed("9.00")
    assert study.bandwidth_unit == "GB/s"
    assert study.parameters_trained == 11_181_642


def test_whole_numbers_and_powers_of_ten_are_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml", epoch_s=None)
    path.write_text(path.read_text() + "epoch_s: {32: {1: 38, 2: 6.70e+1}}\n")
    study = Published.read(path)
    assert study.epoch_s == {Spot(32, 1): as_printed("38"), Spot(32, 2): as_printed("6.70E+1")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("epoch_s: null", '"epoch_s" is a required property'),
        ("epoch_s: {}", "epoch_s: {} has less than 1 property"),
        ("epoch_s: {32: {}}", "epoch_s.32: {} has less than 1 property"),
        ("epoch_s: {64: {1: 1.0}}", "published.speedup.32: epoch_s has no times at batch 32"),
        ("epoch_s: {32: {1: fast, 2: 1.0}}", 'epoch_s.32.1: "fast" is not of type "number"'),
        ("epoch_s: {32: {1: null, 2: 1.0}}", 'epoch_s.32.1: "null" is not of type "number"'),
        ("epoch_s: {32: {1: true, 2: 1.0}}", 'epoch_s.32.1: true is not of type "number"'),
        ("epoch_s: {32: {1: .nan, 2: 1.0}}", 'epoch_s.32.1: ".nan" is not of type "number"'),
        ("epoch_s: {32: {1: -38.0, 2: 1.0}}", "epoch_s.32.1: -38.0 is less than or equal to the minimum of 0"),
        ("epoch_s: {32: {1: 0.0, 2: 1.0}}", "epoch_s.32.1: 0.0 is less than or equal to the minimum of 0"),
        ("epoch_s: {small: {1: 38.0}}", 'epoch_s: "small" does not match'),
        ("batch_sweep_s: {32: -1}", "batch_sweep_s.32: -1 is less than or equal to the minimum of 0"),
        ("published: {compute_s: {32: {2: -1.5}}}", "published.compute_s.32.2: -1.5 is less than or equal"),
        ("published: {speedups: {}}", "did you mean speedup?"),
        ("published: {bandwidth: {32: {2: 1.0}}}", 'published.bandwidth: "unit" is a required property'),
        ("published: {bandwidth: {unit: parsec}}", 'published.bandwidth.unit: "parsec" is not one of'),
        ("published: {}", "published: {} has less than 1 property"),
        ("id: ../up", 'id: "../up" does not match'),
        ("batches: 1", "Additional properties are not allowed ('batches' was unexpected)"),
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
