"""Random studies whose conventions and faults are known, to see what an audit makes of them; and random tables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from random import Random

from dpscale.audit.conventions import (
    COMMUNICATION_COLUMN,
    COMPUTE_COLUMN,
    METHOD,
    WRONG,
    Choice,
    Convention,
    evaluated,
    of_rounded_bytes,
    space,
    symbols,
)
from dpscale.audit.faults import HARMLESS, doubtful_times, explain
from dpscale.audit.reading.published import GLOBAL, PER_GPU, UNSTATED, Published, Spot
from dpscale.audit.search import Found, rounding, search
from dpscale.formulas.rounded import printed_to

BATCHES, GPUS = (32, 128, 512), (2, 4)
PLACES = [Spot(batch, gpus) for batch in BATCHES for gpus in GPUS]
FAULTS = (
    "none",
    "typo in a figure",
    "typo in a time",
    "copied cell",
    "two clocks",
    "cut digits",
    "global batch",
    "exchanged columns",
    "rounded bytes",
)
# Later ones may be derived from the printed columns of earlier ones.
DERIVED = ("speedup", "compute_s", "communication_s", "bandwidth")
IMAGES = 50_000


@dataclass
class MadeUp:
    """A study with the convention behind every quantity, the fault in it, and the cells that the fault is in.

    `exact` is the study before the fault, with figures that were not rounded.
    """

    study: Published
    exact: Published
    truth: Mapping[str, Convention]
    fault: str
    cells: set[tuple[str, Spot]] = field(default_factory=set)
    time: Spot | None = None


def decimals(value: float, places: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    """A number as printed with so many decimals."""
    return printed_to(value, -places, rounding)


def significant(value: float, digits: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    """A number as printed with so many significant digits."""
    exponent = math.floor(math.log10(abs(value))) if value else 0
    return decimals(value, digits - 1 - exponent, rounding)


def made_up(random: Random, fault: str) -> MadeUp:
    """A study of three batches and 1, 2 and 4 GPUs. One quantity has any convention, the others that of the method."""
    study = _times(random, fault)
    odd = random.choice(DERIVED)
    truth: dict[str, Convention] = {}
    clock = "loading" if fault == "two clocks" else None
    quantities: dict[str, dict[Spot, Decimal]] = {}
    unrounded: dict[str, dict[Spot, Decimal]] = {}
    for quantity in DERIVED:
        study = replace(study, quantities=quantities)
        truth[quantity] = _convention(random, study, quantity, quantity == odd, clock)
        if fault == "rounded bytes" and quantity == "bandwidth":
            truth[quantity] = _of_rounded_bytes(random, study)
        rounding = ROUND_DOWN if fault == "cut digits" and quantity == odd else ROUND_HALF_UP
        quantities = {**quantities, quantity: _printed(random, study, truth[quantity], rounding)}
        unrounded = {**unrounded, quantity: _unrounded(replace(study, quantities=unrounded), truth[quantity])}
    exact = replace(study, quantities=unrounded)
    study = replace(study, quantities=quantities)
    made = MadeUp(_as_read(study, fault), exact, truth, fault)
    return _with_fault(random, made, odd)


def _times(random: Random, fault: str) -> Published:
    digits = random.choice((2, 3, 4))
    one_gpu = {batch: random.uniform(10, 300) for batch in BATCHES}
    total = {place: one_gpu[place.batch_per_gpu] * (1 / place.gpus + random.uniform(0.05, 0.9)) for place in PLACES}
    epoch_s = {Spot(batch, 1): decimals(time, digits) for batch, time in one_gpu.items()}
    epoch_s |= {place: decimals(time, digits) for place, time in total.items()}
    sweep = {batch: decimals(time * random.uniform(0.93, 0.99), digits) for batch, time in one_gpu.items()}
    loading = {place: decimals(float(time) * random.uniform(1.1, 1.6), digits) for place, time in epoch_s.items()}
    has_two = fault == "two clocks"
    return Published(
        id="made-up",
        title="Made up",
        sha256="0" * 64,
        dataset_images=IMAGES,
        parameters_trained=random.choice((11_173_962, 11_181_642)),
        parameters_quoted=random.choice((None, 11_689_512)),
        batch_sweep_s=sweep,
        epoch_s=dict(sorted(epoch_s.items())),
        bandwidth_unit="GB/s",
        batch=GLOBAL if fault == "global batch" else PER_GPU,
        clock="training" if has_two else None,
        other_clocks={"loading": loading} if has_two else {},
    )


def _convention(random: Random, study: Published, quantity: str, is_odd: bool, clock: str | None) -> Convention:
    """Any convention whose figures could be printed, or the method's; that of another clock for speedups alone."""
    found = space(quantity, study)
    if clock and quantity == "speedup":
        return next(
            Convention(form, found.constants[0])
            for form in found.forms
            if form.formula == f"T{clock}(1,b) / T{clock}(N,b)"
        )
    if not is_odd or clock:
        return Convention(found.forms[0], min(found.constants, key=lambda constant: constant.cost))
    while True:
        # Seldom choices are as likely as common ones.
        form, constant = random.choice(found.forms), random.choice(found.constants)
        convention = Convention(form, constant)
        if is_printable(convention, study):
            return convention


