"""The space of conventions: every way in which a published figure may have been derived from the times.

A convention is a choice of every kind that its quantity needs; that of docs/method.md stands first. It is a form, which
differs from cell to cell, times a constant, which all cells share. N GPUs, b images per GPU and step, D images per
epoch, T(N,b) seconds per epoch. Tsweep(b) is the one-GPU batch sweep; C(N,b), M(N,b), S(N,b) and W(N,b) are compute
time, communication time, speedup and bandwidth as they were printed. T of another clock has its name.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product

from dpscale.audit.reading.published import GLOBAL, UNSTATED, Published, Spot
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
    conventions that fit equally well, the nearest is taken. `number` is that of a constant."""

    formula: str
    words: str
    steps: int = 0
    kind: str = METHOD
    number: float = 1.0


@dataclass(frozen=True)
class Form:
    """What differs from cell to cell. The formula has `{}` where a constant is written. `through` are the printed
    columns that it goes through."""

    formula: str
    choices: tuple[Choice, ...]
    value: Value = field(compare=False)
    through: tuple[str, ...] = ()

    @cached_property
    def steps(self) -> int:
        return sum(choice.steps for choice in self.choices)

    def at(self, published: Published, place: Spot) -> Rounded | None:
        """Its value in a cell. None where a number that it needs was not printed, or its divisor may be zero."""
        try:
            return self.value(published, place)
        except (KeyError, ZeroDivisionError):
            return None


@dataclass(frozen=True)
class Constant:
    """What all cells share: the product of its choices; in a formula, factors in front and a unit behind."""

    choices: tuple[Choice, ...] = ()
    factors: str = ""
    unit: str = ""

    @cached_property
    def value(self) -> float:
        return math.prod(choice.number for choice in self.choices)

    @cached_property
    def steps(self) -> int:
        return sum(choice.steps for choice in self.choices)


@dataclass(frozen=True)
class Convention:
    """A form times a constant."""

    form: Form
    constant: Constant = Constant()

    def at(self, published: Published, place: Spot) -> Rounded | None:
        """As the form's."""
        found = self.form.at(published, place)
        return found * self.constant.value if found else None

    @property
    def choices(self) -> tuple[Choice, ...]:
        return (*self.constant.choices, *self.form.choices)

    @property
    def steps(self) -> int:
        return self.form.steps + self.constant.steps

    @property
    def formula(self) -> str:
        return self.form.formula.replace("{}", self.constant.factors) + self.constant.unit

    def words(self, *kinds: str) -> list[str]:
        """Of its choices of these kinds."""
        return [choice.words for choice in self.choices if choice.kind in kinds]


def _time(formula: str, words: str, value: Value, steps: int = 0, kind: str = METHOD, through: str = "") -> Form:
    return Form(formula, (Choice(formula, words, steps, kind),), value, (through,) if through else ())


def _printed(quantity: str, formula: str, words: str, kind: str = METHOD) -> Form:
    """A column that was printed is right or not by itself; what follows from it is not blamed for it."""
    return _time(formula, words, lambda study, at: study.quantities[quantity][at].interval, 1, kind, quantity)


def _rebuilt(published: Published, place: Spot) -> Rounded:
    """Only where T(N,b) itself was not printed."""
    if place in published.epoch_s:
        raise KeyError(place)
    return published.epoch_s[place.alone].interval / published.quantities["speedup"][place].interval


TABLE_ONE = _time("T(1,b)", "T(1,b) of the same table", lambda study, at: study.epoch_s[at.alone].interval)
SWEEP_ONE = _time(
    "Tsweep(b)", "the one-GPU batch sweep", lambda study, at: study.batch_sweep_s[at.batch_per_gpu].interval, 1, OTHER
)
TABLE_TOTAL = _time("T(N,b)", "the total T(N,b)", lambda study, at: study.epoch_s[at].interval)
COLUMN_TOTAL = _printed("compute_s", "C(N,b)", "the printed compute column as the total", OTHER)
REBUILT_TOTAL = _time("T(1,b)/S(N,b)", "a total rebuilt from the printed speedup", _rebuilt, 1, OTHER, "speedup")
COMPUTE_COLUMN = _printed("compute_s", "C(N,b)", "the compute time as printed")
COMMUNICATION_COLUMN = _printed("communication_s", "M(N,b)", "the communication time as printed")
BANDWIDTH_COLUMN = _printed("bandwidth", "W(N,b)", "the bandwidth as printed")
SPEEDUP_COLUMN = _printed("speedup", "S(N,b)", "the speedup as printed")

