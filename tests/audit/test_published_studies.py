"""What must come out for the published studies, each number worked out by hand from their files."""

from pathlib import Path
from typing import Any

import pytest

from dpscale.audit.audit import audit
from dpscale.audit.physics import references_of
from dpscale.audit.reading.published import Published
from dpscale.schemas.validation import violations

STUDIES = tuple(f"study-{letter}" for letter in "abcdefghij")


@pytest.fixture(scope="module")
def audits(root: Path) -> dict[str, Any]:
    studies = [Published.read(root / f"config/published/{name}.yaml") for name in STUDIES]
    references = [time for study in studies for time in references_of(study)]
    return {study.id: audit(study, references, studies) for study in studies}


def quantity(record: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in record["quantities"] if entry["quantity"] == name)


def corrected(record: dict[str, Any], name: str, batch: int, gpus: int) -> dict[str, Any]:
    key = {"quantity": name, "batch_per_gpu": batch, "gpus": gpus}
    return next(entry for entry in record["corrected"] if key.items() <= entry.items())


def details(record: dict[str, Any], check: str, quantity: str | None = None) -> dict[tuple[int, int], str]:
    """What a check found, by batch and GPUs; of one quantity, where several have the same cell."""
    return {
        (warning["batch_per_gpu"], warning["gpus"]): warning["detail"]
        for warning in record["warnings"]
        if warning["check"] == check and quantity in (None, warning["quantity"])
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
        ("study-e", "speedup", "reproduced", "T(1,b) / T(N,b)"),
        ("study-e", "compute_s", "reproduced", "T(N,b)"),
        # 1.5105 in place of 1.5101 s at batch 128 on 2 GPUs.
        ("study-e", "communication_s", "reproduced except", "T(N,b) - T(1,b)/N"),
        # A factor of 1 on 2 GPUs and of 2 on 4, and GiB; 11,172,234 is 11,173,962 less 3 * 64 * 3 * 3.
        (
            "study-e", "bandwidth", "reproduced except",
            "N/2 * 11172234 * 4 bytes * D/(N*b) / M(N,b) / 2^30",
        ),
        ("study-f", "speedup", "reproduced", "Trunning(1,b) / Trunning(N,b)"),
        ("study-f", "compute_s", "reproduced", "T(1,b)/N"),
        ("study-f", "communication_s", "reproduced", "T(N,b) - T(1,b)/N"),
        # What all GPUs send together.
        (
            "study-f", "bandwidth", "reproduced",
            "2(N-1) * 11173962 * 4 bytes * ceil(D/(N*b)) / (T(N,b) - T(1,b)/N) / 10^9",
        ),
        ("study-g", "speedup", "reproduced except", "T(1,b) / T(N,b)"),
        ("study-g", "compute_s", "reproduced", "T(N,b)"),
        # Its times less its compute, which is its times, are zero within rounding: that agrees with anything small.
        ("study-g", "communication_s", "not reproduced", "T(1,b)/N in min"),
        # One allreduce's bytes over an epoch's communication time, but not that which was printed.
        ("study-g", "bandwidth", "not reproduced", "11173962 * 4 bytes / M(N,b) / 2^20"),
        ("study-h", "speedup", "reproduced", "N * T(1,b) / T(N,b)"),
        ("study-h", "communication_s", "reproduced", "T(N,b) - T(1,b)/N"),
        (
            "study-h", "bandwidth", "reproduced",
            "round(2(N-1)/N * 11689512 * 4 bytes / 2^30, 2 digits) / M(N,b)",
        ),
        ("study-i", "speedup", "reproduced", "N * T(1,b) / T(N,b)"),
        ("study-j", "speedup", "reproduced", "T(2,b) / T(N,b)"),
        ("study-j", "compute_s", "reproduced", "T(1,b)/N"),
        ("study-j", "communication_s", "reproduced", "T(N,b) - T(1,b)/N"),
        (
            "study-j", "bandwidth", "reproduced",
            "2(N-1)/N * 11173962 * 4 bytes / (T(N,b) - T(1,b)/N) / 10^9",
        ),
        ("study-j", "utilisation_percent", "up to a constant", "W(N,b)"),
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
    assert found["sentence"].startswith("No convention of the 96,800 tried gives the bandwidth.")
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
    same_network = [rival["formula"] for rival in found["rivals"] if " 11689512 " in rival["formula"]]
    assert {formula.split(" bytes / ")[1] for formula in same_network} == {
        "(T(N,b) - C(N,b)) / 2^30",
        "M(N,b) / 2^30",
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
    reported = details(audits["study-a"], "N*T(1,b)/T(N,b) reported as speedup")
    assert len(reported) == 6
    assert reported[32, 2] == "1.40 is 0.700, slower than one GPU"


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
        "reason": "T(N,b) was not printed", "caution": "",
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


def test_times_of_study_e_are_more_than_its_gpu_can_do(audits: dict[str, Any]) -> None:
    """50,000 images * 3.3290 GFLOP: 166.45 TFLOP in 3.8875 s and in 0.2947 s, on a GPU that does 16.3 in a second."""
    impossible = details(audits["study-e"], "time that the GPU cannot reach", "batch_sweep_s")
    assert set(impossible) == {(128, 1), (512, 1), (2048, 1), (8192, 1)}
    peak = "the float32 peak of 1 GPU (RTX 8000) is 16.3"
    assert impossible[128, 1] == f"3.8875 s is 12,862 images/s and 42.8 TFLOP/s; {peak}"
    assert impossible[8192, 1] == f"0.2947 s is 169,664 images/s and 565 TFLOP/s; {peak}"
    close = details(audits["study-e"], "time close to the GPU's peak")
    assert close[128, 4].endswith("60.9 TFLOP/s; the float32 peak of 4 GPUs (RTX 8000) is 65.2, 93 % of it")
    assert any("does not wait until the GPUs are done" in remark["sentence"] for remark in audits["study-e"]["remarks"])


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "study-e"])
def test_no_other_study_is_impossible(audits: dict[str, Any], name: str) -> None:
    assert not [warning for warning in audits[name]["warnings"] if warning["severity"] == "impossible"]


