"""The search: what was derived under a convention is found again, an altered cell is named, and chance is not sold."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpscale.audit.conventions import Convention, space
from dpscale.audit.reading.published import QUANTITIES, UNSTATED, Published, Spot
from dpscale.audit.search import CHANCE_LIMIT, at_least, grid, search
from dpscale.audit.sentences import sentence
from dpscale.formulas.rounded import Rounded
from published_factory import by_place, published, significant, with_table

BATCHES, GPUS = (32, 128, 512, 2048), (2, 4)
PLACES = [Spot(batch, gpus) for batch in BATCHES for gpus in GPUS]
FOUND = ("reproduced", "too few cells")
# A search for a bandwidth tries two thousand conventions.
EXAMPLES = {"speedup": 40, "compute_s": 40, "communication_s": 40, "bandwidth": 6}


@st.composite
def times(draw: st.DrawFn, digits: int = 5, totals: bool = True) -> Published:
    """A study with every column that a convention may want, unrelated to each other, in `digits` significant digits."""
    seconds = st.floats(10, 300)
    one_gpu_s = {batch: draw(seconds) for batch in BATCHES}
    columns = {
        name: {place: significant(draw(st.floats(low, high)), digits) for place in PLACES}
        for name, low, high in (("speedup", 0.3, 4), ("compute_s", 400, 900), ("communication_s", 1, 50))
    }
    epoch_s = {(batch, 1): significant(time, digits) for batch, time in one_gpu_s.items()}
    if totals:  # above half of the one-GPU time: a communication time above zero
        epoch_s |= {
            (place.batch_per_gpu, place.gpus): significant(
                one_gpu_s[place.batch_per_gpu] * draw(st.floats(1.1, 3)), digits
            )
            for place in PLACES
        }
    sweep = {batch: significant(time * draw(st.floats(0.6, 0.95)), digits) for batch, time in one_gpu_s.items()}
    return published(epoch_s, columns, sweep, parameters_quoted=draw(st.none() | st.integers(10**6, 10**8)))


def derived(
    data: st.DataObject, study: Published, quantity: str, digits: int | None = None
) -> tuple[Published, Convention]:
    """The study with one quantity derived by some convention from times as they were before rounding, and printed."""
    known = space(quantity, study)
    forms, constants = st.sampled_from([*known.forms, *known.circular]), st.sampled_from(known.constants)
    usable = st.builds(Convention, forms, constants).filter(lambda candidate: _worked_out(candidate, study))
    convention = data.draw(usable)
    table = {}
    for place, value in _worked_out(convention, study).items():
        before_rounding = value.low + data.draw(st.floats(0, 1)) * (value.high - value.low)
        table[place] = significant(before_rounding, digits) if digits else data.draw(rounded(before_rounding))
    return with_table(study, quantity, table), convention


def rounded(value: float) -> st.SearchStrategy[Decimal]:
    """As people round: to significant digits, or to decimals, which may leave nothing but zeros."""
    digits = st.integers(2, 6)
    return digits.map(lambda n: significant(value, n)) | digits.map(lambda n: Decimal(f"{value:.{n}f}"))


def _worked_out(convention: Convention, study: Published) -> dict[Spot, Rounded]:
    """What it gives in every cell that people would print: not where what it divides by may be zero."""
    found = {}
    for place in PLACES:
        value = convention.at(study, place)
        if value and value.value > 0 and value.low > 0:
            found[place] = value
    return found


@pytest.mark.slow
@pytest.mark.parametrize("totals", [True, False], ids=["totals printed", "totals not printed"])
@pytest.mark.parametrize("quantity", ["speedup", "compute_s", "communication_s", "bandwidth"])
def test_a_convention_is_found_again_from_what_it_gave(quantity: str, totals: bool) -> None:
    if quantity == "speedup" and not totals:
        return

    @settings(max_examples=EXAMPLES[quantity], deadline=None)
    @given(st.data())
    def found_again(data: st.DataObject) -> None:
        study, convention = derived(data, data.draw(times(totals=totals)), quantity)
        found = search(study, quantity)
        assert found.verdict in FOUND
        assert found.best and not found.exceptions
        fitting = [found.best.convention, *found.others]
        # Zeros fit thousands of conventions, of which the simplest are kept.
        assert convention.choices in [one.choices for one in fitting] or found.fitting > len(fitting)
        assert sentence(found, study.quantities[quantity])

    found_again()


@pytest.mark.slow
@pytest.mark.parametrize("quantity", ["speedup", "compute_s", "communication_s", "bandwidth"])
def test_an_altered_cell_is_named(quantity: str) -> None:
    @settings(max_examples=EXAMPLES[quantity], deadline=None)
    @given(st.data())
    def named(data: st.DataObject) -> None:
        study, convention = derived(data, data.draw(times(digits=6)), quantity, digits=6)
        table = dict(study.quantities[quantity])
        assume(len(table) == len(PLACES))
        place = data.draw(st.sampled_from(sorted(table)))
        factor = data.draw(st.sampled_from([0.37, 0.83, 1.23, 1.71]))
        table[place] = significant(float(table[place]) * factor, 6)
        found = search(with_table(study, quantity, table), quantity)
        assert found.verdict == "reproduced except"
        assert found.exceptions == [place]
        assert found.best and convention.choices in [
            found.best.convention.choices,
            *(rival.convention.choices for rival in found.rivals),
        ]

    named()


@pytest.mark.slow
@pytest.mark.parametrize("totals", [True, False])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_no_two_conventions_of_the_space_are_the_same(quantity: str, totals: bool) -> None:
    """Equal formulas would be one convention counted twice: in the declared space there are none."""
    places = [Spot(batch, gpus) for batch in BATCHES for gpus in (2, 4, 8)]
    one_gpu_s = {32: 271.984, 128: 229.739, 512: 211.854, 2048: 203.731}
    clocks = []
    for factor, overhead in ((1, 7), (1.31, 17.3)):
        clock = {Spot(batch, 1): f"{time * factor:.3f}" for batch, time in one_gpu_s.items()}
        for batch, gpus in places if totals else []:
            clock[Spot(batch, gpus)] = f"{one_gpu_s[batch] / gpus + overhead + factor * gpus / 3:.3f}"
        clocks.append({place: Decimal(time) for place, time in clock.items()})
    columns = {
        "speedup": {place: f"{0.71 * place.gpus + place.batch_per_gpu / 9e3:.4f}" for place in places},
        "compute_s": {place: f"{399 / place.gpus + 1.7 * place.gpus:.3f}" for place in places},
        "communication_s": {place: f"{13 / place.gpus + 2.3:.3f}" for place in places},
        "bandwidth": {place: f"{3 / place.gpus + 2.3:.3f}" for place in places},
    }
    sweep = {batch: f"{time * 0.993 - 1:.3f}" for batch, time in one_gpu_s.items()}
    others = {"loading": clocks[1]}
    study = published(clocks[0], columns, sweep, parameters_quoted=11_689_512, batch=UNSTATED, other_clocks=others)
    conventions = space(quantity, study)
    forms = [*conventions.forms, *conventions.circular]
    values = Counter(
        tuple(f"{value * constant.value:.9e}" for value in row if value == value)
        for row in grid(forms, study, places)[0].tolist()
        for constant in conventions.constants
    )
    assert [same for same, times in values.items() if times > 1 and same] == []
    names = [(*(choice.name for choice in form.choices),) for form in forms]
    assert len(set(names)) == len(names)


def test_equal_numbers_of_parameters_are_one_convention() -> None:
    """Three networks, each whole, by its weights alone and without its first layer; two are the same without that."""
    study = published("32x1 1.0", {}, parameters_quoted=11_173_962)
    other = published("32x1 1.0", {}, parameters_quoted=12_345_678)
    assert len(space("bandwidth", other).constants) == len(space("bandwidth", study).constants) * 9 / 8


def test_a_fit_on_one_rough_cell_is_not_sold_as_found() -> None:
    study = published("32x1 25.86, 32x2 36.93", {"bandwidth": "32x2 0.0018"})
    found = search(study, "bandwidth")
    assert found.verdict == "too few cells"
    assert found.rivals and found.chance > CHANCE_LIMIT
    assert "too little to call it found" in sentence(found, study.quantities["bandwidth"])
    found = replace(found, chance=CHANCE_LIMIT / 2)
    assert "only because what it gives is known so roughly" in sentence(found, study.quantities["bandwidth"])


def test_what_only_a_far_fetched_convention_gives_is_too_little_and_not_unexplained() -> None:
    """Half of the bytes, sent by all GPUs together, over the total time: more assumptions than one cell carries."""
    study = published("2048x1 230.51, 2048x4 75.206", {"bandwidth": "2048x4 12"})
    found = search(study, "bandwidth")
    assert found.verdict == "too few cells"
    assert found.best and not found.exceptions


def test_a_known_constant_that_gives_all_cells_comes_before_an_unknown_one() -> None:
    """Three cells of 11,172,234 * 2 bytes, in GB per minute: far-fetched, but no constant has to be made up."""
    epoch_s = "32x1 10.000, 512x1 37.000, 2048x1 18.000"
    columns = {
        "speedup": "32x2 1.0000, 512x2 1.0000, 2048x4 0.50000",
        "bandwidth": "32x2 0.54, 512x2 0.14, 2048x4 0.05958",
    }
    sweep = {32: "7.5000", 512: "27.750", 2048: "13.500"}
    found = search(published(epoch_s, columns, sweep), "bandwidth")
    assert found.verdict == "reproduced"
    assert found.best and found.best.convention.formula.endswith(
        "* 2 bytes / (T(1,b)/S(N,b) - Tsweep(b)) / 10^9 in min"
    )


def test_a_constant_that_all_cells_share_is_known_no_better_than_they_are() -> None:
    """Six rough cells settle the form; that one of many constants fits them is said beside it."""
    places = {Spot(batch, gpus): 20.0 + batch / 64 + gpus for batch in (32, 128, 512) for gpus in GPUS}
    epoch_s = {(batch, 1): "30.000" for batch in (32, 128, 512)} | {
        place: f"{time:.3f}" for place, time in places.items()
    }
    bandwidth = {
        place: f"{2 * (place.gpus - 1) / place.gpus * 11_689_512 * 4 / (time - 30 / place.gpus) / 2**30:.1e}"
        for place, time in places.items()
    }
    found = search(published(epoch_s, {"bandwidth": bandwidth}), "bandwidth")
    assert found.verdict == "reproduced" and found.chance < 1e-4
    # Those that are no further from docs/method.md than 11,689,512 parameters and GiB.
    study = published(epoch_s, {"bandwidth": bandwidth})
    near = [constant for constant in space("bandwidth", study).constants if constant.cost <= 2]
    assert found.scale and found.scale.constants == len(near) > 20
    assert found.scale.low <= 1 <= found.scale.high < 1.05
    assert found.scale.chance > CHANCE_LIMIT
    assert "the constant factor that all cells share" in sentence(
        found, {place: Decimal(x) for place, x in bandwidth.items()}
    )


def test_a_form_without_a_constant_has_but_one() -> None:
    study = published("32x1 25.86, 32x2 36.93, 32x4 27.25", {"speedup": "32x2 0.70, 32x4 0.95"})
    found = search(study, "speedup")
    assert found.scale and found.scale.constants == 1


def test_one_gpu_beside_itself_supports_nothing() -> None:
    study = published("32x1 25.86, 128x1 14.73", {"speedup": "32x1 1.0, 128x1 1.0"})
    found = search(study, "speedup")
    assert found.verdict == "too few cells"
    assert found.best and found.best.supporting == 0


def test_a_wrong_cell_of_one_gpu_is_named_too() -> None:
    epoch_s = "32x1 25.86, 32x2 36.93, 32x4 27.25"
    study = published(epoch_s, {"speedup": "32x1 1.10, 32x2 0.700, 32x4 0.949"})
    found = search(study, "speedup")
    assert found.verdict == "reproduced except"
    assert found.exceptions == [Spot(32, 1)]


def test_what_was_not_printed_would_tell_two_conventions_apart() -> None:
    """With 2 GPUs only, a ring's share and one copy are the same; times of 4 GPUs are there."""
    epoch_s = "32x1 25.8600, 32x2 36.9300, 32x4 27.2500, 128x1 14.7300, 128x2 17.5900"
    bandwidth = "32x2 1.45634, 128x2 0.85676"
    found = search(published(epoch_s, {"bandwidth": bandwidth}), "bandwidth")
    assert found.verdict == "reproduced"
    assert found.best and found.best.differences == []
    (once,) = [rival for rival in found.rivals if "once" in rival.convention.name]
    assert Spot(32, 4) in once.unprinted


