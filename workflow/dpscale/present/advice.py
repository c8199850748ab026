"""The first screen's figures, why it is not faster and what to do, in words: rows of the tables `answer`, `causes` and
`advice`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpscale.analyse.answer import advice
from dpscale.analyse.answer.causes_of_study import cause_of
from dpscale.analyse.claims import is_true
from dpscale.present import words
from dpscale.present.diagnosis.page import told_finding
from dpscale.present.finding import percent, with_unit
from dpscale.present.words import Row, Tables, Terms
from dpscale.tables.answer import CausesRow
from dpscale.vocabulary.causes import NOTHING, UNKNOWN, cause
from dpscale.vocabulary.quantities import MILLISECONDS, SECONDS, TEST_ACCURACY


@dataclass(frozen=True)
class Advice:
    """What to do, the evidence for it, which stands in the section `section`, and what it saves."""

    what: str
    evidence: str
    saving: str
    section: str


@dataclass(frozen=True)
class Reason:
    """A cause at a batch, what it costs, what to change and what that saves, the figures that show it, and the section
    that has them."""

    what: str
    cost: str
    change: str
    savings: str
    evidence: str
    section: str


@dataclass(frozen=True)
class Why:
    """Why a series is not faster: the step at the batch of the answer, the reasons at it or at other batches, and what
    nobody looked for."""

    sentence: str
    reasons: Sequence[Reason]
    not_seen: str


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


def why(tables: Tables, series: Row | None, terms: Terms) -> Why | None:
    """Why a series is not faster; None where there is no series, or nothing that tells."""
    rows = [row for row in _of_series(tables, "causes", series) if row["scaling"] == "weak"]
    batches = [row["batch_per_gpu"] for row in _of_series(tables, "answer", series)]
    first = next((row for row in rows if row["batch_per_gpu"] in batches and row["order"] == 0), None)
    if first is None:
        return None
    told = [row for row in rows if is_true(row["is_told"])]
    told.sort(key=lambda row: -row["share"])
    # Those at the batch of the answer come first, then those that an interval carries.
    told.sort(key=lambda row: (row["batch_per_gpu"] not in batches, not words.is_known(row["share_low"])))
    if told and told[0]["batch_per_gpu"] in batches:
        first = told[0]
    return Why(_sentence(first, terms), [_reason(row, terms) for row in told], _not_seen(first))


def _sentence(row: Row, terms: Terms) -> str:
    """Where the step stands at the batch of the answer: `row` is the first reason that is shown, or the first row."""
    at = f"at batch {int(row['batch_per_gpu']):,} per {terms.device}"
    step, alone = (with_unit(row, name, "causes") for name in ("whole_s", "efficiency"))
    loading = _loading(row)
    found = cause(str(row["cause"]))
    if found is NOTHING:
        return f"{words.capitalised(found.label)} {at}: {alone} efficient, {loading}. A step takes {step}."
    without = ", without loading," if row["scope"] != "compute" else ""
    first = "No cause stands out at this batch" if found is UNKNOWN else f"First reason: {found.label}"
    return (
        f"{words.capitalised(at)} a step takes {step} {loading}; 1 {terms.device} alone{without} takes {alone} of "
        f"that. {first}."
    )


def _reason(row: Row, terms: Terms) -> Reason:
    told = told_finding(cause_of(CausesRow.read(row)), terms.device)
    return Reason(
        f"{words.capitalised(told.label)} at batch {int(row['batch_per_gpu']):,} per {terms.device}",
        _cost(row),
        told.change,
        "; ".join(told.savings),
        words.capitalised("; ".join(told.evidence)),
        _EVIDENCE_OF[str(row["cause"])],
    )


def _cost(row: Row) -> str:
    """`9.51 ms [4.1, 15.2], 46 % [27, 60] of a step`."""
    if not words.is_known(row["cost_s_low"]):
        cost, share = words.measured(row["cost_s"], MILLISECONDS), percent(row["share"], digits=2)
        return f"about {cost}, {share} of a step (no interval)"
    known = words.is_known(row["share_low"])
    share = with_unit(row, "share", "causes") if known else f"about {percent(row['share'], digits=2)}"
    return f"{with_unit(row, 'cost_s', 'causes')}, {share} of a step"


def _not_seen(row: Row) -> str:
    if not words.is_known(row["not_seen"]):
        return ""
    labels = [cause(name).label for name in str(row["not_seen"]).split("; ")]
    return f"Not seen by this study, but by dpscale diagnose: {words.listed(labels, separator='; ')}."


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
    details = f"{_bounds(row, 'speedup')} {_loading(row)}, {where}"
    if words.is_known(row["end_to_end_speedup"]):
        details += f"; with loading {with_unit(row, 'end_to_end_speedup', 'answer')}"
    return Tile(f"Speedup on {terms.count(int(row['gpus']))}", _figure(row, "speedup"), details.strip())


def _efficiency(row: Row, terms: Terms) -> Tile:
    devices = terms.count(int(row["gpus"]))
    return Tile("Efficiency", _figure(row, "efficiency"), f"{_bounds(row, 'efficiency')} of what {devices} could do")


def _price(row: Row, terms: Terms) -> Tile:
    details = f"{_bounds(row, 'gpu_s_over_one')} the {terms.device}-seconds of 1 {terms.device}"
    if words.is_known(row["energy_over_one"]):
        details += f"; {with_unit(row, 'energy_over_one', 'answer')} its joules"
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
    used_s, better_s = _seconds(row)
    used_gpu_s, better_gpu_s = (words.measured(row[f"{name}_gpu_s"], SECONDS) for name in ("used", "better"))
    one, many = (terms.count(int(row[name])) for name in ("on_gpus", "gpus"))
    return (
        f"For a large batch, train as {row['better']} in place of {row['without_remedies']}",
        f"It ends at {accuracies['better']} in place of {accuracies['without']}; {row['used']}, the baseline, ends at "
        f"{accuracies['used']}. Training takes {better_s} on {many}, that of the baseline {used_s} on {one}: "
        f"{better_gpu_s} and {used_gpu_s} of {terms.device} time.{tuned}",
    )


Worded = Callable[[Row, Terms], tuple[str, str]]
# By problem: how it is worded, and the section that has the evidence.
_WORDED: Mapping[str, tuple[Worded, str]] = {
    advice.STRATEGY: (_strategy, "speedup"),
    advice.BATCH: (_batch, "speedup"),
    advice.VARIANT: (_variant, "variants"),
    advice.ONE_GPU: (_one_device, "variants"),
    advice.RECIPE: (_recipe, "training"),
}


# The section that has the evidence for a cause.
_EVIDENCE_OF: Mapping[str, str] = {
    "data_parallel": "speedup",
    "slow_loader": "speedup",
    "loading_disturbs": "speedup",
    "small_batch": "speedup",
    "slow_link": "communication",
    "heavy_gradients": "communication",
}


def _times(row: Row) -> str:
    """`0.590 s in place of 1.10 s`."""
    used_s, better_s = _seconds(row)
    return f"{better_s} in place of {used_s}"


def _seconds(row: Row) -> tuple[str, str]:
    """Of what is used, and of what is better."""
    return words.measured(row["used_s"], SECONDS), words.measured(row["better_s"], SECONDS)


def _at(row: Row, terms: Terms) -> str:
    return f" at batch {int(row['batch_per_gpu']):,} per {terms.device}, {_loading(row)}"


def _loading(row: Row) -> str:
    return "without loading" if row["scope"] == "compute" else "with loading"


def _saving(row: Row, terms: Terms) -> str:
    """`46 % [27, 60] of the epoch time`; `about 46 % (no interval) of the epoch time`."""
    of = {
        advice.DEVICE_SECONDS: f"{terms.device}-seconds",
        advice.TRAINING_TIME: f"{advice.TRAINING_TIME} of {row['used']}",
    }.get(row["saves"], row["saves"])
    if not words.is_known(row["saving_low"]):
        return f"about {percent(row['saving'], digits=2)} (no interval) of the {of}"
    return f"{with_unit(row, 'saving', 'advice')} of the {of}"
