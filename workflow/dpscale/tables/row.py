"""Rows: the base of all row classes. A field is a column; reading, writing and describing it follow from its type."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, dataclass_transform

from dpscale.errors import DpscaleError
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.tables.column import Column, Kind
from dpscale.tables.quantities import ARM, BATCH, ENVIRONMENT, GLOBAL_BATCH, GPUS, SCOPE, STRATEGY

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)

_KINDS: Mapping[Any, Kind] = {
    Figure: "figure", float: "number", int: "count", int | None: "count", str: "text", bool | None: "flag",
}  # fmt: skip
_NOT_KNOWN: Mapping[Kind, Any] = {"figure": UNKNOWN, "number": nan, "count": None, "text": "", "flag": None}
_RESTS_ON = "rests_on"


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Row:
    """A row of a table. What a row does not say is not known."""

    def __init_subclass__(cls) -> None:
        for name, of in cls.__annotations__.items():
            kind = _KINDS[of]
            described = cls.__dict__[name].but(name=name, kind=kind)
            setattr(cls, name, field(default=_NOT_KNOWN[kind], metadata={"column": described}))
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    @classmethod
    @cache
    def columns(cls) -> Mapping[str, Column]:
        """Its columns by name, in the order of the file."""
        return {item.name: item.metadata["column"] for item in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def column(cls, name: str) -> Column:
        """Raises DpscaleError where there is none of this name."""
        if name not in cls.columns():
            raise DpscaleError(f"no column of {cls.__name__} is called {name}")
        return cls.columns()[name]

    @classmethod
    @cache
    def file_columns(cls) -> tuple[str, ...]:
        """The columns of its file: a figure has three."""
        return tuple(name for described in cls.columns().values() for name in described.names)

    @classmethod
    def read(cls, entries: Mapping[str, Any]) -> Self:
        """The row with these entries of a file: text, or numbers already. A missing entry is empty, None or NaN."""
        kinds = _kinds_by_name(entries.get(_RESTS_ON))
        found = {name: _read(described, entries, kinds) for name, described in cls.columns().items()}
        return cls(**{name: value for name, value in found.items() if value is not None})

    def flat(self) -> dict[str, Any]:
        """Its entries in a file, by column: None where there is nothing."""
        found: dict[str, Any] = {}
        for name, described in self.columns().items():
            value = getattr(self, name)
            if name == _RESTS_ON:
                value = self._rests_on()
            ends = (value.value, value.low, value.high) if described.kind == "figure" else (value,)
            found |= dict(zip(described.names, map(_written, ends), strict=True))
        return found

    def _rests_on(self) -> str:
        """The names of the figures that are less than an interval over servers, by their kind."""
        names_by_kind: dict[str, list[str]] = {}
        for name, described in self.columns().items():
            if described.kind == "figure" and getattr(self, name).kind not in ("interval", "none"):
                names_by_kind.setdefault(getattr(self, name).kind, []).append(name)
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in names_by_kind.items())


def _kinds_by_name(rests_on: Any) -> dict[str, Any]:
    """The kinds of figures that the column says: `one machine: speedup, efficiency; two runs: epoch_s`."""
    groups = [] if _is_nothing(rests_on) else str(rests_on).split("; ")
    kinds: dict[str, Any] = {}
    for group in groups:
        kind, names = group.split(": ")
        kinds |= dict.fromkeys(names.split(", "), kind)
    return kinds


def _written(value: Any) -> Any:
    return None if value == "" or (isinstance(value, float) and value != value) else value


def _read(described: Column, entries: Mapping[str, Any], kinds: Mapping[str, Any]) -> Any:
    """The value of a column; None where there is nothing."""
    if described.kind == "figure":
        value, low, high = (_number(entries.get(name)) for name in described.names)
        if value is None:
            return None
        ends = (nan if low is None else low, nan if high is None else high)
        has_both = all(map(isfinite, ends))
        return Figure(value, *ends, kinds.get(described.name, "interval" if has_both else "none"))
    entry = entries.get(described.name)
    if described.kind == "text":
        return None if _is_nothing(entry) else str(entry)
    if described.kind == "flag":
        return None if _is_nothing(entry) else str(entry).lower() == "true"
    number = _number(entry)
    return number if number is None or described.kind == "number" else int(number)


def _is_nothing(entry: Any) -> bool:
    return entry is None or entry == "" or entry != entry


def _number(entry: Any) -> float | None:
    return None if _is_nothing(entry) else float(entry)


class PointFields(TypedDict):
    """What says where a row is, but for its scope."""

    strategy: str
    gpus: int
    batch_per_gpu: int
    global_batch: int
    environment: str


class PlaceFields(PointFields):
    """What says where a row is."""

    scope: str


class OfConfiguration(Row):
    """A configuration in an environment."""

    if TYPE_CHECKING:  # the last column of all that are of a configuration
        environment: str
    strategy: str = STRATEGY
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH

    @property
    def point(self) -> PointFields:
        return {
            "strategy": self.strategy,
            "gpus": self.gpus,
            "batch_per_gpu": self.batch_per_gpu,
            "global_batch": self.global_batch,
            "environment": self.environment,
        }


class Place(OfConfiguration):
    """Where in a study: a configuration, in a scope and an environment."""

    scope: str = SCOPE
    environment: str = ENVIRONMENT


class EnvironmentPoint(OfConfiguration):
    """The same, of what has no scope."""

    environment: str = ENVIRONMENT


class _OfArm(Row):
    arm: str = ARM


class ArmPoint(EnvironmentPoint, _OfArm):
    """An arm of the training, and the configuration that it trains on."""


def grouped(rows: Iterable[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    """The rows by what they have in common, in the order of the first of each."""
    found: dict[K, list[R]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def in_groups(rows: Iterable[R], key: Callable[[R], Any]) -> list[list[R]]:
    """The rows sorted by what they have in common, a list for each."""
    return list(grouped(sorted(rows, key=key), key).values())
