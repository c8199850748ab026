"""Do the published figures agree with each other? Every check returns what it found in which cell."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

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
from dpscale.audit.conventions import WRONG as CHOICE_WRONG
from dpscale.audit.faults import HARMLESS, Fault, doubtful_times, explain
from dpscale.audit.published import AnyPlace, Place, Published
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


Check = Callable[[Published, Mapping[str, Found]], Iterator[Doubt]]


def doubts(published: Published, found: Mapping[str, Found]) -> list[Doubt]:
    """Everything that the checks find."""
    return [doubt for check in CHECKS for doubt in check(published, found)]


def speedup_against_times(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The printed speedup against T(1,b)/T(N,b) of its clock. N times that ratio, and a base other than one GPU, have
    checks of their own names."""
    for quantity in ("speedup", "speedup_alternative"):
        outcome = found.get(quantity)
        if not outcome:
            continue
        clock = corrected.clock_of(published, outcome)
        for place, printed in _several_gpus(published, quantity):
            one_gpu, total = clock.one_gpu.at(published, place), clock.total.at(published, place)
            if not one_gpu or not total or published.global_batch(place) > published.dataset_images:
                continue
            true = one_gpu / total
            is_told = _is_ratio(published, outcome) and outcome.best is not None and place in outcome.best.values
            if not is_told and not true.meets(Rounded.of(printed)):
                slower = ", slower than one GPU" if true.high < 1 < printed else ""
                yield Doubt(
                    _speedup_check(published, outcome), quantity, place, f"{printed} is {number(true.value)}{slower}"
                )


def _speedup_check(published: Published, outcome: Found) -> str:
    base = fewest_gpus(published)
    if TIMES_N in outcome.choices:
        return "N*T(1,b)/T(N,b) reported as speedup"
    return f"speedup over {base} GPUs" if base_of(base) in outcome.choices else "speedup is not T(1,b)/T(N,b)"


def _is_ratio(published: Published, outcome: Found) -> bool:
    """Whether the speedup was found to be the ratio of two times of one clock, so that single cells are told apart."""
    other_bases = {base_of(fewest_gpus(published)), SWEEP_ONE, MIXED}
    return RATIO in outcome.choices and not other_bases & set(outcome.choices)


