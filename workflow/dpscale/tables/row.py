"""Rows: the base of all row classes, and their CSV files. A field is a column; reading, writing and describing it
follow from its type."""

import csv
import io
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, cast, dataclass_transform

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.figure import Kind as FigureKind
from dpscale.tables.column import ARM, BATCH, ENVIRONMENT, GLOBAL_BATCH, GPUS, SCOPE, STRATEGY, Column, Kind

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")
RowKind = TypeVar("RowKind", bound="Row")
K = TypeVar("K", bound=Hashable)

_KINDS: Mapping[Any, Kind] = {
    Figure: "figure", float: "number", int: "count", int | None: "count", str: "text", bool | None: "flag",
}  # fmt: skip
_NOT_KNOWN: Mapping[Kind, Any] = {"figure": UNKNOWN, "number": nan, "count": None, "text": "", "flag": None}
Entry = str | int | float | bool | None  # of a file; None is an empty one
_RESTS_ON = "rests_on"
# Characters that HTML and XML do not allow, or that turn the direction of text and its meaning with it.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Row:
    """A row of a table. What a row does not say is not known."""

    def __init_subclass__(cls) -> None:
        for name, annotation in cls.__annotations__.items():
            kind = _KINDS[annotation]
            column = cls.__dict__[name].but(name=name, kind=kind)
            setattr(cls, name, field(default=_NOT_KNOWN[kind], metadata={"column": column}))
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    @classmethod
    @cache
    def columns(cls) -> Mapping[str, Column]:
        """Return its columns by name, in the order of the file."""
        return {item.name: item.metadata["column"] for item in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def column(cls, name: str) -> Column:
        """Return the column of this name."""
        return cls.columns()[name]

    @classmethod
    @cache
    def file_columns(cls) -> tuple[str, ...]:
        """Return the columns of its file: a figure has three."""
        return tuple(name for column in cls.columns().values() for name in column.names)

    @classmethod
    def read(cls, entries: Mapping[str, object]) -> Self:
        """Return the row with these entries of a file, text or numbers. A missing entry is empty, None or NaN."""
        kinds = _kinds_by_name(entries.get(_RESTS_ON))
        values = {name: _read(column, entries, kinds) for name, column in cls.columns().items()}
        return cls(**{name: value for name, value in values.items() if value is not None})

    def flat(self) -> dict[str, Entry]:
        """Return its entries in a file, by column: None where there is nothing."""
        entries: dict[str, Entry] = {}
        for name, column in self.columns().items():
            value: Any = self._rests_on() if name == _RESTS_ON else getattr(self, name)
            numbers = (value.value, value.low, value.high) if column.kind == "figure" else (value,)
            entries |= dict(zip(column.names, map(_written, numbers), strict=True))
        return entries

    def _rests_on(self) -> str:
        """Return the names of the figures that are less than an interval over servers, by their kind."""
        names_by_kind: dict[str, list[str]] = {}
        for name, column in self.columns().items():
            if column.kind == "figure" and getattr(self, name).kind not in ("interval", "none"):
                names_by_kind.setdefault(getattr(self, name).kind, []).append(name)
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in names_by_kind.items())


def _kinds_by_name(rests_on: object) -> dict[str, FigureKind]:
    """Return the kinds of figures that the column says: `one machine: speedup, efficiency; two runs: epoch_s`."""
    groups = [] if _is_nothing(rests_on) else str(rests_on).split("; ")
    kinds: dict[str, FigureKind] = {}
    for group in groups:
        kind, names = group.split(": ")
        kinds |= dict.fromkeys(names.split(", "), cast(FigureKind, kind))
    return kinds


def _written(value: Any) -> Any:
    return None if value == "" or (isinstance(value, float) and value != value) else value


def _read(column: Column, entries: Mapping[str, object], kinds: Mapping[str, FigureKind]) -> Any:
    """Return the value of a column; None where there is nothing."""
    if column.kind == "figure":
        value, low, high = (_number(entries.get(name)) for name in column.names)
        if value is None:
            return None
        ends = (nan if low is None else low, nan if high is None else high)
        has_both = all(map(isfinite, ends))
        return Figure(value, *ends, kinds.get(column.name, "interval" if has_both else "none"))
    entry = entries.get(column.name)
    if column.kind == "text":
        return None if _is_nothing(entry) else str(entry)
    if column.kind == "flag":
        return None if _is_nothing(entry) else str(entry).lower() == "true"
    number = _number(entry)
    return number if number is None or column.kind == "number" else int(number)


def _is_nothing(entry: Any) -> bool:
    return entry is None or entry == "" or entry != entry


def _number(entry: Any) -> float | None:
    return None if _is_nothing(entry) else float(entry)


def frame(kind: type[Row], rows: Iterable[Row]) -> "pd.DataFrame":
    """Return rows as a table of pandas. Whole numbers stay whole beside missing ones."""
    import pandas as pd

    table = pd.DataFrame([row.flat() for row in rows], columns=list(kind.file_columns()))
    return table if table.empty else table.convert_dtypes()


def written(kind: type[Row], rows: Iterable[Row]) -> str:
    """Return the text of a table's file."""
    # Before Python 3.13 a carriage return alone is not put in quotes, and a reader takes it for the end of the row.
    return str(frame(kind, rows).replace("\r", "\n", regex=True).to_csv(index=False))


def read_rows(kind: type[RowKind], file: Path) -> list[RowKind]:
    """Return the rows of a table's file, for people to read.

    Only an empty entry is a missing one: a host may be called `null`, or `007`. Control characters are named, such as
    `[U+202E]`.
    """
    with file.open(encoding="utf-8", newline="") as lines:
        entries = csv.DictReader(lines)
        return [kind.read({name: with_names(entry) for name, entry in row.items()}) for row in entries]


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return the text of a CSV file that is no table of row classes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def with_names(text: str) -> str:
    """Return `text` with a name for every control character, which could not be seen or would turn what follows."""
    return _CONTROLS.sub(lambda character: f"[U+{ord(character[0]):04X}]", text)


class PointFields(TypedDict):
    """Where a row is, but for its scope, to make another row of."""

    strategy: str
    gpus: int
    batch_per_gpu: int
    global_batch: int
    environment: str


class PlaceFields(PointFields):
    """Where a row is, to make another row of."""

    scope: str


class OfConfiguration(Row):
    """A configuration in an environment."""

    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    environment: str = ENVIRONMENT

    @property
    def point(self) -> PointFields:
        """The fields that say where a row is, but for its scope."""
        return {
            "strategy": self.strategy,
            "gpus": self.gpus,
            "batch_per_gpu": self.batch_per_gpu,
            "global_batch": self.global_batch,
            "environment": self.environment,
        }


class Place(OfConfiguration):
    """A place in a study: a configuration, in a scope and an environment."""

    scope: str = SCOPE


class _OfArm(Row):
    arm: str = ARM


class ArmPoint(OfConfiguration, _OfArm):
    """An arm of the training, and the configuration that it trains on."""


def grouped(rows: Iterable[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    """Return the rows by key, in the order of the first row of each."""
    groups: dict[K, list[R]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def in_groups(rows: Iterable[R], key: Callable[[R], Any]) -> list[list[R]]:
    """Return the rows sorted by key, a list for each."""
    return list(grouped(sorted(rows, key=key), key).values())
