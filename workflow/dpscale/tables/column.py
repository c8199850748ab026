"""Columns: what a field of a row class says of itself, the units of what it holds, and the columns that several
tables have."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpscale.strategies.known import STRATEGIES
from dpscale.vocabulary.states import STATES


@dataclass(frozen=True)
class Unit:
    """The unit of a table's cell, and the one that people read: so many of the second make one of the first."""

    stored: str
    shown: str
    scale: float = 1.0
    decimals: int | None = None
    """Of figures without ends, where all have as many; otherwise each has those that make sense."""
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
TFLOP_PER_S = Unit("FLOP/s", "TFLOP/s", 1e-12)
UTC = Unit("UTC", "UTC")

# By the type of the field: a `Figure` has its interval beside it; a `number` has none.
Kind = Literal["figure", "number", "count", "text", "flag"]


@dataclass(frozen=True)
class Column:
    """A field of a row class. Labels name devices as `{device}` or `{devices}`: a study has GPUs or workers.

    `digits` are the significant ones that are shown where there is no interval to tell how many make sense. `is_shown`
    is whether the page's table of the class has it. `words` are those that a text can be, where others mean nothing.
    `name` and `kind` are those of the field, which `is_needed` where it cannot be None, or empty.
    """

    label: str
    definition: str
    unit: Unit
    digits: int = 4
    is_shown: bool = False
    words: Collection[str] = ()
    name: str = ""
    kind: Kind = "text"
    is_needed: bool = False

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


# What several tables hold.
STRATEGY = column("Strategy", "How several devices train together; `single` is one device alone.", words=STRATEGIES)
GPUS = column("{Devices}", "N, the devices that train together.")
BATCH = column("Batch per {device}", "b, the images that a device takes in a step.", IMAGES)
GLOBAL_BATCH = column("Global batch", "B = N·b, the images of a step.", IMAGES)
SCOPE = column(
    "Scope", "Whether the DataLoader is in the clock (end_to_end) or not (compute).", words=("compute", "end_to_end")
)
ENVIRONMENT = column("Environment", "Letter of the hardware, software and images that measured.")
STATUS = column("Status", "`ok`, or the reason in a word why there is no figure.", words=("ok", *STATES))
REASON = column("Reason", "What is to be said of the status, in a sentence.")
RUNS = column("Runs", "Independent processes that measured it.")
BLOCKS = column("Blocks", "Runs beside one device on the same server, that the figure is the mean of.")
OTHER_RUNS = column(
    "Times of other runs",
    "Whether the times in `times.csv`, of one device and of these, rest on other runs than the speedup.",
)
RESTS_ON = column(
    "Rests on",
    "Figures of this row that are less than a 95 % interval over servers. `one machine`: the interval is over the runs "
    "of one. `two machines`, `two runs`: low and high are the two values, and no interval. `one run`: one value.",
)
SERVERS = column("Servers", "Different servers that measured it.")
ARM = column("Arm", "Name of a training with its settings.")
SEED = column("Seed", "Seeds weights, order and augmentation.")
RUN = column("Run", "Number of the repeat.")
EPOCH_NUMBER = column("Epoch", "Number of the epoch.")
NODES = column("Nodes", "Nodes that its devices are spread over.")
HOST = column("Host", "Where the cell ran.")
EPOCH = column("Epoch time", "Time of an epoch, T(N,b): mean over servers of their runs.", SECONDS)
STEP = column("Step time", "Time of a full step, t(N,b): mean over servers of their runs.", MILLISECONDS)
THROUGHPUT = column("Throughput", "Images of an epoch over its time, D / T.", IMAGES_PER_S)
STEPS_PER_EPOCH = column("Steps per epoch", "⌈D / (N·b)⌉.")
FULL_STEPS = column("Full steps per epoch", "⌊D / (N·b)⌋.")
IS_HEADLINE = column("In findings and verdict", "Whether an epoch has ten full steps; others are in tables alone.")
SPEEDUP = column("Speedup", "T(1,b) / T(N,b) with b fixed (weak), T(1,B) / T(N,B/N) with B fixed (strong).", MULTIPLES)
EFFICIENCY = column("Efficiency", "Speedup over the number of devices, S / N.", PERCENT)
BUS_BANDWIDTH = column("Bus bandwidth", "Bytes of the message over its time, times the factor of nccl-tests.", GB_PER_S)
TEST_ACCURACY = column("Test accuracy", "Share of right answers over all test images.", PERCENT)
GPU_SECONDS = column("{device}-seconds", "Time, times the devices that were held.")
VARIANT = column("Variant", "The study's name for the settings; `base` are its own.")
PARAMETERS = column("Parameters", "K, trainable ones.")
MFU = column("MFU", "FLOP of an image times images/s, over N times the GPU's peak.", PERCENT)
# The estimates of a step's communication, in the order in which people read them.
ESTIMATES_OF_STEP = (
    "communication_step_s", "ablation_step_s", "profiler_exposed_step_s", "profiler_step_s",
    "profiler_least_step_s", "isolated_step_s",
)  # fmt: skip
# The software whose versions tell environments apart.
SOFTWARE = ("driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python")
