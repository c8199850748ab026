"""Tables as people write them, as studies to audit. What they do not say is assumed, and said.

The figures of all grids of a file are one study where their cells do not contradict each other; a strategy, a run or a
model that rows or heads name makes a study of each. Lines such as `gpu: A40` around the tables say what no column does.
Nothing that is not understood stops a table, and no table stops a file.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path

from dpscale.audit.checks import listed
from dpscale.audit.grids import SUFFIXES, read_document
from dpscale.audit.layouts import keys_of
from dpscale.audit.numbers import WORDS, cells
from dpscale.audit.published import GLOBAL, PER_GPU, UNITS, UNSTATED, Published, Spot
from dpscale.audit.solver import CLOCKS, PARTS, RATE, RATIOS, Clock, Fact, Role, Solution, Values, solve
from dpscale.errors import PublishedError
from dpscale.formulas.rounded import Number, Rounded
from dpscale.tables.row import grouped
from dpscale.vocabulary.chips import chip_named, networks
from dpscale.vocabulary.states import OTHER_RUNS, STATES

# What is assumed where a table does not say: the experiment of docs/method.md.
ASSUMED_IMAGES = 50_000
# Rates that give so much more of the printed ratios than times do are what these are of.
_MORE = 0.3
# Parts of which less than this follows from the times are not held against these where something says that they were
# measured; nor is one that hardly follows, or not wholly, where its figure on one GPU is none that follows.
_LITTLE, _HALF, _ALL = 0.2, 0.5, 0.9
# What measured parts are of their total, together.
_LEAST_SUM, _LARGEST_SUM = 0.9, 1.02
# Numbers that differ by less are equal but for rounding.
_SAME = 1.01
# Of a name, in letters.
_LONGEST_NAME = 60

_QUANTITIES = {"rate": "images_per_s", "compute": "compute_s", "communication": "communication_s",
               "share": "communication_share", "utilisation": "utilisation_percent"}  # fmt: skip
_BANDWIDTHS = {name.lower(): name for name in UNITS}
# What this project's own tables say of a figure that is formed in other runs than the times beside it, by its note.
_OF_OTHER_RUNS, _ = STATES[OTHER_RUNS]

_Group = tuple[str, ...]
_Key = tuple[object, ...]
_Table = dict[Spot, Number]


def is_table(path: Path) -> bool:
    """Whether a file is a table of its author's own, by its name."""
    return path.suffix.lower() in SUFFIXES


def read_studies(path: Path, defaults: Mapping[str, str] | None = None) -> list[Published]:
    """Return the studies in a file of either kind; `defaults` is used where a table does not say.

    Raises PublishedError.
    """
    if is_table(path):
        return read_table(path, defaults)
    if path.exists() and path.suffix not in (".yaml", ".yml"):
        raise PublishedError(f"{path}: is no table: save it as one of {', '.join(SUFFIXES)}, or .yaml")
    return [Published.read(path)]


def read_table(path: Path, defaults: Mapping[str, str] | None = None) -> list[Published]:
    """Return the studies in a table's file: one, or one for every strategy, run or model that it names.

    Raises PublishedError where no table of it holds figures of training on GPUs.
    """
    document = read_document(path)
    statements = _Statements(document.lines, defaults or {})
    books: list[_Book] = []
    for number, grid in enumerate(document.grids, 1):
        solution = solve(replace(grid, caption=grid.caption or path.stem), statements.keys_of_tables(grid.caption))
        if solution is None:
            heads = " | ".join(filter(None, grid.rows[0]))
            why = "could not be read as figures by numbers of GPUs"
            document.left_out.append(f"Table {number} is left out: {heads[:60]} {why}")
            continue
        if solution.facts:
            _file_into(books, solution, _name_of_table(grid.caption, number))
        else:
            document.left_out += solution.left_out
    if not books:
        raise PublishedError(f"{path}: no table holds figures of training by numbers of GPUs or by batches")
    stated = replace(statements.study(path, document.sha256), left_out=document.left_out)
    studies = [study for at, book in enumerate(books) for study in book.studies(stated, statements.has_mark, at > 0)]
    # Where figures are to check, times alone are not.
    shown = [study for study in studies if study.quantities or study.of_other_runs] or studies[:1]
    times_alone = [study.title.partition(": ")[2].replace(", ", " / ") for study in studies if study not in shown]
    note = [f"Series of times or rates alone, with nothing to check: {listed(times_alone)}"] if times_alone else []
    numbers, numbered = Counter[str](), []
    for study in shown:
        numbers[study.id] += 1
        id = f"{study.id}-{numbers[study.id]}" if numbers[study.id] > 1 else study.id
        numbered.append(replace(study, id=id, left_out=[*study.left_out, *note]))
    return numbered


