"""A table as people write it, in CSV or Markdown, as a study to audit. What it does not say is assumed, and said.

Rows are cells (a batch and a number of GPUs), or batches with a column per number of GPUs (`2 GPUs`). Heads may take
two rows, where the first spans several columns. A batch that is left out is that of the row above. Lines such as
`gpu: A40` above the table (in CSV after a `#`) say what no column does.
"""

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from dpscale.audit.conventions import UNITS
from dpscale.audit.reading.numbers_as_written import (
    OUT_OF_MEMORY,
    Style,
    is_missing,
    is_out_of_memory,
    style_of,
    unit_behind,
)
from dpscale.audit.reading.published import GLOBAL, PER_GPU, QUANTITIES, UNSTATED, Published, Spot
from dpscale.errors import PublishedError
from dpscale.formulas.rounded import scaled
from dpscale.schemas.validation import SCHEMA_LOADER
from dpscale.vocabulary.chips import PRECISIONS, chip_named
from dpscale.vocabulary.networks import networks

SUFFIXES = (".csv", ".tsv", ".txt", ".md", ".markdown")

# What is assumed where a table does not say: the experiment of docs/method.md.
ASSUMED_IMAGES = 50_000

_WORDS = yaml.load(Path(__file__).with_name("words.yaml").read_text(), SCHEMA_LOADER)
_SECONDS, _KEYS, _BATCHES = _WORDS["seconds"], _WORDS["keys"], _WORDS["batches"]
_NO_FIGURES = ("batch", "global batch", "gpus", "ignored")
_TIMES = ("epoch_s", "compute_s", "communication_s")
_BANDWIDTHS = {name.lower(): name for name in UNITS}
_WHOLE = ("year", "dataset_images", "parameters_trained", "parameters_quoted")


class Head(NamedTuple):
    """What a column holds: a quantity, its unit, and the number of GPUs where the head says that."""

    text: str
    quantity: str
    unit: str
    gpus: int | None

    @property
    def is_figure(self) -> bool:
        return self.quantity not in _NO_FIGURES


# The rows of a table's head; and those below, with their numbers in the file.
_TextTable = tuple[Sequence[Sequence[str]], Sequence[tuple[int, Sequence[str]]]]


def is_table(path: Path) -> bool:
    """Whether a file is a table of its author's own, by its name: CSV or Markdown."""
    return path.suffix.lower() in SUFFIXES


def read_study(path: Path) -> Published:
    """The study in a file of either kind. Raises PublishedError."""
    return read_table(path) if is_table(path) else Published.read(path)


def read_table(path: Path) -> Published:
    """The study in a CSV or Markdown file. Raises PublishedError with the row and the column of what cannot be read."""
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise PublishedError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PublishedError(f"{path}: is not UTF-8. Save it as CSV in UTF-8") from error
    is_markdown = path.suffix in (".md", ".markdown") or any(map(_is_rule, lines))
    reader = _Reader(path)
    given = reader.given(lines if is_markdown else (line for line in lines if line.startswith("#")))
    for head, rows in _markdown(lines) if is_markdown else [reader.csv(lines)]:
        reader.read(head, rows)
    return reader.study(given, hashlib.sha256(content).hexdigest())


def _delimiter(lines: Sequence[str]) -> str:
    """The mark that every line has equally often, of those that people use."""

    def regularity(mark: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=mark)]
        return min(counts) == max(counts) and counts[0] > 1, min(counts)

    return max((";", "\t", ","), key=regularity)


def _markdown(lines: Sequence[str]) -> Iterator[_TextTable]:
    """Every table of a Markdown file: what stands around a line of dashes."""
    for at, line in enumerate(lines):
        if not _is_rule(line) or at == 0:
            continue
        is_framed = lines[at - 1].strip().startswith("|")
        rows = [(at, _cells(lines[at - 1], is_framed))]
        for number, row in enumerate(lines[at + 1 :], at + 2):
            if "|" not in row:
                break
            rows.append((number, _cells(row, is_framed)))
        yield _table(rows)


def _is_rule(line: str) -> bool:
    return "|" in line and bool(re.fullmatch(r"[\s|:\-]*-{2,}[\s|:\-]*", line))


