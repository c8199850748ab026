"""Do the published figures agree with each other? Every check returns what it found in which cell."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from dpscale.audit import corrected
from dpscale.audit.conventions import (
    COLUMN_TOTAL,
    ELEMENTS,
    REBUILT_TOTAL,
    RING_TOTAL,
    TABLE_TOTAL,
    UNITS,
    WHOLE,
    Choice,
    clocks,
)
from dpscale.audit.conventions import WRONG as WRONG_KIND
from dpscale.audit.reading.in_words import NAMES, given_like, gpus_words, listed, number, unlike
from dpscale.audit.reading.published import Printed, Spot
from dpscale.audit.search import ColumnSearch, several
from dpscale.audit.verdicts import ANOTHER_RUN, UNEXPLAINED, Reading
from dpscale.tables.row import grouped
from dpscale.vocabulary.chips import chips

# What a doubt means: worth a look; no convention gives it; not what it is called or not what the times give; or no
# machine can do that.
LOOK, NOT_EXPLAINED, WRONG, IMPOSSIBLE = "look", "not explained", "wrong", "impossible"
SEVERITIES = (IMPOSSIBLE, WRONG, NOT_EXPLAINED, LOOK)  # the worst first

# These may have been measured. Others follow from times and the number of images alone, and are wrong where these do
# not give them.
_MAY_BE_MEASURED = ("compute_s", "communication_s")
# Two one-GPU times of a batch that differ by more than this were taken under other conditions.
_SAME_TIME = 1.1


@dataclass(frozen=True)
class Doubt:
    """Doubt about a figure: the check that found it, the quantity and the cell, the numbers, and their meaning."""

    check: str
    quantity: str
    place: Spot
    detail: str
    severity: str = WRONG


def doubts(reading: Reading) -> list[Doubt]:
    """Everything that the checks find."""
    return [doubt for check in CHECKS for doubt in check(reading)]


def _choices(reading: Reading, quantity: str) -> tuple[Choice, ...]:
    return reading.outcomes[quantity].choices if quantity in reading.outcomes else ()


def _table(reading: Reading, quantity: str) -> Printed:
    return reading.published.quantities.get(quantity, {})


def figures_that_nothing_gives(reading: Reading) -> Iterator[Doubt]:
    """Cells that the convention of their column does not give, or whose column has none."""
    for (quantity, place), verdict in reading.verdicts.items():
        if verdict.state not in (ANOTHER_RUN, UNEXPLAINED):
            continue
        printed, factor = reading.published.quantities[quantity][place], reading.outcomes[quantity].factor
        given = f"; the times give {given_like(printed, verdict.given)}" if verdict.given else ""
        detail = f"{NAMES[quantity]} {printed}{given}{f': {verdict.why}' if verdict.why else ''}"
        if verdict.state == ANOTHER_RUN:
            yield Doubt("near what the times give, as of another run", quantity, place, detail, LOOK)
        else:
            detail += f"; all cells are {number(factor.value)} times what the times give" if factor else ""
            is_wrong = quantity not in _MAY_BE_MEASURED or reading.outcomes[quantity].best
            yield Doubt("not what the times give", quantity, place, detail, WRONG if is_wrong else NOT_EXPLAINED)


def below_zero(reading: Reading) -> Iterator[Doubt]:
    """Seconds and bytes are never less than nothing. A communication time may be, where N GPUs are more than N times as
    fast."""
    for quantity in ("images_per_s", "compute_s", "communication_s", "bandwidth"):
        for place, printed in _table(reading, quantity).items():
            if printed.interval.high < 0:
                as_defined = quantity == "communication_s" and place in reading.outcomes[quantity].method.agreeing
                detail = f"{NAMES[quantity]} of {printed}"
                yield Doubt("less than nothing", quantity, place, detail, LOOK if as_defined else WRONG)


def mistakes_of_conventions(reading: Reading) -> Iterator[Doubt]:
    """Yield the doubts that no definition would call right in the convention that a column follows."""
    for quantity, outcome in reading.outcomes.items():
        wrong = [choice for choice in outcome.choices if choice.kind == WRONG_KIND]
        is_another = f"{NAMES[quantity]} is not what it is called"
        for check, choices in grouped(wrong, lambda choice: choice.check or is_another).items():  # noqa: B023
            for place, verdict in reading.of(quantity).items():
                is_given = place.gpus > 1 and verdict.state != UNEXPLAINED
                if is_given and (detail := _what_it_is(reading, outcome, place, check, choices)):
                    yield Doubt(check, quantity, place, detail)


def _what_it_is(reading: Reading, outcome: ColumnSearch, place: Spot, check: str, wrong: Sequence[Choice]) -> str:
    """The numbers of a mistake; nothing where the figure is right by accident."""
    published, words = reading.published, "; ".join(choice.words for choice in wrong)
    printed = published.quantities[outcome.quantity][place]
    if check.startswith("unit"):
        counted = "elements" if ELEMENTS in wrong else "bytes"
        (unit,) = [choice.formula for choice in outcome.choices if choice.formula.startswith(" / ")]
        return f"labelled {published.bandwidth_unit}, is {unit.removeprefix(' / ')} {counted} a second"
    true = corrected.figure("speedup", published, corrected.clock_of(published, outcome), place)
    if "speedup" not in outcome.quantity or isinstance(true, str):
        return words
    slower = ", slower than one GPU" if true.high < 1 < float(printed) else ""
    return "" if true.meets(printed.interval) else f"{printed} is {number(true.value)}{slower}"


def batches_that_are_steps(reading: Reading) -> Iterator[Doubt]:
    """Batches that are the steps of an epoch at a power of two, and none themselves."""
    images, epoch_s = reading.published.dataset_images, reading.published.epoch_s
    powers = {rounded(images / 2**power): 2**power for power in range(3, 14) for rounded in (math.ceil, math.floor)}
    batches = {place.batch_per_gpu for place in epoch_s}
    if len(batches) > 1 and batches <= powers.keys() and not any(batch & (batch - 1) == 0 for batch in batches):
        for place in epoch_s:
            steps = f"an epoch has {place.batch_per_gpu:,} steps at a batch of {powers[place.batch_per_gpu]:,}"
            yield Doubt("the batch is a number of steps", "epoch_s", place, steps)


def parts_against_total(reading: Reading) -> Iterator[Doubt]:
    """Compute plus communication, as printed, against the total: T(N,b), or T(1,b) over the printed speedup. Where the
    times give a communication time, it was held against that already."""
    published = reading.published
    for place, communication in published.several_gpus("communication_s"):
        compute, printed = _table(reading, "compute_s").get(place), TABLE_TOTAL.at(published, place)
        total = printed or REBUILT_TOTAL.at(published, place)
        verdict = reading.verdicts["communication_s", place]
        if verdict.given or not compute or not total:
            continue
        parts = compute.interval + communication.interval
        if not parts.meets(total):
            check = f"{'T(N,b)' if printed else 'T(1,b)/speedup'} is not compute plus communication"
            severity = LOOK if verdict.state == ANOTHER_RUN or _of_compute(reading) else WRONG
            yield Doubt(
                check, "communication_s", place, "{} against {} s".format(*unlike(total.value, parts.value)), severity
            )


def compute_is_the_total(reading: Reading) -> Iterator[Doubt]:
    """The printed compute column, where it is that of the totals, or where communication is that minus a share of one
    GPU's time."""
    if detail := _of_compute(reading):
        for place, _ in reading.published.several_gpus("compute_s"):
            yield Doubt("the compute column is the total", "compute_s", place, detail)


