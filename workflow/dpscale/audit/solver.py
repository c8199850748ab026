"""What the columns of a grid are: solved, not looked up.

Every assignment of roles that the values allow is scored: by the words of its heads, by how plausible its numbers are,
and by how well the figures then fit each other (a speedup and the times, a rate and the time, two parts and their sum).
The best is taken. What gets no role, or a role that other figures speak against, is left out, and said.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from operator import mul
from statistics import median
from typing import NamedTuple

from dpscale.audit.grids import WORDS, Grid
from dpscale.audit.layouts import ColumnSeries, Layout, PrintedCell, kind_of_unit, layouts
from dpscale.audit.published import OF_TWO
from dpscale.formulas.rounded import Number
from dpscale.tables.row import grouped

CLOCKS, PARTS, RATIOS = ("time", "rate"), ("compute", "communication"), ("speedup", "efficiency")
_OF_CLOCKS = (*RATIOS, *PARTS, "share")
_DERIVED = (*_OF_CLOCKS, "bandwidth", "utilisation")
_TIMES, _FIGURES = ("time", *PARTS), (*CLOCKS, *_DERIVED)
_COUNTS, _NOTHING = ("gpus", "nodes", "per_node"), "nothing"
_KEYS = (*_COUNTS, "batch")
# What is counted by rates that do not say.
RATE = "images/s"

# Assignments that are tried, and the roles of a series among them; fewer where there are so many cells.
_MOST_ASSIGNMENTS, _MOST_ROLES, _MOST_CELLS = 256, 3, 200_000
# A word that speaks so much louder than the next decides.
_CLEAR = 4.0
# What a word says that is no hint alone, one that says hardly anything, and what no word takes off.
_PLAIN, _FAINT, _UNSAID = 3.0, 0.5, 3.5
# What a fit of all figures of a relation counts, beside the words.
_WEIGHT_OF_RELATION = 4.0
_MOST_GPUS = 20_000
# Figures that fit within this, beyond their rounding, are held to follow from each other. Figures that are known no
# better than the second fit much by chance.
_TOLERANCE, _ROUGHEST = 0.01, 0.12
# A ratio of which less than this follows from a clock may be of another.
_SOME = 0.4
# A column of which more than this follows from a clock is no other.
_NEARLY = 0.8
_OF_TWO = "no times of one series give it, so it may be a ratio of two"
# Figures that exceed these are percents; in percent, an efficiency begins at 100.
_LARGEST_FRACTIONS = {"efficiency": 10.0, "share": 2.5}


class Role(NamedTuple):
    """What a series is: its name, and per what it is: a step in place of an epoch, one GPU in place of all."""

    name: str
    is_per_step: bool = False
    is_per_gpu: bool = False


class FigurePlace(NamedTuple):
    """The cell of a figure: its group, its batch (0 where none is named), and its number of GPUs."""

    group: tuple[str, ...]
    batch: int
    gpus: int

    @property
    def row(self) -> "FigurePlace":
        """What all numbers of GPUs share."""
        return self._replace(gpus=0)


# Numbers by cell, in the unit of their role.
Values = Mapping[FigurePlace, Number]
# Figures with their cells.
_Placed = Sequence[tuple[FigurePlace, PrintedCell]]


class Fact(NamedTuple):
    """A figure that was read: its cell, its role, the number in the unit of its role, what is printed with it, and
    whose images its batch has, where the table or its figures say."""

    place: FigurePlace
    role: Role
    number: Number
    unit: str
    head: str
    is_marked: bool
    whose_batch: str = ""


@dataclass(frozen=True)
class Solution:
    """The best reading of a grid."""

    facts: Sequence[Fact]
    left_out: Sequence[str]
    score: float


@dataclass(frozen=True, eq=False)
class _Column:
    """A series in its role, with the cells of its figures."""

    series: ColumnSeries
    role: Role
    placed: _Placed

    @cached_property
    def facts(self) -> Sequence[Fact]:
        role, unit_of_all = self.role, self.series.unit
        if max(float(cell) for *_, cell in self.series.figures) > _LARGEST_FRACTIONS.get(role.name, math.inf):
            unit_of_all = "%"
        facts = []
        for place, cell in self.placed:
            unit = "%" if unit_of_all == "%" else cell.unit or unit_of_all
            first, _, per = unit.partition("/")
            # What takes a printed number to the unit of its role: seconds, ratios, and rates of all GPUs.
            factor = WORDS["factors"].get(first, 1.0) / WORDS["factors"].get(per, 1.0)
            factor *= place.gpus or 1 if role.is_per_gpu else 1
            if unit == "%" and role.name == "utilisation":
                factor = 1.0
            shown = (first or "s") + "/step" * role.is_per_step if role.name in _TIMES else unit
            is_as_printed = factor == 1 and not role.is_per_step
            printed = "" if is_as_printed else f"{cell.digits} {shown or RATE}{' per GPU' * role.is_per_gpu}"
            number = Number.of(cell.digits, partial(mul, factor), printed)
            facts.append(Fact(place, role, number, unit, self.series.head, cell.is_marked))
        return facts

    @property
    def is_clock(self) -> bool:
        return self.role.name in CLOCKS and bool(self.placed)

    @cached_property
    def values(self) -> Values:
        return {fact.place: fact.number for fact in reversed(self.facts)}

    def given(self, name: str, is_of_own_batch: bool = True) -> dict[FigurePlace, float]:
        """Return what follows for a quantity from times, or from rates in place of them. A step of N GPUs has N times
        the images of a step of one, but where all share one batch."""
        figures = dict[FigurePlace, float]()
        for place, least in self._bases().items():
            first, value, more = float(self.values[least]), float(self.values[place]), place.gpus / least.gpus
            images = more if self.role.is_per_step and is_of_own_batch else 1.0
            if name in RATIOS:
                ratio = value / first if self.role.name == "rate" else first / value
                figures[place] = images * ratio / (more if name == "efficiency" else 1.0)
            elif self.role.name == "time" and least.gpus == 1:
                compute = first * images / more
                parts = {"compute": compute, "communication": value - compute}
                figures[place] = parts.get(name, 1 - compute / value)
        return figures

    def _bases(self) -> dict[FigurePlace, FigurePlace]:
        """Return what each cell is compared with: the fewest GPUs of its row. Without one GPU among them, that of the
        only row that has no others."""
        counted = filter(lambda place: place.gpus, self.values)
        rows = grouped(sorted(counted, key=lambda place: place.gpus), lambda place: place.row)
        alone = grouped([at for at, *more in rows.values() if at.gpus == 1 and not more], lambda at: at.batch)
        bases = dict[FigurePlace, FigurePlace]()
        for row, (least, *more) in rows.items():
            lent = alone.get(row.batch, [])
            base = lent[0] if len(lent) == 1 and least.gpus > 1 else least
            bases |= dict.fromkeys((least, *more), base)
        return bases

    def fit(self, column: "_Column", of_own_batch: Sequence[bool] = (True, False)) -> float:
        """Return the share of a column's figures on several GPUs that these times or rates give."""
        kinds = of_own_batch if self.role.is_per_step else (True,)
        several = {place: number for place, number in column.values.items() if place.gpus > 1}
        printed = several if several.keys() & self.values else column.values
        return max(_share(printed, self.given(column.role.name, is_own)) for is_own in kinds)