def _of_rounded_bytes(random: Random, study: Published) -> Convention:
    """The bytes of one step, of all steps, or of a quoted network, rounded to 2 or 3 digits before use."""
    found = space("bandwidth", study)
    amount = random.choice([amount for amount in found.amounts if sum(choice.cost for choice in amount.choices) <= 1])
    constant = random.choice([constant for constant in found.constants if constant.cost <= 2])
    return of_rounded_bytes(amount, constant, rounding(random.choice((2, 3)), is_significant=True), found.times[0])


def is_printable(convention: Convention, study: Published) -> bool:
    """Whether every cell has a value above zero that is known to three digits or more."""
    found = 0
    for place in PLACES:
        try:
            value = evaluated(convention.form.worked_out_as, symbols(study, place)) * convention.constant.value
        except KeyError:
            continue
        except ZeroDivisionError:
            return False
        if value.low <= 0 or (value.high - value.low) > 0.01 * value.value:
            return False
        found += 1
    return found >= 3


def _printed(random: Random, study: Published, convention: Convention, rounding: str) -> dict[Spot, Decimal]:
    digits = random.choice((3, 4, 5))
    values = {place: value for place in PLACES if (value := convention.at(study, place))}
    if random.random() < 0.5:
        return {place: significant(value.value, digits, rounding) for place, value in values.items()}
    least = min(value.value for value in values.values())
    places = digits - 1 - math.floor(math.log10(least))
    return {place: decimals(value.value, places, rounding) for place, value in values.items()}


def _unrounded(study: Published, convention: Convention) -> dict[Spot, Decimal]:
    return {place: Decimal(value.value) for place in PLACES if (value := convention.at(study, place))}


def _as_read(study: Published, fault: str) -> Published:
    """A reader of a table is not told that its batches are global."""
    return replace(study, batch=UNSTATED) if fault == "global batch" else study


def _with_fault(random: Random, made: MadeUp, odd: str) -> MadeUp:
    study = made.study
    quantity = random.choice(DERIVED)
    table = dict(study.quantities[quantity])
    place = random.choice(sorted(table))
    if made.fault == "typo in a figure":
        table[place] = _misprinted(random, table[place])
    elif made.fault == "copied cell":
        near = [other for other in table if other != place and (other[0] == place[0] or other[1] == place[1])]
        table[place] = table[random.choice(near)]
    elif made.fault == "exchanged columns":
        exchanged = {Spot(place.batch_per_gpu, 6 - place.gpus): number for place, number in table.items()}
        return replace(made, study=replace(study, quantities={**study.quantities, quantity: exchanged}))
    elif made.fault == "typo in a time":
        place = random.choice(sorted(study.epoch_s))
        time = _misprinted(random, study.epoch_s[place])
        return replace(made, study=replace(study, epoch_s={**study.epoch_s, place: time}), time=place)
    else:
        return made
    if table[place] == study.quantities[quantity][place]:
        return made
    changed = replace(study, quantities={**study.quantities, quantity: table})
    return replace(made, study=changed, cells={(quantity, place)})


def _misprinted(random: Random, number: Decimal) -> Decimal:
    """One of the first three digits another, or two exchanged."""
    digits = list(str(number))
    at = [n for n, digit in enumerate(digits) if digit.isdigit()]
    at = at[next(n for n, place in enumerate(at) if digits[place] != "0") :][:3]
    if random.random() < 0.3 and len(at) > 1 and digits[at[0]] != digits[at[1]] and digits[at[1]] != "0":
        digits[at[0]], digits[at[1]] = digits[at[1]], digits[at[0]]
    else:
        place = random.choice(at)
        digits[place] = random.choice([digit for digit in "123456789" if digit != digits[place]])
    return Decimal("".join(digits))


@dataclass(frozen=True)
class Outcome:
    """What an audit made of a made-up study: quantities whose convention it missed, and accusations that are wrong."""

    missed: list[str]
    wrong: list[str]


