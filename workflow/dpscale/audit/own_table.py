"""A table as people write it, in CSV or Markdown, as a study to audit. What it does not say is assumed, and said.

Rows are cells (a batch and a number of GPUs), or batches with a column per number of GPUs (`2 GPUs`). Heads may take
two rows, where the first spans several columns. A batch that is left out is that of the row above. Lines such as
`gpu: A40` above the table (in CSV after a `#`) say what no column does.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from dpscale.audit.conventions import UNITS
from dpscale.audit.numbers_as_written import OUT_OF_MEMORY, Style, is_missing, is_out_of_memory, style_of, unit_behind
from dpscale.audit.published import GLOBAL, PER_GPU, QUANTITIES, UNSTATED, Place, Published
from dpscale.errors import PublishedError
from dpscale.vocabulary.chips import PRECISIONS, chip_named
from dpscale.vocabulary.networks import networks

SUFFIXES = (".csv", ".tsv", ".txt", ".md", ".markdown")

# What is assumed where a table does not say: the experiment of docs/method.md.
ASSUMED_IMAGES = 50_000

# Words of a head by the quantity they mean; the first that a head has decides, so longer ones come first.
_WORDS: Sequence[tuple[str, str]] = (
    (r"utili[sz]ation|\butil\b", "utilisation_percent"),
    (r"band\s*width|\bbw\b|busbw|algbw", "bandwidth"),
    (r"communicat|\bcomms?\b|all-?reduce", "communication_s"),
    (r"comput|\bcalc|\bcomp\b", "compute_s"),
    (r"through\s*put|(images|img|imgs|samples)\s*(/|per)\s*s", "images_per_s"),
    (r"speed\s*-?\s*up", "speedup"),
    (r"efficien", "ignored"),
    (r"global\s*batch|total\s*batch", "global batch"),
    (r"batch", "batch"),
    (r"\btimes?\b|epoch|\bt\b|t\(n|seconds|run\s*time|duration|wall", "epoch_s"),
    (r"gpus?\b|devices?|workers?|world\s*size|\bn\b|ranks?", "gpus"),
    (r"^(b|bs)$", "batch"),
)
_SECONDS = {"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "min": 60, "mins": 60, "minutes": 60, "h": 3600}
_MILLISECONDS = ("ms", "msec", "milliseconds")
_KEYS = {
    "title": "title",
    "year": "year",
    "gpu": "gpu",
    "precision": "precision",
    "images": "dataset_images",
    "parameters": "parameters_trained",
    "parameters quoted": "parameters_quoted",
    "batch": "batch",
    "flop per image": "flop_per_image",
}
_BATCHES = {"per gpu": PER_GPU, "per_gpu": PER_GPU, "global": GLOBAL}


@dataclass(frozen=True)
class Head:
    """What a column holds: a quantity, its unit, and the number of GPUs where the head says that."""

    text: str
    quantity: str
    unit: str
    gpus: int | None

    @property
    def is_time(self) -> bool:
        return self.quantity in ("epoch_s", "compute_s", "communication_s")

    @property
    def is_figure(self) -> bool:
        return self.quantity not in ("batch", "global batch", "gpus", "ignored")


@dataclass(frozen=True)
class Grid:
    """A table of text: the rows of its head, and those below with their numbers in the file."""

    head: Sequence[Sequence[str]]
    rows: Sequence[tuple[int, Sequence[str]]]


def is_table(path: Path) -> bool:
    """Whether a file is a table of its author's own, by its name: CSV or Markdown."""
    return path.suffix.lower() in SUFFIXES


def read_studies(paths: Iterable[Path]) -> dict[Path, Published]:
    """The studies in files of both kinds. Raises PublishedError, also where two have the same id."""
    found: dict[Path, Published] = {}
    for path in paths:
        study = read_table(path) if is_table(path) else Published.read(path)
        if any(study.id == other.id for other in found.values()):
            raise PublishedError(f"{path}: id: {study.id} is the id of another file too")
        found[path] = study
    return found


