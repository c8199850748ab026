"""Do the published figures agree with each other, with GPUs and links, and with other studies? Every check yields what
it found in which cell."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from dpscale.audit.conventions import OTHER_UNIT, Choice, value_of
from dpscale.audit.conventions import WRONG as WRONG_KIND
from dpscale.audit.published import QUANTITIES, UNITS, Published, Spot
from dpscale.audit.verdicts import ANOTHER_RUN, RATIOS, UNEXPLAINED, UNKNOWN, Reading, defined, link_of
from dpscale.formulas.rounded import Number
from dpscale.tables.row import grouped
from dpscale.vocabulary.chips import TERA, Peak, chips, links, network_of

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
# What of a link a measured bandwidth is at least.
_MEASURED = 0.1
# Bandwidths of links that differ by less are one.
_SAME_LINK = 0.01


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
        printed, outcome = reading.published.quantities[quantity][place], reading.outcomes[quantity]
        detail = f"{QUANTITIES[quantity]} {printed}"
        if verdict.given:
            # In the unit of the printed number, with the digits that tell the two apart.
            value, unit = printed.like(verdict.given.value)
            detail += f"; the times give {unlike(printed.like(float(printed))[0], value)[1]}{unit}"
        detail += f": {verdict.why}" if verdict.why else ""
        if verdict.state == ANOTHER_RUN:
            yield Doubt("near what the times give, as of another run", quantity, place, detail, LOOK)
            continue
        if not outcome.match and (factor := outcome.method.factor):
            detail += f"; all cells are {number(factor.value)} times what the times give"
        is_wrong = quantity in RATIOS or outcome.best
        yield Doubt("not what the times give", quantity, place, detail, WRONG if is_wrong else NOT_EXPLAINED)


def below_zero(reading: Reading) -> Iterator[Doubt]:
    """Seconds and bytes are never less than nothing. A communication time may be, where N GPUs are more than N times as
    fast."""
    for quantity in ("images_per_s", "compute_s", "communication_s", "bandwidth"):
        for place, printed in reading.published.figures(quantity).items():
            if printed.interval.high < 0:
                as_defined = quantity == "communication_s" and place in reading.outcomes[quantity].method.agreeing
                detail = f"{QUANTITIES[quantity]} of {printed}"
                yield Doubt("less than nothing", quantity, place, detail, LOOK if as_defined else WRONG)


def mistakes_of_conventions(reading: Reading) -> Iterator[Doubt]:
    """Choices of the convention that a column follows which no definition would call right."""
    for quantity in reading.outcomes:
        wrong = [choice for choice in reading.choices(quantity) if choice.kind == WRONG_KIND]
        for check, choices in grouped(wrong, lambda choice: choice.check).items():
            name = check or f"{QUANTITIES[quantity]} is not what it is called"
            is_known = reading.published.defines(quantity) or not quantity.startswith(("bandwidth", "images"))
            for place, printed in reading.published.several_gpus(quantity):
                is_given = reading.verdicts[quantity, place].state not in (UNEXPLAINED, UNKNOWN)
                if is_given and (detail := _mistake(reading, quantity, place, printed, choices)):
                    yield Doubt(name, quantity, place, detail, WRONG if is_known else LOOK)


def _mistake(reading: Reading, quantity: str, place: Spot, printed: Number, wrong: Sequence[Choice]) -> str:
    """Return the numbers of a mistake; nothing where the figure is right by accident."""
    published = reading.published
    if any(choice.check == OTHER_UNIT for choice in wrong):
        is_elements = "elements, not bytes" in {choice.words for choice in wrong}
        (unit,) = [choice for choice in reading.choices(quantity) if choice.formula.startswith(" / ")]
        label, counted = published.bandwidth_unit or "GB/s", "elements" if is_elements else "bytes"
        bytes_per_s = printed.interval.value / unit.number * (4 if is_elements else 1)
        right = f"{printed} is {number(bytes_per_s / UNITS[label])} {label}"
        return f"{right}: it counts {unit.formula.removeprefix(' / ')} {counted} a second"
    speedup = defined("speedup", published, place, reading.clock(quantity))
    if "speedup" not in quantity or isinstance(speedup, str):
        return "; ".join(choice.words for choice in wrong)
    slower = ", slower than one GPU" if speedup.high < 1 < float(printed) else ""
    return "" if speedup.meets(printed.interval) else f"{printed} is {number(speedup.value)}{slower}"


def batches_that_are_steps(reading: Reading) -> Iterator[Doubt]:
    """Batches that are the steps of an epoch at a power of two, and none themselves."""
    images, epoch_s = reading.published.dataset_images, reading.published.epoch_s
    powers = {rounded(images / 2**power): 2**power for power in range(3, 14) for rounded in (math.ceil, math.floor)}
    batches = {place.batch_per_gpu for place in epoch_s}
    if len(batches) > 1 and batches <= powers.keys() and not any(batch & (batch - 1) == 0 for batch in batches):
        assumed = reading.published.assuming("images")
        for place in epoch_s:
            steps = f"an epoch has {place.batch_per_gpu:,} steps at a batch of {powers[place.batch_per_gpu]:,}{assumed}"
            yield Doubt("the batch is a number of steps", "epoch_s", place, steps, LOOK if assumed else WRONG)


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


def compute_is_the_total(reading: Reading) -> Iterator[Doubt]:
    """The printed compute column, where it is that of the totals, or where communication is that minus a share of one
    GPU's time."""
    communication, detail = reading.outcomes.get("communication_s"), ""
    if communication and communication.match and communication.match.convention.formula.startswith("C(N,b) - "):
        detail = f"the printed communication is {communication.match.convention.shown}, with C(N,b) the printed compute"
    elif "T(N,b)" in {choice.formula for choice in reading.choices("compute_s")}:
        detail = "the printed compute is T(N,b), communication included"
    for place, _ in reading.published.several_gpus("compute_s") if detail else ():
        yield Doubt("the compute column is the total", "compute_s", place, detail)