def test_times_that_cancel_out_decide_nothing() -> None:
    """Communication of 0.0 s for certain to a tenth: any bandwidth would fit it."""
    study = published("32x1 10.0, 32x2 5.0", {"bandwidth": "32x2 12.0"})
    found = search(study, "bandwidth")
    assert all("T(N,b) - T(1,b)/N" not in rival.convention.formula for rival in found.rivals)


def test_the_name_of_a_clock_is_not_run() -> None:
    clocks = {"1/0; {0}": by_place("32x1 30.00, 32x2 20.00, 128x1 20.00, 128x2 16.00")}
    epoch_s, speedup = "32x1 40.00, 32x2 25.00, 128x1 30.00, 128x2 18.00", {"speedup": "32x2 1.500, 128x2 1.250"}
    found = search(published(epoch_s, speedup, other_clocks=clocks), "speedup")
    assert found.best and found.best.convention.formula == "T1/0; {0}(1,b) / T1/0; {0}(N,b)"


def test_nothing_can_be_checked_without_times() -> None:
    printed = {Spot(32, 1): Decimal("1.00"), Spot(32, 2): Decimal("0.57")}
    found = search(published("32x1 15.89", {"speedup": printed}), "speedup")
    assert found.verdict == "not checkable"
    assert found.best is None and found.tried == 0
    assert sentence(found, printed).startswith("The speedup cannot be checked")


def test_the_tail_of_three_coins() -> None:
    assert [at_least(wanted, [0.5] * 3) for wanted in range(5)] == pytest.approx([1, 0.875, 0.5, 0.125, 0])
