"""Every figure has a verdict, and says why."""

from typing import Any

import pytest

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.published import UNSTATED, Published, Spot
from dpscale.audit.search import CHANCE_LIMIT
from dpscale.audit.verdicts import ANOTHER_RUN, EXPLAINED, UNEXPLAINED, UNKNOWN, read
from published_factory import published, with_table

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
        ("speedup", (128, 4), "2.72", ANOTHER_RUN, "as where times are of another run"),
        ("speedup", (128, 4), "2.69", ANOTHER_RUN, "as where its digits are cut, not rounded"),
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


def test_a_bandwidth_over_nothing_cannot_be_checked() -> None:
    """The communication time is 0.0 s to a tenth: any bandwidth would fit it."""
    (verdict,) = read(published("32x1 10.0, 32x2 5.0", {"bandwidth": "32x2 12.0"})).verdicts.values()
    assert (verdict.state, verdict.why) == (UNKNOWN, "its communication time may be zero within rounding")


def test_a_fit_on_one_rough_cell_is_not_taken_for_a_convention() -> None:
    outcome = read(published("32x1 25.86, 32x2 36.93", {"bandwidth": "32x2 0.0018"})).outcomes["bandwidth"]
    assert (outcome.match, outcome.unsure) == (None, None)
    assert outcome.chance > CHANCE_LIMIT


def test_a_global_batch_that_nobody_names_is_found_and_not_blamed() -> None:
    """Figures with ceil(D/b) steps are right where b is the batch of all GPUs."""
    table = {}
    for place, communication in clean().quantities["communication_s"].items():
        data = 2 * (place.gpus - 1) / place.gpus * 44_695_848 * -(-50_000 // place.batch_per_gpu)
        table[place] = f"{data / float(communication) / 1e9:.3g}"
    record = audit(with_table(clean(batch=UNSTATED), "bandwidth", table))
    assert record.batch == "global"
    assert record.findings[-1]["verdict"] == EXPLAINED and not is_faulty(record)