def test_study_e_is_faster_than_others_on_its_gpu(audits: dict[str, Any]) -> None:
    apart = details(audits["study-e"], "time unlike those of others on this GPU", "batch_sweep_s")
    assert apart[128, 1] == "3.89 s on the RTX 8000, where others took 17.2 to 36.9 s (study-f, study-g and study-h)"
    assert (32, 1) not in apart
    assert not details(audits["study-h"], "time unlike those of others on this GPU")


def test_single_cells_of_study_e(audits: dict[str, Any]) -> None:
    apart = details(audits["study-e"], "cell that its column's convention does not give")
    assert apart == {
        (128, 2): "printed 1.5105, it gives 1.5101: one digit of 1.5101 is another",
        (512, 2): "printed 1.3454, it gives 2.72: the times of batch 128 on 2 GPUs give it",
    }
    assert "a factor of N/2, not 2(N-1)/N" in quantity(audits["study-e"], "bandwidth")["sentence"]
    assert details(audits["study-e"], "unit is not that of the label")[32, 2] == "labelled GB/s, is 2^30 bytes a second"
    assert len(details(audits["study-e"], "the compute column is the total")) == 10
    assert "cut, not rounded" in quantity(audits["study-e"], "speedup")["sentence"]


def test_the_two_clocks_of_study_f(audits: dict[str, Any]) -> None:
    record = audits["study-f"]
    both = "speedup: the clock running; compute time, communication time and bandwidth: the clock training"
    assert set(details(record, "figures of two clocks").values()) == {both}
    assert ", of the clock running, as defined here" in quantity(record, "speedup")["sentence"]
    assert ", of the clock training, as defined here" in quantity(record, "communication_s")["sentence"]
    assert "what all GPUs of a ring send together" in quantity(record, "bandwidth")["sentence"]
    loading = details(record, "bound by loading, not by GPUs")
    assert set(loading) == {(128, 4), (512, 4)}
    assert loading[128, 4].startswith(
        "the clock running stays at 13.0 and 13.1 s on 2 and 4 GPUs, where the clock training"
    )
    # 24.22828 / 33.58769, of the clock that their speedup follows.
    assert corrected(record, "speedup", 32, 2)["corrected"]["value"] == pytest.approx(0.7213, abs=1e-4)
    assert corrected(record, "communication_s", 32, 2)["corrected"]["value"] == pytest.approx(21.20944891)


def test_study_g(audits: dict[str, Any]) -> None:
    record = audits["study-g"]
    sentence = quantity(record, "bandwidth")["sentence"]
    assert "the bytes of one step over the time of an epoch" in sentence
    assert "within 11 % in every cell, as where its inputs were of another run" in sentence
    assert details(record, "communication on one GPU")[32, 1].startswith("printed 5.4954 s")
    assert details(record, "cell that its column's convention does not give") == {
        (32, 2): "printed 1.86, it gives 1.78"
    }
    cut = "(cut, not rounded: batch 512 on 4 GPUs (printed 3.76, it gives 3.768))"
    assert cut in quantity(record, "speedup")["sentence"]


def test_study_h_rounds_its_bytes_first(audits: dict[str, Any]) -> None:
    record = audits["study-h"]
    assert details(record, "N*T(1,b)/T(N,b) reported as speedup")[512, 4] == "7.51821862348 is 1.88"
    sentence = quantity(record, "bandwidth")["sentence"]
    assert "11,689,512 parameters, as quoted, torchvision's ResNet-18 with 1000 classes" in sentence
    assert "bytes rounded to 2 significant digits before use (0.044, 0.065)" in sentence


def test_study_i_has_the_times_of_study_a(audits: dict[str, Any]) -> None:
    record = audits["study-i"]
    assert details(record, "N*T(1,b)/T(N,b) reported as speedup")[128, 4] == "3.97 is 0.994, slower than one GPU"
    apart = details(record, "two one-GPU times differ")
    assert {place: detail.split(", ", 1)[1] for place, detail in apart.items()} == {
        (32, 1): "1.67 times apart, with 0 and 2 processes that load",
        (128, 1): "2.46 times apart, with 0 and 2 processes that load",
        (512, 1): "1.96 times apart, with 0 and 2 processes that load",
    }
    assert set(details(record, "times of another study").values()) == {"9 times are those of study-a, digit for digit"}


def test_study_j_divides_by_a_link_that_is_none(audits: dict[str, Any]) -> None:
    record = audits["study-j"]
    assert details(record, "speedup over 2 GPUs") == {
        (32, 4): "1.78 is 2.60",
        (128, 4): "1.96 is 3.65",
        (512, 4): "1.94 is 3.83",
    }
    assert "over a link of 0.900 GB/s, in all 6 cells" in quantity(record, "utilisation_percent")["sentence"]
    one_step = details(record, "bandwidth is not what it is called")
    assert set(one_step.values()) == {"the bytes of one step over the time of an epoch"}
    of_link = details(record, "utilisation of a link that is none")
    known = "no link of the A40 carries that (NVLink: 56.25 and PCIe 4.0 x16: 31.5 GB/s)"
    assert of_link[32, 2].startswith(f"taken against 0.900 GB/s; {known}")
    assert details(record, "communication grows with GPUs") == {
        (512, 4): "0.219 s on 4 GPUs, 0.130 s on 2, which do more steps per epoch"
    }
