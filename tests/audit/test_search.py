"""The search: what was derived under a convention is found again, and chance is not sold."""

from collections import Counter
from typing import Any

import pytest

from dpscale.audit.conventions import Convention, space
from dpscale.audit.reading.published import QUANTITIES, UNSTATED, Published, Spot
from dpscale.audit.search import CHANCE_LIMIT, Found, search
from published_factory import by_place, published, with_table

EPOCH_S = {(batch, gpus): f"{batch / 8 + 100 / gpus:.3f}" for batch in (32, 128, 512) for gpus in (1, 2, 4)}
PLACES = [Spot(*place) for place in EPOCH_S if place[1] > 1]


def study(**changes: Any) -> Published:
    """With every column that a convention may go through, and another clock."""
    columns = {
        "speedup": {place: f"{0.71 * place.gpus + place.batch_per_gpu / 9e3:.4f}" for place in PLACES},
        "compute_s": {place: f"{399 / place.gpus + 1.7 * place.gpus:.3f}" for place in PLACES},
        "communication_s": {place: f"{13 / place.gpus + 2.3:.3f}" for place in PLACES},
        "bandwidth": {place: f"{3 / place.gpus + 2.3:.3f}" for place in PLACES},
    }
    sweep = {batch: f"{float(EPOCH_S[batch, 1]) * 0.9:.3f}" for batch in (32, 128, 512)}
    loading = by_place({place: f"{float(time) * 1.31 + 7 / place[1]:.3f}" for place, time in EPOCH_S.items()})
    given = {"other_clocks": {"loading": loading}, "batch": UNSTATED, **changes}
    return published(EPOCH_S, columns, sweep, **given)


def conventions(of: Published, quantity: str) -> list[Convention]:
    forms, constants = space(quantity, of)
    return [Convention(form, constant) for form in forms for constant in constants]


def printed_by(of: Published, quantity: str, convention: Convention, digits: int = 6) -> Published:
    values = {place: value for place in PLACES if (value := convention.at(of, place))}
    return with_table(of, quantity, {place: f"{value.value:.{digits - 1}e}" for place, value in values.items()})


@pytest.mark.slow
@pytest.mark.parametrize("quantity", [name for name in QUANTITIES if name not in ("utilisation_percent", "bandwidth")])
def test_a_convention_is_found_again_from_what_it_gave(quantity: str) -> None:
    for convention in conventions(study(), quantity):
        if convention.at(study(), PLACES[0]) is None:
            continue  # a total that is only rebuilt where it was not printed
        found = search(printed_by(study(), quantity, convention), quantity)
        assert found.best and not found.best.is_cut
        assert found.best.agreeing == set(PLACES), convention.formula


@pytest.mark.slow
def test_a_bandwidth_is_found_again_too() -> None:
    """Thousands of conventions: every 199th of those that give numbers above zero."""
    for convention in conventions(study(), "bandwidth")[::199]:
        values = [convention.at(study(), place) for place in PLACES]
        if all(value and value.low > 0 for value in values):
            found = search(printed_by(study(), "bandwidth", convention), "bandwidth")
            assert found.best and found.best.agreeing == set(PLACES), convention.formula


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_no_two_conventions_have_the_same_formula(quantity: str) -> None:
    formulas = Counter((one.formula, one.choices) for one in conventions(study(), quantity))
    assert {formula for formula, times in formulas.items() if times > 1} == set()


def of_one(quantity: str, epoch_s: str, printed: str) -> Found:
    return search(published(epoch_s, {quantity: printed}), quantity)


def test_a_fit_on_one_rough_cell_is_not_sold_as_found() -> None:
    found = of_one("bandwidth", "32x1 25.86, 32x2 36.93", "32x2 0.0018")
    assert (found.best, found.near, found.unsure) == (None, None, None)
    assert found.chance > CHANCE_LIMIT


def test_the_name_of_a_clock_is_a_name() -> None:
    clocks = {"1/0; {0}": by_place("32x1 30.00, 32x2 20.00, 128x1 20.00, 128x2 16.00")}
    epoch_s, speedup = "32x1 40.00, 32x2 25.00, 128x1 30.00, 128x2 18.00", {"speedup": "32x2 1.500, 128x2 1.250"}
    found = search(published(epoch_s, speedup, other_clocks=clocks), "speedup")
    assert found.best and found.best.convention.formula.startswith("T1/0; ")


def test_a_factor_that_no_convention_has_is_known() -> None:
    alone = published(EPOCH_S, {})
    right = conventions(alone, "bandwidth")[0]
    found = search(printed_by(alone, "bandwidth", right), "bandwidth")
    table = {place: f"{value.value * 0.7321:.5g}" for place, value in found.method.values.items()}
    found = search(with_table(alone, "bandwidth", table), "bandwidth")
    assert found.match is None
    assert found.factor and found.factor.low < 0.7321 < found.factor.high