def _cells(line: str, is_framed: bool) -> list[str]:
    """The cells of a line. In a table without a frame, a bar in front has an empty cell before it."""
    inner = line.strip().removeprefix("|").removesuffix("|") if is_framed else line
    return [re.sub(r"[*_`]", "", cell).strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _table(numbered: Sequence[tuple[int, Sequence[str]]]) -> _TextTable:
    """Heads are the first row, and the second where that has words too and no numbers of a figure."""
    heads = 2 if len(numbered) > 1 and _is_head(numbered[1][1]) else 1
    return [row for _, row in numbered[:heads]], numbered[heads:]


def _is_head(row: Sequence[str]) -> bool:
    """`batch, 1 GPU, 2 GPUs`, or `, 1, 2, 4` with nothing in front."""
    is_named = any(re.search(r"[A-Za-z]{2}", cell) and not is_out_of_memory(cell) for cell in row)
    return is_named and not any(re.fullmatch(r"[\d.,\s]+[sx×%]?", cell) for cell in row)


class _Reader:
    """Collects the cells of all tables of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: defaultdict[str, dict[Spot, Decimal]] = defaultdict(dict)
        self.unmeasured: list[Mapping[str, Any]] = []
        self.assumed: dict[str, None] = {}
        self.unit: str | None = None
        self.batch = UNSTATED

    def given(self, lines: Iterable[str]) -> dict[str, str]:
        """The lines `key: value`."""
        found: dict[str, str] = {}
        for line in lines:
            key, _, value = line.lstrip("#*- ").replace("**", "").partition(":")
            name = key.strip().lower()
            if name in _KEYS and value.strip():
                if _KEYS[name] in found:
                    self._refuse(f"{name} is given twice")
                found[_KEYS[name]] = value.strip()
        return found

    def csv(self, lines: Sequence[str]) -> _TextTable:
        """The rows of a CSV file, separated by what separates its lines alike."""
        kept = {number: line for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")}
        if not kept:
            self._refuse("has no table")
        rows = csv.reader(kept.values(), delimiter=_delimiter([*kept.values()]))
        numbered = [(number, [cell.strip() for cell in row]) for number, row in zip(kept, rows, strict=True)]
        return _table([entry for entry in numbered if any(entry[1])])

    def read(self, head: Sequence[Sequence[str]], rows: Sequence[tuple[int, Sequence[str]]]) -> None:
        """The cells of one table."""
        heads = [self._head(text) for text in _joined(head)]
        batch_at, gpus_at = self._only(heads, "batch", "global batch"), self._only(heads, "gpus")
        if batch_at is None or not any(head.is_figure for head in heads):
            self._refuse(f"the head {' | '.join(head.text for head in heads)} names no batch, or no figure")
        if gpus_at is None and not any(head.gpus for head in heads):
            self._refuse("no column says the number of GPUs, and no head does (such as `2 GPUs`)")
        if heads[batch_at].quantity == "global batch":
            self.batch = GLOBAL
        self._check(heads)
        figures = [at for at, head in enumerate(heads) if head.is_figure]
        style = style_of(row[at] for _, row in rows for at in figures if at < len(row))
        batch: int | None = None
        for number, row in rows:
            if any(row[len(heads) :]):
                self._refuse(f"row {number} has {len(row)} cells, the head has {len(heads)}")
            cells = [*row, *[""] * (len(heads) - len(row))]
            if not any(cells):
                continue
            batch = self._count(cells[batch_at], number, heads[batch_at]) if cells[batch_at] else batch
            if batch is None:
                self._refuse(f"row {number}: the batch is missing")
            gpus = self._count(cells[gpus_at], number, heads[gpus_at]) if gpus_at is not None else None
            for at in figures:
                self._figure(heads[at], cells[at], number, Spot(batch, heads[at].gpus or gpus or 1), style)

    def study(self, given: Mapping[str, str], sha256: str) -> Published:
        """All that was read as a study."""
        epoch_s = self.tables.pop("epoch_s", {})
        if not epoch_s:
            self._refuse("no column holds epoch times")
        batches = {place.batch_per_gpu for place in epoch_s}
        for quantity, table in self.tables.items():
            for place in table:
                if place.batch_per_gpu not in batches:
                    self._refuse(f"{quantity} at batch {place.batch_per_gpu}, which has no times")
        values = {"title": self.path.name, "batch": self.batch, **self._values(given)}
        return Published(
            id=re.sub(r"[^a-z0-9_-]+", "-", self.path.stem.lower()).strip("-_") or "table",
            sha256=sha256,
            epoch_s=dict(sorted(epoch_s.items())),
            quantities={name: dict(sorted(self.tables[name].items())) for name in QUANTITIES if name in self.tables},
            bandwidth_unit=self.unit,
            unmeasured=self.unmeasured,
            assumed=[*self.assumed],
            **values,
        )

    def _values(self, given: Mapping[str, str]) -> dict[str, Any]:
        """What the lines above the table say, and what is assumed in their place."""
        values: dict[str, Any] = dict(given)
        for name in _WHOLE:
            if name in given:
                values[name] = int(self._plain(name, given[name]))
        if "flop_per_image" in given:
            values["flop_per_image"] = self._plain("flop_per_image", given["flop_per_image"])
        if "dataset_images" not in given:
            values["dataset_images"] = ASSUMED_IMAGES
            self._assume(f"{ASSUMED_IMAGES:,} training images per epoch (CIFAR-10)")
        if "parameters_trained" not in given:
            network = networks()[0]
            values["parameters_trained"] = network.parameters
            self._assume(f"{network.parameters:,} parameters ({network.name})")
        gpu, precision = given.get("gpu"), given.get("precision")
        if gpu and not chip_named(gpu):
            self._refuse(f"gpu: {gpu} is not in the table of GPUs")
        if precision and precision not in PRECISIONS:
            self._refuse(f"precision: {precision} is none of {', '.join(PRECISIONS)}")
        if gpu and not precision:
            self._assume("float32 arithmetic")
        if batch := given.get("batch"):
            if batch.lower() not in _BATCHES:
                self._refuse(f"batch: {batch} is neither `per GPU` nor `global`")
            values["batch"] = _BATCHES[batch.lower()]
        return values

    def _plain(self, name: str, text: str) -> float:
        try:
            return float(re.sub(r"[\s,_]", "", text))
        except ValueError:
            self._refuse(f"{name}: {text} is not a number")

    def _head(self, text: str) -> Head:
        """What a head means: its unit stands in brackets, after `in`, or at its end."""
        plain = " ".join(text.lower().split())
        gpus = re.search(r"(?<![\w.])(\d+)\s*(?:x\s*)?gpus?\b|\bn\s*=\s*(\d+)|gpus?\s*=\s*(\d+)", plain)
        words = (plain.replace(gpus.group(), " ") if gpus else plain).replace("_", " ").strip()
        quantity = next((name for pattern, name in _WORDS["heads"].items() if re.search(pattern, words)), "ignored")
        if gpus and not words.strip(" ,;:()[]"):
            quantity = "epoch_s"
        if quantity == "epoch_s" and re.search(r"\bsteps?\b|iteration|\biter\b", plain):
            self._refuse(f"column {text}: times of a step are not read; write times of an epoch")
        if re.search(r"per gpu|per device", plain) and quantity == "batch":
            self.batch, gpus = PER_GPU, None
        number = int(next(filter(None, gpus.groups()))) if gpus else None
        return Head(text, quantity, _unit(plain), number)

    def _only(self, heads: Sequence[Head], *names: str) -> int | None:
        at = [number for number, head in enumerate(heads) if head.quantity in names]
        if len(at) > 1:
            self._refuse(f"columns {heads[at[0]].text} and {heads[at[1]].text} mean the same")
        return at[0] if at else None

    def _check(self, heads: Sequence[Head]) -> None:
        """Refuse columns that mean the same, and note those that are not used."""
        seen = set()
        for head in heads:
            if head.quantity == "ignored" and head.text:
                self._assume(f"the column {head.text} is not used")
            if head.is_figure and (head.quantity, head.gpus) in seen:
                self._refuse(f"column {head.text}: another column is {head.quantity} too")
            seen.add((head.quantity, head.gpus))

    def _unit_of(self, head: Head, cell: str, where: str) -> str:
        """The unit of a number: that of its head, or of its own. Where none says it, the usual one is assumed."""
        own = unit_behind(cell)
        if head.unit and own and head.unit != own:
            self._refuse(f"{where}: {cell} is not in the unit of its column, {head.unit}")
        unit = head.unit or own
        is_time, is_bandwidth = head.quantity in _TIMES, head.quantity == "bandwidth"
        if unit and is_bandwidth and unit not in _BANDWIDTHS:
            self._refuse(f"{where}: the unit {unit} is none of {', '.join(UNITS)}")
        if unit and is_time and unit not in _SECONDS:
            self._refuse(f"{where}: the unit {unit} is none of s, ms, min, h")
        if not unit and (is_time or is_bandwidth):
            self._assume(f"{head.text} is in {'seconds' if is_time else 'GB/s'}")
        if is_bandwidth:
            name = _BANDWIDTHS.get(unit, "GB/s")
            if self.unit not in (None, name):
                self._refuse(f"{where}: is in {name}, another bandwidth in {self.unit}")
            self.unit = name
        return unit

    def _figure(self, head: Head, cell: str, row: int, place: Spot, style: Style) -> None:
        """One number, in the unit of its quantity."""
        if is_out_of_memory(cell) and head.quantity == "epoch_s":
            self.unmeasured.append({**place._asdict(), "why": OUT_OF_MEMORY})
        if is_missing(cell) or is_out_of_memory(cell):
            return
        where = f"row {row}, column {head.text}"
        try:
            number = style.number(cell)
        except ValueError as error:
            self._refuse(f"{where}: {error}")
        unit = self._unit_of(head, cell, where)
        if head.quantity in _TIMES:
            number = scaled(number, _SECONDS[unit or "s"])
        if "%" in cell and head.quantity != "utilisation_percent":
            number = number.scaleb(-2)
        if number <= 0 and not (head.quantity == "communication_s" or (head.quantity != "epoch_s" and number == 0)):
            self._refuse(f"{where}: {cell} is not above zero")
        if place in self.tables[head.quantity]:
            self._refuse(f"{where}: batch {place.batch_per_gpu} on {place.gpus} GPUs is there twice")
        self.tables[head.quantity][place] = number

    def _count(self, cell: str, row: int, head: Head) -> int:
        """A batch or a number of GPUs: whole, perhaps with groups of three digits."""
        plain = re.sub(r"(?<=\d)[\s\u2009\u202f\u00a0.,'’](?=\d{3}(?!\d))", "", cell)
        found = re.fullmatch(r"(?:gpus?\s*)?(\d+)\s*(?:x\s*)?(?:gpus?|images|img)?", plain.strip().lower())
        if not found or int(found.group(1)) == 0:
            self._refuse(f"row {row}, column {head.text}: {cell or 'an empty cell'} is not a whole number above zero")
        return int(found.group(1))

    def _assume(self, what: str) -> None:
        self.assumed[what] = None

    def _refuse(self, why: str) -> NoReturn:
        raise PublishedError(f"{self.path}: {why}")


def _joined(head: Sequence[Sequence[str]]) -> list[str]:
    """One head per column: where two rows are, the first reaches to the right as far as it is empty."""
    if len(head) == 1:
        return list(head[0])
    above, found = "", []
    for first, second in zip_longest(*head, fillvalue=""):
        above = first or above
        found.append(f"{above} {second}".strip() if second else above)
    return found


def _unit(head: str) -> str:
    """The unit of a head: in brackets, after `in` or a slash, or as its last word."""
    for inner in reversed(re.findall(r"[(\[]([^)\]]*)[)\]]", head)):
        text: str = inner.strip().removeprefix("in ")
        if re.fullmatch(r"[a-zµ]+(?:/s|ps|bit/s)?|%", text) and not re.fullmatch(r"n|b|gpus?|per gpu|\d+", text):
            return text
    known = "|".join(sorted([*_SECONDS, *_BANDWIDTHS], key=len, reverse=True))
    after = re.search(rf"(?:\bin\s+|/\s*|,\s*|_)({known})\b\s*$", re.sub(r"[(\[].*?[)\]]", "", head).strip())
    found = after or re.search(rf"\b({'|'.join(_BANDWIDTHS)})\b", head)
    return str(found.group(1)) if found else ""