def outcome(made: MadeUp) -> Outcome:
    """Compare what was found with what is true."""
    study = made.study
    found = {quantity: search(study, quantity) for quantity in study.quantities}
    missed, wrong = [], []
    # What is right of a global batch is only known once the audit has found that it is one.
    of_truth = replace(study, batch=GLOBAL) if made.fault == "global batch" else study
    followed = _doubted(made)
    for quantity, convention in made.truth.items():
        result = found[quantity]
        if not _contains(result, convention, made, of_truth):
            missed.append(f"{quantity}: {convention.formula}; {result.verdict}: {_formula(result)}")
            if result.is_found and result.best and result.best.differences:
                wrong.append(missed[-1])
        elif result.is_found and result.best:
            is_method = all(map(is_methods, convention.choices))
            is_exchanged = made.fault == "exchanged columns" or result.best.printing.kind != WRONG
            if is_method and (not all(map(is_methods, result.best.convention.choices)) or not is_exchanged):
                wrong.append(f"{quantity}: as defined, called {_formula(result)}")
            reasons = explain(study, quantity, found)
            named = [
                place
                for place in result.exceptions
                if (quantity, place) not in made.cells and not (place in reasons and reasons[place].kind in HARMLESS)
            ]
            if any(place not in followed for place in named):
                wrong.append(f"{quantity}: {named} is no exception of {_formula(result)}")
    wrong += _wrong_times(made, found)
    return Outcome(missed, wrong)


def is_methods(choice: Choice) -> bool:
    return choice.kind == METHOD


def _doubted(made: MadeUp) -> list[Spot]:
    """Cells that a misprinted time spoils."""
    if made.time is None:
        return []
    return [
        place for place in PLACES if place == made.time or (made.time.gpus < place.gpus and place[0] == made.time[0])
    ]


def _wrong_times(made: MadeUp, found: Mapping[str, Found]) -> list[str]:
    """Times that are called doubtful where none is, or where another one is."""
    return [f"{time.place} is no misprint" for time in doubtful_times(made.study, found) if time.place != made.time]


def _formula(found: Found) -> str:
    return found.best.convention.formula if found.best else "nothing"


def _contains(found: Found, truth: Convention, made: MadeUp, of_truth: Published) -> bool:
    """Whether the truth is among the conventions found, or one that gives the same numbers in every cell."""
    if not found.best or found.verdict == "not reproduced":
        return False
    if found.verdict == "up to a constant":
        return found.best.convention.form.choices == truth.form.choices
    candidates = [found.best.convention, *found.others]
    if any(candidate.choices == truth.choices for candidate in candidates):
        return True
    # Rounding that no printed digit shows makes no other convention.
    without = tuple(choice for choice in truth.choices if not choice.name.startswith("rounded to"))
    if any(set(candidate.choices) == set(without) for candidate in candidates):
        return True
    # The printed column is the same times, but for a misprint in what they were derived from.
    if any(_through_the_column(candidate, truth, made) for candidate in candidates):
        return True
    # Two conventions are the same where they give the same without rounding and without the fault.
    wanted = _values(truth, replace(made.exact, batch=of_truth.batch), found)
    as_read = replace(made.exact, batch=made.study.batch)
    return any(
        all(math.isclose(one, other, rel_tol=1e-6) for one, other in zip(wanted, values, strict=True))
        for candidate in candidates
        if len(values := _values(candidate, as_read, found)) == len(wanted) > 0
    )


def _through_the_column(candidate: Convention, truth: Convention, made: MadeUp) -> bool:
    """Whether a candidate is the truth with a column as printed in place of what that column is."""
    for quantity, column in (("communication_s", COMMUNICATION_COLUMN), ("compute_s", COMPUTE_COLUMN)):
        replaced = made.truth[quantity].form.choices
        through = (*truth.choices[: -len(replaced)], column)
        if truth.choices[-len(replaced) :] == replaced and candidate.choices == through:
            return True
    return False


def _values(convention: Convention, study: Published, found: Found) -> list[float]:
    return [value.value for place in found.cells if (value := convention.at(study, place))]


def random_table(random: Random) -> Published:
    """A study whose figures have nothing to do with its times."""
    study = _times(random, "none")
    quantities = {}
    for quantity, low, high in (
        ("speedup", 0.3, 8), ("compute_s", 1, 300), ("communication_s", 0.1, 300), ("bandwidth", 1e-3, 1e3)
    ):  # fmt: skip
        digits = random.choice((1, 2, 3, 4, 5))
        values = {place: math.exp(random.uniform(math.log(low), math.log(high))) for place in PLACES}
        print_as = decimals if random.random() < 0.5 else significant
        quantities[quantity] = {place: print_as(value, digits) for place, value in values.items()}
    return replace(study, quantities=quantities)