def clocks_apart(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Figures that follow several clocks: they cannot be set against each other."""
    followed: dict[str, list[str]] = {}
    for quantity, outcome in found.items():
        if published.other_clocks and outcome.is_found:
            followed.setdefault(clock_words(published, outcome), []).append(quantity)
    if len(followed) < 2:
        return
    words = "; ".join(
        f"{listed([NAMES[name] for name in names], len(NAMES))}: {clock}" for clock, names in followed.items()
    )
    for names in list(followed.values())[1:]:
        for quantity in names:
            for place, _ in _several_gpus(published, quantity):
                yield Doubt("figures of two clocks", quantity, place, words, LOOK)


def clock_words(published: Published, outcome: Found) -> str:
    """`the clock with loading`: the name of the clock that a quantity follows."""
    return f"the clock {corrected.clock_of(published, outcome).name}"


def loader_bound(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """A clock that stays where another one falls: more GPUs do not load images faster."""
    tables = {published.clock or "of the table": published.epoch_s, **published.other_clocks}
    for name, table in tables.items():
        for other, beside in tables.items():
            for few, many, batch in _neighbours(table):
                ends = [Place(batch, gpus) for gpus in (few, many)]
                if name == other or not all(end in beside for end in ends):
                    continue
                first, last = (float(table[end]) for end in ends)
                falls = float(beside[ends[1]]) / float(beside[ends[0]])
                if max(first, last) / min(first, last) <= _ALIKE and falls < _FALLS_TO:
                    detail = (
                        f"the clock {name} stays at {number(first)} and {number(last)} s on {few} and {many} GPUs, "
                        f"where the clock {other} falls to {falls * 100:.0f} %: it is bound by what only it holds"
                    )
                    yield Doubt("bound by loading, not by GPUs", "epoch_s", ends[1], detail, LOOK)


def _neighbours(table: Mapping[Place, Decimal]) -> Iterator[tuple[int, int, int]]:
    """Every batch with two neighbouring numbers of several GPUs."""
    for batch in dict.fromkeys(place.batch_per_gpu for place in table):
        gpus = sorted(place.gpus for place in table if place.batch_per_gpu == batch and place.gpus > 1)
        yield from ((few, many, batch) for few, many in pairwise(gpus))


def parts_against_total(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Compute plus communication, as printed, against the total: T(N,b), or T(1,b) over the printed speedup."""
    for place, compute in _several_gpus(published, "compute_s"):
        communication = published.quantities.get("communication_s", {}).get(place)
        printed = TABLE_TOTAL.at(published, place)
        total = printed or REBUILT_TOTAL.at(published, place)
        if communication is None or total is None:
            continue
        parts = Rounded.of(compute) + Rounded.of(communication)
        if not parts.meets(total):
            source = "T(N,b)" if printed else "T(1,b)/speedup"
            shown, sum_of_parts = unlike(total, parts)
            check = f"{source} is not compute plus communication"
            severity = LOOK if _of_compute(found) else WRONG
            yield Doubt(check, "communication_s", place, f"{shown} against {sum_of_parts} s", severity)


def compute_is_the_total(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The printed compute column, where it is that of the totals, or where communication is that minus a share of one
    GPU's time."""
    if detail := _of_compute(found):
        for place, _ in _several_gpus(published, "compute_s"):
            yield Doubt("the compute column is the total", "compute_s", place, detail)


def _of_compute(found: Mapping[str, Found]) -> str:
    """Why the compute column is taken for the total; nothing where it is not."""
    communication, compute = found.get("communication_s"), found.get("compute_s")
    if communication and communication.best and COLUMN_TOTAL in communication.choices:
        formula = communication.best.convention.formula
        return f"the printed communication is {formula}, with C(N,b) the printed compute"
    if compute and {TABLE_TOTAL, WHOLE} <= set(compute.choices):
        return "the printed compute is T(N,b), communication included"
    return ""


def two_sets_of_times(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Bandwidth from the times that the authors subtracted against bandwidth from their table of times."""
    times = corrected.basis(published, found)
    if times == corrected.TABLE:
        return
    for place in published.places:
        try:
            theirs = corrected.bandwidth_gb_s(published, times, place)
            table = corrected.bandwidth_gb_s(published, corrected.TABLE, place)
        except corrected.NotRecomputableError:
            continue
        if not theirs.meets(table):
            check = f"{corrected.TABLE.formula} would give another bandwidth"
            of_table, of_theirs = unlike(table, theirs)
            yield Doubt(check, "bandwidth", place, f"{of_table} in place of {of_theirs} GB/s", LOOK)


def one_gpu_times_apart(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The one-GPU time of the table against that of the batch sweep."""
    workers = published.loader_workers
    for batch, swept in published.batch_sweep_s.items():
        place = Place(batch, 1)
        if place not in published.epoch_s:
            continue
        table = published.epoch_s[place]
        times = max(table, swept) / min(table, swept)
        if times > _SAME_TIME:
            loaded = (
                f", with {workers['epoch_s']} and {workers['batch_sweep_s']} processes that load"
                if {"epoch_s", "batch_sweep_s"} <= workers.keys()
                else ""
            )
            detail = f"{table} s in the table and {swept} s in the sweep, {number(float(times))} times apart{loaded}"
            yield Doubt("two one-GPU times differ", "batch_sweep_s", place, detail, LOOK)


def larger_than_the_dataset(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Batches with no full step: the dataset ends first."""
    for quantity, place, _ in published.times:
        images = published.global_batch(place)
        if images > published.dataset_images:
            detail = f"{images:,} images per step, the dataset has {published.dataset_images:,}"
            yield Doubt("batch larger than the dataset", quantity, place, detail)


def above_any_link(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Bandwidth, in the unit of its label, above the fastest link: of its GPU, or of its year, or of any year.

    Where it is that of all GPUs together, of one of them.
    """
    limit, name = _fastest_link(published)
    yield from _above(limit, name, "bandwidth above any link", published, found)


def above_the_named_link(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Bandwidth above that of the fastest link that the authors name."""
    link = max(published.named_links, key=lambda link: link.gb_s, default=None)
    if link and link.gb_s < _fastest_link(published)[0]:
        name = f"the link that the study names ({link.name})"
        yield from _above(link.gb_s, name, "bandwidth above the link named", published, found)


def _above(limit: float, name: str, check: str, published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Printed bandwidths above `limit`, in GB/s, which is what the link `name` carries."""
    if published.bandwidth_unit is None:
        return
    together = RING_TOTAL in found["bandwidth"].choices if "bandwidth" in found else False
    for place, printed in _several_gpus(published, "bandwidth"):
        bandwidth_gb_s = Rounded.of(printed) * (UNITS[published.bandwidth_unit] / UNITS["GB/s"])
        if together:
            bandwidth_gb_s = bandwidth_gb_s / place.gpus
        if bandwidth_gb_s.low > limit:
            of_all = f", {number(bandwidth_gb_s.value)} GB/s of each GPU" if together else ""
            detail = f"printed {printed} {published.bandwidth_unit}{of_all}; {name} carries {limit:g} GB/s"
            yield Doubt(check, "bandwidth", place, detail, IMPOSSIBLE)


def _fastest_link(published: Published) -> tuple[float, str]:
    """Its bandwidth in GB/s, and what it is."""
    if published.chip:
        link = max(published.chip.links, key=lambda link: link.gb_s)
        return link.gb_s, f"the fastest link of the {published.chip.name} ({link.name})"
    known = [limit for year, limit in LINKS_GB_S.items() if published.year is None or year <= published.year]
    return max(
        [BEFORE_NVLINK_GB_S, *known]
    ), f"the fastest link {f'by {published.year}' if published.year else 'so far'}"


def label_against_unit(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The unit of the label against what the convention found counts, and in which unit."""
    chosen = found["bandwidth"].choices if "bandwidth" in found else ()
    counted = "elements" if ELEMENTS in chosen else "bytes"
    units = [choice for choice in chosen if is_rate(choice)]
    for place, _ in _several_gpus(published, "bandwidth"):
        for unit in units:
            if unit.name != published.bandwidth_unit or ELEMENTS in chosen:
                detail = (
                    f"labelled {published.bandwidth_unit}, is {unit.formula.removeprefix(' / ')} {counted} a second"
                )
                yield Doubt("unit is not that of the label", "bandwidth", place, detail)


def mistakes_of_conventions(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """What no definition would call right in a convention found, but for what has a check of its own name."""
    told = (TIMES_N, ELEMENTS, base_of(fewest_gpus(published)))
    for quantity, outcome in found.items():
        chosen = [choice for choice in outcome.choices if choice.kind == CHOICE_WRONG and choice not in told]
        mistakes = [choice.sentence for choice in chosen if not is_rate(choice)]
        if outcome.best and outcome.is_found and outcome.best.printing.kind == CHOICE_WRONG:
            mistakes.append(outcome.best.printing.sentence)
        for place, _ in _several_gpus(published, quantity) if mistakes else []:
            yield Doubt(f"{NAMES[quantity]} is not what it is called", quantity, place, "; ".join(mistakes))


def cells_apart(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Cells that the convention of their column does not give, with what may have happened to each."""
    doubtful = {figure for time in doubtful_times(published, found) for figure in time.figures}
    for quantity, outcome in found.items():
        if not outcome.is_found or not outcome.best:
            continue
        reasons = explain(published, quantity, found)
        for place in outcome.exceptions:
            if (quantity, place) in doubtful or place not in outcome.best.values:
                continue
            value = outcome.best.values[place]
            printed = published.quantities[quantity][place]
            given = unlike(value, Rounded.of(printed))[0]
            reason = reasons.get(place)
            clause = f": {reason.clause}" if reason else ""
            yield Doubt(
                "cell that its column's convention does not give", quantity, place,
                f"printed {printed}, it gives {given}{clause}", LOOK if _is_harmless(reason) else WRONG,
            )  # fmt: skip


def _is_harmless(reason: Fault | None) -> bool:
    return reason is not None and reason.kind in HARMLESS


def times_that_figures_contradict(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """A time with which several figures do not agree that would agree with one another: it is likely misprinted."""
    for time in doubtful_times(published, found):
        figures = listed([f"{NAMES[name]} at {place_words(place)}" for name, place in time.figures], 4)
        given = unlike(time.instead, Rounded.of(time.printed))[0]
        detail = f"printed {time.printed} s; {given} s would give {figures} as printed"
        yield Doubt("a time that its figures contradict", time.table, time.place, detail)


def communication_of_one_gpu(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """One GPU has nobody to communicate with."""
    for place, printed in published.quantities.get("communication_s", {}).items():
        if place.gpus == 1 and not Rounded.of(printed).contains(0):
            detail = f"printed {printed} s; what this clock holds is not communication between GPUs"
            yield Doubt("communication on one GPU", "communication_s", place, detail)


def communication_grows(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """More GPUs need fewer steps for an epoch, so the communication time of a ring falls."""
    table = published.quantities.get("communication_s", {})
    for few, many, batch in _neighbours(table):
        first, last = (Rounded.of(table[Place(batch, gpus)]) for gpus in (few, many))
        if last.low > first.high and first.low > 0:
            printed = [table[Place(batch, gpus)] for gpus in (few, many)]
            detail = f"{printed[1]} s on {many} GPUs, {printed[0]} s on {few}, which do more steps per epoch"
            yield Doubt("communication grows with GPUs", "communication_s", Place(batch, many), detail, LOOK)


def efficiency_above_one(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """N GPUs more than N times as fast as one: something else must have changed too."""
    for place in published.places:
        if place.gpus == 1:
            continue
        try:
            efficiency = corrected.speedup(published, place) / place.gpus
        except corrected.NotRecomputableError:
            continue
        if efficiency.low > 1:
            detail = (
                f"{efficiency.value * 100:.1f} % of {gpus_words(place.gpus)}: that needs a cause, such as a slow T(1,b)"
            )
            yield Doubt("efficiency above 100 %", "epoch_s", place, detail, LOOK)


CHECKS: tuple[Check, ...] = (
    speedup_against_times,
    parts_against_total,
    compute_is_the_total,
    two_sets_of_times,
    larger_than_the_dataset,
    above_any_link,
    above_the_named_link,
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


def _several_gpus(published: Published, quantity: str) -> list[tuple[Place, Decimal]]:
    return [(place, number) for place, number in published.quantities.get(quantity, {}).items() if place.gpus > 1]
