"""Do the published figures agree with each other? Every check returns what it found in which cell."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, pairwise, permutations

from dpscale.audit import corrected
from dpscale.audit.conventions import (
    COLUMN_TOTAL,
    ELEMENTS,
    MIXED,
    RATIO,
    REBUILT_TOTAL,
    RING_TOTAL,
    SWEEP_ONE,
    TABLE_TOTAL,
    TIMES_N,
    UNITS,
    WHOLE,
    base_of,
    fewest_gpus,
    is_rate,
)
from dpscale.audit.faults import HARMLESS, doubtful_times, explain
from dpscale.audit.reading.published import AnyPlace, Published, Spot
from dpscale.audit.search import Found
from dpscale.audit.words import NAMES, gpus_words, listed, number, place_words, unlike
from dpscale.formulas.rounded import Rounded
from dpscale.vocabulary.chips import links

# The fastest link of a GPU in one direction, in GB/s, by the year in which it came: half of what NVIDIA's data sheets
# give as the total of NVLink for P100 (160 GB/s), V100 (300), A100 (600), H100 (900) and B200 (1800).
LINKS_GB_S = {2016: 80, 2017: 150, 2020: 300, 2022: 450, 2024: 900}
# PCI Express 3.0 with 16 lanes, which was there before.
BEFORE_NVLINK_GB_S = next(link.gb_s for link in links() if link.name == "PCIe 3.0 x16")

# What a doubt means: worth a look; not what it is called or not what its inputs give; or no machine can do that.
LOOK, WRONG, IMPOSSIBLE = "look", "wrong", "impossible"
SEVERITIES = (IMPOSSIBLE, WRONG, LOOK)  # the worst first

# Two one-GPU times of a batch that differ by more than this were taken under other conditions.
_SAME_TIME = 1.1
# With so many times more GPUs, a time that stays within this is held by something else than the GPUs; where GPUs
# decide, it falls to less than that part of itself.
_ALIKE, _FALLS_TO = 1.03, 0.75


@dataclass(frozen=True)
class Doubt:
    """What does not agree: the check that found it, the quantity and the cell, the numbers, and what it means."""

    check: str
    quantity: str
    place: AnyPlace
    detail: str
    severity: str = WRONG


Outcomes = Mapping[str, Found]


def doubts(published: Published, found: Outcomes) -> list[Doubt]:
    """Everything that the checks find."""
    return [doubt for check in CHECKS for doubt in check(published, found)]


def _choices(found: Outcomes, quantity: str) -> tuple[object, ...]:
    return found[quantity].choices if quantity in found else ()


def speedup_against_times(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """The printed speedup against T(1,b)/T(N,b) of its clock. N times that ratio, and a base other than one GPU, have
    checks of their own names."""
    base = fewest_gpus(published)
    for quantity in ("speedup", "speedup_alternative"):
        if quantity not in found:
            continue
        outcome, chosen = found[quantity], set(found[quantity].choices)
        check = f"speedup over {base} GPUs" if base_of(base) in chosen else "speedup is not T(1,b)/T(N,b)"
        check = "N*T(1,b)/T(N,b) reported as speedup" if TIMES_N in chosen else check
        # The ratio of two times of one clock: its single cells are told apart.
        is_ratio = RATIO in chosen and not chosen & {base_of(base), SWEEP_ONE, MIXED}
        told = outcome.best.values if outcome.best and is_ratio else {}
        clock = corrected.clock_of(published, outcome)
        for place, printed in published.several_gpus(quantity):
            one_gpu, total = clock.one_gpu.at(published, place), clock.total.at(published, place)
            if not one_gpu or not total or published.global_batch(place) > published.dataset_images or place in told:
                continue
            true = one_gpu / total
            if not true.meets(Rounded.of(printed)):
                slower = ", slower than one GPU" if true.high < 1 < printed else ""
                yield Doubt(check, quantity, place, f"{printed} is {number(true.value)}{slower}")


def clocks_apart(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """Figures that follow several clocks: they cannot be set against each other."""
    followed: dict[str, list[str]] = {}
    for quantity, outcome in found.items():
        if outcome.is_found:
            followed.setdefault(corrected.clock_of(published, outcome).name, []).append(quantity)
    words = "; ".join(
        f"{listed([NAMES[name] for name in names], len(NAMES))}: the clock {clock}" for clock, names in followed.items()
    )
    for quantity in chain(*[*followed.values()][1:]):
        for place, _ in published.several_gpus(quantity):
            yield Doubt("figures of two clocks", quantity, place, words, LOOK)


def loader_bound(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """A clock that stays where another one falls: more GPUs do not load images faster."""
    tables = {published.clock or "of the table": published.epoch_s, **published.other_clocks}
    for (name, table), (other, beside) in permutations(tables.items(), 2):
        for few, many in _neighbours(table):
            if few not in beside or many not in beside:
                continue
            first, last = float(table[few]), float(table[many])
            falls = float(beside[many]) / float(beside[few])
            if max(first, last) / min(first, last) <= _ALIKE and falls < _FALLS_TO:
                detail = (
                    f"the clock {name} stays at {number(first)} and {number(last)} s on {few.gpus} and {many.gpus} "
                    f"GPUs, where the clock {other} falls to {falls * 100:.0f} %: it is bound by what only it holds"
                )
                yield Doubt("bound by loading, not by GPUs", "epoch_s", many, detail, LOOK)


def _neighbours(table: Mapping[Spot, Decimal]) -> Iterator[tuple[Spot, Spot]]:
    """Two neighbouring numbers of several GPUs of a batch."""
    for batch in dict.fromkeys(place.batch_per_gpu for place in table):
        yield from pairwise(sorted(place for place in table if place.batch_per_gpu == batch and place.gpus > 1))


def parts_against_total(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """Compute plus communication, as printed, against the total: T(N,b), or T(1,b) over the printed speedup."""
    for place, compute in published.several_gpus("compute_s"):
        communication = published.quantities.get("communication_s", {}).get(place)
        printed = TABLE_TOTAL.at(published, place)
        total = printed or REBUILT_TOTAL.at(published, place)
        if communication is None or total is None:
            continue
        parts = Rounded.of(compute) + Rounded.of(communication)
        if not parts.meets(total):
            check = f"{'T(N,b)' if printed else 'T(1,b)/speedup'} is not compute plus communication"
            severity = LOOK if _of_compute(found) else WRONG
            yield Doubt(check, "communication_s", place, "{} against {} s".format(*unlike(total, parts)), severity)


def compute_is_the_total(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """The printed compute column, where it is that of the totals, or where communication is that minus a share of one
    GPU's time."""
    if detail := _of_compute(found):
        for place, _ in published.several_gpus("compute_s"):
            yield Doubt("the compute column is the total", "compute_s", place, detail)


