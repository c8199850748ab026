"""The space of conventions: every way in which a published figure may have been derived from the times.

A convention is a choice of every kind that its quantity needs; that of docs/method.md stands first. It is a form, which
differs from cell to cell, times a constant, which all cells share. N GPUs, b images per GPU and step, D images per
epoch, T(N,b) seconds per epoch. Tsweep(b) is the one-GPU batch sweep; C(N,b), M(N,b), S(N,b) and W(N,b) are compute
time, communication time, speedup and bandwidth as they were printed. T of another clock has its name.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

from dpscale.audit.published import GLOBAL, POWERS_OF_UNITS, UNITS, UNSTATED, Published, Spot
from dpscale.formulas.rounded import Rounded
from dpscale.vocabulary.networks import networks

# What a choice is beside docs/method.md: the same; another definition that is right by itself; or a mistake.
METHOD, OTHER, WRONG = "method", "other", "wrong"

# What stands in a cell. Raises KeyError where a number that it needs was not printed, ZeroDivisionError where its
# divisor may be zero.
Value = Callable[[Published, Spot], Rounded]


@dataclass(frozen=True)
class Choice:
    """One way to compute one part: its formula, and its words. `steps` says how far from docs/method.md it is: of
    conventions that fit equally well, the nearest is taken. `number` is that of a constant; `check` names the check
    that finds a mistake, where that has a name of its own."""

    formula: str
    words: str
    steps: int = 0
    kind: str = METHOD
    number: float = 1.0
    check: str = ""


@dataclass(frozen=True)
class Form:
    """Form of a convention: it differs from cell to cell.

    The formula has `{}` where a constant is written. `through` are the printed columns that it goes through.
    """

    formula: str
    choices: tuple[Choice, ...]
    value: Value = field(compare=False)
    through: tuple[str, ...] = ()

    def at(self, published: Published, place: Spot) -> Rounded | None:
        """Its value in a cell. None where a number that it needs was not printed, or its divisor may be zero."""
        try:
            return self.value(published, place)
        except (KeyError, ZeroDivisionError):
            return None


@dataclass(frozen=True)
class Constant:
    """A constant that all cells share: the product of its choices; in a formula, factors in front and a unit behind."""

    choices: tuple[Choice, ...] = ()
    factors: str = ""
    unit: str = ""

    @cached_property
    def value(self) -> float:
        return math.prod(choice.number for choice in self.choices)


@dataclass(frozen=True)
class Convention:
    """A form times a constant."""

    form: Form
    constant: Constant = Constant()

    def at(self, published: Published, place: Spot) -> Rounded | None:
        """Return the value in a cell: that of the form times the constant. None where the form has none."""
        value = self.form.at(published, place)
        return value * self.constant.value if value else None

    @property
    def choices(self) -> tuple[Choice, ...]:
        return (*self.constant.choices, *self.form.choices)

    @property
    def steps(self) -> int:
        return steps_of(self.choices)

    @property
    def formula(self) -> str:
        return self.form.formula.replace("{}", self.constant.factors) + self.constant.unit

    def words(self, *kinds: str) -> list[str]:
        """Return the words of the choices that are of these kinds."""
        return [choice.words for choice in self.choices if choice.kind in kinds]


def steps_of(choices: Iterable[Choice]) -> int:
    """How far choices are from docs/method.md together."""
    return sum(choice.steps for choice in choices)


def _time(formula: str, words: str, value: Value, steps: int = 0, kind: str = METHOD, check: str = "") -> Form:
    return Form(formula, (Choice(formula, words, steps, kind, check=check),), value)


def _printed(quantity: str, formula: str, words: str, kind: str = METHOD) -> Form:
    """A column that was printed is right or not by itself; what follows from it is not blamed for it."""
    form = _time(formula, words, lambda study, at: study.quantities[quantity][at].interval, 1, kind)
    return replace(form, through=(quantity,))


def _of(formula: str, choices: tuple[Choice, ...], value: Callable[..., Rounded], *parts: Form) -> Form:
    """Return the form of a function of the cell and of other forms, which stand in its formula as {0}, {1}."""

    def worked_out(published: Published, place: Spot) -> Rounded:
        return value(place, *(form.value(published, place) for form in parts))

    every = *choices, *(choice for form in parts for choice in form.choices)
    through = tuple(name for form in parts for name in form.through)
    return Form(formula.format(*(form.formula for form in parts)), every, worked_out, through)


def _rebuilt(published: Published, place: Spot) -> Rounded:
    """Only where T(N,b) itself was not printed."""
    if place in published.epoch_s:
        raise KeyError(place)
    return published.epoch_s[place.alone].interval / published.quantities["speedup"][place].interval


def _before(published: Published, place: Spot) -> Rounded:
    """The time on the number of GPUs before; on the fewest, their own."""
    fewer = [at for at in published.epoch_s if at.batch_per_gpu == place.batch_per_gpu and at.gpus < place.gpus]
    return published.epoch_s[max(fewer, default=place)].interval


TABLE_ONE = _time("T(1,b)", "T(1,b) of the same table", lambda study, at: study.epoch_s[at.alone].interval)
SWEEP_ONE = _time(
    "Tsweep(b)", "the one-GPU batch sweep", lambda study, at: study.batch_sweep_s[at.alone].interval, 1, OTHER
)
TABLE_TOTAL = _time("T(N,b)", "the total T(N,b)", lambda study, at: study.epoch_s[at].interval)
COLUMN_TOTAL = _printed("compute_s", "C(N,b)", "the printed compute column as the total", OTHER)
REBUILT_TOTAL = replace(
    _time("T(1,b)/S(N,b)", "a total rebuilt from the printed speedup", _rebuilt, 1, OTHER), through=("speedup",)
)
_OVER_PREVIOUS = "speedup over the number of GPUs before"
_PREVIOUS = _time("T(N before,b)", f"{_OVER_PREVIOUS}, not over one", _before, 1, WRONG, _OVER_PREVIOUS)
_COMPUTE_COLUMN = _printed("compute_s", "C(N,b)", "the compute time as printed")
_COMMUNICATION_COLUMN = _printed("communication_s", "M(N,b)", "the communication time as printed")
_BANDWIDTH_COLUMN = _printed("bandwidth", "W(N,b)", "the bandwidth as printed")
_SPEEDUP_COLUMN = _printed("speedup", "S(N,b)", "the speedup as printed")
_BUS = _time("bus(N)", "the measured bus bandwidth", lambda study, at: study.bus_gb_s[at.gpus].interval)

# Ratios of a one-GPU time {0} and a total {1}: what they are called, and what they are.
_Ratio = Callable[[Spot, Rounded, Rounded], Rounded]
_SPEEDUPS: Mapping[Choice, _Ratio] = {
    Choice("{0} / {1}", "the ratio of epoch times"): lambda at, single, total: single / total,
    Choice(
        "N * {0} / {1}",
        "N times the ratio of epoch times counts N twice",
        1,
        WRONG,
        check="N*T(1,b)/T(N,b) reported as speedup",
    ): lambda at, single, total: at.gpus * (single / total),
    Choice("{0} / (N * {1})", "the ratio of epoch times over N, an efficiency", 1, WRONG): lambda at, single, total: (
        single / total / at.gpus
    ),
    Choice("{1} / {0}", "the ratio upside down", 1, WRONG): lambda at, single, total: total / single,
}
_EFFICIENCIES: Mapping[Choice, _Ratio] = {
    Choice("{0} / (N * {1})", "the ratio of epoch times over N"): lambda at, single, total: single / total / at.gpus,
    Choice("{0} / {1}", "the ratio of epoch times, not over N", 1, WRONG): lambda at, single, total: single / total,
}
DIVIDED, WHOLE = Choice("{0}/N", "divided by N"), Choice("{0}", "not divided by N", 1, OTHER)
_SWAPPED_COLUMNS = Choice("", "compute and communication in each other's column", 3, WRONG)
_PERCENT = Constant((Choice("", "in percent", 2, OTHER, 100),), unit=" * 100")

# Images of an epoch over its time; that times N; and that of one GPU.
_THROUGHPUTS: Mapping[Choice, Callable[[int], float]] = {
    Choice("D / {0}", "images of an epoch over its time"): lambda gpus: 1,
    Choice("N * D / {0}", "multiplied by the number of GPUs, which count twice then", 1, WRONG): lambda gpus: gpus,
    Choice("D / (N * {0})", "that of one GPU", 1, OTHER): lambda gpus: 1 / gpus,
}

_OTHER_UNIT = "unit is not that of the label"
ELEMENTS = Choice("1", "elements, not bytes", 1, WRONG, check=_OTHER_UNIT)
_SIZES = (
    Choice("4 bytes", "bytes", number=4),
    ELEMENTS,
    # What (N-1)/N gives in place of 2(N-1)/N too: no printed figure can tell the two apart.
    Choice("2 bytes", "half of the bytes: half precision, or a factor 2 left out", 2, OTHER, 2),
)
_Steps = Callable[[Published, Spot], float]
_STEPS: Mapping[Choice, _Steps] = {
    Choice("ceil(D/(N*b))", "all ceil(D/(N*b)) steps"): lambda study, at: math.ceil(study.steps(at)),
    Choice("1", "the bytes of one step over the time of an epoch", 1, WRONG): lambda study, at: 1,
    Choice("D/(N*b)", "D/(N*b) steps with their fraction", 1, OTHER): lambda study, at: study.steps(at),
    Choice("floor(D/(N*b))", "full steps only", 2, OTHER): lambda study, at: math.floor(study.steps(at)),
}
# With the batch of one GPU these are N times too many. Where nobody says what the batch is, they say that it is global.
_STEPS_OF_ONE_GPU: Mapping[Choice, _Steps] = {
    Choice("ceil(D/b)", "ceil(D/b) steps", 1, WRONG): lambda study, at: math.ceil(study.steps(at.alone)),
}
_OF_ALL_GPUS = "the batch being that of all GPUs"
GLOBAL_STEPS: Mapping[Choice, _Steps] = {
    Choice("ceil(D/b)", f"ceil(D/b) steps, {_OF_ALL_GPUS}", 1): lambda study, at: math.ceil(study.steps(at.alone)),
    Choice("D/b", f"D/b steps with their fraction, {_OF_ALL_GPUS}", 2): lambda study, at: study.steps(at.alone),
}
RING_TOTAL = Choice("2(N-1)", "what all GPUs of a ring send together", 1, OTHER)
_VOLUMES: Mapping[Choice, Callable[[int], float]] = {
    Choice("2(N-1)/N", "what a GPU of a ring sends"): lambda gpus: 2 * (gpus - 1) / gpus,
    RING_TOTAL: lambda gpus: 2 * (gpus - 1),
    Choice("1", "the gradients once", 1, OTHER): lambda gpus: 1,
    Choice("N/2", "a factor of N/2, not 2(N-1)/N", 2, OTHER): lambda gpus: gpus / 2,
}


def _fewest_gpus(published: Published) -> Form:
    """The fewest GPUs that are several as the base of a speedup: nobody has times of fewer."""
    gpus = min((place.gpus for place in published.epoch_s if place.gpus > 1), default=2)

    def value(published: Published, place: Spot) -> Rounded:
        if place.gpus < gpus:
            raise KeyError(place)
        return published.epoch_s[place._replace(gpus=gpus)].interval

    check = f"speedup over {gpus} GPUs"
    return _time(f"T({gpus},b)", f"{check}, not over one", value, 1, WRONG, check)


class Clock(NamedTuple):
    """A set of epoch times: its name, those on one GPU and in total."""

    name: str
    one_gpu: Form
    total: Form


def clocks(published: Published) -> list[Clock]:
    """Return the clock of the table, and others of the same study. Which one a study follows is its own choice."""
    return [Clock(published.clock or "of the table", TABLE_ONE, TABLE_TOTAL), *map(_clock, published.other_clocks)]


def _clock(name: str) -> Clock:
    words = f"the clock {name}"
    return Clock(
        name,
        _time(f"T{name}(1,b)", f"T(1,b) of {words}", lambda study, at: study.other_clocks[name][at.alone].interval),
        _time(f"T{name}(N,b)", words, lambda study, at: study.other_clocks[name][at].interval, 1),
    )


def space(quantity: str, published: Published) -> tuple[list[Form], list[Constant]]:
    """All conventions of a quantity: every form with every constant; that of docs/method.md first. The study gives its
    own clocks, numbers of parameters, and unit."""
    if quantity == "bandwidth":
        return list(_bandwidths(published)), _bandwidth_constants(published)
    if quantity == "compute_s":
        return list(_computes(published)), [Constant()]
    if quantity == "communication_s":
        return list(_communications(published)), [Constant()]
    if quantity == "images_per_s":
        images = published.dataset_images
        return [
            _of(choice.formula, (choice,), lambda at, total, times=times: images * times(at.gpus) / total, clock.total)
            for clock, (choice, times) in product(clocks(published), _THROUGHPUTS.items())
        ], [Constant()]
    if quantity == "utilisation_percent":
        over_bus = _of("100 * {0} / {1}", (), lambda at, rate, bus: 100 * (rate / bus), _BANDWIDTH_COLUMN, _BUS)
        return [over_bus if published.bus_gb_s else _BANDWIDTH_COLUMN], [Constant()]
    if quantity == "efficiency":
        printed = _of("{0} / N", (), lambda at, speedup: speedup / at.gpus, _SPEEDUP_COLUMN)
        return [*_ratios(published, _EFFICIENCIES), printed], [Constant(), _PERCENT]
    return list(_ratios(published, _SPEEDUPS)), [Constant(), _PERCENT]


def _ratios(published: Published, ratios: Mapping[Choice, _Ratio]) -> Iterator[Form]:
    """One-GPU time and total, of every clock."""
    pairs = [(single, TABLE_TOTAL) for single in (TABLE_ONE, SWEEP_ONE, _fewest_gpus(published), _PREVIOUS)]
    pairs += [(clock.one_gpu, clock.total) for clock in clocks(published)[1:]]
    for times, (choice, ratio) in product(pairs, ratios.items()):
        yield _of(choice.formula, (choice,), ratio, *times)


def _share(time: Form, share: Choice, *more: Choice) -> Form:
    """A time, over N or not."""
    return _of(share.formula, (share, *more), lambda at, seconds: seconds / (at.gpus if share == DIVIDED else 1), time)


def _difference(total: Form, subtracted: Form, *more: Choice) -> Form:
    return _of("{0} - {1}", more, lambda at, total_s, less_s: total_s - less_s, total, subtracted)


def _computes(published: Published) -> Iterator[Form]:
    """A time, over N or not; or the communication time, in the wrong column. What a printed communication time leaves
    of the total is no evidence: that may be what compute leaves."""
    for time, share in product((TABLE_ONE, SWEEP_ONE), (DIVIDED, WHOLE)):
        yield _share(time, share)
    for clock in clocks(published):
        yield _share(clock.total, WHOLE)
        if clock.total != TABLE_TOTAL:
            yield _share(clock.one_gpu, DIVIDED, *clock.total.choices)
    yield _difference(TABLE_TOTAL, _share(TABLE_ONE, DIVIDED), _SWAPPED_COLUMNS)


def _communications(published: Published) -> Iterator[Form]:
    """A total minus what counts as compute, of every clock; or compute, in the wrong column."""
    of_table = product((TABLE_TOTAL, COLUMN_TOTAL, REBUILT_TOTAL), (TABLE_ONE, SWEEP_ONE))
    other_clocks = clocks(published)[1:]
    for total, one_gpu in (*of_table, *((clock.total, clock.one_gpu) for clock in other_clocks)):
        yield from (_difference(total, _share(one_gpu, share)) for share in (DIVIDED, WHOLE))
    for total in (TABLE_TOTAL, REBUILT_TOTAL, *(clock.total for clock in other_clocks)):
        yield _difference(total, _COMPUTE_COLUMN)
    yield _share(TABLE_ONE, DIVIDED, _SWAPPED_COLUMNS)


def _bandwidths(published: Published) -> Iterator[Form]:
    """Bytes of a step, times steps, over a time. A batch of all GPUs together has but one number of steps."""
    times = [
        *(form for form in _communications(published) if _SWAPPED_COLUMNS not in form.choices),
        *(_COMMUNICATION_COLUMN, COLUMN_TOTAL, *(clock.total for clock in clocks(published))),
    ]
    more_steps = {GLOBAL: {}, UNSTATED: GLOBAL_STEPS}.get(published.batch, _STEPS_OF_ONE_GPU)
    for (volume, bytes_of), (step, steps), time in product(_VOLUMES.items(), {**_STEPS, **more_steps}.items(), times):
        over = "({0})" if " - " in time.formula else "{0}"
        yield _of(
            f"{_product(volume.formula, '{{}}', step.formula)} / {over}",
            (volume, step),
            lambda at, seconds, bytes_of=bytes_of, steps=steps: bytes_of(at.gpus) * steps(published, at) / seconds,
            time,
        )


def _product(*factors: str) -> str:
    return " * ".join(factor for factor in factors if factor != "1")


def _bandwidth_constants(published: Published) -> list[Constant]:
    """Parameters, their size, and the unit. Of equal products the nearest to docs/method.md."""
    label = published.bandwidth_unit or "GB/s"
    rates = [
        Choice(
            f" / {base}^{power}", f"a unit of {base}^{power}", unit != label, WRONG if unit != label else METHOD,
            1 / UNITS[unit], _OTHER_UNIT,
        )
        for unit, (base, power) in POWERS_OF_UNITS.items()
    ]  # fmt: skip
    constants: dict[str, Constant] = {}
    chosen = (
        Constant((number, size, rate), _product(number.formula, size.formula), rate.formula)
        for number, size, rate in product(_parameters(published), _SIZES, rates)
    )
    for constant in sorted(chosen, key=lambda constant: steps_of(constant.choices)):
        constants.setdefault(f"{constant.value:.9e}", constant)
    return list(constants.values())


def _parameters(published: Published) -> Iterator[Choice]:
    """Every number of parameters once, with the names of all networks that have it: equal ones are one convention."""
    trained, names = published.parameters_trained, defaultdict[int, list[str]](list)
    if trained:
        names[trained].append("trained")
    for network in networks():
        names[network.parameters].append(network.name)
    for network in networks():
        names[network.parameters - network.first].append(f"{network.name} without its first layer")
    kind_of_others = WRONG if trained is not None and "network" not in published.assumed else OTHER
    for number, called in names.items():
        steps = 0 if number == trained else 2 if "without" in called[0] else 1
        kind = METHOD if number == trained else kind_of_others
        yield Choice(f"{number}", f"{number:,} parameters, {', '.join(called)}", steps, kind, number)