class _Statements:
    """What the lines around the tables say. A line that is not plain says nothing."""

    def __init__(self, lines: Iterable[str], defaults: Mapping[str, str]) -> None:
        self.values: dict[str, str] = dict(defaults)
        self.has_mark = any(f"{_OF_OTHER_RUNS}: " in line for line in lines)
        for line in lines:
            key, _, value = line.lstrip("#*-/%•> ").replace("**", "").partition(":")
            name, value = WORDS["keys"].get(key.strip().lower()), value.strip().strip("*`")
            is_gpu = chip_named(_without_count(value)) or (len(value.split()) <= 4 and not value.isdigit())
            # A line of the file itself goes before what it may leave out; of several, the first.
            is_first = bool(name) and self.values.get(name) == defaults.get(name)
            if is_first and 0 < len(value) < 100 and (is_gpu or name != "gpu"):
                self.values[name] = value

    def _number(self, name: str) -> float | None:
        (cell,) = cells([self.values.get(name, "")])
        return float(cell) if cell and float(cell) > 0 else None

    def keys_of_tables(self, caption: str) -> dict[str, int]:
        """Return the keys that hold for all cells of a table which has none of its own."""
        batch = re.match(r"\d{1,12}", self.values.get("batch", ""))
        images = keys_of(caption)[0].get("batch") or (int(batch.group()) if batch else 0)
        return {"batch": images} if images else {}

    def study(self, path: Path, sha256: str) -> Published:
        """Return a study without figures: what is said of all of them, and what is assumed in its place."""
        texts = {name: value.lower() for name, value in self.values.items()}
        images = self._number("dataset_images") or next(
            (images for name, images in WORDS["datasets"].items() if name in texts.get("dataset_images", "")), 0
        )
        name = texts.get("network", "").replace("×", "x")
        network = next((network for network in networks() if name and name in network.name.lower()), None)
        parameters = self._number("parameters_trained") or (network.parameters if network else 0)
        words = re.findall(r"[a-z]+\d*", texts.get("precision", ""))
        precision = next((WORDS["precisions"][word] for word in words if word in WORDS["precisions"]), None)
        peak, batch = self._number("peak_tflop_s"), texts.get("batch", "")
        assumed = {} if images else {"images": f"{ASSUMED_IMAGES:,} training images per epoch (CIFAR-10)"}
        if not parameters and not name:
            parameters = networks()[0].parameters
            assumed["network"] = f"{parameters:,} parameters ({networks()[0].name})"
        if not precision and ("gpu" in texts or peak):
            assumed["precision"] = "float32 arithmetic"
        of_bus = re.findall(r"([\d.]+) GB/s on (\d+) (?:GPU|worker)", self.values.get("bus_gb_s", ""))
        return Published(
            id=path.stem,
            title=self.values.get("title", path.name),
            sha256=sha256,
            dataset_images=int(images) or ASSUMED_IMAGES,
            parameters_trained=int(parameters) or None,
            batch=PER_GPU if re.search(r"per[ _]gpu", batch) else GLOBAL if "global" in batch else UNSTATED,
            gpu=_without_count(self.values["gpu"]) if "gpu" in texts else None,
            precision=precision,
            flop_per_image=self._number("flop_per_image"),
            peak_tflop_s=peak,
            bus_gb_s={int(gpus): Number.of(Decimal(gb_s)) for gb_s, gpus in of_bus},
            assumed=assumed,
        )


