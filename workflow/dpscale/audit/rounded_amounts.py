"""Bandwidths whose bytes were rounded before they were divided by a time: 0.044 GiB over 48.45 s.

Such a figure is no form times a constant, so this is a space of its own: every amount of data with every constant,
rounded in a few ways, over those times that authors are likely to divide by.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpscale.audit.conventions import OTHER, Amount, Choice, Constant, Convention, Form, Space
from dpscale.audit.published import Place, Published
from dpscale.formulas.interval import Interval

# Times further away from docs/method.md than this are left out, and constants: rounding is one more assumption.
_FARTHEST_TIME, _FARTHEST_CONSTANT = 1, 3
_COST = 2
# So many different amounts are told; more would be a table.
_SHOWN = 4

ONE = Constant((), 1.0)


@dataclass(frozen=True)
class Rounding:
    """A way to round: to significant digits, or to decimals."""

    digits: int
    is_significant: bool

    def choice(self, amounts: Sequence[float] = ()) -> Choice:
        """The choice to round so, with what the amounts became."""
        kind = "significant digits" if self.is_significant else "decimals"
        became = f" ({', '.join(f'{amount:g}' for amount in amounts)})" if 0 < len(amounts) <= _SHOWN else ""
        return Choice(
            f"rounded to {self}", "", f"bytes rounded to {self.digits} {kind} before use{became}", _COST, OTHER
        )

    def __str__(self) -> str:
        return f"{self.digits} {'digits' if self.is_significant else 'decimals'}"

    def of(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rounded numbers; all are above zero."""
        if not self.is_significant:
            return np.round(numbers, self.digits)
        unit = 10.0 ** (np.floor(np.log10(numbers)) - self.digits + 1)
        return np.round(numbers / unit) * unit


ROUNDINGS = (
    *(Rounding(digits, is_significant=True) for digits in (2, 3)),
    *(Rounding(digits, is_significant=False) for digits in (0, 1)),
)


@dataclass(frozen=True)
class Candidate:
    """A convention with rounded bytes; what it explains less what it assumes, in decades; how many are as simple."""

    convention: Convention
    score: float
    as_simple: int


def best(
    space: Space,
    published: Published,
    places: Sequence[Place],
    times: Sequence[NDArray[np.float64]],
    printed: tuple[NDArray[np.float64], NDArray[np.float64]],
    worth: NDArray[np.float64],
    per_step: float,
) -> Candidate | None:
    """The convention with rounded bytes that explains most.

    `times` are value, low end and high end of the space's times in the cells `places`; `printed` the ends of what was
    printed there; `worth` is what an agreeing cell (columns) explains with each time (rows), in decades, and `per_step`
    what an assumption takes off.
    """
    near = [number for number, time in enumerate(space.times) if time.cost <= _FARTHEST_TIME]
    constants = [constant for constant in space.constants if constant.cost <= _FARTHEST_CONSTANT]
    amounts = np.array([[amount.value(published, place) for place in places] for amount in space.amounts])
    whole = (amounts[:, None, :] * np.array([constant.value for constant in constants])[None, :, None]).reshape(
        -1, len(places)
    )
    chosen = list(product(space.amounts, constants))
    costs = np.array([sum(part.cost for part in amount.choices) + constant.cost for amount, constant in chosen])
    top: tuple[float, int, Rounding, int] = (-math.inf, 0, ROUNDINGS[0], 0)
    for rounding, number in product(ROUNDINGS, near):
        found = _agreement(rounding.of(whole), [end[number] for end in times], printed)
        score = (found * worth[number]).sum(axis=1) - per_step * (costs + _COST + space.times[number].cost)
        at = int(score.argmax())
        top = max(top, (float(score[at]), at, rounding, number), key=lambda entry: entry[0])
    if not near or not math.isfinite(top[0]):
        return None
    score_of_top, at, rounding, number = top
    amount, constant = chosen[at]
    cost = costs[at] + space.times[number].cost
    as_simple = sum(int((costs + space.times[other].cost <= cost).sum()) for other in near) * len(ROUNDINGS)
    became = sorted({float(data) for data in rounding.of(whole[at])})
    convention = of_rounded_bytes(amount, constant, rounding, space.times[number], became)
    return Candidate(convention, score_of_top, as_simple)


def _agreement(
    amounts: NDArray[np.float64],
    time: Sequence[NDArray[np.float64]],
    printed: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.bool_]:
    _, low, high = (np.where(time[1] > 0, end, math.nan) for end in time)
    with np.errstate(divide="ignore", invalid="ignore"):
        slack = 1e-9 * np.abs(printed[0])
        agrees: NDArray[np.bool_] = (amounts / high <= printed[1] + slack) & (printed[0] <= amounts / low + slack)
    return agrees


def of_rounded_bytes(
    amount: Amount, constant: Constant, rounding: Rounding, time: Form, became: Sequence[float] = ()
) -> Convention:
    """A bandwidth whose amount is rounded before it is divided by a time; `became` is what rounding makes of it."""

    def value(published: Published, place: Place) -> Interval | None:
        seconds = time.value(published, place)
        if seconds is None:
            return None
        data = np.array([amount.value(published, place) * constant.value])
        return float(rounding.of(data)[0]) / seconds

    parts = [part for part in (amount.first, constant.factors, amount.last) if part != "1"]
    seconds = f"({time.formula})" if len(time.choices) > 1 else time.formula
    formula = f"round({' * '.join(parts)}{constant.unit}, {rounding}) / {seconds}"
    choices = (*amount.choices, *constant.choices, rounding.choice(became), *time.choices)
    return Convention.of(Form(choices, formula, value), ONE)
