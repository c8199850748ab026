"""Every figure has a verdict, and says why."""

from typing import Any

import pytest

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.published import UNSTATED, Published, Spot
from dpscale.audit.sentences import in_short
from dpscale.audit.verdicts import EXPLAINED, MEASURED, UNEXPLAINED, UNKNOWN, read
from dpscale.tables.study import AuditTables
from published_factory import by_place, published, with_table

EPOCH_S = (
    "32x1 104.02, 128x1 61.87, 512x1 48.31, 32x2 71.34, 128x2 40.66, 512x2 29.41, 32x4 40.19, 128x4 22.93, 512x4 16.07"
)
SPEEDUP = "32x2 1.458, 128x2 1.522, 512x2 1.643, 32x4 2.588, 128x4 2.698, 512x4 3.006"
COMPUTE = "32x2 52.01, 128x2 30.94, 512x2 24.16, 32x4 26.00, 128x4 15.47, 512x4 12.08"
COMMUNICATION = "32x2 19.33, 128x2 9.72, 512x2 5.26, 32x4 14.18, 128x4 7.46, 512x4 3.99"


def clean(**changes: Any) -> Published:
    columns = {"speedup": SPEEDUP, "compute_s": COMPUTE, "communication_s": COMMUNICATION}
    return published(EPOCH_S, columns, **changes)


def with_cell(quantity: str, place: tuple[int, int], number: str) -> Published:
    return with_table(clean(), quantity, {**clean().quantities[quantity], Spot(*place): number})


def test_a_clean_study_is_clean() -> None:
    record = audit(clean())
    assert {cell["verdict"] for cell in record.cells} == {EXPLAINED, None}
    assert all("as defined here" in str(row["sentence"]) for row in record.findings[1:])
    assert record.warnings == [] and not is_faulty(record)
    assert record.answer == "Nothing calls for a second look: 18 of 18 figures are explained."


@pytest.mark.parametrize(
    ("quantity", "place", "printed", "state", "why"),
    [
        # 61.87 / 40.66 = 1.5216, 104.02 / 40.19 = 2.5882, 61.87 / 22.93 = 2.6982.
        ("speedup", (128, 2), "1.822", UNEXPLAINED, ""),
        ("speedup", (32, 4), "25.88", UNEXPLAINED, ""),
        ("speedup", (128, 4), "2.72", UNEXPLAINED, "the others are exact"),
        ("speedup", (128, 4), "2.69", EXPLAINED, "T(1,b) / T(N,b)"),  # cut, not rounded
        ("communication_s", (128, 2), "19.33", UNEXPLAINED, ""),
        ("compute_s", (512, 4), "0.00", UNEXPLAINED, ""),
    ],
)
def test_a_cell_that_its_column_does_not_give(
    quantity: str, place: tuple[int, int], printed: str, state: str, why: str
) -> None:
    study = with_cell(quantity, place, printed)
    verdict = read(study).verdicts[quantity, Spot(*place)]
    assert (verdict.state, verdict.why) == (state, why)
    assert is_faulty(audit(study)) == (state == UNEXPLAINED)


def test_figures_of_another_clock_are_found_whatever_it_is_called() -> None:
    """Its name is text of a file: it is no part of what is worked out."""
    clock = "wall, s) + quit("
    study = published("32x1 9.00, 32x2 8.00, 32x4 7.00", {"speedup": SPEEDUP}, other_clocks={clock: by_place(EPOCH_S)})
    reading = read(study)
    assert {verdict.state for verdict in reading.verdicts.values()} == {EXPLAINED}
    match = reading.outcomes["speedup"].match
    assert match and match.convention.shown == f"T{clock}(1,b) / T{clock}(N,b)"


def test_a_bandwidth_over_nothing_cannot_be_checked() -> None:
    """The communication time is 0.0 s to a tenth: any bandwidth would fit it."""
    (verdict,) = read(published("32x1 10.0, 32x2 5.0", {"bandwidth": "32x2 12.0"})).verdicts.values()
    assert (verdict.state, verdict.why) == (UNKNOWN, "its communication time may be zero within rounding")