def solve(grid: Grid, defaults: Mapping[str, int]) -> Solution | None:
    """Return the best reading of a grid; None where it holds no figures of training on GPUs. `defaults` are keys that
    the text around says."""
    solutions, is_upright = [], False
    for layout in layouts(grid):
        # What has a column of GPUs or batches stands upright.
        heads = [_spoken_for(series.head) for series in layout.series if not layout.is_turned]
        is_upright |= any(words.get(name, 0) >= _CLEAR for words in heads for name in _KEYS)
        if not (layout.is_turned and is_upright) and (solution := _solved(layout, defaults)):
            solutions.append(solution)

    def rank(solution: Solution) -> tuple[bool, float]:
        """Return first whether it compares one GPU with several, which is looked for."""
        return any(fact.place.gpus > 1 for fact in solution.facts), solution.score

    return max(solutions, key=rank, default=None)


def _solved(layout: Layout, defaults: Mapping[str, int]) -> Solution | None:
    candidates = [_candidates(series, layout) for series in layout.series]
    cells = sum(len(series.figures) for series in layout.series)
    while math.prod(map(len, candidates)) > max(1, min(_MOST_ASSIGNMENTS, _MOST_CELLS // cells)):
        longest = max(candidates, key=len)
        candidates = [of_series[:-1] if of_series is longest else of_series for of_series in candidates]
    places_of = cache(lambda kinds, is_of_a_node: _places(layout, kinds, defaults, is_of_a_node))
    column = cache(lambda at, role, *how: _Column(layout.series[at], role, places_of(*how).by_series[at]))
    best: tuple[float, list[_Column], _Places] | None = None
    # Beside numbers of nodes, GPUs may be of all of them, or of each.
    named = [*layout.row_keys, *layout.keys_of_heads, {role.name for entries in candidates for role, _ in entries}]
    ways = (False, True) if any("nodes" in names for names in named) else (False,)
    for choice, is_of_a_node in product(product(*candidates), ways):
        roles = [role for role, _ in choice]
        # Places depend on what is a key, and on what may tell rows apart.
        kinds = tuple(role.name if role.name in (*_KEYS, _NOTHING) else "" for role in roles)
        if "" not in kinds or any(kinds.count(name) > 1 for name in _KEYS):
            continue
        places = places_of(kinds, is_of_a_node)
        by_words = sum(weight for _, weight in choice) - 0.5 * layout.is_turned + places.score
        if best and by_words + _WEIGHT_OF_RELATION * kinds.count("") <= best[0]:
            continue
        is_growing = "per_gpu" in places.batches.values()
        for read_as, weight in _readings(roles, layout, is_growing):
            columns = [column(at, role, kinds, is_of_a_node) for at, role in enumerate(read_as)]
            score = by_words + weight + sum(_WEIGHT_OF_RELATION * share for share in _relations(columns))
            if not best or score > best[0]:
                best = score, columns, places
    if not best:
        return None
    score, columns, places = best
    clocks = _clocks(columns)
    solution = _solution(layout, score, [_by_values(column, clocks) for column in columns], places)
    # Without keys, only a ratio of two rows can be checked.
    return solution if places.names or any(fact.role.name == OF_TWO for fact in solution.facts) else None


def _clocks(columns: Sequence[_Column]) -> dict[int, _Column]:
    return {at: column for at, column in enumerate(columns) if column.is_clock}


def _by_values(column: _Column, clocks: Mapping[int, _Column]) -> _Column:
    """Return a column as the ratio that a clock, or two, give in nearly all of its cells, if no word says that it is
    none."""
    series = column.series
    # Whole numbers may be counts of anything, which grow as GPUs do.
    is_count = series.is_whole and not series.unit
    is_nothing = column.role.name == _NOTHING and not is_count and not _spoken_for(series.head).get(_NOTHING)
    # Where rates are printed alone, many call it a speedup what is left of the rate of one GPU.
    has_times = any(clock.role.name == "time" for clock in clocks.values())
    is_speedup_of_rates = column.role.name == "speedup" and not has_times
    if not (is_nothing or is_speedup_of_rates):
        return column
    as_speedup, as_efficiency = (replace(column, role=Role(name)) for name in RATIOS)
    speedup, efficiency = (
        max((clock.fit(ratio) for clock in clocks.values()), default=0.0) for ratio in (as_speedup, as_efficiency)
    )
    if is_speedup_of_rates:
        return as_efficiency if not speedup and efficiency > _SOME else column
    if max(speedup, efficiency) <= _NEARLY:
        return column
    return as_speedup if speedup > _NEARLY else as_efficiency


def _candidates(series: ColumnSeries, layout: Layout) -> list[tuple[Role, float]]:
    """Return the roles that the values of a series allow, with what its words say for each, the likeliest first."""
    numbers = [float(cell) for *_, cell in series.figures]
    units = {series.unit} - {""} or {cell.unit for *_, cell in series.figures} - {""}
    kinds = {*map(kind_of_unit, units)} - {""}
    allowed = [name for name in (*_KEYS, *_FIGURES) if _allows(name, series, numbers, kinds)]
    words = _spoken_for(series.head)
    # `Multi-GPU` above rates says nothing.
    is_said = bool(words) and (words.keys() != {"gpus"} or "gpus" in allowed)
    if not is_said:
        # Where a head has no word, those of the line above say a little, but for a part of a time.
        share = 0.4 if series.head else 0.8
        # What a head says, no other column is by the line above.
        of_heads = {
            name for column in layout.series for name, weight in _spoken_for(column.head).items() if weight >= _CLEAR
        }
        above = _spoken_for(layout.caption).items()
        words = {
            name: share * weight for name, weight in above if name not in {_NOTHING, *PARTS, *of_heads} and weight > 0
        }
    weights = {}
    for name in allowed:
        weights[name] = words.get(name, 0.0)
        weights[name] += 1.5 * (bool(kinds) and name not in _KEYS)
        # Without a word or a unit, a figure that follows from others is one only where nearly all of it does.
        # Figures under bare numbers of GPUs or batches are times, where nothing speaks against it.
        is_far = name in PARTS or (name in _DERIVED and not kinds)
        weights[name] -= _UNSAID * (is_far and not is_said)
        is_plain = name in kinds or (name == "time" and series.has_keys) or (name, kinds) == ("speedup", {"ratio"})
        weights[name] += is_plain and not is_said and name in (*CLOCKS, "speedup")
    scored = sorted(weights.items(), key=lambda entry: -entry[1])[:_MOST_ROLES]
    # Of roles that as much speaks for, the first is taken: none.
    entries = [(Role(_NOTHING), words.get(_NOTHING, 0.0) + 3.0 * (_NOTHING in kinds) + 1.5)]
    entries += [(_role(name, f"{series.head} {' '.join(units)}", layout), weight) for name, weight in scored]
    most = max(weight for _, weight in entries)
    # Where the words of a head say what it is, a role that none of them speaks for is none.
    least = max(most - _CLEAR, _FAINT) if is_said and most >= _PLAIN else most - _CLEAR
    return sorted((entry for entry in entries if entry[1] > least), key=lambda entry: -entry[1])


def _readings(roles: Sequence[Role], layout: Layout, is_growing: bool) -> Iterator[tuple[list[Role], float]]:
    """Yield what roles may be, with what speaks for it. Where the work grows with the GPUs, rates may be of each of
    them; and where a batch `is_growing` so, times may be of a step, as milliseconds are. A part in the unit of such
    times is of a step as well."""
    series = layout.series
    if layout.is_weak and any(role.name == "rate" for role in roles):
        yield [role._replace(is_per_gpu=role.is_per_gpu or role.name == "rate") for role in roles], -0.5
    times = [(role, column.unit) for role, column in zip(roles, series, strict=True) if role.name == "time"]
    for is_of_step in {False, is_growing and bool(times)}:
        units = {unit for role, unit in times if is_of_step or role.is_per_step}
        weight = 0.5 if units & {"ms", "us"} else -2.0
        kinds = ("time", *PARTS) if is_of_step else PARTS
        read_as = [
            role._replace(is_per_step=True) if role.name in kinds and column.unit in units else role
            for role, column in zip(roles, series, strict=True)
        ]
        yield read_as, weight * is_of_step


@cache
def _spoken_for(text: str) -> Mapping[str, float]:
    """Return what the words of a text say for each role."""
    weights: dict[str, float] = defaultdict(float)
    plain = " ".join(text.lower().replace("_", " ").split()).strip(" :*")
    for pattern, roles in WORDS["roles"].items():
        if re.search(pattern, plain):
            for name, weight in roles.items():
                weights[name] += weight
    return weights


def _allows(name: str, series: ColumnSeries, numbers: Sequence[float], kinds: set[str]) -> bool:
    """Whether the values of a series may be those of a role: numbers of GPUs are whole, small and from 1."""
    if name in _KEYS:
        most = 10**7 if name == "batch" else _MOST_GPUS
        # Of GPUs, `4x` may be four.
        may_be = kinds <= ({"ratio"} if name == "gpus" else set())
        return series.is_whole and not series.has_keys and may_be and min(numbers) >= 1 and max(numbers) <= most
    allowed = {kind for kind, roles in WORDS["roles_of_units"].items() if name in roles}
    is_high = name in CLOCKS and min(numbers) <= 0
    return kinds <= allowed and not is_high and (name in (*PARTS, "bandwidth") or min(numbers) >= 0)


def _role(name: str, head: str, layout: Layout) -> Role:
    """Return a role with what it is per. Where every GPU has work of its own, a time is as that of a step."""
    per = {key: bool(re.search(pattern, head.lower())) for key, pattern in WORDS["per"].items()}
    is_weak = name == "time" and layout.is_weak
    return Role(name, is_weak or per["steps" if name == "rate" else "step"], per["gpu"] and name == "rate")


class _Places(NamedTuple):
    """The figures of every series by cell under one choice of keys, each with its row; how plausible these are; the
    names of the keys, the heads of texts that tell groups apart, what there is to say, and whose images the batches of
    groups are that change with the GPUs."""

    by_series: Sequence[_Placed]
    score: float
    names: frozenset[str]
    heads: Mapping[str, Mapping[int, str]]
    notes: Sequence[str]
    batches: Mapping[tuple[str, ...], str]


def _places(layout: Layout, kinds: Sequence[str], defaults: Mapping[str, int], is_of_a_node: bool) -> _Places:
    """Return the cell of every figure: its keys stand in its head, in its row's texts, or in the columns of keys.
    `is_of_a_node` says whether GPUs beside nodes are those of each."""
    row_keys: list[dict[str, int]] = [{**defaults, **keys} for keys in layout.row_keys]
    score = 0.0
    for series, name in zip(layout.series, kinds, strict=True):
        if name not in _KEYS:
            continue
        values, above = {row: int(float(cell)) for row, _, cell in series.figures}, 0
        for row in series.texts:
            above = values.get(row, above)
            row_keys[row] |= {name: above} if above else {}
        if name != "batch":
            score += 0.5 * (1 in values.values())
    every_key = [*row_keys, *layout.keys_of_heads]
    names = frozenset(name for keys in every_key for name in keys)
    # What the text around says alone tells no cells of a table apart.
    if not (any(layout.row_keys) or any(layout.keys_of_heads) or {*kinds} & {*_KEYS}):
        names = frozenset[str]()
    # Where equally many stand beside several numbers of nodes, they are likely those of each.
    pairs = {(keys["nodes"], keys["gpus"]) for keys in every_key if {"nodes", "gpus"} <= keys.keys()}
    score += 1.5 * (is_of_a_node == (len({gpus for _, gpus in pairs}) < len(pairs)))

    def count_gpus(keys: Mapping[str, int]) -> int:
        """Count none as 0 where others name one, or nothing has keys, and as one otherwise."""
        nodes, per_node, gpus = (keys.get(name, 0) for name in ("nodes", "per_node", "gpus"))
        if per_node and (nodes or not gpus):
            return per_node * max(nodes, 1)
        # Several nodes have no fewer GPUs than nodes.
        if gpus:
            return gpus * (max(nodes, 1) if is_of_a_node or gpus < nodes else 1)
        return nodes or int(bool(names) and not names & {*_COUNTS})

    # What names no number of GPUs, beside heads that do, is of the most of them.
    most = max(map(count_gpus, layout.keys_of_heads), default=0)
    # No values alone tell what is counted in nodes.
    of_nodes = [series for series, kind in zip(layout.series, kinds, strict=True) if kind == "nodes"]
    is_said = any(_spoken_for(series.head).get("nodes", 0) > 0 for series in of_nodes)
    nodes = {at: f"{keys['nodes']} nodes" for at, keys in enumerate(row_keys) if is_said and keys.get("nodes", 1) > 1}
    labels = _labels(layout, kinds, [(keys.get("batch", 0), most or count_gpus(keys)) for keys in row_keys], nodes)
    by_series: list[_Placed] = []
    unplaced = set[int]()
    for series in layout.series:
        placed = []
        for row, keys, cell in series.figures:
            every = {**row_keys[row], **keys}
            group = tuple(of_rows[row] for of_rows in labels.values() if row in of_rows)
            gpus = count_gpus(every) or most
            is_marked = cell.is_marked or row in layout.marked
            placed.append((FigurePlace(group, every.get("batch", 0), gpus), replace(cell, is_marked=is_marked)))
            if names and not gpus:
                unplaced.add(row)
        by_series.append(placed)
    by_series, batches = _with_settled_batches(by_series)
    for of_series, kind in zip(by_series, kinds, strict=True):
        counted = [place for place, _ in of_series if place.gpus or not names]
        # What several figures of a series share is no key.
        score -= 4.0 * (1 - len({*counted}) / len(counted)) if counted and not kind else 0.0
    score -= 8.0 * len(unplaced) / len(row_keys)
    notes = [f"Rows that name no number of GPUs are left out: {len(unplaced)}"] if unplaced else []
    return _Places(by_series, score, names, labels, notes, batches)


def _labels(
    layout: Layout, kinds: Sequence[str], keys: Sequence[tuple[int, int]], nodes: Mapping[int, str]
) -> dict[str, Mapping[int, str]]:
    """Return by their heads the texts that tell groups of rows apart: those that say a strategy or a model, and as many
    more as it takes to tell apart rows of the same keys: their nodes, and from the left, also whole numbers that are
    nothing else and stand before all figures, or are said to be none, as epochs."""
    rows = sorted({row for series in layout.series for row, *_ in series.figures})
    labels: dict[str, Mapping[int, str]] = {"nodes": nodes, **layout.labels}
    figures = [*kinds, ""].index("")
    for at, (series, kind) in enumerate(zip(layout.series, kinds, strict=True)):
        is_said = at < figures or (_spoken_for(series.head).get(_NOTHING) and not series.unit)
        if kind == _NOTHING and is_said and not series.has_keys and series.is_whole:
            labels[series.head] = {row: f"{series.head} {text}" for row, text in series.texts.items() if text}
    chosen = {head: labels[head] for head in layout.labels if re.search(WORDS["groups"], head.lower())}

    def count(heads: Mapping[str, Mapping[int, str]]) -> int:
        return len({(keys[row], *(of_rows.get(row) for of_rows in heads.values())) for row in rows})

    for head, of_rows in labels.items():
        if count(chosen) < min(len(rows), count(more := {**chosen, head: of_rows})):
            chosen = more
    return {head: labels[head] for head in labels if head in chosen}


def _with_settled_batches(by_series: Sequence[_Placed]) -> tuple[list[_Placed], dict[tuple[str, ...], str]]:
    """Return places with batches that several numbers of GPUs share, and whose images these are then: a batch that
    grows as the number of GPUs is that of all of them, one that falls so is that of each, and one that differs in other
    ways is no key."""
    pairs = defaultdict[tuple[str, ...], set[tuple[int, int]]](set)
    settled, whose = dict[tuple[str, ...], int](), dict[tuple[str, ...], str]()
    for place, _ in (entry for placed in by_series for entry in placed):
        if place.gpus:
            pairs[place.group].add((place.batch, place.gpus))
    every = {pair for of_group in pairs.values() for pair in of_group}
    is_alike = len({batch / number for batch, number in every}) == 1
    for group, of_group in pairs.items():
        of_group = every if is_alike else of_group
        batches, gpus = map(set, zip(*of_group, strict=True))
        if 1 < len(of_group) == len(batches) == len(gpus):
            settled[group] = 0
            for name, power in ("per_gpu", -1), ("global", 1):
                images = {batch * number**power for batch, number in of_group}
                if len(images) == 1:
                    settled[group], whose[group] = round(images.pop()), name
    # A batch that only some rows name is that of all.
    named = {batch for of_group in pairs.values() for batch, _ in of_group} - {0}
    shared = named.pop() if len(named) == 1 else 0

    def moved(place: FigurePlace) -> FigurePlace:
        return place._replace(batch=settled.get(place.group, place.batch or shared))

    moved_places: list[_Placed] = [[(moved(place), cell) for place, cell in placed] for placed in by_series]
    return moved_places, whose


def _relations(columns: Sequence[_Column]) -> Iterator[float]:
    """Yield, for each relation that the roles allow, the share of figures that it gives, less what is unlikely."""
    clocks = _clocks(columns).values()
    for clock in clocks:
        # Several GPUs are seldom slower than one.
        speedups = [value for place, value in clock.given("speedup").items() if place.gpus > 1]
        yield -0.5 * (median(speedups or [1.0]) < 1)
    for column in columns:
        if column.role.name in _OF_CLOCKS and column.placed:
            yield max((clock.fit(column) for clock in clocks), default=0.0)


def _share(printed: Values, expected: Mapping[FigurePlace, float]) -> float:
    """Return the share of printed figures that are as expected; little where there are few."""
    pairs = [(printed[place], value) for place, value in expected.items() if place in printed]
    hits = 0
    for number, value in pairs:
        size = max(abs(float(number)), 1e-12)
        hits += abs(float(number) - value) <= min(2 * number.interval.half + _TOLERANCE * size, _ROUGHEST * size)
    return hits / len(pairs) * min(1.0, (len(pairs) + 1) / 3) if pairs else 0.0


def _solution(layout: Layout, score: float, columns: Sequence[_Column], places: _Places) -> Solution:
    """Return what the best assignment reads. A series against which other figures speak is left out, and said."""
    facts, line = list[Fact](), "row" if layout.is_turned else "column"
    # Texts that tell no rows apart, and say no key.
    unused = [head for head in layout.labels if head not in (*places.heads, *layout.heads_of_keys)]
    labels, doubts, ratios_of_two = _told_apart(columns, layout.caption)
    batch = layout.batch or _whose_batch(columns)
    # Without a number of GPUs, a row says only what it is compared with, or with what.
    compared = {cell for of_two in ratios_of_two.values() for cell in of_two.bases}
    left_out = [] if compared else [*places.notes]
    for at, column in enumerate(columns):
        role, head = column.role, column.series.head
        if role.name == _NOTHING and head not in places.heads:
            unused.append(head)
        if at in doubts:
            left_out.append(f"The {line} {head or 'without a name'} is left out: {doubts[at]}")
        elif role.name in _FIGURES:
            label = [labels[at]] if labels.get(at) else []
            of_two = ratios_of_two.get(at)
            for fact in column.facts:
                whose_batch, group = places.batches.get(fact.place.group, batch), (*fact.place.group, *label)
                if places.names and not fact.place.gpus and fact.place not in compared:
                    continue
                placed = fact._replace(whose_batch=whose_batch, place=fact.place._replace(group=group))
                if of_two and (base := of_two.bases.get(fact.place)):
                    facts += [placed._replace(role=Role(OF_TWO)), placed._replace(role=Role("base"), number=base)]
                elif not of_two or float(fact.number) != 1:
                    facts.append(placed)
    unread = [f"The {line} {head} is left out" for head in unused if head and not head.startswith("column ")]
    return Solution(facts, [*unread, *left_out], score)


def _whose_batch(columns: Sequence[_Column]) -> str:
    """Return `global` where times of steps give the ratios beside them if all GPUs share one batch."""
    clocks = [column for column in columns if column.is_clock and column.role.is_per_step]
    ratios = [column for column in columns if column.role.name in RATIOS]
    own, shared = (sum(clock.fit(ratio, [is_own]) for clock in clocks for ratio in ratios) for is_own in (True, False))
    return "global" if own < shared else ""


class _OfTwo(NamedTuple):
    """A ratio of two: the share of it that they give, the clock that is compared, and by cell with which number."""

    share: float
    clock: int
    bases: Values


def _of_two(ratio: _Column, clocks: Mapping[int, _Column]) -> _OfTwo | None:
    """Return what gives the most of a ratio in the same cells: a clock and another of its kind, or the row where the
    ratio is 1, or is not printed: of as many GPUs, or of all. None where less than half of it is given."""
    meant = {cell for cell, number in ratio.values.items() if float(number) != 1}
    tries = []
    # Seconds are preferred to what follows from them.
    clocks = {at: clock for at, clock in clocks.items() if clock.role.name == "time"} or clocks
    for at, clock in clocks.items():
        values, power = clock.values, 1 if clock.role.name == "rate" else -1
        compared = [base.values for base in clocks.values() if base is not clock and base.role == clock.role]
        for of_as_many in [*grouped(values, lambda cell: cell[1:]).values()], [[*values]]:
            rows = dict[FigurePlace, Number]()
            for cells in of_as_many:
                at_base = [cell for cell in cells if cell in ratio.values and cell not in meant]
                at_base = at_base or [cell for cell in cells if cell not in ratio.values]
                # What is over one GPU is a speedup, but where nobody says over how many it is.
                if len(at_base) == 1 and (at_base[0].gpus != 1 or max(cell.gpus for cell in cells) < 2):
                    rows |= dict.fromkeys({*cells} - {*at_base}, values[at_base[0]])
            compared.append(rows)
        for bases in compared:
            given = {cell: (float(values[cell]) / float(bases[cell])) ** power for cell in bases.keys() & values}
            # What is over one GPU has cells that nothing stands beside.
            covered = len(given.keys() & meant) / max(1, len(meant))
            tries.append(_OfTwo(covered * _share(ratio.values, given), at, bases))
    best = max(tries, key=lambda of_two: of_two.share, default=None)
    # Two that fit prove it, of four as well; one of two does not.
    return best if best and best.share > (0.5 if len(meant) < 4 else 0.4) else None


def _told_apart(columns: Sequence[_Column], caption: str) -> tuple[dict[int, str], dict[int, str], dict[int, _OfTwo]]:
    """Return what tells clocks of one kind apart, such as `DP` of `DP time (s)`, with the series that belong to each,
    why series are left out, and which are ratios of two.

    They belong to the clock that gives them, or whose label their head has, or to the first. Of several of one kind
    that belong to the same, such as the speedups of a total and of a part, the one is meant that fits.
    """
    clocks, ratios_of_two = _clocks(columns), dict[int, _OfTwo]()
    words = [re.findall(r"[\w-]+", column.series.head.lower()) for column in columns]

    def kind_of_clock(at: int) -> Role:
        return columns[at].role._replace(is_per_step=False)

    labels, alike = dict[int, str](), max(grouped(clocks, kind_of_clock).values(), key=len, default=[])
    if len(alike) > 1:
        shared = set[str].intersection(*({*words[at]} for at in alike))
        of_clocks = {at: " ".join(word for word in words[at] if word not in shared) for at in alike}
        labels = {at: of_clocks.get(at, of_clocks[alike[0]]) for at in range(len(columns))}
    doubts, first = dict[int, str](), dict[tuple[str, str], int]()
    derived = [at for at, column in enumerate(columns) if column.role.name in _DERIVED and column.placed]
    fits = {at: {clock: times.fit(columns[at]) for clock, times in clocks.items()} for at in derived}
    best = {at: max(fits[at].values(), default=0.0) for at in derived}
    # Times that give none of the ratios which the rates of all their cells give are of other work than these.
    for at, (time, rate) in product(derived, product(clocks, repeat=2)):
        is_of_rates = columns[at].role.name in RATIOS and fits[at][time] == 0 and fits[at][rate] == 1
        is_as_large = clocks[time].values.keys() <= clocks[rate].values.keys()
        if is_of_rates and is_as_large and (columns[time].role.name, columns[rate].role.name) == CLOCKS:
            doubts[time] = f"the {columns[at].role.name} is that of {columns[rate].series.head}"
    for at in sorted(derived, key=lambda at: -best[at]):
        name = columns[at].role.name
        is_said = any(_spoken_for(text).get(name, 0) > 0 for text in (columns[at].series.head, caption))
        if name in RATIOS and (of_two := _of_two(columns[at], clocks)) and of_two.share > best[at]:
            ratios_of_two[at] = of_two
            labels |= {at: labels[of_two.clock]} if labels else {}
            continue
        fit = best[at]
        if labels:
            named = [clock for clock in alike if labels[clock] and {*words[at]}.issuperset(labels[clock].split())]
            given = {clock: fits[at][clock] + (named == [clock]) for clock in alike}
            nearest = max(given, key=given.__getitem__)
            fit = given[nearest]
            labels[at] = labels[nearest] if fit > _SOME else labels[at]
        if name in RATIOS and fit <= _SOME and (labels or not is_said):
            doubts[at] = _OF_TWO
            continue
        meant = first.setdefault((name, labels.get(at, "")), at)
        if meant == at or not columns[at].values.keys() & columns[meant].values.keys():
            continue
        if clocks:
            doubts[at] = f"the {name} of the times is {columns[meant].series.head}"
        else:
            # Times of another table are those of one of them, and none says of which.
            doubts |= dict.fromkeys((at, meant), f"there are several of {name}, and no times beside them")
    return labels, doubts, ratios_of_two
