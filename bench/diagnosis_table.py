"""The confusion matrix of `bench/diagnose_scripts.py`: how often each cause was named, and what was told instead.

python bench/diagnosis_table.py cpu.json gpu.json
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

Row = Mapping[str, Any]
HEAD = f"{'':24} {'on':>4} {'first':>6} {'three':>6} {'off':>4} {'wrong':>6} {'told ms':>9} {'real ms':>9} {'error':>6}"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(files: tuple[Path, ...]) -> None:
    """Print what all runs of FILES were told."""
    click.echo(shown_table([row for file in files for row in json.loads(file.read_text())["runs"]]))


def shown_table(rows: Sequence[Row]) -> str:
    """A line per cause and device, and what all of a device are together beside what is asked for."""
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        here = _beside_healthy([row for row in rows if row["device"] == device])
        causes = sorted({row["cause"] for row in here})
        results = {cause: Result([row for row in here if row["cause"] == cause]) for cause in causes}
        lines += [device + HEAD[len(device) :]]
        lines += [f"{cause:24} {result.numbers} {result.otherwise}".rstrip() for cause, result in results.items()]
        savings = [one.saving for one in results.values() if one.saving]
        lines += ["", *_together(Result(here), savings), ""]
    return "\n".join(lines)


def _beside_healthy(rows: Sequence[Row]) -> list[Row]:
    """What the script without any cause is told on this machine is told of it, and no accusation of the others."""
    of_healthy = [name for row in rows if row["cause"] == "nothing" for name in row["reasons"]]
    return [row if row["cause"] == "nothing" else {**row, "healthy": [*row["healthy"], *of_healthy]} for row in rows]


def _together(every: "Result", savings: "Sequence[Saving]") -> Iterable[str]:
    on, off = len(every.on), len(every.off)
    if on:
        yield f"named first: {_part(every.first, on)}; asked: 90 %"
        yield f"among the first three: {_part(every.three, on)}; asked: 97 %"
    if off:
        yield f"wrongly accused when off: {_part(every.wrong, off)}; asked: at most 3 %"
    if savings:
        error = median(one.error for one in savings)
        yield f"savings told: {error:.0%} off, in the median of {len(savings)} causes; asked: within 15 %"
    beside = sum(row.get("other_work", 0) > 0 for row in [*every.on, *every.off])
    yield f"other work on the machine: told in {_part(beside, on + off)}, and left out above"


def _part(count: int, of: int) -> str:
    return f"{count} of {of} ({count / of:.0%})"


@dataclass(frozen=True)
class Saving:
    """Seconds of a step that a change saves: as told, and as the cured script shows."""

    told: float
    real: float

    @property
    def error(self) -> float:
        return abs(self.told - self.real) / self.real


class Result:
    """What runs with a cause (`on`) and without it (`off`) were told."""

    def __init__(self, rows: Sequence[Row]):
        self.on = [row for row in rows if not row["off"]]
        self.off = [row for row in rows if row["off"]]
        self.first = sum(map(_is_first, self.on))
        self.three = sum(map(_is_among_three, self.on))
        self.wrong = sum(bool(_accused(row)) for row in self.off)

    @property
    def numbers(self) -> str:
        text = f"{len(self.on):4} {self.first:6} {self.three:6} {len(self.off):4} {self.wrong:6}"
        if saving := self.saving:
            return f"{text} {1e3 * saving.told:9.2f} {1e3 * saving.real:9.2f} {saving.error:6.0%}"
        return text

    @property
    def otherwise(self) -> str:
        instead = Counter(row["first"] for row in self.on if not _is_first(row))
        accused = Counter(name for row in self.off for name in _accused(row))
        named = {"  first instead: ": instead, "  accused: ": accused}
        return "".join(
            label + ", ".join(f"{name} {count}" for name, count in names.items())
            for label, names in named.items()
            if names
        )

    @property
    def saving(self) -> Saving | None:
        """In the median over runs. None where nothing was told, or the cured step is another one."""
        told = [row["told_s"] for row in self.on if row["first"] == row["cause"] and row["told_s"]]
        on, off = ([row["paced_step_s"] for row in rows if row.get("is_same")] for rows in (self.on, self.off))
        if not (told and on and off) or median(on) <= median(off):
            return None
        return Saving(median(told), median(on) - median(off))


def _is_first(row: Row) -> bool:
    return row["first"] in (row["cause"], *row["also"])


def _is_among_three(row: Row) -> bool:
    return bool({row["cause"], *row["also"]} & set(list(row["reasons"])[:3]))


def _accused(row: Row) -> list[str]:
    """What is not in the script; also where nothing was told since it failed."""
    return ["failed"] if row["first"] == "failed" else [name for name in row["reasons"] if name not in row["healthy"]]


if __name__ == "__main__":
    main()
