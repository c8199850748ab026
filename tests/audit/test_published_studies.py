"""What must come out for the four published studies, each number worked out by hand from their files."""

from pathlib import Path
from typing import Any

import pytest

from dpscale.audit.audit import audit
from dpscale.audit.published import Published
from dpscale.schemas.validation import violations

STUDIES = ("study-a", "study-b", "study-c", "study-d")


@pytest.fixture(scope="module")
def audits(root: Path) -> dict[str, Any]:
    return {name: audit(Published.read(root / f"config/published/{name}.yaml")) for name in STUDIES}


def quantity(record: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in record["quantities"] if entry["quantity"] == name)


def corrected(record: dict[str, Any], name: str, batch: int, gpus: int) -> dict[str, Any]:
    key = {"quantity": name, "batch_per_gpu": batch, "gpus": gpus}
    return next(entry for entry in record["corrected"] if key.items() <= entry.items())


def details(record: dict[str, Any], check: str) -> dict[tuple[int, int], str]:
    """What a check found, by batch and GPUs."""
    return {
        (warning["batch_per_gpu"], warning["gpus"]): warning["detail"]
        for warning in record["warnings"]
        if warning["check"] == check
    }


@pytest.mark.parametrize("name", STUDIES)
def test_the_record_is_what_its_schema_says(audits: dict[str, Any], name: str) -> None:
    assert violations("audit", audits[name]) == []


@pytest.mark.parametrize(
    ("study", "name", "verdict", "formula"),
    [
        ("study-a", "speedup", "reproduced", "N * T(1,b) / T(N,b)"),
        ("study-a", "compute_s", "reproduced", "T(1,b)/N"),
        ("study-a", "communication_s", "reproduced", "T(N,b) - T(1,b)/N"),
        # One step's bytes, 11,689,512 parameters, GiB, an epoch's communication time.
        (
            "study-a", "bandwidth", "reproduced except",
            "2(N-1)/N * 11689512 * 4 bytes / (T(N,b) - T(1,b)/N) / 2^30",
        ),
        ("study-b", "speedup", "reproduced", "T(1,b) / T(N,b)"),
        ("study-b", "speedup_alternative", "reproduced", "N * T(1,b) / T(N,b)"),
        ("study-b", "compute_s", "reproduced", "T(1,b)/N"),
        ("study-b", "communication_s", "reproduced", "T(N,b) - T(1,b)/N"),
        # Elements, not bytes, and ceil(D/b) steps.
        (
            "study-b", "bandwidth", "reproduced",
            "2(N-1)/N * 11173962 * ceil(D/b) / (T(N,b) - T(1,b)/N) / 10^9",
        ),
        ("study-c", "speedup", "reproduced", "T(1,b) / T(N,b)"),
        # Not within rounding, but the total is what it is closest to.
        ("study-c", "compute_s", "not reproduced", "T(N,b)"),
        ("study-c", "communication_s", "reproduced", "C(N,b) - Tsweep(b)/N"),
        # One step's bytes in MB.
        (
            "study-c", "bandwidth", "reproduced",
            "2(N-1)/N * 11173962 * 4 bytes / (C(N,b) - Tsweep(b)/N) / 10^6",
        ),
        ("study-d", "compute_s", "not reproduced", "T(1,b)"),
        ("study-d", "communication_s", "not reproduced", "T(1,b)/S(N,b) - C(N,b)"),
    ],
)  # fmt: skip
def test_the_convention_behind_every_quantity(
    audits: dict[str, Any], study: str, name: str, verdict: str, formula: str
) -> None:
    found = quantity(audits[study], name)
    assert (found["verdict"], found["convention"]["formula"]) == (verdict, formula)


def test_no_convention_gives_the_bandwidth_of_study_d(audits: dict[str, Any]) -> None:
    found = quantity(audits["study-d"], "bandwidth")
    assert found["verdict"] == "not reproduced"
    assert found["supporting_cells"] == 0
    assert found["sentence"].startswith("No convention of the 2,376 tried gives the bandwidth.")
    # The closest: 2(N-1) * 11,173,962 * 4 bytes / 0.40 s / 2^20 = 213.1 at batch 128 on 2 GPUs.
    assert "batch 128 on 2 GPUs (printed 61.84, it gives 213.1)" in found["sentence"]


def test_the_speedup_of_study_d_cannot_be_checked(audits: dict[str, Any]) -> None:
    found = quantity(audits["study-d"], "speedup")
    assert (found["verdict"], found["convention"]) == ("not checkable", None)


def test_the_two_cells_of_study_a_that_its_convention_does_not_give(audits: dict[str, Any]) -> None:
    found = quantity(audits["study-a"], "bandwidth")
    assert found["exceptions"] == [{"batch_per_gpu": 128, "gpus": 4}, {"batch_per_gpu": 512, "gpus": 2}]
    assert (found["supporting_cells"], found["independent_cells"]) == (4, 6)
    assert 1e-6 < found["chance"] < 0.01
    # What else gives as much goes through columns that are themselves printed from the same times.
    assert {rival["formula"].split("(", 2)[2] for rival in found["rivals"]} == {
        "T(N,b) - C(N,b)) / 2^30",
        "M(N,b)) / 2^30",
    }


