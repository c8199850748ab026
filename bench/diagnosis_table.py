"""The confusion matrix of `bench/diagnose_scripts.py`: how often each cause was named, and what was told instead.

python -m bench.diagnosis_table cpu.json gpu.json
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """A line per cause and device, and what all of a device are together beside what is asked for.

    Healthy runs side by side are counted for themselves.
    """
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        on_device = [row for row in rows if row["device"] == device]
        together = [row for row in on_device if row.get("side_by_side", 1) > 1]
        here = _beside_healthy([row for row in on_device if row not in together])
        causes = sorted({row["cause"] for row in here})
        off = [row for row in here if row["off"]]
        results = {cause: Result([row for row in here if row["cause"] == cause], off) for cause in causes}
        savings = [result.saving for result in results.values() if result.saving]
        if here:
            lines += [device + HEAD[len(device) :]]
            lines += [f"{cause:24} {result.numbers} {result.otherwise}".rstrip() for cause, result in results.items()]
            lines += ["", *_together(Result(here), savings), ""]
        if together:
            lines += [*_side_by_side(together), ""]
    return "\n".join(lines)


def _beside_healthy(rows: Sequence[Row]) -> list[Row]:
    """What the script without any cause is told on this machine is told of it, and no accusation of the others."""
    of_healthy = [name for row in rows if row["cause"] == "nothing" for name in row["reasons"]]
    return [row if row["cause"] == "nothing" else {**row, "healthy": [*row["healthy"], *of_healthy]} for row in rows]


def _together(every: "Result", savings: "Sequence[Saving]") -> Iterable[str]:
    on, off = len(every.on), len(every.off)
    if on:
        yield f"named first: {_part(every.first, on)}; asked: 90 %"
        yield f"  by distinct script: {_part_with_interval(_by_script(every.on, _is_first, all))}"
        yield f"among the first three: {_part(every.three, on)}; asked: 97 %"
        yield f"  by distinct script: {_part_with_interval(_by_script(every.on, _is_among_three, all))}"
    if off:
        yield f"wrongly accused when off: {_part(every.wrong, off)}; asked: at most 3 %"
        yield f"  by distinct script: {_part_with_interval(_by_script(every.off, _accused, any))}"
    accounts = [row["account_off"] for row in (*every.on, *every.off) if "account_off" in row]
    if accounts:
        yield f"parts of a step beside the step: at most {max(accounts):.1%} off; asked: within 3 %"
    if savings:
        error = median(saving.error for saving in savings)
        yield f"savings told: {error:.0%} off, in the median of {len(savings)} causes; asked: within 15 %"
    beside = sum(row.get("other_work", 0) > 0 for row in [*every.on, *every.off])
    yield f"other work on the machine: told in {_part(beside, on + off)}, and left out above"


def _side_by_side(rows: Sequence[Row]) -> Iterable[str]:
    """Yield what healthy runs at once were accused of. Other work is no accusation: they are each other's."""
    accusations = Counter(name for row in rows for name in _accused(row))
    yield f"side by side, {max(row['side_by_side'] for row in rows)} healthy runs at once on {rows[0]['device']}:"
    yield f"accused: {_part_with_interval([bool(_accused(row)) for row in rows])}"
    yield from (f"  {name} {count}" for name, count in accusations.most_common())


def _part(count: int, total: int) -> str:
    return f"{count} of {total} ({count / total:.0%})"


def _by_script(
    rows: Sequence[Row], is_so: Callable[[Row], object], of_runs: Callable[[Iterable[object]], bool]
) -> list[bool]:
    """Return whether it is so for each distinct script, which is one with its cause: of all its runs, or of any."""
    scripts: dict[str, list[object]] = {}
    for row in rows:
        scripts.setdefault(_script(row), []).append(is_so(row))
    return [of_runs(answers) for answers in scripts.values()]


def _part_with_interval(answers: Sequence[bool]) -> str:
    low, high = wilson_interval(sum(answers), len(answers))
    return f"{_part(sum(answers), len(answers))}, 95 % interval: {low:.0%} to {high:.0%}"


def wilson_interval(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's score interval of a part: where a part that is true would have the count within z deviations."""
    part, weight = count / total, z * z / total
    middle = (part + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(part * (1 - part) / total + weight / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Saving:
    """Seconds of a step that a change saves: as told, and as the cured script shows."""

    told: float
    real: float

    @property
    def error(self) -> float:
        return abs(self.told - self.real) / self.real


class Result:
    """What runs with a cause (`on`) and without it (`off`) were told; `all_off` is every run without one."""

    def __init__(self, rows: Sequence[Row], all_off: Sequence[Row] = ()):
        self.all_off = all_off
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
        """In the median over runs, of the script with the largest error. None where nothing was told, or the cured
        step is another one."""
        savings = list(filter(None, map(self._saving, dict.fromkeys(map(_script_off, self.on)))))
        return max(savings, key=lambda saving: saving.error) if savings else None

    def _saving(self, script_off: str) -> Saving | None:
        on, off = ([row for row in rows if _script_off(row) == script_off] for rows in (self.on, self.all_off))
        told_s = [row["told_s"] for row in on if _is_first(row) and row["told_s"]]
        on_s = [row["paced_step_s"] for row in on if row.get("is_same")]
        off_s = [row["paced_step_s"] for row in off if "paced_step_s" in row]
        if not (told_s and on_s and off_s) or median(on_s) <= median(off_s):
            return None
        return Saving(median(told_s), median(on_s) - median(off_s))


def _script(row: Row) -> str:
    return f"{row.get('script')} {row.get('gpus')} {row['cause']}"


def _script_off(row: Row) -> str:
    """Return the script without its cause. In older files each cause has its own."""
    return str(row.get("script_off", row["cause"]))


def _is_first(row: Row) -> bool:
    return any(_rights(row)[:1])


def _is_among_three(row: Row) -> bool:
    return any(_rights(row)[:3])


def _rights(row: Row) -> list[bool]:
    """Return whether each of the reasons is right, in their order. Older files leave that to the causes' names."""
    names = (row["cause"], *row["also"])
    return list(row["right"]) if "right" in row else [name in names for name in row["reasons"]]


def _accused(row: Row) -> list[str]:
    """What is not in the script; also where nothing was told since it failed."""
    return ["failed"] if row["first"] == "failed" else [name for name in row["reasons"] if name not in row["healthy"]]


if __name__ == "__main__":
    main()
