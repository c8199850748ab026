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
from pathlib import Path

from dpscale.audit.checks import listed
from dpscale.audit.grids import SUFFIXES, WORDS, read_document
from dpscale.audit.layouts import cells, grid_of_lines, keys_of, whose_batch
from dpscale.audit.published import GLOBAL, OF_TWO, UNITS, UNSTATED, Published, Spot
from dpscale.audit.solver import CLOCKS, RATE, Fact, Role, Solution, solve
from dpscale.errors import PublishedError
from dpscale.formulas.rounded import Number, Rounded
from dpscale.tables.row import grouped
from dpscale.vocabulary.chips import chip_named, networks
from dpscale.vocabulary.states import OTHER_RUNS, STATES

# What is assumed where a table does not say: the experiment of docs/method.md.
ASSUMED_IMAGES = 50_000
# Of a name, in letters.
_LONGEST_NAME = 60

_BANDWIDTHS = {name.lower(): name for name in UNITS}
_NO_FIGURES, _SEVERAL = "no figures by numbers of GPUs", "several figures for each cell"
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
    unread = defaultdict[str, list[str]](list)
    for number, grid in enumerate(document.grids, 1):
        solution = solve(replace(grid, caption=grid.caption or path.stem), statements.keys_of_tables(grid.caption))
        table = f"table {number} ({' | '.join(filter(None, grid.rows[0]))[:_LONGEST_NAME]})"
        if solution is None:
            unread[_NO_FIGURES].append(table)
        elif solution.facts:
            # What stands before a table is its name, if that is a heading and no prose.
            is_name = len(grid.caption) <= _LONGEST_NAME and not grid.caption.endswith((".", ":", "。", "："))
            if not _file_into(books, solution, grid.caption if is_name else f"table {number}"):
                unread[_SEVERAL].append(table)
        else:
            document.left_out += solution.left_out
    document.left_out += [f"Left out, as there are {why}: {listed(tables)}" for why, tables in unread.items()]
    # Where no table holds figures, lines may list them.
    listed_figures = None if books else grid_of_lines(document.lines)
    if listed_figures and (solution := solve(listed_figures, {})):
        _file_into(books, solution, "")
    if not books and not document.grids:
        raise PublishedError(f"{path}: has no table")
    if not books:
        tables = "; ".join(f"{listed(of_reason)}: {why}" for why, of_reason in unread.items())
        raise PublishedError(f"{path}: no table holds figures of training by numbers of GPUs or by batches. {tables}")
    stated = replace(statements.study(path, document.sha256), left_out=document.left_out)
    studies = [study for at, book in enumerate(books) for study in book.studies(stated, statements.has_mark, at > 0)]
    # Where figures are to check, times alone are not, nor is what follows from nothing that is given.
    shown = [study for study in studies if any(map(study.several_gpus, study.quantities)) or study.of_other_runs]
    known = [study for study in shown if study.of_other_runs or not all(map(study.missing, study.quantities))]
    shown = known or shown or studies[:1]
    times_alone = [study.title.partition(": ")[2].replace(", ", " / ") for study in studies if study not in shown]
    times_alone = [name or "a table without a name" for name in times_alone]
    note = [f"Series with nothing to check: {listed(times_alone)}"] if times_alone else []
    numbers, said, numbered = Counter[str](), set[str](), []
    for study in shown:
        numbers[study.id] += 1
        id = f"{study.id}-{numbers[study.id]}" if numbers[study.id] > 1 else study.id
        # What is left out is said once.
        left_out = [omission for omission in (*study.left_out, *note) if omission not in said]
        said.update(left_out)
        numbered.append(replace(study, id=id, left_out=left_out))
    return numbered