def _without_count(gpu: str) -> str:
    return re.sub(r"^\d+\s*[x×]?\s*|\s*\(.*", "", gpu)


@dataclass
class _Book:
    """Facts of the grids of a file that do not contradict each other, and the sweep of batches on one GPU."""

    caption: str
    facts: dict[_Key, Fact] = field(default_factory=dict)
    sweep: list[Fact] = field(default_factory=list)
    batch: str = ""
    notes: list[str] = field(default_factory=list)
    """What is left out of its tables."""

    def takes(self, facts: Mapping[_Key, Fact]) -> bool:
        """Take facts, unless a cell of them has another number here."""
        is_contradicted = any(self.facts[key].number != facts[key].number for key in self.facts.keys() & facts.keys())
        self.facts |= {} if is_contradicted else facts
        return not is_contradicted

    def takes_table(self, solution: Solution, facts: Mapping[_Key, Fact]) -> bool:
        """Take what a table has, of which `facts` are those without a second number: beside the facts here, or as a
        second speedup, or as a sweep of batches, or with the facts here as that."""
        clocks, known = _clocks(facts.values()), _clocks(self.facts.values())
        is_alike = {fact.head for fact in facts.values()} == {fact.head for fact in self.facts.values()}
        if (not clocks or not known or is_alike) and self.takes(facts):
            self.batch = self.batch or solution.batch
            return True
        # Authors may print a speedup by a second definition.
        second = [fact._replace(role=Role("speedup_alternative")) for fact in facts.values()]
        is_speedup = {fact.role.name for fact in facts.values()} == {"speedup"}
        if known and is_speedup and self.takes({_key(fact): fact for fact in second}):
            return True
        if clocks == {"time"} and all(fact.place.gpus == 1 for fact in solution.facts):
            self.sweep += solution.facts
            return True
        if known == {"time"} and all(fact.place.gpus == 1 for fact in self.facts.values()):
            self.sweep, self.facts, self.batch = [*self.facts.values()], {**facts}, solution.batch
            return True
        return False

    def studies(self, stated: Published, has_mark: bool, is_named: bool) -> Iterator[Published]:
        """Yield a study for every group of cells with several GPUs, with the times of one GPU that it may share."""
        groups = grouped(self.facts.values(), lambda fact: fact.place.group)
        several = [group for group, facts in groups.items() if any(fact.place.gpus > 1 for fact in facts)]
        of_studies = several or [*groups] or [()]
        lenders = {group: _lender(group, groups) for group in of_studies}
        unused = [" / ".join(group) for group in sorted(groups.keys() - {*of_studies, *lenders.values()})]
        left_out = [*stated.left_out, *self.notes, *([f"Groups of one GPU alone: {listed(unused)}"] if unused else [])]
        for group in of_studies:
            names = [self.caption] * (is_named and bool(self.caption)) + [*group] * (len(of_studies) > 1)
            of_group = groups.get(group, [])
            # Of one with times of its own, only those of one GPU are taken.
            of_lender = of_group if (lender := lenders[group]) is None else groups[lender]
            lent = [fact for fact in of_lender if fact.place.gpus == 1 or not _clocks(of_group)]
            facts = {_key(fact)[1:]: fact for fact in [*lent, *of_group]}
            title = ": ".join(filter(None, [stated.title, ", ".join(names)]))
            named = replace(stated, id=slug(" ".join([stated.id, *names])), title=title, left_out=left_out)
            yield _Assembly([*facts.values()], named, self.batch).study(self.sweep, has_mark)