_BUS = _time("bus(N)", "the measured bus bandwidth", lambda study, at: study.bus_gb_s[at.gpus].interval)

# Ratios of a one-GPU time {0} and a total {1}: what they are called, and what they are.
RATIO = Choice("{0} / {1}", "the ratio of epoch times")
TIMES_N = Choice("N * {0} / {1}", "N times the ratio of epoch times counts N twice", 1, WRONG)
OVER_N = Choice("{0} / (N * {1})", "the ratio of epoch times over N, an efficiency", 1, WRONG)
INVERSE = Choice("{1} / {0}", "the ratio upside down", 1, WRONG)
PER_GPU = Choice("{0} / (N * {1})", "the ratio of epoch times over N")
NOT_PER_GPU = Choice("{0} / {1}", "the ratio of epoch times, not over N", 1, WRONG)
_Ratio = Callable[[Rounded, Rounded, int], Rounded]
_SPEEDUPS: Mapping[Choice, _Ratio] = {
    RATIO: lambda one, total, gpus: one / total,
    TIMES_N: lambda one, total, gpus: gpus * (one / total),
    OVER_N: lambda one, total, gpus: one / total / gpus,
    INVERSE: lambda one, total, gpus: total / one,
}
_EFFICIENCIES = {PER_GPU: _SPEEDUPS[OVER_N], NOT_PER_GPU: _SPEEDUPS[RATIO]}

DIVIDED, WHOLE = Choice("{0}/N", "divided by N"), Choice("{0}", "not divided by N", 1, OTHER)
SWAPPED_COLUMNS = Choice("", "compute and communication in each other's column", 3, WRONG)

_PERCENT = Constant((Choice("", "in percent", 2, OTHER, 100),), unit=" * 100")
_MILLISECONDS = Constant((Choice("", "in milliseconds", 2, WRONG, 1000),), unit=" in ms")
_MINUTES = Constant((Choice("", "in minutes", 2, WRONG, 1 / 60),), unit=" in min")

# Images of an epoch over its time; that times N; and that of one GPU.
_THROUGHPUTS: Mapping[Choice, Callable[[int], float]] = {
    Choice("D / {0}", "images of an epoch over its time"): lambda gpus: 1,
    Choice("N * D / {0}", "multiplied by the number of GPUs, which count twice then", 1, WRONG): lambda gpus: gpus,
    Choice("D / (N * {0})", "that of one GPU", 1, OTHER): lambda gpus: 1 / gpus,
}