def read_table(path: Path) -> Published:
    """The study in a CSV or Markdown file. Raises PublishedError with the row and the column of what cannot be read."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise PublishedError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PublishedError(f"{path}: is not UTF-8. Save it as CSV in UTF-8") from error
    lines = text.splitlines()
    is_markdown = path.suffix in (".md", ".markdown") or any(_is_rule(line) for line in lines)
    given = _given(lines, is_markdown, path)
    grids = list(_markdown(lines)) if is_markdown else [_csv(lines, path)]
    reader = _Reader(path)
    for grid in grids:
        reader.read(grid)
    return reader.study(given, hashlib.sha256(content).hexdigest())


def _given(lines: Iterable[str], is_markdown: bool, path: Path) -> dict[str, str]:
    """The lines `key: value`; in CSV after a `#`."""
    found: dict[str, str] = {}
    for line in lines:
        if not is_markdown and not line.startswith("#"):
            continue
        key, colon, value = line.lstrip("#*- ").replace("**", "").partition(":")
        name = key.strip().lower()
        if colon and name in _KEYS and value.strip():
            if _KEYS[name] in found:
                raise PublishedError(f"{path}: {name} is given twice")
            found[_KEYS[name]] = value.strip()
    return found


def _csv(lines: Sequence[str], path: Path) -> Grid:
    """The rows of a CSV file, separated by what separates its lines alike."""
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    if not kept:
        raise PublishedError(f"{path}: has no table")
    rows = list(csv.reader([line for _, line in kept], delimiter=_delimiter([line for _, line in kept])))
    numbered = [(number, [cell.strip() for cell in row]) for (number, _), row in zip(kept, rows, strict=True)]
    return _grid([entry for entry in numbered if any(entry[1])])


def _delimiter(lines: Sequence[str]) -> str:
    """The mark that every line has equally often, of those that people use."""

    def regularity(mark: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=mark)]
        return min(counts) == max(counts) and counts[0] > 1, min(counts)

    return max((";", "\t", ","), key=regularity)


def _markdown(lines: Sequence[str]) -> Iterator[Grid]:
    """Every table of a Markdown file: what stands around a line of dashes."""
    for at, line in enumerate(lines):
        if not _is_rule(line) or at == 0:
            continue
        is_framed = lines[at - 1].strip().startswith("|")
        body = []
        for number, row in enumerate(lines[at + 1 :], at + 2):
            if "|" not in row:
                break
            body.append((number, _cells(row, is_framed)))
        yield _grid([(at, _cells(lines[at - 1], is_framed)), *body])


def _is_rule(line: str) -> bool:
    return "|" in line and bool(re.fullmatch(r"[\s|:\-]*-{2,}[\s|:\-]*", line))


def _cells(line: str, is_framed: bool) -> list[str]:
    """The cells of a line. In a table without a frame, a bar in front has an empty cell before it."""
    inner = line.strip().removeprefix("|").removesuffix("|") if is_framed else line
    return [re.sub(r"[*_`]", "", cell).strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _grid(numbered: Sequence[tuple[int, Sequence[str]]]) -> Grid:
    """Heads are the first row, and the second where that has words too and no numbers of a figure."""
    first, *rest = numbered
    if rest and _is_head(rest[0][1]):
        return Grid([first[1], rest[0][1]], rest[1:])
    return Grid([first[1]], rest)


def _is_head(row: Sequence[str]) -> bool:
    """`batch, 1 GPU, 2 GPUs`, or `, 1, 2, 4` with nothing in front."""
    words = [cell for cell in row if cell]
    is_named = any(re.search(r"[A-Za-z]{2}", cell) and not is_out_of_memory(cell) for cell in words)
    return bool(words) and is_named and not any(re.fullmatch(r"[\d.,\s]+[sx×%]?", cell) for cell in words)


class _Reader:
    """Collects the cells of all tables of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: dict[str, dict[Place, Decimal]] = {}
        self.unmeasured: list[Mapping[str, Any]] = []
        self.assumed: list[str] = []
        self.unit: str | None = None
        self.batch = UNSTATED

    def read(self, grid: Grid) -> None:
        """The cells of one table."""
        heads = [self._head(text) for text in _joined(grid.head)]
        batch_at = self._only(heads, ("batch", "global batch"))
        gpus_at = self._only(heads, ("gpus",))
        if batch_at is None or not any(head.is_figure for head in heads):
            self._refuse(f"the head {' | '.join(head.text for head in heads)} names no batch, or no figure")
        if gpus_at is None and not any(head.gpus for head in heads):
            self._refuse("no column says the number of GPUs, and no head does (such as `2 GPUs`)")
        if heads[batch_at].quantity == "global batch":
            self.batch = GLOBAL
        self._check(heads)
        style = style_of(
            cell for _, row in grid.rows for at, cell in enumerate(row) if at < len(heads) and heads[at].is_figure
        )
        batch: int | None = None
        for number, row in grid.rows:
            cells = [*row, *[""] * (len(heads) - len(row))]
            if len(row) > len(heads) and any(row[len(heads) :]):
                self._refuse(f"row {number} has {len(row)} cells, the head has {len(heads)}")
            if not any(cells):
                continue
            batch = self._count(cells[batch_at], number, heads[batch_at]) if cells[batch_at] else batch
            if batch is None:
                self._refuse(f"row {number}: the batch is missing")
            gpus = self._count(cells[gpus_at], number, heads[gpus_at]) if gpus_at is not None else None
            for head, cell in zip(heads, cells, strict=False):
                if head.is_figure:
                    self._figure(head, cell, number, Place(batch, head.gpus or gpus or 1), style)

    def study(self, given: Mapping[str, str], sha256: str) -> Published:
        """All that was read as a study."""
        epoch_s = self.tables.pop("epoch_s", {})
        if not epoch_s:
            self._refuse("no column holds epoch times")
        for quantity, table in self.tables.items():
            without = [place for place in table if not any(place[0] == other[0] for other in epoch_s)]
            if without:
                self._refuse(f"{quantity} at batch {without[0][0]}, which has no times")
        values = self._values(given)
        return Published(
            id=re.sub(r"[^a-z0-9_-]+", "-", self.path.stem.lower()).strip("-_") or "table",
            title=values["title"] or self.path.name,
            sha256=sha256,
            year=values["year"],
            dataset_images=values["dataset_images"],
            parameters_trained=values["parameters_trained"],
            parameters_quoted=values["parameters_quoted"],
            batch_sweep_s={},
            epoch_s=dict(sorted(epoch_s.items())),
            strong_scaling_epoch_s={},
            quantities={name: dict(sorted(self.tables[name].items())) for name in QUANTITIES if name in self.tables},
            bandwidth_unit=self.unit,
            unmeasured=self.unmeasured,
            training=[],
            batch=values["batch"],
            gpu=values["gpu"],
            precision=values["precision"],
            flop_per_image=values["flop_per_image"],
            assumed=self.assumed,
        )

    def _values(self, given: Mapping[str, str]) -> dict[str, Any]:
        """What the lines above the table say, and what is assumed in their place."""
        values: dict[str, Any] = {name: given.get(name) for name in _KEYS.values()}
        for name in ("year", "dataset_images", "parameters_trained", "parameters_quoted", "flop_per_image"):
            if values[name] is not None:
                values[name] = self._plain(name, values[name])
        if values["dataset_images"] is None:
            values["dataset_images"] = ASSUMED_IMAGES
            self.assumed.append(f"{ASSUMED_IMAGES:,} training images per epoch (CIFAR-10)")
        if values["parameters_trained"] is None:
            network = networks()[0]
            values["parameters_trained"] = network.parameters
            self.assumed.append(f"{network.parameters:,} parameters ({network.name})")
        if values["gpu"] and not chip_named(values["gpu"]):
            self._refuse(f"gpu: {values['gpu']} is not in the table of GPUs")
        if values["precision"] and values["precision"] not in PRECISIONS:
            self._refuse(f"precision: {values['precision']} is none of {', '.join(PRECISIONS)}")
        if values["gpu"] and not values["precision"]:
            self.assumed.append("float32 arithmetic")
        if values["batch"] is not None and values["batch"].lower() not in _BATCHES:
            self._refuse(f"batch: {values['batch']} is neither `per GPU` nor `global`")
        values["batch"] = _BATCHES[values["batch"].lower()] if values["batch"] else self.batch
        return values

    def _plain(self, name: str, text: str) -> int | float:
        try:
            number = float(re.sub(r"[\s,_]", "", text))
        except ValueError:
            self._refuse(f"{name}: {text} is not a number")
        return number if name == "flop_per_image" else int(number)

    def _head(self, text: str) -> Head:
        """What a head means: its unit stands in brackets, after `in`, or at its end."""
        plain = " ".join(text.lower().split())
        gpus = re.search(r"(?<![\w.])(\d+)\s*(?:x\s*)?gpus?\b|\bn\s*=\s*(\d+)|gpus?\s*=\s*(\d+)", plain)
        words = (plain.replace(gpus.group(0), " ") if gpus else plain).replace("_", " ")
        quantity = next((name for pattern, name in _WORDS if re.search(pattern, words.strip())), "ignored")
        if gpus and not words.strip(" ,;:()[]"):
            quantity = "epoch_s"
        if quantity == "epoch_s" and re.search(r"\bsteps?\b|iteration|\biter\b", plain):
            self._refuse(f"column {text}: times of a step are not read; write times of an epoch")
        if re.search(r"per gpu|per device", plain) and quantity == "batch":
            self.batch, gpus = PER_GPU, None
        number = next(int(group) for group in gpus.groups() if group) if gpus else None
        return Head(text, quantity, _unit(plain), number)

    def _only(self, heads: Sequence[Head], names: tuple[str, ...]) -> int | None:
        at = [number for number, head in enumerate(heads) if head.quantity in names]
        if len(at) > 1:
            self._refuse(f"columns {heads[at[0]].text} and {heads[at[1]].text} mean the same")
        return at[0] if at else None

    def _check(self, heads: Sequence[Head]) -> None:
        """Refuse columns that mean the same, and note those that are not used."""
        seen: set[tuple[str, int | None]] = set()
        for head in heads:
            if head.quantity == "ignored" and head.text:
                self._assume(f"the column {head.text} is not used")
            if not head.is_figure:
                continue
            if (head.quantity, head.gpus) in seen:
                self._refuse(f"column {head.text}: another column is {head.quantity} too")
            seen.add((head.quantity, head.gpus))

    def _unit_of(self, head: Head, cell: str, where: str) -> str:
        """The unit of a number: that of its head, or of its own. Where none says it, the usual one is assumed."""
        own = unit_behind(cell)
        if head.unit and own and head.unit != own:
            self._refuse(f"{where}: {cell} is not in the unit of its column, {head.unit}")
        unit = head.unit or own
        if head.quantity == "bandwidth":
            return self._bandwidth_unit(head, unit, where)
        if not head.is_time:
            return unit
        if not unit:
            self._assume(f"{head.text} is in seconds")
        elif unit not in (*_SECONDS, *_MILLISECONDS):
            self._refuse(f"{where}: the unit {unit} is none of s, ms, min, h")
        return unit or "s"

    def _bandwidth_unit(self, head: Head, unit: str, where: str) -> str:
        known = {name.lower(): name for name in UNITS}
        if unit and unit not in known:
            self._refuse(f"{where}: the unit {unit} is none of {', '.join(UNITS)}")
        if not unit:
            self._assume(f"{head.text} is in GB/s")
        name = known.get(unit, "GB/s")
        if self.unit not in (None, name):
            self._refuse(f"{where}: is in {name}, another bandwidth in {self.unit}")
        self.unit = name
        return unit

    def _figure(self, head: Head, cell: str, row: int, place: Place, style: Style) -> None:
        """One number, in the unit of its quantity."""
        if is_out_of_memory(cell):
            if head.quantity == "epoch_s":
                self.unmeasured.append({"batch_per_gpu": place.batch_per_gpu, "gpus": place.gpus, "why": OUT_OF_MEMORY})
            return
        if is_missing(cell):
            return
        where = f"row {row}, column {head.text}"
        try:
            number = style.number(cell)
        except ValueError as error:
            self._refuse(f"{where}: {error}")
        unit = self._unit_of(head, cell, where)
        if head.is_time:
            number = _in_seconds(number, unit)
        if "%" in cell and head.quantity != "utilisation_percent":
            number = number.scaleb(-2)
        if number <= 0 and not (head.quantity == "communication_s" or (head.quantity != "epoch_s" and number == 0)):
            self._refuse(f"{where}: {cell} is not above zero")
        table = self.tables.setdefault(head.quantity, {})
        if place in table:
            self._refuse(f"{where}: batch {place.batch_per_gpu} on {place.gpus} GPUs is there twice")
        table[place] = number

    def _count(self, cell: str, row: int, head: Head) -> int:
        """A batch or a number of GPUs: whole, perhaps with groups of three digits."""
        plain = re.sub(r"(?<=\d)[\s\u2009\u202f\u00a0.,'’](?=\d{3}(?!\d))", "", cell)
        found = re.fullmatch(r"(?:gpus?\s*)?(\d+)\s*(?:x\s*)?(?:gpus?|images|img)?", plain.strip().lower())
        if not found or int(found.group(1)) == 0:
            self._refuse(f"row {row}, column {head.text}: {cell or 'an empty cell'} is not a whole number above zero")
        return int(found.group(1))

    def _assume(self, what: str) -> None:
        if what not in self.assumed:
            self.assumed.append(what)

    def _refuse(self, why: str) -> NoReturn:
        raise PublishedError(f"{self.path}: {why}")


