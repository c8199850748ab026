"""Do the published figures agree with each other? Every check returns what it found in which cell."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from dpscale.audit import corrected
from dpscale.audit.conventions import COLUMN_TOTAL, ELEMENTS, RATES, TABLE_TOTAL, TIMES_N, UNITS, rebuilt_total
from dpscale.audit.published import AnyPlace, Place, Published
from dpscale.audit.search import Found
from dpscale.formulas.interval import Interval

# The fastest link of a GPU in one direction, in GB/s, by the year in which it came: half of what NVIDIA's data sheets
# give as the total of NVLink for P100 (160 GB/s), V100 (300), A100 (600), H100 (900) and B200 (1800).
LINKS_GB_S = {2016: 80, 2017: 150, 2020: 300, 2022: 450, 2024: 900}
# PCI Express 3.0 with 16 lanes, which was there before.
BEFORE_NVLINK_GB_S = 15.75


@dataclass(frozen=True)
class Doubt:
    """What does not agree: the check that found it, the quantity and the cell, and the numbers."""

    check: str
    quantity: str
    place: AnyPlace
    detail: str


Check = Callable[[Published, Mapping[str, Found]], Iterator[Doubt]]


def doubts(published: Published, found: Mapping[str, Found]) -> list[Doubt]:
    """Everything that the checks find."""
    return [doubt for check in CHECKS for doubt in check(published, found)]


def speedup_against_times(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The printed speedup against T(1,b)/T(N,b). N times that ratio has a check of its own name."""
    for quantity in ("speedup", "speedup_alternative"):
        if quantity not in found:
            continue
        counted_twice = TIMES_N in found[quantity].choices
        check = "N*T(1,b)/T(N,b) sold as speedup" if counted_twice else "speedup is not T(1,b)/T(N,b)"
        for place, printed in _several_gpus(published, quantity):
            try:
                true = corrected.speedup(published, place)
            except corrected.NotRecomputableError:
                continue
            if not true.meets(Interval.of(printed)):
                slower = ", slower than one GPU" if true.high < 1 < printed else ""
                yield Doubt(check, quantity, place, f"{printed} is {_three(true)}{slower}")


def parts_against_total(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Compute plus communication, as printed, against the total: T(N,b), or T(1,b) over the printed speedup."""
    for place, compute in _several_gpus(published, "compute_s"):
        communication = published.quantities.get("communication_s", {}).get(place)
        printed = TABLE_TOTAL.value(published, place)
        total = printed or rebuilt_total(published, place)
        if communication is None or total is None:
            continue
        parts = Interval.of(compute) + Interval.of(communication)
        if not parts.meets(total):
            source = "T(N,b)" if printed else "T(1,b)/speedup"
            detail = f"{_three(total)} against {_three(parts)} s"
            yield Doubt(f"{source} is not compute plus communication", "communication_s", place, detail)


def compute_is_the_total(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The printed compute column, where communication was found to be that column minus a share of one GPU's time."""
    communication = found.get("communication_s")
    if not communication or not communication.best or COLUMN_TOTAL not in communication.choices:
        return
    detail = f"the printed communication is {communication.best.convention.formula}, with C(N,b) the printed compute"
    for place, _ in _several_gpus(published, "compute_s"):
        yield Doubt("the compute column is the total", "compute_s", place, detail)


def two_sets_of_times(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Bandwidth from the times that the authors subtracted against bandwidth from their table of times."""
    times = corrected.basis(found)
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
            yield Doubt(check, "bandwidth", place, f"{_three(table)} in place of {_three(theirs)} GB/s")


def larger_than_the_dataset(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Batches with no full step: the dataset ends first."""
    for quantity, place, _ in published.times:
        if place.global_batch > published.dataset_images:
            detail = f"{place.global_batch:,} images a step, the dataset has {published.dataset_images:,}"
            yield Doubt("batch larger than the dataset", quantity, place, detail)


def above_any_link(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """Bandwidth, in the unit of its label, above the fastest link of its year; of any year where none is given."""
    if published.bandwidth_unit is None:
        return
    known = [limit for year, limit in LINKS_GB_S.items() if published.year is None or year <= published.year]
    limit = max([BEFORE_NVLINK_GB_S, *known])
    when = f"by {published.year}" if published.year else "so far"
    for place, printed in _several_gpus(published, "bandwidth"):
        bandwidth_gb_s = Interval.of(printed) * (UNITS[published.bandwidth_unit] / UNITS["GB/s"])
        if bandwidth_gb_s.low > limit:
            detail = f"printed {printed} {published.bandwidth_unit}; the fastest link {when} carries {limit:g} GB/s"
            yield Doubt("bandwidth above any link", "bandwidth", place, detail)


def label_against_unit(published: Published, found: Mapping[str, Found]) -> Iterator[Doubt]:
    """The unit of the label against what the convention found counts, and in which unit."""
    chosen = found["bandwidth"].choices if "bandwidth" in found else ()
    counted = "elements" if ELEMENTS in chosen else "bytes"
    units = [rate for rate in RATES if rate in chosen and (rate.name != published.bandwidth_unit or ELEMENTS in chosen)]
    for place, _ in _several_gpus(published, "bandwidth"):
        for rate in units:
            detail = f"labelled {published.bandwidth_unit}, is {rate.formula} {counted} a second"
            yield Doubt("unit is not that of the label", "bandwidth", place, detail)


CHECKS: tuple[Check, ...] = (
    speedup_against_times,
    parts_against_total,
    compute_is_the_total,
    two_sets_of_times,
    larger_than_the_dataset,
    above_any_link,
    label_against_unit,
)


def _several_gpus(published: Published, quantity: str) -> list[tuple[Place, Decimal]]:
    return [(place, number) for place, number in published.quantities.get(quantity, {}).items() if place.gpus > 1]


def _three(interval: Interval) -> str:
    """Three significant digits, and at least those before the point."""
    return f"{interval.value:#.3g}".rstrip(".") if abs(interval.value) < 1000 else f"{interval.value:.0f}"