def _lender(group: _Group, groups: Mapping[_Group, Sequence[Fact]]) -> _Group | None:
    """Return the group whose figures stand for this one too. Where one has no times, that is the group whose times it
    is of. Where it has none of one GPU, it is a row of one GPU for all strategies, or the strategy of fewer GPUs. None
    where several may be meant."""
    own = {fact.place.gpus for fact in groups.get(group, ())}
    lenders: defaultdict[int, list[_Group]] = defaultdict(list)
    for other, facts in groups.items():
        gpus, unlike = {fact.place.gpus for fact in facts}, len({*other} - {*group})
        has_base = 1 in gpus and 1 not in own and unlike <= 1 and (gpus == {1} or max(gpus) < min(own))
        if other != group and _clocks(facts) and (has_base or not _clocks(groups[group])):
            lenders[unlike].append(other)
    nearest = lenders[min(lenders)] if lenders else []
    return nearest[0] if len(nearest) == 1 else None


def _key(fact: Fact) -> _Key:
    place = fact.place
    return place.group, place.clock, fact.role.name, fact.role.is_per_gpu, place.batch, place.gpus


def _name_of_table(caption: str, number: int) -> str:
    """Return what stands before a table, if that is a heading; of prose only a piece would fit into a name."""
    return caption if len(caption) <= _LONGEST_NAME and not caption.endswith((".", ":")) else f"table {number}"


def _file_into(books: list[_Book], solution: Solution, caption: str) -> None:
    """Add what was read to the last book that it does not contradict: a table without clocks to one with them, and one
    with clocks to others of the same kind. Times of one GPU that differ are a sweep. Different figures of one cell are
    not audited."""
    by_key = grouped(solution.facts, _key)
    facts = {key: alike[0] for key, alike in by_key.items() if len({fact.number for fact in alike}) == 1}
    unclear = dict.fromkeys(str(_spot(alike[0])) for key, alike in by_key.items() if key not in facts)
    why = "there are several, and nothing that is understood tells them apart"
    notes = [f"Not audited are figures for {listed([*unclear])}: {why}"] if unclear else []
    notes += solution.left_out
    clocks = _clocks(facts.values())
    newest_first = [*reversed(books)]
    for book in sorted(newest_first, key=lambda book: not clocks and not _clocks(book.facts.values())):
        if book.takes_table(solution, facts):
            book.notes += notes
            return
    books.append(_Book(caption, facts, batch=solution.batch, notes=notes))


def _clocks(facts: Iterable[Fact]) -> set[str]:
    return {fact.role.name for fact in facts} & {*CLOCKS}