ELEMENTS = Choice("1", "elements, not bytes", 1, WRONG)
_SIZES = (
    Choice("4 bytes", "bytes", number=4),
    ELEMENTS,
    # What (N-1)/N gives in place of 2(N-1)/N too: no printed figure can tell the two apart.
    Choice("2 bytes", "half of the bytes: half precision, or a factor 2 left out", 2, OTHER, 2),
    Choice("32 bits", "bits, not bytes", 2, WRONG, 32),
)
ALL_STEPS = Choice("ceil(D/(N*b))", "all ceil(D/(N*b)) steps")
ONE_STEP = Choice("1", "the bytes of one step over the time of an epoch", 1, WRONG)
_Steps = Callable[[Published, Spot], float]
_STEPS: Mapping[Choice, _Steps] = {
    ALL_STEPS: lambda study, at: math.ceil(study.steps(at)),
    ONE_STEP: lambda study, at: 1,
    Choice("D/(N*b)", "D/(N*b) steps with their fraction", 1, OTHER): lambda study, at: study.steps(at),
    Choice("floor(D/(N*b))", "full steps only", 2, OTHER): lambda study, at: math.floor(study.steps(at)),
}
# With the batch of one GPU these are N times too many. Where nobody says what the batch is, they say that it is global.
_STEPS_OF_ONE_GPU = Choice("ceil(D/b)", "ceil(D/b) steps", 1, WRONG)
GLOBAL_STEPS: Mapping[Choice, Callable[[float], float]] = {
    Choice("ceil(D/b)", "ceil(D/b) steps, the batch being that of all GPUs", 1): math.ceil,
    Choice("D/b", "D/b steps with their fraction, the batch being that of all GPUs", 2): float,
}
RING_TOTAL = Choice("2(N-1)", "what all GPUs of a ring send together", 1, OTHER)
_VOLUMES: Mapping[Choice, Callable[[int], float]] = {
    Choice("2(N-1)/N", "what a GPU of a ring sends"): lambda gpus: 2 * (gpus - 1) / gpus,
    RING_TOTAL: lambda gpus: 2 * (gpus - 1),
    Choice("1", "the gradients once", 1, OTHER): lambda gpus: 1,
    Choice("N/2", "a factor of N/2, not 2(N-1)/N", 2, OTHER): lambda gpus: gpus / 2,
}
UNITS = {"GB/s": 1e9, "MB/s": 1e6, "GiB/s": 2.0**30, "MiB/s": 2.0**20}
_POWERS = {"GB/s": "10^9", "MB/s": "10^6", "GiB/s": "2^30", "MiB/s": "2^20"}
_UNIT_WORDS = "a unit of {}"


def base_of(gpus: int) -> Form:
    """Several GPUs as the base of a speedup: nobody has times of fewer."""

    def value(published: Published, place: Spot) -> Rounded:
        if place.gpus < gpus:
            raise KeyError(place)
        return published.epoch_s[place._replace(gpus=gpus)].interval

    return _time(f"T({gpus},b)", f"speedup over {gpus} GPUs, not over one", value, 1, WRONG)


def _before(published: Published, place: Spot) -> Rounded:
    """The time on the number of GPUs before; on the fewest, their own."""
    fewer = [at for at in published.epoch_s if at.batch_per_gpu == place.batch_per_gpu and at.gpus < place.gpus]
    return published.epoch_s[max(fewer, default=place)].interval


PREVIOUS = _time("T(N before,b)", "speedup over the number of GPUs before, not over one", _before, 1, WRONG)


def fewest_gpus(published: Published) -> int:
    """The fewest GPUs that are several of its times."""
    return min((place.gpus for place in published.epoch_s if place.gpus > 1), default=2)


@dataclass(frozen=True)
class Clock:
    """A set of epoch times: its name, those on one GPU and in total."""

    name: str
    one_gpu: Form
    total: Form


def clocks(published: Published) -> list[Clock]:
    """That of the table, and others of the same study. Which of its clocks a study follows is its own choice."""
    return [Clock(published.clock or "of the table", TABLE_ONE, TABLE_TOTAL), *map(_clock, published.other_clocks)]


def _clock(name: str) -> Clock:
    def one_gpu(published: Published, place: Spot) -> Rounded:
        return published.other_clocks[name][place.alone].interval

    def total(published: Published, place: Spot) -> Rounded:
        return published.other_clocks[name][place].interval

    words = f"the clock {name}"
    return Clock(name, _time(f"T{name}(1,b)", f"T(1,b) of {words}", one_gpu), _time(f"T{name}(N,b)", words, total, 1))


