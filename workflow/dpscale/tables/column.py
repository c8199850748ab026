"""Columns: what a field of a row class says of itself, and the units of what it holds."""

from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Unit:
    """The unit of a table's cell, and the one that people read: so many of the second make one of the first."""

    stored: str
    shown: str
    scale: float = 1.0
    decimals: int | None = None
    """Where all figures have as many; otherwise each has those that make sense."""
    singular: str = ""
    """How one of it is written, where that is not `shown`."""

    def of(self, stored: float) -> float:
        """Return a table's number in the unit that people read."""
        return stored * self.scale


PLAIN = Unit("", "")
SECONDS = Unit("s", "s")
MILLISECONDS = Unit("s", "ms", 1e3)
MICROSECONDS = Unit("s", "µs", 1e6)
# Of speedups and what is like them.
MULTIPLES = Unit("1", "×", decimals=2)
PERCENT = Unit("1", "%", 100.0)
POINTS = Unit("1", "points", 100.0, singular="point")
KIB = Unit("bytes", "KiB", 2.0**-10)
MB = Unit("bytes", "MB", 1e-6)
GB = Unit("bytes", "GB", 1e-9)
GB_PER_S = Unit("GB/s", "GB/s")
IMAGES = Unit("images", "images")
IMAGES_PER_S = Unit("images/s", "images/s")
JOULES = Unit("J", "J")
JOULES_PER_EPOCH = Unit("J", "J per epoch")
EPOCHS = Unit("epochs", "epochs")
TFLOP_PER_S = Unit("FLOP/s", "TFLOP/s", 1e-12)
TB_PER_S = Unit("bytes/s", "TB/s", 1e-12)
UTC = Unit("UTC", "UTC")

# By the type of the field: a `Figure` has its interval beside it; a `number` has none.
Kind = Literal["figure", "number", "count", "text", "flag"]


@dataclass(frozen=True)
class Column:
    """A field of a row class. Labels name devices as `{device}` or `{devices}`: a study has GPUs or workers.

    `digits` are the significant ones that are shown where there is no interval to tell how many make sense. `is_shown`
    is whether the page's table of the class has it. `name` and `kind` are those of the field.
    """

    label: str
    definition: str
    unit: Unit
    digits: int = 4
    is_shown: bool = False
    name: str = ""
    kind: Kind = "text"

    @property
    def shown(self) -> Any:
        """The column, shown on the page."""
        return self.but(is_shown=True)

    def but(self, **changes: Any) -> Any:
        """Return the column with another label, unit or definition."""
        return replace(self, **changes)

    @property
    def heading(self) -> str:
        """The label and the unit that is shown: `Step time, ms`."""
        return ", ".join(filter(None, (self.label, self.unit.shown)))

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns in the table's file: a figure has its interval beside it."""
        return (self.name, f"{self.name}_low", f"{self.name}_high") if self.kind == "figure" else (self.name,)


def column(label: str, definition: str, unit: Unit = PLAIN, **more: Any) -> Any:
    """Return the default of a field of a row class. The field's type says what kind of column it is, and so what is
    not known: NaN of a `float`, UNKNOWN of a `Figure`, "" of a `str`, None of `int | None` and `bool | None`."""
    return Column(label, definition, unit, **more)