def _of_compute(reading: Reading) -> str:
    """Why the compute column is taken for the total; nothing where it is not."""
    communication = reading.outcomes.get("communication_s")
    if COLUMN_TOTAL.choices[0] in _choices(reading, "communication_s") and communication and communication.match:
        return f"the printed communication is {communication.match.convention.formula}, with C(N,b) the printed compute"
    if {TABLE_TOTAL.choices[0], WHOLE} <= {*_choices(reading, "compute_s")}:
        return "the printed compute is T(N,b), communication included"
    return ""


def clocks_apart(reading: Reading) -> Iterator[Doubt]:
    """Figures that follow several clocks: they cannot be set against each other."""
    followed: dict[str, list[str]] = {}
    for quantity, outcome in reading.outcomes.items():
        if outcome.match:
            followed.setdefault(corrected.clock_of(reading.published, outcome).name, []).append(quantity)
    words = "; ".join(
        f"{listed([NAMES[name] for name in names], len(NAMES))}: the clock {clock}" for clock, names in followed.items()
    )
    for quantity in chain(*[*followed.values()][1:]):
        for place, _ in reading.published.several_gpus(quantity):
            yield Doubt("figures of two clocks", quantity, place, words, LOOK)


def one_gpu_times_apart(reading: Reading) -> Iterator[Doubt]:
    """The one-GPU time of the table against that of the batch sweep."""
    for place, swept in reading.published.batch_sweep_s.items():
        table = reading.published.epoch_s.get(place, swept)
        times = max(float(table), float(swept)) / min(float(table), float(swept))
        if times > _SAME_TIME:
            detail = f"{table} s in the table and {swept} s in the sweep, {number(times)} times apart"
            yield Doubt("two one-GPU times differ", "batch_sweep_s", place, detail, LOOK)


