"""The first screen's figures and what to do, in words: rows of the tables `answer` and `advice`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpscale.analyse import advice
from dpscale.present import words
from dpscale.present.finding import percent, with_unit
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary.quantities import SECONDS, TEST_ACCURACY, quantity


@dataclass(frozen=True)
class Advice:
    """What to do, the evidence for it, which stands in the section `section`, and what it saves."""

    what: str
    evidence: str
    saving: str
    section: str


@dataclass(frozen=True)
class Tile:
    """A figure of the answer: its name, the figure, its interval and what else belongs to it."""

    name: str
    figure: str
    details: str


def advices(tables: Tables, series: Row | None, terms: Terms) -> list[Advice]:
    """What to do for a series, in the table's order; nothing where there is no series."""
    found = []
    for row in _of_series(tables, "advice", series):
        worded, section = _WORDED[row["problem"]]
        what, evidence = worded(row, terms)
        found.append(Advice(what, evidence, _saving(row, terms), section))
    return found


def tiles(tables: Tables, series: Row | None, terms: Terms) -> list[Tile]:
    """The figures of a series at its best supported batch; nothing where there is no series."""
    rows = _of_series(tables, "answer", series)
    return [
        tile for row in rows for tile in (_speedup(row, terms), _efficiency(row, terms), _price(row, terms), _mfu(row))
    ]


def _of_series(tables: Tables, name: str, series: Row | None) -> list[Row]:
    if series is None:
        return []
    keys = ("strategy", "gpus", "environment")
    return [row for row in words.rows(tables[name]) if all(str(row[key]) == str(series[key]) for key in keys)]


def _speedup(row: Row, terms: Terms) -> Tile:
    where = f"{row['strategy']}, batch {int(row['batch_per_gpu']):,} per {terms.device}"
    loading = "without loading" if row["scope"] == "compute" else "with loading"
    details = f"{_bounds(row, 'speedup')} {loading}, {where}"
    if words.is_known(row["end_to_end_speedup"]):
        details += f"; with loading {with_unit(row, 'end_to_end_speedup', 'answer')}"
    return Tile(f"Speedup on {terms.count(int(row['gpus']))}", _figure(row, "speedup"), details.strip())


def _efficiency(row: Row, terms: Terms) -> Tile:
    devices = terms.count(int(row["gpus"]))
    return Tile("Efficiency", _figure(row, "efficiency"), f"{_bounds(row, 'efficiency')} of what {devices} could do")


def _price(row: Row, terms: Terms) -> Tile:
    details = f"{_bounds(row, 'gpu_s_over_one')} the {terms.device}-seconds of 1 {terms.device}"
    if words.is_known(row["energy_over_one"]):
        joules = words.measured(row["energy_over_one"], quantity("energy_over_one", "answer").unit)
        details += f"; {joules} its joules"
    return Tile("Price of an epoch", _figure(row, "gpu_s_over_one"), details.strip())


def _mfu(row: Row) -> Tile:
    if not words.is_known(row["mfu"]):
        return Tile("Share of the chip (MFU)", "not known", "peak of this chip or work of an image not known")
    return Tile("Share of the chip (MFU)", _figure(row, "mfu"), f"{_bounds(row, 'mfu')} of its peak FLOP/s")


def _figure(row: Row, name: str) -> str:
    """`3.65×`: without its interval."""
    return with_unit(row, name, "answer").partition(" [")[0]


def _bounds(row: Row, name: str) -> str:
    """`[3.49, 3.82]`."""
    return "[" + with_unit(row, name, "answer").partition(" [")[2]


def _strategy(row: Row, terms: Terms) -> tuple[str, str]:
    return f"Use {row['better']} in place of {row['used']}", f"An epoch takes {_times(row)}{_at(row, terms)}."


def _loading(row: Row, terms: Terms) -> tuple[str, str]:
    loaders = row["loader_processes"]
    by = f" by {words.plural(int(loaders), 'process', 'processes')}" if words.is_known(loaders) else ""
    return (
        "Load images faster: more loader workers, or images in the memory of the GPU",
        f"An epoch takes {_times(row, 'without loading')}{by}{_at(row, terms)}.",
    )


def _batch(row: Row, terms: Terms) -> tuple[str, str]:
    used, better = (int(row[name]) for name in ("used_batch_per_gpu", "batch_per_gpu"))
    return (
        f"Use a batch of {better:,} per {terms.device} in place of {used:,}, where accuracy allows it",
        f"An epoch takes {_times(row)} on {terms.count(int(row['gpus']))}, without loading.",
    )


def _variant(row: Row, terms: Terms) -> tuple[str, str]:
    on = terms.count(int(row["on_gpus"]))
    return (
        f"Use the settings of {row['better']} on every {terms.device}",
        f"An epoch takes {_times(row)} on {on}{_at(row, terms)}.",
    )


def _one_device(row: Row, terms: Terms) -> tuple[str, str]:
    many, one = (terms.count(int(row[name])) for name in ("gpus", "on_gpus"))
    return (
        f"Use {one} with {row['better']} in place of {many} with {row['used']}",
        f"An epoch takes {_times(row)}{_at(row, terms)}.",
    )


def _recipe(row: Row, terms: Terms) -> tuple[str, str]:
    accuracies = {
        name: words.measured(row[f"{name}_accuracy"], TEST_ACCURACY.unit) for name in ("without", "used", "better")
    }
    tuned = ""
    if words.is_known(row["tuned_trials"]):
        tuned = f" Best of {int(row['tuned_trials']):,} trials, chosen on {row['tuned_on']}."
    return (
        f"For a large batch, train as {row['better']} in place of {row['without_remedies']}",
        f"It ends at {accuracies['better']} in place of {accuracies['without']}; {row['used']}, the baseline, ends at "
        f"{accuracies['used']}. Training takes {_times(row)}.{tuned}",
    )


Worded = Callable[[Row, Terms], tuple[str, str]]
# By problem: how it is worded, and the section that has the evidence.
_WORDED: Mapping[str, tuple[Worded, str]] = {
    advice.STRATEGY: (_strategy, "speedup"),
    advice.LOADING: (_loading, "speedup"),
    advice.BATCH: (_batch, "speedup"),
    advice.VARIANT: (_variant, "variants"),
    advice.ONE_GPU: (_one_device, "variants"),
    advice.RECIPE: (_recipe, "training"),
}


def _times(row: Row, better: str = "") -> str:
    """`0.590 s in place of 1.10 s`."""
    used_s, better_s = (words.measured(row[name], SECONDS) for name in ("used_s", "better_s"))
    return f"{better_s}{f' {better}' if better else ''} in place of {used_s}"


def _at(row: Row, terms: Terms) -> str:
    loading = "without loading" if row["scope"] == "compute" else "with loading"
    return f" at batch {int(row['batch_per_gpu']):,} per {terms.device}, {loading}"


def _saving(row: Row, terms: Terms) -> str:
    """`46 % [27, 60] of the epoch time`; `about 46 % (no interval) of the epoch time`."""
    of = {advice.DEVICE_SECONDS: f"{terms.device}-seconds"}.get(row["saves"], row["saves"])
    if not words.is_known(row["saving_low"]):
        return f"about {percent(row['saving'], digits=2)} (no interval) of the {of}"
    return f"{with_unit(row, 'saving', 'advice')} of the {of}"
