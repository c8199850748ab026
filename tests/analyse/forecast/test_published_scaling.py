"""Laws of scaling on figures of others: their errors against an independent computation, from the file itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.optimize import curve_fit

from dpscale.analyse.forecast.published import published_scaling_rows
from dpscale.audit.audit import audit
from dpscale.audit.reading.published import Published
from dpscale.tables.forecast import PublishedScalingRow

Rows = Mapping[tuple[int, str], PublishedScalingRow]
FILE = "config/published/scaling-a.yaml"


def rows_of(root: Path, **changes: Any) -> Rows:
    """By GPUs and law."""
    record = {**audit(Published.read(root / FILE)), **changes}
    return {(row.gpus, row.law): row for row in published_scaling_rows([record])}


@pytest.fixture(scope="module")
def found(root: Path) -> Rows:
    return rows_of(root)


@pytest.fixture(scope="module")
def training_s(root: Path) -> Mapping[int, float]:
    (times,) = yaml.safe_load((root / FILE).read_text())["training_s"].values()
    return {int(gpus): float(seconds) for gpus, seconds in times.items()}


def test_the_file_holds_what_was_published(training_s: Mapping[int, float]) -> None:
    assert training_s == {1: 129686, 2: 65752, 4: 33216, 8: 17104, 16: 8914}


def amdahl(n: Any, serial: float) -> Any:
    """1/S."""
    return serial + (1 - serial) / n


def gustafson(n: Any, serial: float) -> Any:
    """S."""
    return n - serial * (n - 1)


def usl(n: Any, contention: float, coherency: float) -> Any:
    """N/S."""
    return 1 + contention * (n - 1) + coherency * n * (n - 1)


def test_errors_of_every_law_are_those_of_another_solver(found: Rows, training_s: Mapping[int, float]) -> None:
    """Each law in the form in which its parameters are linear, by SciPy's iterative least squares."""
    inside = np.array([2.0, 4.0])
    speedups = np.array([training_s[1] / training_s[int(n)] for n in inside])
    (p_amdahl,), _ = curve_fit(amdahl, inside, 1 / speedups)
    (p_gustafson,), _ = curve_fit(gustafson, inside, speedups)
    contention, coherency = np.linalg.solve([[1, 2], [3, 12]], inside / speedups - 1)
    for gpus in (8, 16):
        expected_s = {
            "Amdahl": training_s[1] * amdahl(gpus, p_amdahl),
            "Gustafson": training_s[1] / gustafson(gpus, p_gustafson),
            "USL": training_s[1] * usl(gpus, contention, coherency) / gpus,
            "unchanged": training_s[4] * 4 / gpus,
        }
        assert [law for n, law in found if n == gpus] == list(expected_s)
        for law, seconds in expected_s.items():
            row = found[gpus, law]
            assert row.predicted_training_s == pytest.approx(seconds, rel=1e-6)
            assert row.relative_error == pytest.approx(seconds / training_s[gpus] - 1, abs=1e-6)
    assert [round(row.relative_error, 3) for row in found.values()] == [
        0.014,
        -0.025,
        -0.076,
        -0.029,
        0.045,
        -0.063,
        -0.458,
        -0.068,
    ]


def test_what_does_not_beat_unchanged_is_said_not_to(found: Rows) -> None:
    beats = {"Amdahl": "yes", "Gustafson": "yes", "USL": "no", "unchanged": ""}
    assert all(row.beats_unchanged == beats[law] for (_, law), row in found.items())


def test_no_time_beyond_a_node_enters_a_prediction(root: Path, found: Rows) -> None:
    times = [
        {**time, "printed": str((2 if time["gpus"] > 4 else 1) * float(time["printed"]))}
        for time in audit(Published.read(root / FILE))["training_times"]
    ]
    for place, changed in rows_of(root, training_times=times).items():
        assert changed.predicted_training_s == found[place].predicted_training_s
        assert changed.relative_error < found[place].relative_error


def test_a_node_of_two_gpus_does_not_identify_two_parameters(root: Path) -> None:
    rows = rows_of(root, gpus_per_node=2)
    assert (rows[4, "USL"].status, rows[4, "Amdahl"].status) == ("not available", "ok")
    assert "2 parameters" in rows[4, "USL"].reason
    assert rows[16, "unchanged"].predicted_training_s == 65752 * 2 / 16


def test_a_node_of_one_gpu_leaves_nothing_to_fit(root: Path) -> None:
    for (gpus, law), row in rows_of(root, gpus_per_node=1).items():
        assert row.status == ("ok" if law == "unchanged" else "not available")
        assert law != "unchanged" or row.predicted_training_s == 129686 / gpus


def test_an_audit_of_tables_alone_has_no_rows(root: Path) -> None:
    record = audit(Published.read(root / "config/published/study-a.yaml"))
    assert list(published_scaling_rows([record])) == []
    del record["training_times"], record["gpus_per_node"]
    assert list(published_scaling_rows([record])) == [], "an audit of before there were any"
