"""Rows: the base of all row classes, and their CSV files. A field is a column; reading, writing and describing it
follow from its type."""

import csv
import io
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from math import inf, isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, cast, dataclass_transform, get_args

from dpscale.errors import TableError
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.figure import Kind as FigureKind
from dpscale.regular_files import read_bytes
from dpscale.tables.column import ARM, BATCH, ENVIRONMENT, GLOBAL_BATCH, GPUS, SCOPE, STRATEGY, Column, Kind
from dpscale.terminal import with_names

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
# What a spreadsheet would run; a number is none. It is written behind an apostrophe, so that none does.
_FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-](?!\d+(?:\.\d+)?$))")
# What to do with a table's file that cannot be read back.
AGAIN = "Make it again with: dpscale tables"
# Beyond it no whole number of a file is exact, and beyond the other no quantity is.
MOST_COUNT, LARGEST_NUMBER = 2**53, 1e30


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Row:
    """A row of a table. What a row does not say is not known."""

    def __init_subclass__(cls) -> None:
        for name, annotation in cls.__annotations__.items():
            kind = _KINDS[annotation]
            column = cls.__dict__[name]
            column = column.but(name=name, kind=kind, is_needed=column.is_needed or annotation is int)
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
        """Return the row with these entries of a file, text or numbers. A missing entry is empty, None or NaN. Raises
        TableError with the column where one means nothing."""
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
        kind, _, names = group.partition(": ")
        if kind not in get_args(FigureKind):
            raise TableError(f"{_RESTS_ON} is {_told(str(rests_on))}")
        kinds |= dict.fromkeys(names.split(", "), cast(FigureKind, kind))
    return kinds


def _written(value: Any) -> Any:
    return None if value == "" or (isinstance(value, float) and value != value) else value


def _read(column: Column, entries: Mapping[str, object], kinds: Mapping[str, FigureKind]) -> Any:
    """Return the value of a column; None where there is nothing."""
    value, *ends = (_value(column, name, entries.get(name)) for name in column.names)
    if value is None or column.kind != "figure":
        return value
    low, high = (nan if end is None else end for end in ends)
    has_both = isfinite(low) and isfinite(high)
    return Figure(value, low, high, kinds.get(column.name, "interval" if has_both else "none"))


def _value(column: Column, name: str, entry: Any) -> Any:
    """Return what an entry of a column stands for; None where it is empty."""
    if _is_nothing(entry):
        return None
    text = str(entry)
    if column.kind == "text" and (not column.words or text in column.words):
        return text
    if column.kind == "flag" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    with suppress(ValueError):
        number = float(text)
        if column.kind == "count" and 0 <= number <= MOST_COUNT and number.is_integer():
            return int(number)
        # The end of an interval may be infinite.
        if column.kind in ("figure", "number") and (abs(number) <= LARGEST_NUMBER or abs(number) == inf):
            return number
    raise TableError(f"{name} is {_told(text)}")


def _told(entry: str) -> str:
    """Return the beginning of an entry that means nothing, in one line."""
    return with_names(" ".join(entry[:40].split()))


def _is_nothing(entry: Any) -> bool:
    return entry is None or entry == "" or entry != entry


def frame(kind: type[Row], rows: Iterable[Row]) -> "pd.DataFrame":
    """Return rows as a table of pandas. Whole numbers stay whole beside missing ones."""
    import pandas as pd

    table = pd.DataFrame([row.flat() for row in rows], columns=list(kind.file_columns()))
    return table if table.empty else table.convert_dtypes()


def written(kind: type[Row], rows: Iterable[Row]) -> str:
    """Return the text of a table's file."""
    names = kind.file_columns()
    entries = [row.flat() for row in rows]
    columns = [_in_file([of_row[name] for of_row in entries]) for name in names]
    return csv_text([names, *zip(*columns, strict=True)])


def _in_file(column: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a column as its file has them. Numbers have no point where all of them are whole."""
    are_whole = all(entry.is_integer() for entry in column if isinstance(entry, float))
    entries: list[Entry] = []
    for entry in column:
        if isinstance(entry, float) and are_whole:
            entries.append(int(entry))
        else:
            entries.append(entry.replace("\r", "\n") if isinstance(entry, str) else entry)
    return entries


def read_rows(kind: type[RowKind], file: Path) -> list[RowKind]:
    """Return the rows of a table's file, for people to read. Raises OSError where it cannot be read, and TableError
    where it is not as `written` made it.

    Only an empty entry is a missing one: a host may be called `null`, or `007`. Control characters are named, such as
    `[U+202E]`.
    """
    rows: list[RowKind] = []
    columns = kind.file_columns()
    try:
        text = read_bytes(file).decode()
        if not (text.startswith(f"{','.join(columns)}\n") and text.endswith("\n")):
            raise TableError(f"{file}: is cut off, or its columns are not those of this version. {AGAIN}")
        lines = csv.reader(io.StringIO(text, newline=""))
        next(lines)
    except UnicodeDecodeError as error:
        raise TableError(f"{file}: is not text in UTF-8. {AGAIN}") from error
    try:
        for entries in lines:
            rows.append(_row_of_file(kind, columns, [with_names(_as_it_was(entry)) for entry in entries]))
    except (csv.Error, TableError) as error:
        raise TableError(f"{file}, row {len(rows) + 2}: {error}. {AGAIN}") from error
    return rows


def _row_of_file(kind: type[RowKind], columns: Sequence[str], entries: Sequence[str]) -> RowKind:
    if len(entries) != len(columns):
        raise TableError(f"it has {len(entries)} entries, the head has {len(columns)}")
    row = kind.read(dict(zip(columns, entries, strict=True)))
    for name, column in kind.columns().items():
        if column.is_needed and getattr(row, name) in (None, ""):
            raise TableError(f"{name} is empty")
    return row


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return the text of a CSV file that is no table of row classes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_harmless, row) for row in rows)
    return text.getvalue()


def _harmless(entry: Any) -> Any:
    """Return an entry of a file that moves no cursor and that no spreadsheet runs."""
    if not isinstance(entry, str):
        return entry
    text = with_names(entry)
    return f"'{text}" if _FORMULA.match(text) else text


def _as_it_was(entry: str) -> str:
    return entry[1:] if entry.startswith("'") and _FORMULA.match(entry) else entry


class PointFields(TypedDict):
    """The place of a row, but for its scope, to make another row of."""

    strategy: str
    gpus: int
    batch_per_gpu: int
    global_batch: int
    environment: str


class PlaceFields(PointFields):
    """The place of a row, to make another row of."""

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