class _Statements:
    """What the lines around the tables say. A line that is not plain says nothing."""

    def __init__(self, lines: Iterable[str], defaults: Mapping[str, str]) -> None:
        self.has_mark = any(f"{_OF_OTHER_RUNS}: " in line for line in lines)
        stated = dict[str, str]()
        for line in lines:
            key, _, value = line.lstrip("#*-/%•> ").replace("**", "").partition(":")
            name, value = WORDS["keys"].get(key.strip().lower()), value.strip().strip("*`")
            if name and 0 < len(value) < 100 and (name != "gpu" or chip_named(_without_count(value))):
                # Of several lines, the first.
                stated.setdefault(name, value)
        self.values = defaultdict(str, {**defaults, **stated})

    def _number(self, name: str) -> float:
        (cell,) = cells([self.values[name]])
        return max(0.0, float(cell)) if cell else 0.0

    def keys_of_tables(self, caption: str) -> dict[str, int]:
        """Return the keys that hold for all cells of a table which has none of its own."""
        batch = re.match(r"\d{1,12}", self.values["batch"])
        images = keys_of(caption)[0].get("batch") or (int(batch.group()) if batch else 0)
        return {"batch": images} if images else {}

    def study(self, path: Path, sha256: str) -> Published:
        """Return a study without figures: what is said of all of them, and what is assumed in its place."""
        dataset = self.values["dataset_images"].lower()
        of_datasets = [images for name, images in WORDS["datasets"].items() if name in dataset]
        images = self._number("dataset_images") or sum(of_datasets[:1])
        name = self.values["network"].lower().replace("×", "x")
        network = next((network for network in networks() if name and name in network.name.lower()), None)
        parameters = self._number("parameters_trained") or (network.parameters if network else 0)
        words = re.findall(r"[a-z]+\d*", self.values["precision"].lower())
        precision = next((WORDS["precisions"][word] for word in words if word in WORDS["precisions"]), None)
        assumed = {} if images else {"images": f"{ASSUMED_IMAGES:,} training images per epoch (CIFAR-10)"}
        if not parameters and not name:
            parameters = networks()[0].parameters
            assumed["network"] = f"{parameters:,} parameters ({networks()[0].name})"
        gpu = _without_count(self.values["gpu"])
        if not precision and gpu:
            assumed["precision"] = "float32 arithmetic"
        of_bus = re.findall(r"([\d.]+) GB/s on (\d+) (?:GPU|worker)", self.values["bus_gb_s"])
        return Published(
            id=path.stem,
            title=self.values["title"] or path.name,
            sha256=sha256,
            dataset_images=int(images) or ASSUMED_IMAGES,
            parameters_trained=int(parameters) or None,
            batch=whose_batch(f"batch {self.values['batch']}") or UNSTATED,
            gpu=gpu or None,
            precision=precision,
            bus_gb_s={int(gpus): Number.of(Decimal(gb_s)) for gb_s, gpus in of_bus},
            assumed=assumed,
        )


def _without_count(gpu: str) -> str:
    return re.sub(r"^\d+\s*[x×]?\s*|\s*\(.*", "", gpu)


@dataclass
class _Book:
    """Facts of the grids of a file that do not contradict each other, and the sweep of batches on one GPU; and what is
    left out of its tables."""

    caption: str
    facts: dict[_Key, Fact]
    notes: list[str]
    sweep: list[Fact] = field(default_factory=list)

    def takes(self, facts: Mapping[_Key, Fact]) -> bool:
        """Take facts, unless a cell of them has another number here."""
        is_contradicted = any(self.facts[key].number != facts[key].number for key in self.facts.keys() & facts.keys())
        self.facts |= {} if is_contradicted else facts
        return not is_contradicted

    def takes_table(self, facts: Mapping[_Key, Fact]) -> bool:
        """Take what a table has: beside the facts here, or as a second speedup, or as a sweep of batches."""
        known = _clocks(self.facts.values())
        is_alike = {fact.head for fact in facts.values()} == {fact.head for fact in self.facts.values()}
        if (not _clocks(facts.values()) or not known or is_alike) and self.takes(facts):
            return True
        # Authors may print a speedup by a second definition.
        second = [fact._replace(role=Role("speedup_alternative")) for fact in facts.values()]
        is_speedup = {fact.role.name for fact in facts.values()} == {"speedup"}
        if known and is_speedup and self.takes({_key(fact): fact for fact in second}):
            return True
        # Of two tables of one GPU, none is the sweep of the other.
        if _is_sweep(self.facts) == _is_sweep(facts):
            return False
        if _is_sweep(facts):
            self.sweep += facts.values()
        else:
            self.sweep, self.facts = [*self.facts.values()], {**facts}
        return True

    def studies(self, stated: Published, has_mark: bool, is_named: bool) -> Iterator[Published]:
        """Yield a study for every group of cells with several GPUs, with the times of one GPU that it may share."""
        groups = grouped(self.facts.values(), lambda fact: fact.place.group)
        of_one = {group: [fact for fact in facts if fact.place.gpus == 1] for group, facts in groups.items()}
        of_several = {group: [fact for fact in facts if fact.place.gpus != 1] for group, facts in groups.items()}
        telling = [
            group for group in groups if of_several[group] or OF_TWO in {fact.role.name for fact in of_one[group]}
        ] or [*groups]
        lenders = {group: _lender(group, groups) for group in groups}
        shown = {group: [*of_one[lenders[group]], *of_several[group]] for group in telling}
        apart = {group: _over(of_one[group], of_one[lender]) for group, lender in lenders.items() if group != lender}
        used = {*telling, *map(lenders.get, telling), *filter(apart.get, apart), ()}
        unused = [" / ".join(group) for group in sorted(groups.keys() - used)]
        left_out = [*stated.left_out, *self.notes, *([f"Groups of one GPU alone: {listed(unused)}"] if unused else [])]
        shown |= {(*group, "1 GPU"): facts for group, facts in apart.items() if facts}
        for group, facts in shown.items():
            names = [self.caption] * (is_named and bool(self.caption)) + [*group] * (len(shown) > 1)
            title = ": ".join(filter(None, [stated.title, ", ".join(names)]))
            named = replace(stated, id=slug(" ".join([stated.id, *names])), title=title, left_out=left_out)
            yield _study(facts, self.sweep, named, has_mark)


