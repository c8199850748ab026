"""Tables as people write them, as studies to audit. What they do not say is assumed, and said.

Rows are cells (a batch and a number of GPUs), or batches with a column per number of GPUs (`2 GPUs`). Heads may take
two rows, where the first spans several columns. A batch that is left out is that of the row above. Columns that say a
strategy, a run or a clock make a study of each. Lines such as `gpu: A40` around the table (in CSV after a `#`) say what
no column does. What is not understood is left out, and said.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, NoReturn

from dpscale.audit.formats import SUFFIXES, Style, TextTable, is_missing, read_text, style_of, unit_behind
from dpscale.audit.published import (
    GLOBAL,
    PER_GPU,
    QUANTITIES,
    UNITS,
    UNSTATED,
    Printed,
    Published,
    Spot,
    shortened,
)
from dpscale.errors import PublishedError
from dpscale.formulas.rounded import Number
from dpscale.vocabulary import own_yaml
from dpscale.vocabulary.chips import PRECISIONS
from dpscale.vocabulary.networks import networks
from dpscale.vocabulary.states import MARK, OTHER_RUNS, STATES

# What is assumed where a table does not say: the experiment of docs/method.md.
ASSUMED_IMAGES = 50_000

_WORDS = own_yaml(__file__, "words.yaml")
_SECONDS, _KEYS = _WORDS["seconds"], _WORDS["keys"]
_NO_FIGURES = ("batch", "gpus", "group", "beside", "ignored")
_TIMES = ("epoch_s", "compute_s", "communication_s")
_BANDWIDTHS = {name.lower(): name for name in UNITS}
_NUMBERS = ("dataset_images", "parameters_trained", "flop_per_image", "peak_tflop_s")
_BATCHES = {"": UNSTATED, "per gpu": PER_GPU, "global": GLOBAL}
_BESIDE = next(pattern for pattern, name in _WORDS["heads"].items() if name == "beside")
# What this project's own tables say of a figure that is formed in other runs than the times beside it, by its note.
_OF_OTHER_RUNS, _ = STATES[OTHER_RUNS]
_PER_STEP = r"\bsteps?\b|iteration|\biter\b|(/|per)\s*batch\b"

# The values of its columns of strategies, runs and clocks.
_Group = tuple[str, ...]
_Tables = defaultdict[str, dict[Spot, Number]]


class Head(NamedTuple):
    """The meaning of a column: a quantity, its unit, the number of GPUs where the head says that, and whether it is of
    a step. `beside` is the quantity that it says something of, such as `speedup` of `Speedup state`; `batch` says whose
    images a batch is."""

    text: str
    quantity: str
    unit: str
    gpus: int | None
    is_per_step: bool = False
    beside: str = ""
    batch: str = UNSTATED

    @property
    def is_figure(self) -> bool:
        return self.quantity not in _NO_FIGURES

    @property
    def problem(self) -> str:
        """Why its unit cannot be used; nothing where it can."""
        if self.quantity in _TIMES and self.unit and self.unit not in _SECONDS:
            return f"the unit {self.unit} is none of s, ms, min, h"
        if self.quantity == "bandwidth" and self.unit and self.unit not in _BANDWIDTHS:
            return f"the unit {self.unit} is none of {', '.join(UNITS)}"
        return ""


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
    """Return the studies in a table's file: one, or one for every strategy, run or clock that its rows name.

    Raises PublishedError with the row and the column of what cannot be read.
    """
    content, lines, tables = read_text(path)
    reader = _Reader(path, hashlib.sha256(content).hexdigest(), lines, defaults or {})
    reader.read(tables)
    return list(reader.studies())


def _with_head(rows: TextTable) -> tuple[list[Head], TextTable]:
    """Return the heads of a table, and its rows below them.

    Heads are the first row, and the second where that has words too and no numbers of a figure: then the first reaches
    to the right as far as it is empty.
    """
    heads = [row for _, row in rows[:2]]
    if len(heads) < 2 or not _is_head(heads[1]):
        return [_head(text) for text in heads[0]], rows[1:]
    above, both_rows = "", []
    for first, second in zip_longest(*heads, fillvalue=""):
        above = first or above
        both_rows.append(_head(f"{above} {second}".strip() if second else above))
    return both_rows, rows[2:]


def _is_head(row: Sequence[str]) -> bool:
    """Whether a row is a head: `batch, 1 GPU, 2 GPUs`, or `, 1, 2, 4` with nothing in front."""
    is_named = any(re.search(r"[A-Za-z]{2}", cell) and not is_missing(cell) for cell in row)
    return is_named and not any(re.fullmatch(r"[\d.,\s]+[sx×%]?", cell) for cell in row)


def _head(text: str) -> Head:
    """Return the meaning of a head: its unit stands in brackets, after `in`, or at its end."""
    plain = " ".join(text.lower().split())
    gpus = re.search(r"(?<![\w.])(\d+)\s*(?:x\s*)?(?:gpu|worker)s?\b|\bn\s*=\s*(\d+)|gpus?\s*=\s*(\d+)", plain)
    words = (plain.replace(gpus.group(), " ") if gpus else plain).replace("_", " ").strip()
    quantity, batch = _quantity(words), UNSTATED
    if gpus and not words.strip(" ,;:()[]"):
        quantity = "epoch_s"
    if quantity == "global batch":
        quantity, batch = "batch", GLOBAL
    elif quantity == "batch" and re.search(r"per (gpu|device|worker)", plain):
        batch = PER_GPU
    number = int(next(filter(None, gpus.groups()))) if gpus and quantity != "batch" else None
    unit, per = re.subn(r"\s*(/|per)\s*(steps?|iter\w*|batch)$", "", _unit(plain))
    is_per_step = quantity in _TIMES and bool(per or re.search(_PER_STEP, plain))
    beside = _quantity(re.sub(_BESIDE, " ", words)) if quantity == "beside" else ""
    return Head(text, quantity, unit, number, is_per_step, beside, batch)


def _quantity(words: str) -> str:
    """Return the quantity that the words of a head mean."""
    return next((name for pattern, name in _WORDS["heads"].items() if re.search(pattern, words)), "ignored")


def _unit(head: str) -> str:
    """Return the unit of a head: in brackets, after `in` or a slash, or as its last word."""
    for inner in reversed(re.findall(r"[(\[]([^)\]]*)[)\]]", head)):
        text: str = inner.strip().removeprefix("in ")
        if re.fullmatch(r"[a-zµ]+(?:/s|ps|bit/s|\s*(?:/|per)\s*\w+)?|%", text) and not re.fullmatch(
            r"n|b|gpus?|per gpu|\d+", text
        ):
            return text
    units = "|".join(sorted([*_SECONDS, *_BANDWIDTHS], key=len, reverse=True))
    without_brackets = re.sub(r"[(\[].*?[)\]]", "", head).strip()
    at_end = re.search(rf"(?:\bin\s+|/\s*|,\s*|_)({units})\b\s*$", without_brackets)
    unit = at_end or re.search(rf"\b({'|'.join(_BANDWIDTHS)})\b", head)
    return str(unit.group(1)) if unit else ""


def _not_understood(heads: Sequence[Head]) -> str:
    """Why a table cannot be read; nothing where it can."""
    names = {head.quantity for head in heads}
    if "batch" not in names or not any(head.is_figure for head in heads):
        return f"the head {' | '.join(head.text for head in heads)} names no batch, or no figure"
    if "gpus" not in names and not any(head.gpus for head in heads):
        return "no column says the number of GPUs, and no head does (such as `2 GPUs`)"
    return ""


class _Reader:
    """Collects the figures of all tables of a file, by group, quantity and cell. `study` has the statements around
    them."""

    def __init__(self, path: Path, sha256: str, lines: Sequence[str], defaults: Mapping[str, str]) -> None:
        self.path = path
        self.tables: defaultdict[_Group, _Tables] = defaultdict(lambda: defaultdict(dict))
        self.of_other_runs: defaultdict[_Group, _Tables] = defaultdict(lambda: defaultdict(dict))
        self.assumed: dict[str, str] = {}
        self.left_out: dict[str, None] = {}
        self.has_mark = any(f"{_OF_OTHER_RUNS}: " in line for line in lines)
        self.study = self._study(sha256, {**defaults, **self._given(lines)})

    def _given(self, lines: Iterable[str]) -> dict[str, str]:
        """Return the values of the lines `key: value`."""
        given: dict[str, str] = {}
        for line in lines:
            key, _, value = line.lstrip("#*- ").replace("**", "").partition(":")
            name = key.strip().lower()
            if name in _KEYS and value.strip():
                if _KEYS[name] in given:
                    self._refuse(f"{name} is given twice. Leave one of the lines out")
                given[_KEYS[name]] = value.strip()
        return given

    def _study(self, sha256: str, given: Mapping[str, str]) -> Published:
        """Return the study that lines around the table describe. What they do not say is assumed."""
        numbers = {name: self._plain(name, given[name]) for name in _NUMBERS if name in given}
        network = given.get("network", "").lower()
        named = [entry.parameters for entry in networks() if network in entry.name.lower()]
        precision = given.get("precision", "").lower()
        precision = _WORDS["precisions"].get(precision, precision)
        if precision and precision not in PRECISIONS:
            self._refuse(f"precision: {precision} is none of {', '.join(PRECISIONS)}")
        batch = given.get("batch", "").lower().replace("_", " ")
        if batch not in _BATCHES:
            self._refuse(f"batch: {batch} is neither `per GPU` nor `global`")
        if "dataset_images" not in given:
            self.assumed["images"] = f"{ASSUMED_IMAGES:,} training images per epoch (CIFAR-10)"
        if not {"parameters_trained", "network"} & given.keys():
            self.assumed["network"] = f"{networks()[0].parameters:,} parameters ({networks()[0].name})"
        if not precision and {"gpu", "peak_tflop_s"} & given.keys():
            self.assumed["precision"] = "float32 arithmetic"
        rates = re.findall(r"([\d.]+) GB/s on (\d+) (?:GPU|worker)", given.get("bus_gb_s", ""))
        return Published(
            id="",
            title=given.get("title", self.path.name),
            sha256=sha256,
            dataset_images=int(numbers.get("dataset_images", ASSUMED_IMAGES)),
            parameters_trained=int(numbers.get("parameters_trained", named[0] if named else 0)) or None,
            batch=_BATCHES[batch],
            gpu=given.get("gpu"),
            precision=precision or None,
            flop_per_image=numbers.get("flop_per_image"),
            peak_tflop_s=numbers.get("peak_tflop_s"),
            bus_gb_s={int(gpus): Number.of(Decimal(gb_s)) for gb_s, gpus in rates},
            assumed=self.assumed,
        )

    def _plain(self, name: str, text: str) -> float:
        digits = re.fullmatch(r"\d+(\.\d*)?(e[+-]?\d\d?)?", re.sub(r"[\s,_]", "", text))
        if not digits or not float(digits.group()):
            self._refuse(f"{name.replace('_', ' ')}: {text} is not a number above zero")
        return float(digits.group())

    def read(self, tables: Iterable[TextTable]) -> None:
        """Read the cells of every table that is understood; one has to be."""
        headed = [_with_head(table) for table in tables]
        reasons = [_not_understood(heads) for heads, _ in headed]
        if all(reasons):
            self._refuse(reasons[0])
        for (heads, rows), reason in zip(headed, reasons, strict=True):
            if reason:
                self.left_out[f"A table is left out: {reason}"] = None
            else:
                self._read_rows(self._usable(heads), rows)

    def _usable(self, heads: Sequence[Head]) -> list[Head]:
        """Return the columns; those that are not understood are ignored, and said. Refuses columns that mean the
        same."""
        meanings, columns = set(), []
        for head in heads:
            usable = head._replace(quantity="ignored") if head.problem else head
            if usable.quantity == "ignored" and head.text:
                reason = f": {head.problem}" if head.problem else ""
                self.left_out[f"The column {head.text} is left out{reason}"] = None
            meaning = usable.quantity, head.gpus
            if meaning in meanings and (usable.is_figure or usable.quantity in ("batch", "gpus")):
                self._refuse(
                    f"column {head.text}: another column is {usable.quantity} too. Leave one out, or rename it"
                )
            meanings.add(meaning)
            if self.study.batch == UNSTATED:
                self.study = replace(self.study, batch=head.batch)
            columns.append(usable)
        return columns

    def _read_rows(self, heads: Sequence[Head], rows: TextTable) -> None:
        figures = [at for at, head in enumerate(heads) if head.is_figure]
        style = style_of(row[at] for _, row in rows for at in figures if at < len(row))
        counts: dict[str, int] = {}
        group_names: dict[Head, str] = {}
        for number, row in rows:
            if any(row[len(heads) :]):
                self._refuse(f"row {number} has {len(row)} cells, the head has {len(heads)}. Give each column a head")
            cells = [*zip(heads, [*row, *[""] * len(heads)], strict=False)]
            if not any(cell for head, cell in cells if head.is_figure):
                # The name of a group of rows, such as a strategy, may stand in a row of its own.
                continue
            group_names |= {head: cell for head, cell in cells if head.quantity == "group" and cell}
            for head, cell in cells:
                if head.quantity == "gpus" or (head.quantity == "batch" and cell):
                    counts[head.quantity] = self._count(cell, number, head)
            if "batch" not in counts:
                self._refuse(f"row {number}: the batch is missing")
            for head, cell in cells:
                if not head.is_figure or is_missing(cell):
                    continue
                where = f"row {number}, column {head.text}"
                place = Spot(counts["batch"], head.gpus or counts.get("gpus", 1))
                group = tuple(group_names.values())
                if any(place in tables[group][head.quantity] for tables in (self.tables, self.of_other_runs)):
                    at = f"batch {place.batch_per_gpu} on {place.gpus} GPUs"
                    self._refuse(f"{where}: {at} is there twice. A column `run` tells runs apart")
                states = [state for column, state in cells if column.beside == head.quantity]
                is_marked = self.has_mark and (MARK in cell or any(_OF_OTHER_RUNS in state for state in states))
                tables = self.of_other_runs if is_marked and head.quantity in QUANTITIES else self.tables
                tables[group][head.quantity][place] = self._figure(head, cell, where, place, style)

    def _count(self, cell: str, row: int, head: Head) -> int:
        """Return a batch or a number of GPUs: whole, perhaps with groups of three digits."""
        plain = re.sub(r"(?<=\d)[\s\u2009\u202f\u00a0.,'’](?=\d{3}(?!\d))", "", cell)
        count = re.fullmatch(
            r"(?:(?:gpu|worker)s?\s*)?(\d{1,9})(?:\.0)?\s*(?:x\s*)?(?:gpus?|workers?|images|img)?",
            plain.lower().strip(),
        )
        if not count or int(count.group(1)) == 0:
            self._refuse(f"row {row}, column {head.text}: {cell or 'an empty cell'} is not a whole number above zero")
        return int(count.group(1))

    def _figure(self, head: Head, cell: str, where: str, place: Spot, style: Style) -> Number:
        """Return the number in a cell, in the unit of its quantity."""
        try:
            number = style.number(cell)
        except ValueError as error:
            self._refuse(f"{where}: {error}")
        unit = self._unit_of(head, cell, where)
        if number <= 0 and head.quantity == "epoch_s":
            self._refuse(f"{where}: {cell} is not above zero, as every time is")
        is_percent = head.quantity != "utilisation_percent" and ("%" in cell or head.unit == "%")
        factor = 0.01 if is_percent else _SECONDS[unit or "s"] if head.quantity in _TIMES else 1
        if head.is_per_step:
            factor, unit = factor * self.study.steps(place), f"{unit}/step"
        shown = f"{number} {'%' if is_percent else unit}" if factor != 1 else ""
        return Number.of(number, lambda printed: printed * factor, shown)

    def _unit_of(self, head: Head, cell: str, where: str) -> str:
        """Return the unit of a number: that of its head, or of its own. Where none says it, the usual one is
        assumed."""
        behind = unit_behind(cell)
        if head.unit and behind and head.unit != behind:
            self._refuse(f"{where}: {cell} is not in the unit of its column, {head.unit}")
        unit = head.unit or behind
        if problem := head._replace(unit=unit).problem:
            self._refuse(f"{where}: {problem}")
        if not unit and head.quantity in (*_TIMES, "bandwidth"):
            usual = "GB/s" if head.quantity == "bandwidth" else "seconds"
            self.assumed[head.quantity] = f"{head.text} is in {usual}"
        if head.quantity == "bandwidth":
            name, earlier = _BANDWIDTHS.get(unit, "GB/s"), self.study.bandwidth_unit
            if earlier not in (None, name):
                self._refuse(f"{where}: is in {name}, another bandwidth in {earlier}. Use one unit")
            self.study = replace(self.study, bandwidth_unit=name)
        return unit

    def studies(self) -> Iterator[Published]:
        """Yield all that was read, a study for every group."""
        several = [group for group, tables in self.tables.items() if _has_several(tables)]
        for group in several or [*self.tables] or [()]:
            named = [*group] if len(several) > 1 else []
            quantities = self._with_one_gpu(group)
            yield replace(
                self.study,
                id=slug(" ".join([self.path.stem, *named])),
                title=": ".join(filter(None, [self.study.title, ", ".join(named)])),
                left_out=[*self.left_out],
                epoch_s=self._times(quantities),
                quantities={name: quantities[name] for name in QUANTITIES if quantities.get(name)},
                of_other_runs={
                    name: dict(sorted(table.items()))
                    for name, table in sorted(self.of_other_runs[group].items())
                    if table
                },
            )

    def _with_one_gpu(self, group: _Group) -> dict[str, dict[Spot, Number]]:
        """Return the tables of a group with the times of one GPU.

        One GPU needs no strategy: its times may stand in a group of their own, that which shares most with this.
        """
        baselines = [baseline for baseline, tables in self.tables.items() if not _has_several(tables)]
        nearest_last = sorted(baselines, key=lambda baseline: len({*baseline} & {*group}))
        merged: _Tables = defaultdict(dict)
        for name_of_group in (*nearest_last, group):
            for name, table in self.tables[name_of_group].items():
                merged[name] |= table
        return {name: dict(sorted(table.items())) for name, table in merged.items()}

    def _times(self, quantities: dict[str, dict[Spot, Number]]) -> Printed:
        """Take the times out of what was read, and return them. Where there are none, they are formed from
        throughputs."""
        name = "epoch_s" if "epoch_s" in quantities else "images_per_s"
        times = quantities.pop(name, {})
        if not times:
            reasons = [why for why in self.left_out if "unit" in why]
            self._refuse(f"no column holds epoch times{f'. {reasons[0]}' if reasons else ''}")
        batches = {place.batch_per_gpu for place in times}
        for quantity, place in [(name, place) for name, table in quantities.items() for place in table]:
            if place.batch_per_gpu not in batches:
                self._refuse(f"{quantity} at batch {place.batch_per_gpu}, which has no times")
        if name == "epoch_s":
            return times
        images = self.study.dataset_images
        return {
            place: Number(f"{rate} images/s", images / rate.interval, images / rate.if_cut)
            for place, rate in times.items()
            if rate.interval.low > 0
        }

    def _refuse(self, why: str) -> NoReturn:
        raise PublishedError(f"{self.path}: {shortened(why)}")


def _has_several(tables: _Tables) -> bool:
    return any(place.gpus > 1 for table in tables.values() for place in table)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_") or "table"
