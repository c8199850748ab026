"""Two studies beside each other: whether they may be compared, and every figure of both with its ratio or difference.

The first study is what the second is held against.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpscale.analyse.claims import is_range
from dpscale.analyse.comparison_groups import compared_groups
from dpscale.analyse.timing.environments import joined
from dpscale.analyse.training.results import FIGURES
from dpscale.errors import ComparisonError
from dpscale.formulas.figure import INTERVAL, Figure
from dpscale.formulas.statistics import Bounded, bounded_difference, bounded_ratio, ratio_of_blocks, welch_difference
from dpscale.plan.study import Study
from dpscale.schemas.settings import NetworkSettings
from dpscale.vocabulary.quantities import ESTIMATES_OF_STEP, SOFTWARE
from dpscale.vocabulary.states import NOT_PLANNED

Tables = Mapping[str, pd.DataFrame]
Row = Mapping[Any, Any]

SIDES = ("first", "second")
# Outcomes beside those of `Subject`: the interval holds what no change would give; there is no interval.
NOT_APART, NO_INTERVAL = "not apart", "no interval"

# In `compared_outcomes`: every scope together, or a table that has none.
ALL_SCOPES = "all"
OUTCOME_COLUMNS = [
    "table", "quantity", "scope", "number", "above", "below", "not_apart", "no_interval", "with_interval", "by_chance",
    "ratio_median", "ratio_least", "ratio_most",
]  # fmt: skip
# The share of comparisons of things that are the same that lies beyond its interval by chance.
BEYOND_BY_CHANCE = 1 - (INTERVAL[1] - INTERVAL[0])

_POINT = ("strategy", "gpus", "batch_per_gpu", "global_batch", "scope")


@dataclass(frozen=True)
class Subject:
    """The figures of a table that are compared, in rows told apart by `keys`.

    `effect` is `speed` (the first study's time over the second's; its `change` is that of the time), `ratio` (the
    second's figure over the first's) or `difference` (the second's less the first's); `above` and `below` are the words
    for what it can come to.
    """

    table: str
    keys: Sequence[str]
    quantities: Sequence[str]
    effect: str
    above: str
    below: str

    @property
    def column(self) -> str:
        """The column that holds the effect."""
        return "difference" if self.effect == "difference" else "ratio"

    @property
    def unchanged(self) -> float:
        """The effect where both studies are the same."""
        return 0.0 if self.effect == "difference" else 1.0


SUBJECTS: dict[str, Subject] = {
    "compared_times": Subject("times", _POINT, ("epoch_s", "step_s"), "speed", "faster", "slower"),
    "compared_speedup": Subject("speedup", ("scaling", *_POINT), ("speedup",), "ratio", "higher", "lower"),
    "compared_communication": Subject(
        "communication", _POINT,
        ESTIMATES_OF_STEP,
        "difference", "longer", "shorter",
    ),
    "compared_bandwidth": Subject(
        "bandwidth", _POINT, ("bandwidth_gb_s", "profiler_bandwidth_gb_s", "utilisation"), "ratio", "higher", "lower"
    ),
    "compared_collectives": Subject(
        "collectives", ("operation", "gpus", "message_bytes", "source", "target"), ("bus_bandwidth_gb_s",),
        "ratio", "higher", "lower",
    ),
    "compared_training": Subject("training_summary", ("arm",), FIGURES, "difference", "higher", "lower"),
}  # fmt: skip

# Of `compared_environments`: what can be the same in two studies, and what says when and how much was measured.
ENVIRONMENT = ("device_model", "cpu_model", "cpu_cores", "links", *SOFTWARE, "variables", "dataset_sha256")
_ORIGIN = ("measurement_versions", "gpu_uuids", "git_commits", "git_dirty")
# Many machines have one name: that of the host says nothing of whether they are the same.
_EXTENT = ("hosts", "records", "first_started_at", "last_finished_at")
PROPERTIES = (*ENVIRONMENT, *_ORIGIN, *_EXTENT)


@dataclass(frozen=True)
class Side:
    """A study under the name that it has beside others, and all its tables.

    These are made without its `same_records`, which another of the studies has too.
    """

    name: str
    study: Study
    tables: Tables
    same_records: int = 0


@dataclass(frozen=True)
class Differing:
    """A setting that two studies, or their arms of the same name, do not share."""

    setting: str
    first: Any
    second: Any
    arm: str | None = None

    @property
    def name(self) -> str:
        """`precision`, `learning_rate of arm b512`."""
        return self.setting if self.arm is None else f"{self.setting} of arm {self.arm}"


@dataclass(frozen=True)
class Compared:
    """Two studies, the settings that they do not share, and the tables that hold the figures of both."""

    first: Side
    second: Side
    differing: Sequence[Differing]
    tables: Tables

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.first, self.second


def compare(first: Side, second: Side, may_differ: Collection[str] = (), tolerance: float | None = None) -> Compared:
    """Every figure of two studies side by side; pure. `tolerance` is the share by which a group may be slower.

    Raises ComparisonError where they differ in a setting that `may_differ` does not name, and where one of them has
    records of several environments, or none.
    """
    (differing,) = refuse_other_settings([first.study, second.study], may_differ)
    for side in (first, second):
        refuse_several_environments(side)
    tables = {
        "compared_groups": compared_groups(first.tables, second.tables, second.name, tolerance),
        **_tables_of_both(first.tables, second.tables),
        "compared_records": records_of((first, second)),
    }
    return Compared(first, second, differing, tables)


def records_of(sides: Iterable[Side]) -> pd.DataFrame:
    """How many records every study has, how many of its own are left out as others have them too, and how many were
    not used for what is wrong with them."""
    rows = [
        (side.name, len(side.tables["records"]), side.same_records, len(side.tables["rejected"]) - side.same_records)
        for side in sides
    ]
    return pd.DataFrame(rows, columns=["study", "records", "same_records", "not_used"])


def refuse_other_settings(studies: Sequence[Study], may_differ: Collection[str]) -> list[list[Differing]]:
    """The settings in which every study but the first differs from it, as it may.

    Raises ComparisonError, naming those of all studies that may not, with the values that they have.
    """
    first, *others = studies
    differing = [differing_settings(first, other) for other in others]
    refused = [difference for of_one in differing for difference in of_one if difference.setting not in may_differ]
    if refused:
        values: dict[str, list[Any]] = {}
        for difference in refused:
            known = values.setdefault(difference.name, [difference.first])
            if difference.second not in known:
                known.append(difference.second)
        named = "; ".join(f"{name} is {' and '.join(map(as_written, found))}" for name, found in values.items())
        options = " ".join(
            f"--differing {setting}" for setting in dict.fromkeys(difference.setting for difference in refused)
        )
        raise ComparisonError(
            f"the studies differ in settings, so their numbers say nothing of each other: {named}. "
            f"If that is what you compare: {options}"
        )
    return differing


def differing_settings(first: Study, second: Study) -> list[Differing]:
    """Every setting that can change a number and that the studies do not share; of arms that both have, in both.

    What an arm takes of its study is not named again.
    """
    of_study = list(_differing(first.settings, second.settings, None))
    known = {(difference.setting, difference.first, difference.second) for difference in of_study}
    of_arms = (
        difference
        for arm in first.arms
        if arm in second.arms
        for difference in _differing(first.arms[arm], second.arms[arm], arm)
        if (difference.setting, difference.first, difference.second) not in known
    )
    return [*of_study, *of_arms]


def _differing(first: NetworkSettings, second: NetworkSettings, arm: str | None) -> Iterator[Differing]:
    for name in first.names():
        values = getattr(first, name), getattr(second, name)
        if values[0] != values[1]:
            yield Differing(name, *values, arm)


def refuse_several_environments(side: Side) -> None:
    """Raises ComparisonError unless the study's tables are of records of exactly one environment."""
    environments = side.tables["environments"]
    if environments.empty:
        raise ComparisonError(f"{side.name}: nothing was measured: no record was found. Name its folder with --results")
    if len(environments) > 1:
        varying = [name for name in ENVIRONMENT if environments[name].nunique(dropna=False) > 1]
        raise ComparisonError(
            f"{side.name}: its records are of {len(environments)} environments, which are never pooled; they differ in "
            f"{', '.join(varying)}. Name a folder with the records of one with --results"
        )