def _over(facts: Sequence[Fact], lent: Sequence[Fact]) -> list[Fact]:
    """Return the figures of a group on one GPU as ratios over those of another on one GPU."""
    clock = max(_clocks(facts) & _clocks(lent), default="")
    of_clock = [fact for fact in facts if fact.role.name == clock]
    bases = [fact._replace(role=Role("base")) for fact in lent if fact.role.name == clock]
    ratios = [fact._replace(role=Role(OF_TWO)) for fact in facts if fact.role.name == "speedup"]
    return [*of_clock, *bases, *ratios] if clock and ratios else []


def _is_sweep(facts: Mapping[_Key, Fact]) -> bool:
    return all(fact.role.name == "time" and fact.place.gpus == 1 for fact in facts.values())


def _lender(group: _Group, groups: Mapping[_Group, Sequence[Fact]]) -> _Group:
    """Return the group whose figures of one GPU stand for this one too, where it has none, or none that its ratios are
    over: a row of one GPU for all strategies, the strategy of fewer GPUs, or the group that the names of this one are
    more than. The group itself where several may be meant."""

    def is_over_one_gpu(facts: Sequence[Fact]) -> bool:
        speedups = [fact for fact in facts if fact.place.gpus == 1 and fact.role.name == "speedup"]
        return all(fact.number.interval.contains(1) for fact in speedups)

    own_gpus = {fact.place.gpus for fact in groups[group]} - (set() if is_over_one_gpu(groups[group]) else {1})
    lenders: defaultdict[tuple[int, int], list[_Group]] = defaultdict(list)
    for other, facts in groups.items():
        gpus = {fact.place.gpus for fact in facts if fact.role.name in CLOCKS}
        unlike = len({*other} - {*group})
        is_apart = gpus == {1} or max(gpus, default=0) < min(own_gpus, default=0)
        if (
            other != group
            and is_over_one_gpu(facts)
            and 1 in gpus - own_gpus
            and (not unlike or (unlike == 1 and is_apart))
        ):
            lenders[unlike, -len(other)].append(other)
    nearest = lenders[min(lenders)] if lenders else []
    return nearest[0] if len(nearest) == 1 else group


def _key(fact: Fact) -> _Key:
    return fact.place, fact.role.name, fact.role.is_per_gpu


def _file_into(books: list[_Book], solution: Solution, caption: str) -> bool:
    """Add what was read to the last book that it does not contradict: a table without clocks to one with them, and one
    with clocks to others of the same kind. Different figures of one cell are not audited; return whether there are
    others."""
    by_key = grouped(solution.facts, _key)
    facts = {key: alike[0] for key, alike in by_key.items() if len({fact.number for fact in alike}) == 1}
    unclear = dict.fromkeys(str(_spot(alike[0])) for key, alike in by_key.items() if key not in facts)
    why = "there are several, and nothing that is understood tells them apart"
    notes = [f"Not audited are figures for {listed([*unclear])}: {why}"] if unclear else []
    notes += solution.left_out
    if not facts:
        return False
    for book in reversed(books):
        if book.takes_table(facts):
            book.notes += notes
            return True
    books.append(_Book(caption, facts, notes))
    return True


def _clocks(facts: Iterable[Fact]) -> set[str]:
    return {fact.role.name for fact in facts} & {*CLOCKS}