def _joined(head: Sequence[Sequence[str]]) -> list[str]:
    """One head per column: where two rows are, the first reaches to the right as far as it is empty."""
    if len(head) == 1:
        return list(head[0])
    width = max(len(row) for row in head)
    upper, lower = ([*row, *[""] * (width - len(row))] for row in head)
    above, found = "", []
    for first, second in zip(upper, lower, strict=True):
        above = first or above
        found.append(f"{above} {second}".strip() if second else above)
    return found


def _unit(head: str) -> str:
    """The unit of a head: in brackets, after `in` or a slash, or as its last word."""
    brackets = re.findall(r"[(\[]([^)\]]*)[)\]]", head)
    for inner in reversed(brackets):
        text: str = inner.strip().removeprefix("in ")
        if re.fullmatch(r"[a-zµ]+(?:/s|ps|bit/s)?|%", text) and not re.fullmatch(r"n|b|gpus?|per gpu|\d+", text):
            return text
    known = "|".join(sorted([*_SECONDS, *_MILLISECONDS, *(unit.lower() for unit in UNITS)], key=len, reverse=True))
    after = re.search(rf"(?:\bin\s+|/\s*|,\s*|_)({known})\b\s*$", re.sub(r"[(\[].*?[)\]]", "", head).strip())
    alone = re.search(rf"\b({'|'.join(unit.lower() for unit in UNITS)})\b", head)
    found = after or alone
    return str(found.group(1)) if found else ""


def _in_seconds(number: Decimal, unit: str) -> Decimal:
    """Seconds with no more digits than were printed."""
    if unit in _MILLISECONDS:
        return number.scaleb(-3)
    factor = _SECONDS[unit]
    if factor == 1:
        return number
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    coarse = exponent + math.ceil(math.log10(factor))
    return (number * factor).quantize(Decimal((0, (1,), coarse)))