@pytest.mark.parametrize(
    ("study", "batch", "gpus", "expected", "half"),
    [
        ("study-a", 32, 2, 1.46, 0.005),
        ("study-a", 32, 4, 1.26, 0.005),
        ("study-b", 128, 2, 0.876, 0.0005),
        ("study-b", 128, 4, 0.253, 0.0005),
        ("study-c", 512, 2, 0.211, 0.0005),
        ("study-c", 512, 4, 0.348, 0.0005),
    ],
)
def test_corrected_bandwidth(
    audits: dict[str, Any], study: str, batch: int, gpus: int, expected: float, half: float
) -> None:
    figure = corrected(audits[study], "bandwidth", batch, gpus)
    assert figure["corrected"]["value"] == pytest.approx(expected, abs=half)
    assert figure["corrected"]["low"] < figure["corrected"]["value"] < figure["corrected"]["high"]
    assert figure["unit"] == "GB/s"


def test_two_gpus_of_study_a_are_slower_than_one(audits: dict[str, Any]) -> None:
    assert corrected(audits["study-a"], "speedup", 32, 2)["corrected"]["value"] == pytest.approx(0.70, abs=0.005)
    sold = details(audits["study-a"], "N*T(1,b)/T(N,b) sold as speedup")
    assert len(sold) == 6
    assert sold[32, 2] == "1.40 is 0.700, slower than one GPU"


def test_batches_above_the_dataset_of_study_a(audits: dict[str, Any]) -> None:
    assert set(details(audits["study-a"], "batch larger than the dataset")) == {(131_072, 1), (524_288, 1)}


def test_units_that_are_not_those_of_the_label(audits: dict[str, Any]) -> None:
    check = "unit is not that of the label"
    assert details(audits["study-a"], check)[32, 2] == "labelled GB/s, is 2^30 bytes a second"
    assert details(audits["study-b"], check)[32, 2] == "labelled GB/s, is 10^9 elements a second"
    assert details(audits["study-c"], check)[32, 2] == "labelled GB/s, is 10^6 bytes a second"
    assert details(audits["study-d"], check) == {}


def test_the_compute_column_of_study_c_is_the_total(audits: dict[str, Any]) -> None:
    record = audits["study-c"]
    assert len(details(record, "the compute column is the total")) == 6
    assert quantity(record, "compute_s")["worst"]["error"] < 0.013
    assert record["communication_from"] == "C(N,b) - Tsweep(b)/N"
    # From the table of times it would be 44,695,848 bytes * 49 / (116.669 - 211.854/2) s = 0.204 GB/s.
    other = details(record, "T(N,b) - T(1,b)/N would give another bandwidth")
    assert other[512, 2] == "0.204 in place of 0.211 GB/s"
    assert other[512, 4] == "0.306 in place of 0.348 GB/s"


def test_totals_rebuilt_from_the_speedups_of_study_d(audits: dict[str, Any]) -> None:
    apart = details(audits["study-d"], "T(1,b)/speedup is not compute plus communication")
    assert apart == {
        (32, 2): "27.9 against 26.9 s",
        (32, 4): "45.4 against 39.2 s",
        (128, 2): "10.0 against 8.97 s",
        (128, 4): "11.6 against 9.48 s",
        (512, 2): "10.0 against 9.12 s",
        (512, 4): "10.9 against 10.7 s",
    }


def test_study_b_agrees_with_itself_in_its_sums(audits: dict[str, Any]) -> None:
    assert not [
        warning for warning in audits["study-b"]["warnings"] if "compute plus communication" in warning["check"]
    ]


def test_what_cannot_be_recomputed_is_said(audits: dict[str, Any]) -> None:
    record = audits["study-d"]
    assert corrected(record, "speedup", 32, 2) == {
        "quantity": "speedup", "batch_per_gpu": 32, "gpus": 2, "corrected": None, "unit": "",
        "reason": "T(N,b) was not printed",
    }  # fmt: skip
    assert corrected(record, "bandwidth", 32, 2)["reason"] == "the number of parameters trained is not given"
    assert corrected(record, "compute_s", 32, 2)["corrected"]["value"] == pytest.approx(15.89 / 2)
    assert ["training", "not recomputable"] in [[remark["quantity"], remark["verdict"]] for remark in record["remarks"]]


def test_strong_speedup_of_study_c_is_of_a_global_batch(audits: dict[str, Any]) -> None:
    figures = [figure for figure in audits["study-c"]["corrected"] if figure["quantity"] == "speedup_strong"]
    assert [(figure["global_batch"], figure["gpus"]) for figure in figures] == [(32, 2), (32, 4)]
    assert [figure["corrected"]["value"] for figure in figures] == pytest.approx([271.984 / 274.355, 271.984 / 241.768])
    assert not any("batch_per_gpu" in figure for figure in figures)


def test_what_was_tried_and_not_measured_is_said(audits: dict[str, Any]) -> None:
    (remark,) = audits["study-b"]["remarks"]
    assert remark["sentence"] == "There is no time at batch 8,192 on 1 GPU: did not fit in GPU memory."


@pytest.mark.parametrize("name", STUDIES)
def test_no_code_knows_a_study(root: Path, name: str) -> None:
    for path in (root / "workflow").rglob("*.py"):
        assert name not in path.read_text(), path