def test_a_global_batch_that_nobody_names_is_found_and_not_blamed() -> None:
    """Figures with ceil(D/b) steps are right where b is the batch of all GPUs."""
    table = {}
    for place, communication in clean().quantities["communication_s"].items():
        data = 2 * (place.gpus - 1) / place.gpus * 44_695_848 * -(-50_000 // place.batch_per_gpu)
        table[place] = f"{data / float(communication) / 1e9:.3g}"
    record = audit(with_table(clean(batch=UNSTATED), "bandwidth", table))
    assert record.batch == "global"
    assert record.findings[-1]["verdict"] == EXPLAINED and not is_faulty(record)


PARTS = {
    "compute_s": "32x2 48.7, 128x2 27.1, 512x2 25.0, 32x4 27.4, 128x4 12.9, 512x4 13.3",
    "communication_s": "32x2 15.1, 128x2 11.2, 512x2 3.3, 32x4 9.9, 128x4 8.1, 512x4 2.7",
    "communication_share": "32x2 0.21, 128x2 0.28, 512x2 0.11, 32x4 0.25, 128x4 0.35, 512x4 0.17",
    "bandwidth": "32x2 12.1, 128x2 12.4, 512x2 11.9, 32x4 9.3, 128x4 9.4, 512x4 9.2",
    "images_per_s": "32x2 810, 128x2 1400, 512x2 1890, 32x4 1500, 128x4 2500, 512x4 3600",
}


@pytest.mark.parametrize("quantity", PARTS)
@pytest.mark.parametrize("beside", [{}, {"speedup": SPEEDUP}], ids=["alone", "beside a speedup"])
def test_what_may_have_been_measured_is_held_against_nothing(quantity: str, beside: dict[str, str]) -> None:
    """No definition was printed, and none gives it: it cannot be checked, and nobody is accused."""
    record = audit(published(EPOCH_S, {**beside, quantity: PARTS[quantity]}))
    cells = [cell for cell in record.cells if cell["quantity"] == quantity and cell["published"]]
    assert {(cell["verdict"], cell["why"]) for cell in cells} == {(UNKNOWN, MEASURED)}
    assert not is_faulty(record) and "6 cannot be checked" in record.answer


def test_a_figure_that_was_measured_is_never_below_zero() -> None:
    study = with_cell("communication_s", (32, 2), "-3.1")
    assert read(study).verdicts["communication_s", Spot(32, 2)].state == UNEXPLAINED


@pytest.mark.parametrize(("quantity", "figures"), [("speedup", "1.80 3.33"), ("efficiency", "0.90 0.833")])
def test_a_ratio_of_the_printed_rates_is_not_held_against_times(quantity: str, figures: str) -> None:
    """An epoch may have more in it than its steps: 2,430 / 1,350 is 1.80, 61.87 / 40.66 is 1.52."""
    figure = dict(zip((Spot(128, 2), Spot(128, 4)), figures.split(), strict=True))
    rates = "128x1 1350, 128x2 2430, 128x4 4498"
    record = audit(published("128x1 61.87, 128x2 40.66, 128x4 22.93", {quantity: figure, "images_per_s": rates}))
    assert not is_faulty(record)
    assert {cell["verdict"] for cell in record.cells if cell["quantity"] == quantity and cell["published"]} == {
        EXPLAINED
    }
    assert any("the ratio of the throughputs as printed" in str(row["sentence"]) for row in record.findings)


@pytest.mark.parametrize(("assumed", "missing"), [("network", "network"), ("images", "images of an epoch")])
def test_a_bandwidth_that_rests_on_what_nobody_said_is_not_accused(assumed: str, missing: str) -> None:
    record = audit(
        published(EPOCH_S, {"bandwidth": "32x2 14.613, 128x2 58.881, 512x4 29.17"}, assumed={assumed: "something"})
    )
    assert not is_faulty(record) and f"3 cannot be checked: {missing} not given" in record.answer
    assert not any("assumed" in str(row["sentence"]) for row in record.findings)


def test_rows_of_other_numbers_of_gpus_are_exchanged() -> None:
    compute = clean().quantities["compute_s"]
    exchanged = {place: compute[place._replace(gpus=6 - place.gpus)] for place in compute}
    record = audit(with_table(clean(), "compute_s", exchanged))
    assert is_faulty(record) and "in the rows of other numbers of GPUs" in str(record.warnings[0]["detail"])


def test_a_wrong_unit_shows_the_printed_number_in_the_right_one() -> None:
    """In GiB/s, and of one step: only the unit is mended."""
    table = {}
    for place, communication in clean().quantities["communication_s"].items():
        table[place] = f"{2 * (place.gpus - 1) / place.gpus * 44_695_848 / float(communication) / 2**30:.3g}"
    record = audit(with_table(clean(), "bandwidth", table))
    wrong = dict(in_short(AuditTables.of([record])))["Wrong"]
    assert "bandwidth 0.00215 is 0.00231 GB/s" in wrong