def space(quantity: str, published: Published) -> tuple[list[Form], list[Constant]]:
    """All conventions of a quantity: every form with every constant; that of docs/method.md first. The study gives its
    own clocks, numbers of parameters, and unit."""
    if quantity == "bandwidth":
        return list(_bandwidths(published)), _bandwidth_constants(published)
    if quantity == "compute_s":
        return list(_computes(published)), [Constant(), _MILLISECONDS, _MINUTES]
    if quantity == "communication_s":
        return list(_communications(published)), [Constant(), _MILLISECONDS, _MINUTES]
    if quantity == "images_per_s":
        return [_throughput(published, of, clock.total) for clock, of in product(clocks(published), _THROUGHPUTS)], [
            Constant()
        ]
    if quantity == "utilisation_percent":
        over_bus = _of("100 * {0} / {1}", (), lambda at, of, bus: 100 * (of / bus), BANDWIDTH_COLUMN, _BUS)
        return [over_bus if published.bus_gb_s else BANDWIDTH_COLUMN], [Constant()]
    if quantity == "efficiency":
        printed = _of("{0} / N", (), lambda at, speedup: speedup / at.gpus, SPEEDUP_COLUMN)
        return [*_ratios(published, _EFFICIENCIES), printed], [Constant(), _PERCENT]
    return list(_ratios(published, _SPEEDUPS)), [Constant(), _PERCENT]


def _of(formula: str, choices: tuple[Choice, ...], value: Callable[..., Rounded], *parts: Form) -> Form:
    """What a function of the cell makes of others, which stand in its formula as {0}, {1}."""

    def worked_out(published: Published, place: Spot) -> Rounded:
        return value(place, *(part.value(published, place) for part in parts))

    every = *choices, *(choice for part in parts for choice in part.choices)
    through = tuple(name for part in parts for name in part.through)
    return Form(formula.format(*(part.formula for part in parts)), every, worked_out, through)


def _throughput(published: Published, of: Choice, time: Form) -> Form:
    images = published.dataset_images
    return _of(of.formula, (of,), lambda at, total: images * _THROUGHPUTS[of](at.gpus) / total, time)


def _ratios(published: Published, ratios: Mapping[Choice, _Ratio]) -> Iterator[Form]:
    """One-GPU time and total, of every clock."""
    pairs = [(one, TABLE_TOTAL) for one in (TABLE_ONE, SWEEP_ONE, base_of(fewest_gpus(published)), PREVIOUS)]
    pairs += [(clock.one_gpu, clock.total) for clock in clocks(published)[1:]]
    for times, ratio in product(pairs, ratios):
        yield _of(ratio.formula, (ratio,), _with_gpus(ratios[ratio]), *times)


def _with_gpus(of: _Ratio) -> Callable[..., Rounded]:
    return lambda at, one, total: of(one, total, at.gpus)


def _share(time: Form, share: Choice, *more: Choice) -> Form:
    """A time, over N or not."""
    return _of(share.formula, (share, *more), lambda at, of: of / (at.gpus if share == DIVIDED else 1), time)


def _difference(total: Form, part: Form, *more: Choice) -> Form:
    return _of("{0} - {1}", more, lambda at, whole, of: whole - of, total, part)


def _computes(published: Published) -> Iterator[Form]:
    """A time, over N or not; or the communication time, in the wrong column. What a printed communication time leaves
    of the total is no evidence: that may be what compute leaves."""
    for time, share in product((TABLE_ONE, SWEEP_ONE), (DIVIDED, WHOLE)):
        yield _share(time, share)
    for clock in clocks(published):
        yield _share(clock.total, WHOLE)
        if clock.total != TABLE_TOTAL:
            yield _share(clock.one_gpu, DIVIDED, *clock.total.choices)
    yield _difference(TABLE_TOTAL, _share(TABLE_ONE, DIVIDED), SWAPPED_COLUMNS)


def _communications(published: Published) -> Iterator[Form]:
    """A total minus what counts as compute, of every clock; or compute, in the wrong column."""
    of_table = product((TABLE_TOTAL, COLUMN_TOTAL, REBUILT_TOTAL), (TABLE_ONE, SWEEP_ONE))
    others = clocks(published)[1:]
    for total, one in (*of_table, *((clock.total, clock.one_gpu) for clock in others)):
        yield from (_difference(total, _share(one, share)) for share in (DIVIDED, WHOLE))
    for total in (TABLE_TOTAL, REBUILT_TOTAL, *(clock.total for clock in others)):
        yield _difference(total, COMPUTE_COLUMN)
    yield _share(TABLE_ONE, DIVIDED, SWAPPED_COLUMNS)