def _of_compute(found: Outcomes) -> str:
    """Why the compute column is taken for the total; nothing where it is not."""
    if COLUMN_TOTAL in _choices(found, "communication_s") and (best := found["communication_s"].best):
        return f"the printed communication is {best.convention.formula}, with C(N,b) the printed compute"
    if {TABLE_TOTAL, WHOLE} <= set(_choices(found, "compute_s")):
        return "the printed compute is T(N,b), communication included"
    return ""


def two_sets_of_times(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """Bandwidth from the times that the authors subtracted against bandwidth from their table of times."""
    times = corrected.basis(published, found)
    for place in published.places if times != corrected.TABLE else []:
        try:
            theirs, table = (corrected.bandwidth_gb_s(published, of, place) for of in (times, corrected.TABLE))
        except corrected.NotRecomputableError:
            continue
        if not theirs.meets(table):
            check = f"{corrected.TABLE.formula} would give another bandwidth"
            yield Doubt(check, "bandwidth", place, "{} in place of {} GB/s".format(*unlike(table, theirs)), LOOK)


def one_gpu_times_apart(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """The one-GPU time of the table against that of the batch sweep."""
    workers = published.loader_workers
    loaded = (
        f", with {workers['epoch_s']} and {workers['batch_sweep_s']} processes that load" if len(workers) > 1 else ""
    )
    for batch, swept in published.batch_sweep_s.items():
        place = Spot(batch, 1)
        table = published.epoch_s.get(place, swept)
        times = max(table, swept) / min(table, swept)
        if times > _SAME_TIME:
            detail = f"{table} s in the table and {swept} s in the sweep, {number(float(times))} times apart{loaded}"
            yield Doubt("two one-GPU times differ", "batch_sweep_s", place, detail, LOOK)


def larger_than_the_dataset(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """Batches with no full step: the dataset ends first."""
    for quantity, place, _ in published.times:
        images = published.global_batch(place)
        if images > published.dataset_images:
            detail = f"{images:,} images per step, the dataset has {published.dataset_images:,}"
            yield Doubt("batch larger than the dataset", quantity, place, detail)


def above_links(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """Bandwidth, in the unit of its label, above the fastest link of its GPU, or of its year, or of any year; and above
    the fastest link that the authors name.

    Where it is that of all GPUs together, of one of them.
    """
    if published.bandwidth_unit is None:
        return
    limit, name = _fastest_link(published)
    limits = [("bandwidth above any link", limit, name)]
    link = max(published.named_links, key=lambda link: link.gb_s, default=None)
    if link and link.gb_s < limit:
        limits.append(("bandwidth above the link named", link.gb_s, f"the link that the study names ({link.name})"))
    together = RING_TOTAL in _choices(found, "bandwidth")
    for check, limit, name in limits:
        for place, printed in published.several_gpus("bandwidth"):
            of_each = Rounded.of(printed) * (UNITS[published.bandwidth_unit] / UNITS["GB/s"])
            of_each = of_each / place.gpus if together else of_each
            if of_each.low > limit:
                of_all = f", {number(of_each.value)} GB/s of each GPU" if together else ""
                detail = f"printed {printed} {published.bandwidth_unit}{of_all}; {name} carries {limit:g} GB/s"
                yield Doubt(check, "bandwidth", place, detail, IMPOSSIBLE)


def _fastest_link(published: Published) -> tuple[float, str]:
    """Its bandwidth in GB/s, and what it is."""
    year, chip = published.year, published.chip
    if chip:
        link = max(chip.links, key=lambda link: link.gb_s)
        return link.gb_s, f"the fastest link of the {chip.name} ({link.name})"
    known = [limit for came, limit in LINKS_GB_S.items() if year is None or came <= year]
    return max([BEFORE_NVLINK_GB_S, *known]), f"the fastest link {f'by {year}' if year else 'so far'}"


def label_against_unit(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """The unit of the label against what the convention found counts, and in which unit."""
    chosen = found["bandwidth"].choices if "bandwidth" in found else ()
    counted = "elements" if ELEMENTS in chosen else "bytes"
    for place, _ in published.several_gpus("bandwidth"):
        for unit in filter(is_rate, chosen):
            if unit.name != published.bandwidth_unit or ELEMENTS in chosen:
                is_one = f"is {unit.formula.removeprefix(' / ')} {counted} a second"
                detail = f"labelled {published.bandwidth_unit}, {is_one}"
                yield Doubt("unit is not that of the label", "bandwidth", place, detail)


def mistakes_of_conventions(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """What no definition would call right in a convention found, but for what has a check of its own name."""
    told = (TIMES_N, ELEMENTS, base_of(fewest_gpus(published)))
    for quantity, outcome in found.items():
        if outcome.best and outcome.is_found:
            wrong = [choice for choice in outcome.best.wrong if choice not in told and not is_rate(choice)]
            mistakes = "; ".join(choice.sentence for choice in wrong)
            for place, _ in published.several_gpus(quantity) if wrong else []:
                yield Doubt(f"{NAMES[quantity]} is not what it is called", quantity, place, mistakes)


def cells_apart(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """Cells that the convention of their column does not give, with what may have happened to each."""
    doubtful = {figure for time in doubtful_times(published, found) for figure in time.figures}
    for quantity, outcome in found.items():
        reasons = explain(published, quantity, found)
        values = outcome.best.values if outcome.best and outcome.is_found else {}
        for place in outcome.exceptions:
            if (quantity, place) in doubtful or place not in values:
                continue
            printed, reason = published.quantities[quantity][place], reasons.get(place)
            given = unlike(values[place], Rounded.of(printed))[0]
            detail = f"printed {printed}, it gives {given}{f': {reason.clause}' if reason else ''}"
            severity = LOOK if reason and reason.kind in HARMLESS else WRONG
            yield Doubt("cell that its column's convention does not give", quantity, place, detail, severity)


def times_that_figures_contradict(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """A time with which several figures do not agree that would agree with one another: it is likely misprinted."""
    for time in doubtful_times(published, found):
        figures = listed([f"{NAMES[name]} at {place_words(place)}" for name, place in time.figures], 4)
        given = unlike(time.instead, Rounded.of(time.printed))[0]
        detail = f"printed {time.printed} s; {given} s would give {figures} as printed"
        yield Doubt("a time that its figures contradict", "epoch_s", time.place, detail)


def communication_of_one_gpu(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """One GPU has nobody to communicate with."""
    for place, printed in published.quantities.get("communication_s", {}).items():
        if place.gpus == 1 and not Rounded.of(printed).contains(0):
            detail = f"printed {printed} s; what this clock holds is not communication between GPUs"
            yield Doubt("communication on one GPU", "communication_s", place, detail)


def communication_grows(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """More GPUs need fewer steps for an epoch, so the communication time of a ring falls."""
    table = published.quantities.get("communication_s", {})
    for few, many in _neighbours(table):
        first, last = (Rounded.of(table[place]) for place in (few, many))
        if last.low > first.high and first.low > 0:
            on_few = f"{table[few]} s on {few.gpus}, which do more steps per epoch"
            detail = f"{table[many]} s on {many.gpus} GPUs, {on_few}"
            yield Doubt("communication grows with GPUs", "communication_s", many, detail, LOOK)


def efficiency_above_one(published: Published, found: Outcomes) -> Iterator[Doubt]:
    """N GPUs more than N times as fast as one: something else must have changed too."""
    for place in published.places:
        try:
            efficiency = corrected.speedup(published, place) / place.gpus
        except corrected.NotRecomputableError:
            continue
        if efficiency.low > 1 and place.gpus > 1:
            share = f"{efficiency.value * 100:.1f} % of {gpus_words(place.gpus)}"
            detail = f"{share}: that needs a cause, such as a slow T(1,b)"
            yield Doubt("efficiency above 100 %", "epoch_s", place, detail, LOOK)


CHECKS: tuple[Callable[[Published, Outcomes], Iterator[Doubt]], ...] = (
    speedup_against_times,
    parts_against_total,
    compute_is_the_total,
    two_sets_of_times,
    larger_than_the_dataset,
    above_links,
    label_against_unit,
    mistakes_of_conventions,
    cells_apart,
    times_that_figures_contradict,
    clocks_apart,
    loader_bound,
    one_gpu_times_apart,
    communication_of_one_gpu,
    communication_grows,
    efficiency_above_one,
)
