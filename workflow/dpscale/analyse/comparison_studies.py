"""Several studies beside each other: what measured each, its figures at a point that all have, and its change from the
first one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpscale.analyse.claims import ENDS, is_true
from dpscale.analyse.comparison import (
    ENVIRONMENT,
    Differing,
    Side,
    properties_of,
    records_of,
    refuse_other_settings,
    refuse_several_environments,
)
from dpscale.analyse.comparison_groups import compared_groups
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.vocabulary.states import NOT_PLANNED

# Of a study's machine and when it was measured, beside the properties of its environment.
_MEASURED = ("hosts", "first_started_at", "last_finished_at")
_FIGURES = {"times": ("epoch_s", "images_per_s"), "speedup": ("speedup", "efficiency")}
_POINT = ("strategy", "gpus", "batch_per_gpu", "scope")
FIGURE_COLUMNS = [
    "study", *_POINT, "status", "reason", "runs", "blocks", "ranges",
    *(f"{name}{end}" for names in _FIGURES.values() for name in names for end in ENDS),
]  # fmt: skip


@dataclass(frozen=True)
class Overview:
    """Several studies; the settings of every one but the first that differ from the first one's; and the tables."""

    sides: Sequence[Side]
    differing: Mapping[str, Sequence[Differing]]
    tables: Mapping[str, pd.DataFrame]

    @property
    def first(self) -> Side:
        """What the others are held against."""
        return self.sides[0]


def overview(sides: Sequence[Side], may_differ: Collection[str] = (), tolerance: float | None = None) -> Overview:
    """The studies side by side, each held against the first; pure.

    Raises ComparisonError as `compare` does, with the settings of all of them.
    """
    first, *others = sides
    differing = refuse_other_settings([side.study for side in sides], may_differ)
    for side in sides:
        refuse_several_environments(side)
    groups = [compared_groups(first.tables, side.tables, side.name, tolerance) for side in others]
    tables = {
        "compared_studies": pd.DataFrame(list(map(_study_row, sides))),
        "compared_figures": pd.DataFrame(list(_figure_rows(sides)), columns=FIGURE_COLUMNS).convert_dtypes(),
        "compared_groups": pd.concat([group for group in groups if len(group)] or groups[:1], ignore_index=True),
        "compared_records": records_of(sides),
    }
    return Overview(sides, {side.name: found for side, found in zip(others, differing, strict=True)}, tables)


def _study_row(side: Side) -> dict[str, Any]:
    """What measured a study, and when. `gpus` is the most that one record has."""
    properties = properties_of(side.tables)
    most = int(side.tables["records"]["gpus"].max())
    named = {name: properties[name] for name in (*ENVIRONMENT, *_MEASURED)}
    return {"study": side.name, "gpus": most, "records": len(side.tables["records"]), **named}


def _figure_rows(sides: Sequence[Side]) -> Iterator[dict[str, Any]]:
    """Of every study, one device and the most that all have, at one batch and in every scope there is."""
    point = _shared_point(sides)
    if point is None:
        return
    strategy, gpus, batch, _ = point
    scopes = sorted({scope for side in sides for scope in side.tables["times"]["scope"]})
    configurations = dict.fromkeys([(BASELINE, 1, batch), (strategy, gpus, batch)])
    for side in sides:
        for scope in scopes:
            for configuration in configurations:
                yield {"study": side.name, **_figures(side, (*configuration, scope))}


def _shared_point(sides: Sequence[Side]) -> tuple[Any, ...] | None:
    """The point that speaks for the studies: of those that all have an epoch time of, in the first scope there is.

    It has the most devices, of the last strategy in the order of `STRATEGIES`, at the largest batch: one whose epochs
    have steps enough to speak of, if there is such a batch.
    """
    shared = set.intersection(*({tuple(row[name] for name in _POINT) for row in _measured(side)} for side in sides))
    if not shared:
        return None
    of_few_steps = {
        tuple(row[name] for name in _POINT)
        for side in sides
        for row in _measured(side)
        if not is_true(row["is_headline"])
    }
    first_scope = min(scope for *_, scope in shared)
    order = list(STRATEGIES)

    def weight(point: tuple[Any, ...]) -> tuple[Any, ...]:
        strategy, gpus, batch, _ = point
        return gpus, order.index(strategy), point not in of_few_steps, batch

    return max((point for point in shared if point[-1] == first_scope), key=weight)


def _measured(side: Side) -> list[dict[Any, Any]]:
    times = side.tables["times"]
    return times[times["status"] == "ok"].to_dict("records")


def _figures(side: Side, point: tuple[Any, ...]) -> dict[str, Any]:
    """The figures of a study at a point, or why it has none."""
    found = {name: _row(side.tables[name], point) for name in _FIGURES}
    row = dict(zip(_POINT, point, strict=True))
    times = found["times"]
    if not times:
        return {**row, "status": NOT_PLANNED}
    ranges = [str(part["ranges"]) for part in found.values() if part and not pd.isna(part["ranges"])]
    row |= {"status": times["status"], "reason": times["reason"], "runs": times["runs"], "ranges": "; ".join(ranges)}
    row["blocks"] = found["speedup"].get("blocks")
    for table, names in _FIGURES.items():
        ends = [f"{name}{end}" for name in names for end in ENDS]
        row |= {name: found[table].get(name) for name in ends}
    return row


def _row(table: pd.DataFrame, point: tuple[Any, ...]) -> dict[Any, Any]:
    """The table's row of a point; of speedup that of weak scaling. Empty where there is none."""
    found = table[(table[list(_POINT)] == pd.Series(point, index=list(_POINT))).all(axis="columns")]
    if "scaling" in found:
        found = found[found["scaling"] == "weak"]
    return found.iloc[0].to_dict() if len(found) else {}