def as_written(value: Any) -> str:
    """A setting's value as people write it."""
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _tables_of_both(first: Tables, second: Tables) -> dict[str, pd.DataFrame]:
    """The tables of SUBJECTS, and `compared_environments`, from all tables of two studies, each of one environment.

    A row is a figure that at least one of the studies has. Ratios of times have Welch's 95 % intervals over runs,
    differences of arms over seeds. Other ratios and differences have intervals from both figures' own
    (`bounded_ratio`, `bounded_difference`).
    """
    compared = {name: _compared(subject, first, second) for name, subject in SUBJECTS.items()}
    return {
        **compared,
        "compared_outcomes": pd.DataFrame(_outcome_rows(compared), columns=OUTCOME_COLUMNS),
        "compared_environments": _environments(first, second),
    }


def _compared(subject: Subject, first: Tables, second: Tables) -> pd.DataFrame:
    parts = [_side_by_side(subject, quantity, first, second) for quantity in subject.quantities]
    rows = pd.concat(parts, ignore_index=True)
    both = Bounded(*_figures(rows, "first")), Bounded(*_figures(rows, "second"))
    over_samples = _OVER_SAMPLES.get(subject.table)
    effect = over_samples(rows, first, second) if over_samples else _effect(subject, *both)
    column = subject.column
    rows = rows.assign(**{column: effect.value, f"{column}_low": effect.low, f"{column}_high": effect.high})
    if subject.effect == "speed":
        change = Bounded(1 / effect.value, 1 / effect.high, 1 / effect.low).map(lambda ratio: ratio - 1)
        rows = rows.assign(change=change.value, change_low=change.low, change_high=change.high)
    return rows.assign(outcome=_outcomes(subject, effect))