class _Assembly:
    """Makes a study of the facts of one group, and of what is stated of all."""

    def __init__(self, facts: Sequence[Fact], stated: Published, batch: str) -> None:
        self.facts, self.images = facts, stated.dataset_images
        self.assumed, self.left_out, self.stated = dict(stated.assumed), [*stated.left_out], stated
        self.ratios = {name: _values(fact for fact in facts if fact.role.name == name) for name in RATIOS}
        self.clocks = self._by_fit()
        main = next(iter(self.clocks.values()), [])
        self.role = main[0].role if main else Role("rate")
        is_shared = bool(main) and self._given(main, False) > self._given(main, True)
        of_facts = batch or (GLOBAL if is_shared else UNSTATED)
        self.batch = stated.batch if stated.batch != UNSTATED else of_facts

    def _given(self, clock: Sequence[Fact], *of_own_batch: bool) -> float:
        """Return how many of the printed speedups and efficiencies a clock gives, as shares."""
        of_clock = Clock(clock[0].role, _values(clock))
        return sum(of_clock.fit(name, values, of_own_batch or (True, False)) for name, values in self.ratios.items())

    def _by_fit(self) -> dict[str, list[Fact]]:
        """Return the facts of every clock, that which gives most of the printed ratios first. Rates are one where there
        are no times, or where they give more."""
        figured = {fact.place.clock for fact in self.facts if fact.role.name not in CLOCKS}
        named = grouped((fact for fact in self.facts if fact.role.name == "time"), lambda fact: fact.place.clock)
        given = {name: (round(self._given(facts), 2), name in figured) for name, facts in named.items()}
        clocks = {name: named[name] for name in sorted(named, key=lambda name: given[name], reverse=True)}
        rates = [fact for fact in self.facts if fact.role.name == "rate"]
        totals = {_spot(fact) for fact in rates if not fact.role.is_per_gpu}
        rates = [fact for fact in rates if not fact.role.is_per_gpu or _spot(fact) not in totals]
        is_for_all = {*map(_spot, rates)} >= {*map(_spot, chain(*named.values()))}
        if rates and is_for_all and self._given(rates) > max(given.values(), default=(-1.0,))[0] + _MORE:
            return {"rate": rates, **{name or "of the times": facts for name, facts in clocks.items()}}
        return clocks

    def study(self, sweep: Sequence[Fact], has_mark: bool) -> Published:
        is_of_epochs = self.role.name == "time" and not self.role.is_per_step
        if is_of_epochs and "images" in self.assumed:
            self._images_of(next(iter(self.clocks.values())))
        quantities, of_other_runs = defaultdict[str, _Table](dict), defaultdict[str, _Table](dict)
        of_clocks, measured = [*chain(*self.clocks.values())], self._measured(sweep)
        for fact in self.facts:
            is_marked = has_mark and (fact.is_marked or _OF_OTHER_RUNS in fact.state)
            if fact in of_clocks:
                continue
            why = self._unlike_the_times(fact, measured, is_of_epochs)
            if why and fact.role.name in PARTS and not is_marked:
                self.left_out.append(f"The column {fact.head} is left out: {why}")
                continue
            name = _QUANTITIES.get(fact.role.name, fact.role.name)
            (of_other_runs if is_marked else quantities)[name].setdefault(_spot(fact), self._number(fact))
        units = {fact.unit for fact in self.facts if fact.role.name == "bandwidth"}
        if units == {""}:
            self.assumed["bandwidth"] = "the bandwidth is in GB/s"
        clocks = {name: self._table(facts) for name, facts in self.clocks.items()}
        return replace(
            self.stated,
            dataset_images=self.images,
            epoch_s=clocks.pop(next(iter(clocks))) if clocks else {},
            quantities={name: dict(sorted(table.items())) for name, table in quantities.items()},
            of_other_runs={name: dict(sorted(table.items())) for name, table in sorted(of_other_runs.items())},
            batch_sweep_s=self._table(sweep),
            bandwidth_unit=_BANDWIDTHS.get(min(units), "GB/s") if units else None,
            batch=self.batch,
            other_clocks=clocks,
            assumed=self.assumed,
            left_out=[*dict.fromkeys(self.left_out)],
            is_of_epochs=is_of_epochs,
        )

    def _unlike_the_times(self, part: Fact, measured: set[str], is_of_epochs: bool) -> str:
        """Return why a part of a time is not held against the times; nothing where it is."""
        if part.role.name in measured:
            return "it was measured, and does not follow from the times"
        if part.role.is_per_step and is_of_epochs and not part.place.batch:
            return "it is of a step, and no batch is named"
        if self.role.name == "rate" and "images" in self.assumed:
            return "there are rates in place of times, and the images of an epoch are not given"
        return ""

    def _measured(self, sweep: Sequence[Fact]) -> set[str]:
        """Return the parts of the times that were measured: on one GPU they are not what follows, or hardly anything
        follows elsewhere; or their heads say so; or they add up to the times, and neither follows from these."""
        if self.role.name != "time":
            return set()
        clock = next(iter(self.clocks.values()))
        bases = [Clock(self.role, {**_values(clock), **_values(of_sweep)}) for of_sweep in ([], sweep)]
        times, evidence, fits = self._table(clock), False, dict[str, float]()
        parts = {name: [fact for fact in self.facts if fact.role.name == name] for name in PARTS}
        for name, facts in parts.items():
            several = _values(fact for fact in facts if fact.place.gpus > 1)
            fits[name] = max(base.fit(part, several) for base in bases for part in PARTS)
            lone = [fact for fact in facts if fact.place.gpus == 1 and _spot(fact) in times]
            of_one = [times[_spot(fact)].interval * (name == "compute") for fact in lone]
            follow = [self._number(fact).interval.meets(time) for fact, time in zip(lone, of_one, strict=True)]
            is_said = any(re.search(WORDS["measured"], fact.head.lower()) for fact in facts)
            most = (_LITTLE if all(follow) else _ALL) if follow else _HALF * is_said
            evidence |= bool(several) and fits[name] < most
        compute, communication = ({_spot(fact): float(self._number(fact)) for fact in parts[name]} for name in PARTS)
        places = [place for place in compute.keys() & communication.keys() & times.keys() if place.gpus > 1]
        shares = [(compute[place] + communication[place]) / float(times[place]) for place in places]
        add_up = sum(_LEAST_SUM < share < _LARGEST_SUM for share in shares)
        # What is N times smaller on N GPUs is a share of some time of one GPU.
        of_batches = grouped(places, lambda place: place.batch_per_gpu).values()
        times_n = [[compute[place] * place.gpus for place in of_batch] for of_batch in of_batches]
        is_share = all(max(of_batch) <= _SAME * min(of_batch) for of_batch in times_n)
        evidence |= 1 < len(shares) < 2 * add_up and max(fits.values()) < _HALF and not is_share
        return {name for name, fit in fits.items() if evidence and fit < _ALL}

    def _table(self, facts: Iterable[Fact]) -> _Table:
        """Return the times of an epoch that facts are, or stand for as rates."""
        table = dict[Spot, Number]()
        for fact in facts:
            number = self._number(fact)
            if fact.role.name == "rate":
                shown = number.shown if " " in number.shown else f"{number} {fact.unit or RATE}"
                number = Number(shown, self.images / number.interval, self.images / number.if_cut)
            table.setdefault(_spot(fact), number)
        return dict(sorted(table.items()))

    def _number(self, fact: Fact) -> Number:
        """Return the number of a fact: of an epoch, or of a second, in place of a step."""
        if fact.role.name in ("time", *PARTS) and not fact.unit:
            self.assumed[fact.role.name] = f"{fact.head or fact.role.name} is in seconds"
        if not fact.role.is_per_step:
            return fact.number
        images_per_step = (fact.place.batch or 1) * (1 if self.batch == GLOBAL else fact.place.gpus)
        factor = images_per_step if fact.role.name == "rate" else self.images / images_per_step
        return Number(fact.number.shown, fact.number.interval * factor, fact.number.if_cut * factor)

    def _images_of(self, times: Sequence[Fact]) -> None:
        """Take the images of an epoch from rates and times, where most cells agree on them."""
        seconds = {_spot(fact): fact.number.interval for fact in times}
        rates = [fact for fact in self.facts if fact.role.name == "rate" and _spot(fact) in seconds]
        pairs = [(self._number(fact).interval, seconds[_spot(fact)]) for fact in rates]
        products = [
            Rounded(rate.value * time.value, rate.low * time.low, rate.high * time.high) for rate, time in pairs
        ]
        tries = [*WORDS["datasets"].values(), *(round(product.value) for product in products)]
        fits = {images: sum(product.contains(images) for product in products) for images in tries}
        best = max(tries, key=lambda images: fits[images])
        if products and 2 * fits[best] >= len(products):
            self.images = best
            del self.assumed["images"]
            self.left_out.append(f"Rates times times are about {best:,} images per epoch, which were not given")
        elif products:
            low, high = (f(product.value for product in products) for f in (min, max))
            why = "they are not of the same epochs"
            self.left_out.append(f"Rates times times are {low:,.0f} to {high:,.0f} images: {why}")


def _values(facts: Iterable[Fact]) -> Values:
    """Return numbers by cell as the solver compares them."""
    return {
        fact.place._replace(group=(), clock=""): (
            float(fact.number),
            fact.number.interval.half / (abs(float(fact.number)) or 1.0),
        )
        for fact in facts
    }


def _spot(fact: Fact) -> Spot:
    return Spot(fact.place.batch, fact.place.gpus)


def slug(text: str) -> str:
    """Return a name of a file: letters of other alphabets stay apart by their numbers."""
    spelt = "".join(letter if letter.isascii() else f"-{ord(letter):x}" for letter in text.lower())
    return re.sub(r"[^a-z0-9_-]+", "-", spelt).strip("-_")[:80] or "table"
