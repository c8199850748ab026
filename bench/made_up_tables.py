"""Tables made up with known truths: honest ones, ones with a fault, and ones with a column that no definition gives.

Nothing here knows what the audit tries: columns are formulas of their own, some of which it cannot have.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from dpscale.records.facts import AuditRecord

IMAGES, PARAMETERS = 50_000, 11_173_962
BATCHES = (32, 128, 512, 2048)
Place = tuple[int, int]
Times = Mapping[Place, float]
Formula = Callable[[Times, int, int], float]


def _steps(b: int, n: int) -> int:
    return -(-IMAGES // (b * n))


def _communication(t: Times, b: int, n: int) -> float:
    return t[b, n] - t[b, 1] / n


def _bandwidth(t: Times, b: int, n: int) -> float:
    return 2 * (n - 1) / n * 4 * PARAMETERS * _steps(b, n) / _communication(t, b, n) / 1e9


HONEST: Mapping[str, Formula] = {
    "Speedup": lambda t, b, n: t[b, 1] / t[b, n],
    "Efficiency (%)": lambda t, b, n: 100 * t[b, 1] / t[b, n] / n,
    "Compute (s)": lambda t, b, n: t[b, 1] / n,
    "Communication (s)": _communication,
    "Bandwidth (GB/s)": _bandwidth,
    "Throughput (images/s)": lambda t, b, n: IMAGES / t[b, n],
}
# Definitions that people use and should not.
MISTAKEN: Sequence[tuple[str, Formula]] = (
    ("Speedup", lambda t, b, n: n * t[b, 1] / t[b, n]),
    ("Speedup", lambda t, b, n: t[b, 1] / t[b, n] / n),
    ("Speedup", lambda t, b, n: t[b, 2] / t[b, n]),
    ("Speedup", lambda t, b, n: t[b, n] / t[b, 1]),
    ("Compute (s)", lambda t, b, n: t[b, n]),
    ("Communication (s)", lambda t, b, n: t[b, 1] / n),
    ("Bandwidth (GB/s)", lambda t, b, n: _bandwidth(t, b, n) / 4),
    ("Bandwidth (GB/s)", lambda t, b, n: _bandwidth(t, b, n) * 1e9 / 2**30),
    ("Bandwidth (GB/s)", lambda t, b, n: 1e3 * _bandwidth(t, b, n)),
    ("Bandwidth (GB/s)", lambda t, b, n: _bandwidth(t, b, n) / _steps(b, n)),
    ("Throughput (images/s)", lambda t, b, n: n * IMAGES / t[b, n]),
)
# What no definition gives, and nobody can have measured: ratios, and what is a share of the definition in all cells.
OUTSIDE: Sequence[tuple[str, Formula]] = (
    ("Speedup", lambda t, b, n: (t[b, 1] / t[b, n]) ** 1.3),
    ("Speedup", lambda t, b, n: 1 / (0.13 + 0.87 / n)),
    ("Efficiency (%)", lambda t, b, n: 100 * math.sqrt(t[b, 1] / t[b, n] / n)),
    ("Efficiency (%)", lambda t, b, n: 130 * t[b, 1] / t[b, n] / n),
    ("Communication (s)", lambda t, b, n: t[b, n] - 1.1 * t[b, 1]),
    ("Bandwidth (GB/s)", lambda t, b, n: 5.3 * _bandwidth(t, b, n)),
    ("Throughput (images/s)", lambda t, b, n: 44_000 / t[b, n]),
)
# What may have been measured, with another clock or tool: nobody is accused of that.
MEASURED: Sequence[tuple[str, Formula]] = (
    ("Compute (s)", lambda t, b, n: 0.83 * t[b, 1] / n + 0.4),
    ("Compute (s)", lambda t, b, n: t[b, 1] / (n + 1)),
    ("Communication (s)", lambda t, b, n: 0.31 * t[b, n]),
    ("Bandwidth (GB/s)", lambda t, b, n: 11.8 + math.log(b) / n),
    ("Bandwidth (GB/s)", lambda t, b, n: 12.3 * math.sqrt(abs(_bandwidth(t, b, n)))),
    ("Throughput (images/s)", lambda t, b, n: b * n / 0.0173 / math.log(b)),
)
# What people call these columns.
HEADS: Mapping[str, Sequence[str]] = {
    "Epoch time (s)": ("Epoch time (s)", "Time (sec)", "T [s]", "Runtime in s"),
    "Epoch time (min)": ("Epoch time (min)", "Time per epoch [min]"),
    "Step time (ms)": ("Step time (ms)", "ms/step", "Time per iteration [ms]"),
    "Speedup": ("Speedup", "Speed-up (x)", "Speedup vs 1 GPU", "Scaling factor"),
    "Efficiency (%)": ("Efficiency (%)", "Scaling efficiency [%]", "Parallel eff. (%)"),
    "Compute (s)": ("Compute (s)", "Computation time [s]", "Compute(sec)"),
    "Communication (s)": ("Communication (s)", "Comm. time (s)", "Comm(sec)"),
    "Bandwidth (GB/s)": ("Bandwidth (GB/s)", "BW [GB/s]"),
    "Throughput (images/s)": ("Throughput (images/s)", "img/s", "Images per second"),
}
HONEST_KINDS = (
    "rounded",
    "cut",
    "minutes",
    "half precision, unsaid",
    "noise",
    "milliseconds of a step",
    "means",
    "measured",
)
FAULTS = ("typo in a figure", "typo in a time", "copied cell", "columns exchanged")


@dataclass(frozen=True)
class MadeUpTable:
    """A table's file, what is wrong in it, and what an audit has to name: columns by their heads, with the cell, or
    without one where all of them are."""

    kind: str
    text: str
    wrong: Sequence[tuple[str, Place | None]] = field(default=())


def made_up(random: Random, kind: str) -> MadeUpTable:
    """A table of three batches and 1, 2 and 4 GPUs, and as many columns as it happens to have."""
    times = _times(random, kind)
    heads = [head for head in HONEST if head == "Speedup" or random.random() < 0.7]
    formulas = {head: HONEST[head] for head in heads}
    wrong: list[tuple[str, Place | None]] = []
    if of_kind := {"mistaken": MISTAKEN, "outside": OUTSIDE, "measured": MEASURED}.get(kind):
        head, formula = random.choice(of_kind)
        formulas[head], wrong = formula, [(head, None)] * (kind != "measured")
    columns = {head: _column(random, kind, times, formula) for head, formula in formulas.items()}
    shown = {place: _shown_time(kind, place, time) for place, time in times.items()}
    if kind in FAULTS:
        wrong = [_with_fault(random, kind, columns, shown)]
    return MadeUpTable(kind, _text(kind, columns, shown), wrong)


def _times(random: Random, kind: str) -> dict[Place, float]:
    found = {}
    for batch in sorted(random.sample(BATCHES, 3)):
        one = random.uniform(20, 300) / (5 if kind.startswith("half") else 1)
        for gpus in (1, 2, 4):
            noise = random.uniform(0.8, 1.2) if kind == "noise" else 1
            found[batch, gpus] = one * noise * (1 if gpus == 1 else 1 / gpus + random.uniform(0.05, 0.7))
    return found if kind == "minutes" else {place: round(time, 2) for place, time in found.items()}


def _column(random: Random, kind: str, times: Times, formula: Formula) -> dict[Place, str]:
    """From the times before they were rounded; cut, or of three runs each."""
    values = {place: formula(times, *place) for place in times if place[1] > 1}
    if kind in HONEST_KINDS:  # nobody prints a bandwidth of less than nothing, or one that no link has
        is_bandwidth = formula is HONEST["Bandwidth (GB/s)"]
        values = {place: value for place, value in values.items() if not is_bandwidth or 0 < value < 12}
    if kind == "means":
        values = {place: value * random.uniform(0.992, 1.008) for place, value in values.items()}
    decimals = max(
        0, random.choice((2, 3)) - math.floor(math.log10(min(map(abs, values.values()), default=1) or 1)) - 1
    )
    scale = 10**decimals
    if kind == "cut":
        values = {place: math.trunc(value * scale) / scale for place, value in values.items()}
    return {place: f"{value:.{decimals}f}" for place, value in values.items()}


def _shown_time(kind: str, place: Place, time: float) -> str:
    if kind == "minutes":
        return f"{time / 60:.2f}"
    return f"{time / (IMAGES / (place[0] * place[1])) * 1000:.4g}" if kind.startswith("milli") else f"{time:.2f}"


def _text(kind: str, columns: Mapping[str, Mapping[Place, str]], times: Mapping[Place, str]) -> str:
    """The table as a file, in a layout and with heads that people use: which ones, its figures decide."""
    head = {"minutes": "Epoch time (min)", "milliseconds of a step": "Step time (ms)"}.get(kind, "Epoch time (s)")
    random = Random(f"{kind} {times}")
    named = {random.choice(HEADS[name]): table for name, table in {head: times, **columns}.items()}
    rows = random.choice((_by_place, _by_gpus, _by_batch, _on_its_side))(named, [*times])
    lines = ["# images: 50000", "# network: ResNet-18 for 32x32 images", *["# gpu: T4"] * kind.startswith("half")]
    return "".join(f"{line}\n" for line in (*lines, *(",".join(row) for row in rows)))


Named = Mapping[str, Mapping[Place, str]]


def _by_place(named: Named, places: Sequence[Place]) -> list[list[str]]:
    """A row per batch and number of GPUs."""
    rows = [[*map(str, place), *(table.get(place, "") for table in named.values())] for place in places]
    return [["Batch", "GPUs", *named], *rows]


def _on_its_side(named: Named, places: Sequence[Place]) -> list[list[str]]:
    """A column per batch and number of GPUs."""
    return [[*row] for row in zip(*_by_place(named, places), strict=True)]


def _by_gpus(named: Named, places: Sequence[Place]) -> list[list[str]]:
    """The form of the assignment: a row per number of GPUs, and columns in groups by batch."""
    batches, gpus = ([*dict.fromkeys(place[at] for place in places)] for at in (0, 1))
    groups = [cell for b in batches for cell in (f"Batch-size {b} per GPU", *[""] * (len(named) - 1))]
    rows = [[f"{n}-GPU", *(table.get((b, n), "") for b in batches for table in named.values())] for n in gpus]
    return [["", *groups], ["", *(name for _ in batches for name in named)], *rows]


def _by_batch(named: Named, places: Sequence[Place]) -> list[list[str]]:
    """A row per batch, and columns in groups by quantity."""
    batches, gpus = ([*dict.fromkeys(place[at] for place in places)] for at in (0, 1))
    groups = [cell for name in named for cell in (name, *[""] * (len(gpus) - 1))]
    rows = [[str(b), *(table.get((b, n), "") for table in named.values() for n in gpus)] for b in batches]
    return [["Batch", *groups], ["", *(f"{n} GPU{'s' * (n > 1)}" for _ in named for n in gpus)], *rows]


def _with_fault(
    random: Random, kind: str, columns: dict[str, dict[Place, str]], times: dict[Place, str]
) -> tuple[str, Place | None]:
    if kind == "typo in a time":
        place = random.choice([*times])
        times[place] = _typo(random, times[place])
        return "Epoch time", place
    table = columns[head := random.choice([*columns])]
    place = random.choice([*table])
    if kind == "columns exchanged":
        columns[head] = {(b, n): table[b, 6 - n] for b, n in table}
        return head, None
    others = [number for other, number in table.items() if abs(float(number) / float(table[place]) - 1) > 0.03]
    table[place] = random.choice(others) if kind == "copied cell" and others else _typo(random, table[place])
    return head, place


def _typo(random: Random, number: str) -> str:
    """Another digit, by which the number is some percent off or more: and more than one of its last digit, as a number
    is that was cut in place of rounded."""
    one = 10.0 ** -len(number.partition(".")[2])
    while True:
        at = random.choice([n for n, digit in enumerate(number) if digit.isdigit()])
        changed = f"{number[:at]}{random.choice('123456789')}{number[at + 1 :]}"
        if abs(float(changed) - float(number)) > max(0.03 * abs(float(number)), 1.5 * one):
            return changed


QUANTITIES = {
    "Speedup": "speedup", "Efficiency (%)": "efficiency", "Compute (s)": "compute_s", "Epoch time": "epoch_s",
    "Communication (s)": "communication_s", "Bandwidth (GB/s)": "bandwidth", "Throughput (images/s)": "images_per_s",
}  # fmt: skip


def named(made: MadeUpTable, record: AuditRecord) -> tuple[bool, set[str]]:
    """Whether all that is wrong is named; and columns that are accused and right.

    A misprinted time is named by the figures that it does not give.
    """
    accused = {
        (warning["quantity"], (warning["batch_per_gpu"], warning["gpus"]))
        for warning in record.warnings
        if warning["severity"] != "look"
    }
    wrong = {QUANTITIES[head]: place for head, place in made.wrong}
    if "epoch_s" in wrong:
        return bool(accused), set()
    found = all(
        any(name == quantity and place in (None, at) for name, at in accused) for quantity, place in wrong.items()
    )
    return found, {str(name) for name, at in accused if name not in wrong or wrong[name] not in (None, at)}