def _study(facts: Sequence[Fact], sweep: Sequence[Fact], stated: Published, has_mark: bool) -> Published:
    """Return the study of the facts of one group, with what is stated of all."""
    by_role = grouped(facts, lambda fact: fact.role.name)
    rates, bases = by_role.get("rate", []), by_role.get("base", [])
    totals = {_spot(fact) for fact in rates if not fact.role.is_per_gpu}
    # Rates of each GPU beside those of all are figures to check.
    in_place_of_times = [fact for fact in rates if not fact.role.is_per_gpu or _spot(fact) not in totals]
    clock = by_role.get("time", in_place_of_times)
    role = clock[0].role if clock else Role("rate")
    if stated.batch == UNSTATED:
        stated = replace(stated, batch=next((fact.whose_batch for fact in facts if fact.whose_batch), UNSTATED))
    left_out, assumed = [*stated.left_out], dict(stated.assumed)
    if role == Role("time") and "images" in assumed and (images := _images(rates, clock)):
        del assumed["images"]
        left_out.append(f"Rates times times are about {images:,} images per epoch, which were not given")
        stated = replace(stated, dataset_images=images)
    if role.is_per_step and "images" in assumed:
        assumed["images"] = f"a step has {'' if stated.batch == GLOBAL else 'N*'}b images"
    quantities, of_other_runs = defaultdict[str, _Table](dict), defaultdict[str, _Table](dict)
    of_clock = {*map(_key, (*clock, *bases))}
    for fact in (fact for fact in facts if _key(fact) not in of_clock):
        name = fact.role.name
        table = (of_other_runs if has_mark and fact.is_marked else quantities)[WORDS["quantities"].get(name, name)]
        table.setdefault(_spot(fact), _number(fact, stated))
    units = {fact.unit for fact in by_role.get("bandwidth", ())}
    if units == {""}:
        assumed["bandwidth"] = "the bandwidth is in GB/s"
    return replace(
        stated,
        epoch_s=_epoch_s(clock, stated),
        base_s=_epoch_s([fact._replace(role=role) for fact in bases], stated),
        quantities={name: dict(sorted(table.items())) for name, table in quantities.items()},
        of_other_runs={name: dict(sorted(table.items())) for name, table in sorted(of_other_runs.items())},
        batch_sweep_s=_epoch_s(sweep, stated),
        bandwidth_unit=_BANDWIDTHS.get(min(units), "GB/s") if units else None,
        assumed=assumed,
        left_out=[*dict.fromkeys(left_out)],
        is_of_epochs=role == Role("time"),
    )


def _images(rates: Sequence[Fact], times: Sequence[Fact]) -> int:
    """Return the images of an epoch, where most rates and times agree on them; 0 where they do not."""
    seconds = {_spot(fact): fact.number.interval for fact in times}
    pairs = [(fact.number.interval, seconds[_spot(fact)]) for fact in rates if _spot(fact) in seconds]
    products = [Rounded(rate.value * time.value, rate.low * time.low, rate.high * time.high) for rate, time in pairs]
    tries = [*WORDS["datasets"].values(), *(round(product.value) for product in products)]
    hits, images = max((sum(product.contains(images) for product in products), images) for images in tries)
    return images if 1 < hits >= len(products) / 2 else 0


def _epoch_s(facts: Iterable[Fact], study: Published) -> _Table:
    """Return the times of an epoch that facts are, or stand for as rates."""
    table = dict[Spot, Number]()
    for fact in facts:
        number = _number(fact, study)
        if fact.role.name == "rate":
            shown = number.shown if " " in number.shown else f"{number} {fact.unit or RATE}"
            images = study.dataset_images
            number = Number(shown, images / number.interval, images / number.if_cut)
        table.setdefault(_spot(fact), number)
    return dict(sorted(table.items()))


def _number(fact: Fact, study: Published) -> Number:
    """Return the number of a fact: of an epoch, or of a second, in place of a step."""
    if not fact.role.is_per_step:
        return fact.number
    images_per_step = (fact.place.batch or 1) * (1 if study.batch == GLOBAL else fact.place.gpus or 1)
    factor = images_per_step if fact.role.name == "rate" else study.dataset_images / images_per_step
    return Number(fact.number.shown, fact.number.interval * factor, fact.number.if_cut * factor)


def _spot(fact: Fact) -> Spot:
    return Spot(fact.place.batch, fact.place.gpus)


def slug(text: str) -> str:
    """Return a name of a file: letters of other alphabets stay apart by their numbers."""
    spelt = "".join(letter if letter.isascii() else f"-{ord(letter):x}" for letter in text.lower())
    return re.sub(r"[^a-z0-9_-]+", "-", spelt).strip("-_")[:80] or "table"