def larger_than_the_dataset(reading: Reading) -> Iterator[Doubt]:
    """Batches with no full step: the dataset ends first."""
    published = reading.published
    assumed = published.assuming("images")
    for quantity, place, _ in published.times:
        images = published.global_batch(place)
        if images > published.dataset_images:
            detail = f"{images:,} images per step, the dataset has {published.dataset_images:,}"
            severity = LOOK if assumed else WRONG
            yield Doubt("batch larger than the dataset", quantity, place, with_assumed(detail, assumed), severity)


def with_assumed(detail: str, assumed: str) -> str:
    """With what it rests on that was not given."""
    return f"{detail}, assuming {assumed}" if assumed else detail


def above_links(reading: Reading) -> Iterator[Doubt]:
    """Bandwidth, in the unit of its label, above the fastest link of its GPU, or of any GPU.

    Where it is that of all GPUs together, of one of them.
    """
    published, unit = reading.published, reading.published.bandwidth_unit or "GB/s"
    of_chips = [published.chip] if published.chip else chips()
    limit, chip = max((chip.links[0].gb_s, chip.name) for chip in of_chips)
    name = f"the fastest link of the {chip}{'' if published.chip else ', the fastest known here,'}"
    together, assumed = RING_TOTAL in _choices(reading, "bandwidth"), published.assuming("bandwidth")
    for place, printed in published.several_gpus("bandwidth"):
        of_each = printed.interval * (UNITS[unit] / UNITS["GB/s"] / (place.gpus if together else 1))
        if of_each.low > limit:
            of_each_gpu = f", {number(of_each.value)} GB/s of each GPU" if together else ""
            detail = f"printed {printed} {unit}{of_each_gpu}; {name} carries {limit:g} GB/s"
            severity = LOOK if assumed else IMPOSSIBLE
            yield Doubt("bandwidth above any link", "bandwidth", place, with_assumed(detail, assumed), severity)


def communication_of_one_gpu(reading: Reading) -> Iterator[Doubt]:
    """One GPU has nobody to communicate with."""
    for place, printed in _table(reading, "communication_s").items():
        if place.gpus == 1 and not printed.interval.contains(0):
            detail = f"printed {printed} s; what this clock holds is not communication between GPUs"
            yield Doubt("communication on one GPU", "communication_s", place, detail)


def efficiency_above_one(reading: Reading) -> Iterator[Doubt]:
    """N GPUs more than N times as fast as one: something else must have changed too."""
    for place in several(reading.published.places):
        if reading.published.is_of_other_runs(place):
            continue
        efficiency = corrected.figure("efficiency", reading.published, clocks(reading.published)[0], place)
        if not isinstance(efficiency, str) and efficiency.low > 1:
            share = f"{efficiency.value * 100:.1f} % of {gpus_words(place.gpus)}"
            cause = "that needs a cause, such as a slow T(1,b)"
            yield Doubt("efficiency above 100 %", "epoch_s", place, f"{share}: {cause}", LOOK)


CHECKS: tuple[Callable[[Reading], Iterator[Doubt]], ...] = (
    figures_that_nothing_gives,
    below_zero,
    mistakes_of_conventions,
    parts_against_total,
    compute_is_the_total,
    batches_that_are_steps,
    larger_than_the_dataset,
    above_links,
    clocks_apart,
    one_gpu_times_apart,
    communication_of_one_gpu,
    efficiency_above_one,
)