def _bandwidths(published: Published) -> Iterator[Form]:
    times = [
        *(form for form in _communications(published) if SWAPPED_COLUMNS not in form.choices),
        *(COMMUNICATION_COLUMN, COLUMN_TOTAL, *(clock.total for clock in clocks(published))),
    ]
    steps = _steps_of(published)
    for (volume, bytes_of), step, time in product(_VOLUMES.items(), steps, times):
        yield _bandwidth(volume, bytes_of, step, steps[step], time)


def _bandwidth(volume: Choice, bytes_of: Callable[[int], float], step: Choice, steps: _Steps, time: Form) -> Form:
    def value(published: Published, place: Spot) -> Rounded:
        return bytes_of(place.gpus) * steps(published, place) / time.value(published, place)

    over = f"({time.formula})" if " - " in time.formula else time.formula
    formula = f"{_product(volume.formula, '{}', step.formula)} / {over}"
    return Form(formula, (volume, step, *time.choices), value, time.through)


def _steps_of(published: Published) -> Mapping[Choice, _Steps]:
    """The numbers of steps in question. A batch of all GPUs together has but one number."""

    def of_the_batch(whole: Callable[[float], float]) -> _Steps:
        return lambda study, at: whole(study.dataset_images / at.batch_per_gpu)

    if published.batch == GLOBAL:
        return _STEPS
    more: Mapping[Choice, Callable[[float], float]] = (
        GLOBAL_STEPS if published.batch == UNSTATED else {_STEPS_OF_ONE_GPU: math.ceil}
    )
    return {**_STEPS, **{choice: of_the_batch(whole) for choice, whole in more.items()}}


def _product(*factors: str) -> str:
    return " * ".join(factor for factor in factors if factor != "1")


def is_rate(choice: Choice) -> bool:
    """Whether a choice is the unit of a rate."""
    return choice.words.startswith(_UNIT_WORDS.format(""))


def _bandwidth_constants(published: Published) -> list[Constant]:
    """Parameters, their size, and the unit. Of equal products the nearest to docs/method.md."""
    label = published.bandwidth_unit or "GB/s"
    rates = [
        Choice(
            f" / {power}", _UNIT_WORDS.format(power), *((0, METHOD) if unit == label else (1, WRONG)), 1 / UNITS[unit]
        )
        for unit, power in _POWERS.items()
    ]
    is_said = published.parameters_trained is not None and "network" not in published.assumed
    parameters = _parameters(published.parameters_trained, published.parameters_quoted, WRONG if is_said else OTHER)
    found: dict[str, Constant] = {}
    chosen = (
        Constant((number, size, rate), _product(number.formula, size.formula), rate.formula)
        for number, size, rate in product(parameters, _SIZES, rates)
    )
    for constant in sorted(chosen, key=lambda constant: constant.steps):
        found.setdefault(f"{constant.value:.9e}", constant)
    return list(found.values())


@cache
def _parameters(trained: int | None, quoted: int | None, other: str) -> Sequence[Choice]:
    """Every number of parameters once, with the names of all networks that have it: equal ones are one convention.

    What is not trained is of this `other` kind.
    """
    names: dict[int, list[str]] = {}
    for number, name in _named_numbers(trained, quoted):
        names.setdefault(number, []).append(name)
    in_part = {network.parameters - network.first for network in networks()}
    return [
        Choice(
            f"{number}",
            f"{number:,} parameters, {', '.join(names[number])}",
            0 if number == trained else 2 if number in in_part else 1,
            METHOD if number == trained else other,
            number,
        )
        for number in names
    ]


def _named_numbers(trained: int | None, quoted: int | None) -> Iterable[tuple[int, str]]:
    yield from ((number, name) for number, name in ((trained, "trained"), (quoted, "as quoted")) if number)
    yield from ((network.parameters, network.name) for network in networks())
    yield from (
        (network.parameters - network.first, f"{network.name} without its first layer") for network in networks()
    )
