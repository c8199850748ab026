"""Single faults in an otherwise clean study: each is named, in its cell."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.faults import doubtful_times, explain
from dpscale.audit.reading.published import UNSTATED, Published, Spot
from dpscale.audit.search import Found, search
from dpscale.formulas.ring import ring_allreduce_bytes
from published_factory import PARAMETERS, ByPlace, by_place, published, with_table

# Whole audits, again and again.
pytestmark = pytest.mark.slow

EPOCH_S = (
    "32x1 104.02, 128x1 61.87, 512x1 48.31, 32x2 71.34, 128x2 40.66, 512x2 29.41, 32x4 40.19, 128x4 22.93, 512x4 16.07"
)


def clean(**changes: Any) -> Published:
    """A study under the definitions, with four significant digits."""
    times = {(b, n): float(time) for (b, n), time in by_place(EPOCH_S).items()}
    several = [place for place in times if place[1] > 1]
    communication = {(b, n): times[b, n] - times[b, 1] / n for b, n in several}
    data = {(b, n): ring_allreduce_bytes(n, 4 * PARAMETERS) * -(-50_000 // (n * b)) for b, n in several}
    columns: dict[str, ByPlace] = {
        "speedup": {(b, n): f"{times[b, 1] / times[b, n]:.4g}" for b, n in several},
        "compute_s": {(b, n): f"{times[b, 1] / n:.2f}" for b, n in several},
        "communication_s": {place: f"{time:.2f}" for place, time in communication.items()},
        "bandwidth": {place: f"{data[place] / communication[place] / 1e9:.4g}" for place in several},
    }
    return published(EPOCH_S, columns, **changes)


def with_cell(study: Published, quantity: str, place: tuple[int, int], number: str) -> Published:
    return with_table(study, quantity, {**study.quantities[quantity], Spot(*place): Decimal(number)})


def with_time(study: Published, place: tuple[int, int], seconds: str) -> Published:
    return replace(study, epoch_s={**study.epoch_s, Spot(*place): Decimal(seconds)})


def found_in(study: Published) -> dict[str, Found]:
    return {quantity: search(study, quantity) for quantity in study.quantities}


def test_a_clean_study_is_clean() -> None:
    record = audit(clean())
    assert {quantity["verdict"] for quantity in record["quantities"]} == {"reproduced"}
    assert not any(quantity["convention"]["differences"] for quantity in record["quantities"])
    assert record["warnings"] == []
    assert not is_faulty(record)


@pytest.mark.parametrize(
    ("quantity", "place", "printed", "kind", "clause"),
    [
        # 61.87 / 40.66 = 1.5216, 104.02 / 40.19 = 2.5882, 61.87 / 22.93 = 2.6982.
        ("speedup", (128, 2), "1.552", "misprint", "one digit of 1.522 is another"),
        ("speedup", (32, 4), "2.858", "misprint", "two digits of 2.588 are exchanged"),
        ("speedup", (32, 4), "25.88", "misprint", "the decimal point is 1 place off"),
        ("speedup", (128, 4), "2.69", "cut", "cut, not rounded"),
        ("speedup", (128, 2), "2.698", "copied", "the same number as at batch 128 on 4 GPUs"),
        # 104.02 - ... the times of batch 32: 71.34 - 52.01 = 19.33.
        ("communication_s", (128, 2), "19.33", "copied", "the same number as at batch 32 on 2 GPUs"),
        ("compute_s", (512, 4), "15.4675", "other cell's times", "the times of batch 128 on 4 GPUs give it"),
    ],
)  # fmt: skip
def test_a_fault_is_named(quantity: str, place: tuple[int, int], printed: str, kind: str, clause: str | None) -> None:
    study = with_cell(clean(), quantity, place, printed)
    found = found_in(study)
    assert Spot(*place) in found[quantity].exceptions
    fault = explain(study, quantity, found)[Spot(*place)]
    assert (fault.kind, fault.clause) == (kind, clause)
    record = audit(study)
    assert is_faulty(record) == (kind != "cut")


def test_a_negative_time_printed_as_zero() -> None:
    """50.00 / 2 = 25 s, but the epoch took 24 s."""
    study = with_time(with_time(clean(), (512, 1), "50.00"), (512, 2), "24.00")
    study = with_cell(with_cell(study, "communication_s", (512, 2), "0.00"), "communication_s", (512, 4), "6.57")
    fault = explain(study, "communication_s", found_in(study))[Spot(512, 2)]
    assert (fault.kind, fault.clause) == ("clipped", "a value below zero printed as zero")


@pytest.mark.parametrize(("place", "typo"), [((128, 1), "16.87"), ((128, 2), "46.06"), ((512, 4), "61.07")])
def test_a_misprinted_time_is_found_by_what_follows_from_it(place: tuple[int, int], typo: str) -> None:
    study = with_time(clean(), place, typo)
    (time,) = doubtful_times(study, found_in(study))
    assert (time.place, time.printed) == (Spot(*place), Decimal(typo))
    assert time.instead.value == pytest.approx(float(clean().epoch_s[Spot(*place)]), rel=2e-3)
    record = audit(study)
    (warning,) = [entry for entry in record["warnings"] if entry["check"] == "a time that its figures contradict"]
    assert warning["detail"].startswith(f"printed {typo} s; ")
    assert not [entry for entry in record["warnings"] if entry["check"].startswith("cell that its column")]


def test_what_follows_from_a_misprinted_time_has_a_caution() -> None:
    record = audit(with_time(clean(), (128, 1), "16.87"))
    cautions = {
        (figure["quantity"], figure["batch_per_gpu"], figure["gpus"])
        for figure in record["corrected"]
        if figure["caution"]
    }
    assert ("speedup", 128, 2) in cautions and ("compute_s", 128, 4) in cautions
    assert not any(batch != 128 or quantity == "images_per_s" for quantity, batch, _ in cautions)
    assert not any(figure["caution"] for figure in audit(clean())["corrected"])


def test_two_wrong_figures_are_no_misprinted_time() -> None:
    """They would need different times."""
    study = with_cell(with_cell(clean(), "speedup", (128, 2), "1.822"), "compute_s", (128, 2), "33.93")
    assert list(doubtful_times(study, found_in(study))) == []


def test_columns_of_two_numbers_of_gpus_that_are_exchanged() -> None:
    study = clean()
    table = study.quantities["speedup"]
    swapped = {Spot(place.batch_per_gpu, 6 - place.gpus): number for place, number in table.items()}
    found = search(with_table(study, "speedup", swapped), "speedup")
    assert found.verdict == "reproduced"
    assert found.best and found.best.mistakes == ["the columns of 2 and 4 GPUs exchanged"]


def test_compute_and_communication_in_each_others_column() -> None:
    study = clean()
    columns = dict(study.quantities)
    columns["compute_s"], columns["communication_s"] = columns["communication_s"], columns["compute_s"]
    found = found_in(replace(study, quantities=columns))
    for quantity, formula in (("compute_s", "T(N,b) - T(1,b)/N"), ("communication_s", "T(1,b)/N")):
        best = found[quantity].best
        assert best and best.convention.formula == formula
        assert best.mistakes == ["compute and communication in each other's column"]


@pytest.mark.parametrize(("unit", "factor", "words"), [("ms", 1e3, "in milliseconds"), ("min", 1 / 60, "in minutes")])
def test_times_in_another_unit(unit: str, factor: float, words: str) -> None:
    study = clean()
    column = {
        place: Decimal(f"{float(study.epoch_s[Spot(place[0], 1)]) / place.gpus * factor:.5g}")
        for place in study.quantities["compute_s"]
    }
    found = search(with_table(study, "compute_s", column), "compute_s")
    assert found.best and found.best.convention.formula == f"T(1,b)/N in {unit}"
    assert words in found.best.mistakes


def test_a_global_batch_that_nobody_names_is_found_and_not_blamed() -> None:
    """Figures with ceil(D/b) steps are right where b is the batch of all GPUs."""
    study = clean(batch=UNSTATED)
    table = {}
    for place in study.quantities["bandwidth"]:
        total, one_gpu = (float(study.epoch_s[Spot(place[0], gpus)]) for gpus in (place.gpus, 1))
        data = ring_allreduce_bytes(place.gpus, 4 * PARAMETERS) * -(-50_000 // place.batch_per_gpu)
        table[place] = Decimal(f"{data / (total - one_gpu / place.gpus) / 1e9:.4g}")
    record = audit(with_table(study, "bandwidth", table))
    (bandwidth,) = [entry for entry in record["quantities"] if entry["quantity"] == "bandwidth"]
    assert bandwidth["verdict"] == "reproduced" and not bandwidth["convention"]["differences"]
    assert record["batch"] == "global"
    assert not is_faulty(record)
    corrected = {
        (figure["batch_per_gpu"], figure["gpus"]): figure["corrected"]["value"]
        for figure in record["corrected"]
        if figure["quantity"] == "bandwidth"
    }
    assert corrected[128, 4] == pytest.approx(float(table[Spot(128, 4)]), rel=1e-3)


def test_a_factor_that_no_convention_has_is_named() -> None:
    """Every bandwidth times 0.7321: no constant of the space, but one for all cells."""
    study = clean()
    table = {place: Decimal(f"{float(number) * 0.7321:.5g}") for place, number in study.quantities["bandwidth"].items()}
    found = search(with_table(study, "bandwidth", table), "bandwidth")
    assert found.verdict == "up to a constant"
    assert found.factor and found.factor.low < 0.7321 * 4 * PARAMETERS / 1e9 < found.factor.high


def test_digits_that_differ_are_shown() -> None:
    """38.5 against 38.5 s told nobody anything."""
    study = with_cell(clean(), "compute_s", (32, 4), "26.03")
    details = [warning["detail"] for warning in audit(study)["warnings"] if "compute plus" in warning["check"]]
    assert details == ["40.19 against 40.21 s"]