def clocks_apart(reading: Reading) -> Iterator[Doubt]:
    """Figures that follow several clocks: they cannot be set against each other."""
    followed = grouped([name for name, outcome in reading.outcomes.items() if outcome.match], reading.clock)
    words = "; ".join(
        f"{listed([QUANTITIES[name] for name in names], len(QUANTITIES))}: "
        f"the clock {clock or reading.published.clock or 'of the table'}"
        for clock, names in followed.items()
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


def repeated_times(reading: Reading) -> Iterator[Doubt]:
    """Times of a batch that are those of another, digit for digit: two measurements do not agree like that."""
    rows = {
        batch: {place.gpus: str(time) for place, time in times}
        for batch, times in grouped([*reading.published.epoch_s.items()], lambda item: item[0].batch_per_gpu).items()
    }
    for first, second in combinations(rows, 2):
        digits = [sum(letter.isdigit() for letter in time) for time in rows[second].values()]
        is_telling = len({*rows[second].values()}) > 1 and min(digits) >= _TELLING_DIGITS
        if rows[first] == rows[second] and is_telling:
            for gpus in rows[second]:
                yield Doubt(REPEATED, "epoch_s", Spot(second, gpus), f"its times are those of batch {first:,}")


def larger_than_the_dataset(reading: Reading) -> Iterator[Doubt]:
    """Batches with no full step: the dataset ends first."""
    published = reading.published
    assumed = published.assuming("images")
    for quantity, place, _ in published.times:
        images = published.global_batch(place)
        if images > published.dataset_images:
            detail = f"{images:,} images per step, the dataset has {published.dataset_images:,}{assumed}"
            yield Doubt("batch larger than the dataset", quantity, place, detail, LOOK if assumed else WRONG)


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
            detail = f"printed {printed} {unit}{of_each_gpu}; {name} carries {limit:g} GB/s{assumed}"
            yield Doubt("bandwidth above any link", "bandwidth", place, detail, LOOK if assumed else IMPOSSIBLE)


def communication_of_one_gpu(reading: Reading) -> Iterator[Doubt]:
    """One GPU has nobody to communicate with."""
    for place, printed in reading.published.figures("communication_s").items():
        if place.gpus == 1 and not printed.interval.contains(0):
            detail = f"printed {printed} s; what this clock holds is not communication between GPUs"
            yield Doubt("communication on one GPU", "communication_s", place, detail, LOOK)


def efficiency_above_one(reading: Reading) -> Iterator[Doubt]:
    """N GPUs more than N times as fast as one: something else must have changed too."""
    published = reading.published
    for place in published.places:
        if place.gpus == 1 or published.is_of_other_runs(place):
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
    precision = published.precision or "float32"
    peak = chip.most(precision) if chip else None
    if published.peak_tflop_s:
        peak = Peak(precision, published.peak_tflop_s)
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


def link_of_utilisation(reading: Reading) -> Iterator[Doubt]:
    """Utilisation over bandwidth is the bandwidth of one link in all cells, where no link has that."""
    link_gb_s, chip = link_of(reading), reading.published.chip
    if not link_gb_s:
        return
    candidates, whose = (chip.links, f"of the {chip.name}") if chip else (links(), "in the table")
    if any(link_gb_s.low * (1 - _SAME_LINK) <= link.gb_s <= link_gb_s.high * (1 + _SAME_LINK) for link in candidates):
        return
    names = listed([f"{link.name}: {link.gb_s:g}" for link in candidates], 4)
    # Somewhat less than a link carries is what was measured of it, perhaps.
    fastest = max(link.gb_s for link in candidates)
    severity = LOOK if _MEASURED * fastest < link_gb_s.value < fastest or not chip else WRONG
    for place in reading.outcomes["utilisation_percent"].checkable:
        detail = f"taken against {number(link_gb_s.value)} GB/s; no link {whose} carries that ({names} GB/s)"
        yield Doubt("utilisation of a link that is none", "utilisation_percent", place, detail, severity)


def same_times(published: Published, studies: Sequence[Published]) -> Iterator[Doubt]:
    """Times that another study has printed digit for digit: two measurements do not agree like that."""
    times = published.epoch_s
    for study in studies:
        if study.id != published.id and all(str(study.epoch_s.get(at)) == str(time) for at, time in times.items()):
            detail = f"{len(times)} times are those of {study.id}, digit for digit"
            for place in times:
                yield Doubt(COPIED, "epoch_s", place, detail, LOOK)


CHECKS: tuple[Callable[[Reading], Iterator[Doubt]], ...] = (
    figures_that_nothing_gives,
    below_zero,
    mistakes_of_conventions,
    parts_against_total,
    compute_is_the_total,
    batches_that_are_steps,
    repeated_times,
    larger_than_the_dataset,
    above_links,
    clocks_apart,
    one_gpu_times_apart,
    communication_of_one_gpu,
    efficiency_above_one,
    above_the_peak,
    link_of_utilisation,
)


def listed(items: Sequence[str], shown: int = 3) -> str:
    """Return `a, b and c`, or `a, b, c and 5 more`."""
    more = [f"{len(items) - shown:,} more"] if len(items) > shown else []
    *first, last = [*items[:shown], *more]
    return f"{', '.join(first)} and {last}" if first else last


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, and at least those before the point."""
    return f"{value:#.{digits}g}".rstrip(".") if abs(value) < 10**digits else f"{value:.0f}"


def unlike(first: float, second: float) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to see that they differ, and three at least."""
    for digits in range(3, 12):
        shown = number(first, digits), number(second, digits)
        if shown[0] != shown[1]:
            break
    return shown
