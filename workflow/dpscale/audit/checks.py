"""Do the published figures agree with each other, with GPUs and links, and with other studies? Every check yields what
it found in which cell."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dpscale.audit.conventions import OTHER_UNIT, value_of
from dpscale.audit.conventions import WRONG as WRONG_KIND
from dpscale.audit.published import QUANTITIES, UNITS, Published, Spot
from dpscale.audit.verdicts import ANOTHER_RUN, RATIOS, UNEXPLAINED, UNKNOWN, Reading, defined
from dpscale.formulas.rounded import Number, Rounded
from dpscale.present.text.words import joined
from dpscale.tables.row import grouped
from dpscale.vocabulary.chips import TERA, chips, network_of

# What a doubt means: worth a look; no convention gives it; not what it is called or not what the times give; or no
# machine can do that.
LOOK, NOT_EXPLAINED, WRONG, IMPOSSIBLE = "look", "not explained", "wrong", "impossible"
SEVERITIES = (IMPOSSIBLE, WRONG, NOT_EXPLAINED, LOOK)  # the worst first
COPIED = "times of another study"
REPEATED = "times of another batch"
# Times of fewer digits may agree by chance.
_TELLING_DIGITS = 3

# Two one-GPU times of a batch that differ by more than this were taken under other conditions.
_SAME_TIME = 1.1
# What of a peak real networks hardly reach.
DOUBTFUL_SHARE = 0.7


@dataclass(frozen=True)
class Doubt:
    """Doubt about a figure: the check that found it, the quantity and the cell, the numbers, and their meaning."""

    check: str
    quantity: str
    place: Spot
    detail: str
    severity: str = WRONG


def doubts(reading: Reading, studies: Sequence[Published] = ()) -> list[Doubt]:
    """Return everything that the checks find; `studies` are what others published."""
    found_here = (doubt for check in CHECKS for doubt in check(reading))
    return [*found_here, *same_times(reading.published, studies)]


def figures_that_nothing_gives(reading: Reading) -> Iterator[Doubt]:
    """Cells that the convention of their column does not give, or whose column has none."""
    for (quantity, place), verdict in reading.verdicts.items():
        if verdict.state not in (ANOTHER_RUN, UNEXPLAINED):
            continue
        if verdict.state == ANOTHER_RUN:
            check, severity = "near what the times give, as of another run", LOOK
        else:
            is_wrong = quantity in RATIOS or reading.outcomes[quantity].best
            check, severity = "not what the times give", WRONG if is_wrong else NOT_EXPLAINED
        yield Doubt(check, quantity, place, _beside(reading, quantity, place, verdict.given, verdict.why), severity)


def _beside(reading: Reading, quantity: str, place: Spot, given: Rounded | str | None, why: str) -> str:
    """Say what the times give for a figure, in its own unit and with the digits that tell the two apart."""
    printed = reading.published.quantities[quantity][place]
    detail = f"{QUANTITIES[quantity]} {printed}"
    if isinstance(given, Rounded) and given.value >= 0:
        value, unit = printed.like(given.value)
        source = "times" if reading.published.epoch_s else "other figures"
        digits = len(re.sub(r"\D", "", str(printed).partition(" ")[0]).lstrip("0"))
        right = unlike(printed.like(float(printed))[0], value, max(3, min(digits, 6)))[1]
        detail += f"; the {source} give {right}{unit}"
    return f"{detail}: {why}" if why else detail


def below_zero(reading: Reading) -> Iterator[Doubt]:
    """Seconds and bytes are never less than nothing. A communication time may be, where N GPUs are more than N times as
    fast."""
    for quantity in ("images_per_s", "compute_s", "communication_s", "bandwidth"):
        for place, printed in reading.published.figures(quantity).items():
            if printed.interval.high < 0:
                as_defined = quantity == "communication_s" and place in reading.outcomes[quantity].method.agreeing
                right = defined(quantity, reading.published, place, reading.clock(quantity))
                detail = _beside(reading, quantity, place, right, "")
                yield Doubt("less than nothing", quantity, place, detail, LOOK if as_defined else WRONG)


def mistakes_of_conventions(reading: Reading) -> Iterator[Doubt]:
    """Choices of the convention that a column follows which no definition would call right."""
    published = reading.published
    for quantity in reading.outcomes:
        wrong = [choice for choice in reading.choices(quantity) if choice.kind == WRONG_KIND]
        for check, choices in grouped(wrong, lambda choice: choice.check).items():
            name = check or f"{QUANTITIES[quantity]} is not what it is called"
            is_known = published.defines(quantity) or not quantity.startswith(("bandwidth", "images"))
            for place, printed in published.several_gpus(quantity):
                right = defined(quantity.removesuffix("_alternative"), published, place, reading.clock(quantity))
                is_right = quantity in RATIOS and isinstance(right, Rounded) and right.meets(printed.interval)
                if is_right or reading.verdicts[quantity, place].state in (UNEXPLAINED, UNKNOWN):
                    continue
                if check == OTHER_UNIT:
                    detail = _in_the_right_unit(reading, printed)
                else:
                    detail = _beside(reading, quantity, place, right, "; ".join(choice.words for choice in choices))
                yield Doubt(name, quantity, place, detail, WRONG if is_known else LOOK)


def _in_the_right_unit(reading: Reading, printed: Number) -> str:
    """Return a bandwidth in the unit of its label, and what its number counts."""
    choices, label = reading.choices("bandwidth"), reading.published.bandwidth_unit or "GB/s"
    is_elements = "elements, not bytes" in {choice.words for choice in choices}
    (unit,) = [choice for choice in choices if choice.formula.startswith(" / ")]
    bytes_per_s = printed.interval.value / unit.number * (4 if is_elements else 1)
    counted = f"{unit.formula.removeprefix(' / ')} {'elements' if is_elements else 'bytes'}"
    return f"bandwidth {printed} is {number(bytes_per_s / UNITS[label])} {label}: it counts {counted} a second"


def parts_against_total(reading: Reading) -> Iterator[Doubt]:
    """Compute plus communication, as printed, against the total: T(N,b), or T(1,b) over the printed speedup. Where the
    times give a communication time, it was held against that already. Measured parts may overlap, or lack some."""
    published = reading.published
    for place, communication in published.several_gpus("communication_s"):
        compute, total = published.figures("compute_s").get(place), value_of("T(N,b)", published, place)
        name = "T(N,b)" if total else "T(1,b)/S(N,b)"
        total = total or value_of(name, published, place)
        if reading.verdicts["communication_s", place].given or not compute or not total:
            continue
        parts = compute.interval + communication.interval
        if not parts.meets(total):
            detail = "{} against {} s".format(*unlike(total.value, parts.value))
            yield Doubt(f"{name} is not compute plus communication", "communication_s", place, detail, LOOK)


def one_gpu_times_apart(reading: Reading) -> Iterator[Doubt]:
    """The one-GPU time of the table against that of the batch sweep."""
    for place, swept in reading.published.batch_sweep_s.items():
        table = reading.published.epoch_s.get(place, swept)
        times = max(float(table), float(swept)) / min(float(table), float(swept))
        if times > _SAME_TIME:
            detail = f"{table} s in the table and {swept} s in the sweep, {number(times)} times apart"
            yield Doubt("two one-GPU times differ", "batch_sweep_s", place, detail, LOOK)


def repeated_times(reading: Reading) -> Iterator[Doubt]:
    """Times of a batch that are those of another, digit for digit: two measurements do not agree like that."""
    times = {place: str(time) for place, time in reading.published.epoch_s.items()}
    by_batch = grouped(times, lambda place: place.batch_per_gpu)
    rows = {batch: tuple((place.gpus, times[place]) for place in places) for batch, places in by_batch.items()}
    for row, (first, *others) in grouped(rows, rows.__getitem__).items():
        digits = [sum(letter.isdigit() for letter in time) for _, time in row]
        if len({time for _, time in row}) > 1 and min(digits) >= _TELLING_DIGITS:
            for place in (place for batch in others for place in by_batch[batch]):
                yield Doubt(REPEATED, "epoch_s", place, f"its times are those of batch {first:,}")


def larger_than_the_dataset(reading: Reading) -> Iterator[Doubt]:
    """Batches with no full step: the dataset ends first."""
    published = reading.published
    for quantity, place, _ in published.times:
        images = published.global_batch(place)
        if images > published.dataset_images and "images" not in published.assumed:
            detail = f"{images:,} images per step, the dataset has {published.dataset_images:,}"
            yield Doubt("batch larger than the dataset", quantity, place, detail)


def above_links(reading: Reading) -> Iterator[Doubt]:
    """Bandwidth, in the unit of its label, above the fastest link of its GPU, or of any GPU.

    Where it is that of all GPUs together, of one of them.
    """
    published, unit = reading.published, reading.published.bandwidth_unit or "GB/s"
    of_chips = [published.chip] if published.chip else chips()
    limit, chip = max((chip.links[0].gb_s, chip.name) for chip in of_chips)
    name = f"the fastest link of the {chip}{'' if published.chip else ', the fastest known here,'}"
    together = "2(N-1) * " in {choice.formula for choice in reading.choices("bandwidth")}
    assumed = published.assuming("bandwidth")
    for place, printed in published.several_gpus("bandwidth"):
        of_each = printed.interval * (UNITS[unit] / UNITS["GB/s"] / (place.gpus if together else 1))
        if of_each.low > limit:
            of_each_gpu = f", {number(of_each.value)} GB/s of each GPU" if together else ""
            detail = f"bandwidth {printed} {unit}{of_each_gpu}; {name} carries {limit:g} GB/s{assumed}"
            yield Doubt("bandwidth above any link", "bandwidth", place, detail, LOOK if assumed else IMPOSSIBLE)


def efficiency_above_one(reading: Reading) -> Iterator[Doubt]:
    """N GPUs more than N times as fast as one: something else must have changed too. Where nobody says what a step has,
    they may share its images."""
    published = reading.published
    for place in published.places:
        if place.gpus == 1 or published.is_of_other_runs(place) or "a step has" in published.assuming("images"):
            continue
        efficiency = defined("efficiency", published, place)
        if not isinstance(efficiency, str) and efficiency.low > 1:
            share = f"{efficiency.value * 100:.1f} % of {place.devices}"
            cause = "that needs a cause, such as a slow T(1,b)"
            yield Doubt("efficiency above 100 %", "epoch_s", place, f"{share}: {cause}", LOOK)


def above_the_peak(reading: Reading) -> Iterator[Doubt]:
    """Images per second times FLOP per image, forward and backward, against the peak of the GPUs in use. What rests on
    assumptions is no more than worth a look."""
    published = reading.published
    network, chip = network_of(published.parameters_trained), published.chip
    flop = float(published.flop_per_image or (network and network.flop_per_image) or 0)
    peak = chip.most(published.precision or "float32") if chip else None
    if not flop or not peak:
        return
    assumed = published.assuming("network", "precision", "images")
    for quantity, place, printed in published.times:
        rate = published.dataset_images / printed.interval
        tflop_s, of_gpus = rate * (flop / TERA), place.gpus * peak.tflop_s
        share = tflop_s / of_gpus
        if share.low <= DOUBTFUL_SHARE:
            continue
        detail = (
            f"{printed} s is {rate.value:,.0f} images/s and {number(tflop_s.value)} TFLOP/s; the {peak.unit} peak of "
            f"{place.devices} ({published.gpu}) is {number(of_gpus)}{assumed}"
        )
        check, severity = "time that the GPU cannot reach", IMPOSSIBLE
        if share.low <= 1:
            check, severity = "time close to the GPU's peak", LOOK
            detail += f", {share.value * 100:.0f} % of it"
        elif assumed:
            check, severity = "time above the peak of what was assumed", LOOK
        yield Doubt(check, quantity, place, detail, severity)


def same_times(published: Published, studies: Sequence[Published]) -> Iterator[Doubt]:
    """Times that another study has printed digit for digit: two measurements do not agree like that."""
    times = published.epoch_s
    for study in studies:
        if study is not published and all(str(study.epoch_s.get(at)) == str(time) for at, time in times.items()):
            detail = f"{len(times)} times are those of {study.id}, digit for digit"
            for place in times:
                yield Doubt(COPIED, "epoch_s", place, detail, LOOK)


CHECKS: tuple[Callable[[Reading], Iterator[Doubt]], ...] = (
    figures_that_nothing_gives,
    below_zero,
    mistakes_of_conventions,
    parts_against_total,
    repeated_times,
    larger_than_the_dataset,
    above_links,
    one_gpu_times_apart,
    efficiency_above_one,
    above_the_peak,
)


def listed(items: Sequence[str], shown: int = 3) -> str:
    """Return `a, b and c`, or `a, b, c and 5 more`."""
    more = [f"{len(items) - shown:,} more"] if len(items) > shown else []
    return joined([*items[:shown], *more])


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, and at least those before the point."""
    return f"{value:#.{digits}g}".rstrip(".") if abs(value) < 10**digits else f"{value:.0f}"


def unlike(first: float, second: float, least: int = 3) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to see that they differ, and so many at least."""
    for digits in range(least, 12):
        shown = number(first, digits), number(second, digits)
        if shown[0] != shown[1]:
            break
    return shown