def _outcome_rows(compared: Tables) -> Iterator[dict[str, Any]]:
    """How often every quantity came to which outcome: over all, and of every scope that there is."""
    for name, subject in SUBJECTS.items():
        with_outcome = compared[name].dropna(subset=["outcome"])
        for quantity in subject.quantities:
            of_quantity = with_outcome[with_outcome["quantity"] == quantity]
            yield {"table": name, "quantity": quantity, "scope": ALL_SCOPES, **_outcome_counts(subject, of_quantity)}
            for scope, part in of_quantity.groupby("scope") if "scope" in of_quantity else ():
                yield {"table": name, "quantity": quantity, "scope": scope, **_outcome_counts(subject, part)}


def _outcome_counts(subject: Subject, rows: pd.DataFrame) -> dict[str, Any]:
    words = {"above": subject.above, "below": subject.below, "not_apart": NOT_APART, "no_interval": NO_INTERVAL}
    numbers = {name: int((rows["outcome"] == word).sum()) for name, word in words.items()}
    with_interval = len(rows) - numbers["no_interval"]
    by_chance = with_interval * BEYOND_BY_CHANCE
    counts = {"number": len(rows), **numbers, "with_interval": with_interval, "by_chance": by_chance}
    if subject.column != "ratio" or rows.empty:
        return counts
    ratios = rows["ratio"].astype(float)
    return {**counts, "ratio_median": ratios.median(), "ratio_least": ratios.min(), "ratio_most": ratios.max()}


def _side_by_side(subject: Subject, quantity: str, first: Tables, second: Tables) -> pd.DataFrame:
    """A quantity of both studies in the rows of both, but for rows in which neither has it."""
    keys = list(subject.keys)
    sides = [
        _side(tables[subject.table], keys, quantity, side)
        for tables, side in zip((first, second), SIDES, strict=True)
    ]  # fmt: skip
    rows = sides[0].merge(sides[1], on=keys, how="outer")
    for side in SIDES:
        rows[f"{side}_status"] = rows[f"{side}_status"].fillna(NOT_PLANNED)
    rows.insert(len(keys), "quantity", quantity)
    return rows[rows[list(SIDES)].notna().any(axis=1)]


def _side(table: pd.DataFrame, keys: list[str], quantity: str, side: str) -> pd.DataFrame:
    # Collectives have no status: they are there or not.
    states = {f"{side}_{name}": table.get(name, default) for name, default in (("status", "ok"), ("reason", ""))}
    figures = {f"{side}{end}": table[f"{quantity}{end}"].astype(float) for end in ("", "_low", "_high")}
    found = table[keys].astype(object).assign(**states, **figures)
    ranges = [is_range({"ranges": names}, quantity) for names in table.get("ranges", [None] * len(table))]
    found.loc[ranges, [f"{side}_low", f"{side}_high"]] = np.nan
    return found


def _figures(rows: pd.DataFrame, name: str) -> list[Any]:
    return [rows[f"{name}{end}"].to_numpy(float) for end in ("", "_low", "_high")]


def _effect(subject: Subject, first: Bounded, second: Bounded) -> Bounded:
    return (bounded_ratio if subject.effect == "ratio" else bounded_difference)(second, first)


def _over_runs(rows: pd.DataFrame, first: Tables, second: Tables) -> Bounded:
    """The first study's time over the second's, with Welch's interval over the runs of both; runs are blocks."""
    of_runs = [_times_of_runs(tables) for tables in (first, second)]
    return _of_samples(
        rows,
        lambda row: [runs[tuple(row[key] for key in _POINT)][row["quantity"]].to_numpy(float) for runs in of_runs],
        ratio_of_blocks,
    )


def _times_of_runs(tables: Tables) -> dict[tuple[Any, ...], pd.DataFrame]:
    """The runs of every configuration in every scope."""
    return {tuple(point): runs for point, runs in tables["runs"].groupby(list(_POINT))}


def _over_seeds(rows: pd.DataFrame, first: Tables, second: Tables) -> Bounded:
    """Welch's difference of the figures after the last epoch; none unless every seed of both arms came to its end."""
    of_seeds = [_last_epochs(tables) for tables in (second, first)]
    return _of_samples(
        rows,
        lambda row: [seeds[seeds["arm"] == row["arm"]][row["quantity"]].to_numpy(float) for seeds in of_seeds],
        welch_difference,
    )


def _of_samples(
    rows: pd.DataFrame, samples: Callable[[Row], Sequence[Any]], effect: Callable[[Any, Any], Figure]
) -> Bounded:
    """The effect of every row's two samples; none where one study lacks the figure."""
    found = []
    for row in rows.to_dict("records"):
        if any(pd.isna(row[side]) for side in SIDES):
            found.append((np.nan,) * 3)
            continue
        sample = effect(*samples(row))
        found.append((sample.value, sample.low, sample.high))
    return Bounded(*np.array(found, dtype=float).reshape(-1, 3).T)


# Effects from what was measured, run by run or seed by seed; those of other tables come from the intervals of both.
_OVER_SAMPLES = {"times": _over_runs, "training_summary": _over_seeds}


def _last_epochs(tables: Tables) -> pd.DataFrame:
    """What every arm and seed came to."""
    return tables["training"].sort_values("epoch").groupby(["arm", "seed"], as_index=False).last()


def _outcomes(subject: Subject, effect: Bounded) -> Any:
    """What is told of every row; none where one study lacks the figure."""
    has_interval = ~np.isnan(effect.low) & ~np.isnan(effect.high)
    # An interval without a width lies beside the effect of equal studies by the last digit of its computation.
    low, high = (
        np.where(np.isclose(ends, subject.unchanged, rtol=1e-12, atol=1e-15), subject.unchanged, ends)
        for ends in (effect.low, effect.high)
    )
    is_above, is_below = low > subject.unchanged, high < subject.unchanged
    outcomes = np.select([~has_interval, is_above, is_below], [NO_INTERVAL, subject.above, subject.below], NOT_APART)
    return pd.Series(outcomes).where(~np.isnan(effect.value))


def _environments(first: Tables, second: Tables) -> pd.DataFrame:
    """A row for every property of where, by which code and when the studies were measured, and whether it differs:
    none where it always does."""
    of_first, of_second = properties_of(first), properties_of(second)
    rows = [
        (name, of_first[name], of_second[name], None if name in _EXTENT else of_first[name] != of_second[name])
        for name in PROPERTIES
    ]
    return pd.DataFrame(rows, columns=["property", *SIDES, "differs"])


def properties_of(tables: Tables) -> dict[str, str | None]:
    environment, records = tables["environments"].iloc[0], tables["records"]
    dirty = {str(value).lower() == "true" for value in records["git_dirty"].dropna()}
    found = {
        **{name: environment[name] for name in (*ENVIRONMENT, "hosts", "measurement_versions", "records")},
        "gpu_uuids": joined(uuid for uuids in records["gpu_uuids"].dropna() for uuid in uuids.split("; ")),
        "git_commits": joined(commit[:12] for commit in records["git_commit"].dropna()),
        "git_dirty": ("yes" if True in dirty else "no") if dirty else None,
        "first_started_at": records["started_at"].min(),
        "last_finished_at": records["finished_at"].max(),
    }
    return {name: None if pd.isna(value) else str(value) for name, value in found.items()}
