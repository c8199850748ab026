"""What follows from a study's tables and from nothing else: more columns of them, and small tables of comparisons.

The page quotes these; it computes nothing itself. Rows are mappings, as in `claims`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import sub, truediv
from statistics import median
from typing import Any

from dpscale.analyse.advice import advice_rows, answer_rows
from dpscale.analyse.causes import cause_rows
from dpscale.analyse.claims import ENDS, NewRow, Row, count_rows, has_interval, has_text, is_known, is_range
from dpscale.analyse.over_runs import with_figures
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive_in_blocks, estimate_of_blocks
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.vocabulary.states import ARTEFACT, DISTORTED, NOT_WORTH_IT, UNDECIDED, WHOLE_STEP, WORTH_IT

# More devices are worth it where at least half of what they could do is got from them.
WORTH = 0.5
# Fewer full steps make no epoch that speaks for a configuration: its ends, which are no steps, weigh too much.
HEADLINE_STEPS = 10
# The estimates of a step's communication that are held against each other.
ESTIMATES = (
    "communication_step_s",
    "ablation_step_s",
    "profiler_step_s",
    "profiler_exposed_step_s",
    "profiler_least_step_s",
    "logger_exposed_step_s",
    "isolated_step_s",
)
_NO_WITNESS = (DISTORTED, ARTEFACT)
_POINT = ("strategy", "gpus", "batch_per_gpu", "global_batch")
_ORIGIN = ("kind", "environment", "host", "git_commit", "git_dirty", "dataset_source")

Values = Callable[[Row], Mapping[str, Any]]


def with_derived(rows: Mapping[str, Iterable[Row]]) -> dict[str, list[NewRow]]:
    """The rows of all tables of measurements with their derived columns, and those of every derived table."""
    found: dict[str, list[NewRow]] = {name: [dict(row) for row in table] for name, table in rows.items()}
    for name, values in _COLUMNS.items():
        for row in found[name]:
            row |= values(row)
    for name, make in _TABLES.items():
        found[name] = list(make(found))
    found["counts"] = list(count_rows(found))
    return found


def _headline(row: Row) -> NewRow:
    """Whether findings and verdict may speak of this configuration; not known where it was not measured."""
    if not is_known(row.get("full_steps_per_epoch")):
        return {}
    return {"is_headline": bool(row["full_steps_per_epoch"] >= HEADLINE_STEPS)}


def _of_times(row: Row) -> NewRow:
    found = _headline(row)
    if row.get("status") == "ok":
        known = (end for end in ENDS if is_known(row.get(f"epoch_s{end}")))
        found |= {f"gpu_s{end}": row["gpus"] * row[f"epoch_s{end}"] for end in known}
    if has_interval(row, "epoch_s"):
        found["interval_width"] = (row["epoch_s_high"] - row["epoch_s_low"]) / row["epoch_s"]
    return found


def _of_speedup(row: Row) -> NewRow:
    found = _headline(row)
    if is_known(row.get("efficiency")):
        found |= {"efficiency_lost": 1 - row["efficiency"], "worth": _worth(row)}
    if is_known(row.get("speedup_from_steps")):
        known = (end for end in ENDS if is_known(row.get(f"speedup_from_steps{end}")))
        found |= {f"efficiency_from_steps{end}": row[f"speedup_from_steps{end}"] / row["gpus"] for end in known}
        found["steps_disagree_by"] = abs(row["speedup"] / row["speedup_from_steps"] - 1)
    return found


def _worth(row: Row) -> str:
    """On which side of `WORTH` the interval of the efficiency lies wholly; undecided without an interval too."""
    if not has_interval(row, "efficiency") or row["efficiency_low"] <= WORTH <= row["efficiency_high"]:
        return UNDECIDED
    return WORTH_IT if row["efficiency_low"] > WORTH else NOT_WORTH_IT


def _of_communication(row: Row) -> NewRow:
    found = _headline(row)
    above_zero = [row[name] for name in estimates_of(row) if is_known(row.get(name)) and _is_above_zero(row, name)]
    if above_zero:
        found["estimates_apart"] = max(above_zero) / min(above_zero)
    tells = row.get("profiler") != DISTORTED
    if tells and _are_known(row, "communication_step_s", "profiler_step_s"):
        found["beyond_profiler_s"] = row["communication_step_s"] - row["profiler_step_s"]
    if tells and _are_known(row, "profiler_step_s", "profiler_least_step_s"):
        found["waiting_step_s"] = row["profiler_step_s"] - row["profiler_least_step_s"]
    if _are_known(row, "profiled_step_s", "training_step_s"):
        found["profiler_slows_by"] = row["profiled_step_s"] / row["training_step_s"] - 1
    return found


def estimates_of(row: Row) -> list[str]:
    """The estimates of communication that a row's step can be told by: not the profiler's, where that distorts it."""
    distorted = row.get("profiler") == DISTORTED
    return [name for name in ESTIMATES if not (distorted and name.startswith("profiler"))]


def _is_above_zero(row: Row, name: str) -> bool:
    return row[name] > 0 and has_interval(row, name) and bool(row[f"{name}_low"] > 0)


def _of_steps(row: Row) -> NewRow:
    if row["phase"] != WHOLE_STEP or row.get("profiler") in _NO_WITNESS:
        return {}
    parts = (part for part in ("compute", "communication", "copy", "idle") if is_known(row.get(f"{part}_s")))
    return {f"{part}_share": row[f"{part}_s"] / row["parts_s"] for part in parts}


_COLUMNS: Mapping[str, Values] = {
    "times": _of_times,
    "speedup": _of_speedup,
    "communication": _of_communication,
    "bandwidth": _headline,
    "steps": _of_steps,
    "variants": _headline,
    "one_gpu": _headline,
}


def _scopes(rows: Mapping[str, Sequence[Row]]) -> Iterator[NewRow]:
    """The configurations that were measured with and without the DataLoader in the clock."""
    places = (*_POINT, "environment")
    speedups = {
        (_key(row, places), row["scope"]): row
        for row in rows["speedup"]
        if row["status"] == "ok" and row["scaling"] == "weak"
    }
    runs: dict[tuple[Any, ...], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows["runs"]:
        runs[_key(row, places)][row["scope"]][f"run {row['run']}"] = float(row["epoch_s"])
    measured = [row for row in rows["times"] if row["status"] == "ok"]
    loaded = {_key(row, places): row for row in measured if row["scope"] == "end_to_end"}
    for row in measured:
        place = _key(row, places)
        if row["scope"] != "compute" or place not in loaded:
            continue
        other = loaded[place]
        gained, gained_loaded = (speedups.get((place, scope), {}) for scope in ("compute", "end_to_end"))
        found = {
            **{name: row[name] for name in places},
            "is_headline": row.get("is_headline"),
            **_estimates(
                epoch_s=(row, "epoch_s"),
                end_to_end_epoch_s=(other, "epoch_s"),
                speedup=(gained, "speedup"),
                end_to_end_speedup=(gained_loaded, "speedup"),
            ),
        }
        if _are_known(found, "speedup", "end_to_end_speedup"):
            found["speedup_ratio"] = found["speedup"] / found["end_to_end_speedup"]
        yield with_figures(found, _loading(runs[place]["end_to_end"], runs[place]["compute"]))


def _loading(loaded: Mapping[str, float], in_memory: Mapping[str, float]) -> Mapping[str, Figure]:
    """What an epoch takes longer with the DataLoader in the clock, in seconds and as a ratio, over the runs that timed
    both: a run is one block."""
    if not loaded.keys() & in_memory.keys():
        return {}
    epochs = [estimate_of_blocks(runs, "epoch") for runs in (loaded, in_memory)]
    return {
        "loader_s": derive_in_blocks(sub, *epochs, scale="linear"),
        "loading_ratio": derive_in_blocks(truediv, *epochs, scale="log"),
    }


def _strategy_pairs(rows: Mapping[str, Sequence[Row]]) -> Iterator[NewRow]:
    """Every two parallel strategies on the same devices at the same batch, the later one of the table first."""
    order = [name for name in STRATEGIES if name != BASELINE]
    shared = ("gpus", "batch_per_gpu", "global_batch", "scope", "environment")
    measured = {
        (row["strategy"], _key(row, shared)): row
        for row in rows["times"]
        if row["status"] == "ok" and is_known(row.get("epoch_s"))
    }
    for (strategy, place), row in measured.items():
        for other in order[: order.index(strategy)] if strategy in order else ():
            if (other, place) in measured:
                beside = measured[other, place]
                yield {
                    "strategy": strategy,
                    "other_strategy": other,
                    **{name: row[name] for name in shared},
                    "is_headline": row.get("is_headline"),
                    "loader_processes": row.get("loader_processes"),
                    "other_loader_processes": beside.get("loader_processes"),
                    **_estimates(epoch_s=(row, "epoch_s"), other_epoch_s=(beside, "epoch_s")),
                    "ratio": beside["epoch_s"] / row["epoch_s"],
                }


def _peer_copies(rows: Mapping[str, Sequence[Row]]) -> Iterator[NewRow]:
    """The copies from one device to another: their median, and their range over the directed pairs."""
    copies = (
        row
        for row in rows["collectives"]
        if row["operation"] == "peer_copy" and is_known(row.get("bus_bandwidth_gb_s"))
    )
    for _, group in _groups(copies, ("gpus", "environment")):
        rates = [float(row["bus_bandwidth_gb_s"]) for row in group]
        yield {
            "gpus": group[0]["gpus"],
            "environment": group[0]["environment"],
            "directions": len(rates),
            "message_bytes": max(row["message_bytes"] for row in group),
            "bus_bandwidth_gb_s": median(rates),
            "bus_bandwidth_gb_s_low": min(rates),
            "bus_bandwidth_gb_s_high": max(rates),
        }


_MEASURED = {
    "timing": "timing",
    "collectives": "communication",
    "communication": "communication",
    "training": "training",
}


def _costs(rows: Mapping[str, Sequence[Row]]) -> Iterator[NewRow]:
    """What measuring took. Collectives are measured for the sake of communication."""
    known = [
        {**row, "measured": _MEASURED[row["kind"]]}
        for row in rows["records"]
        if row.get("kind") in _MEASURED and is_known(row.get("gpu_s"))
    ]
    for _, group in _groups(known, ("measured",)):
        yield {"measured": group[0]["measured"], "records": len(group), "gpu_s": sum(row["gpu_s"] for row in group)}


def _origins(rows: Mapping[str, Sequence[Row]]) -> Iterator[NewRow]:
    """How many records there are of a kind, by what measured them."""
    for _, group in _groups(rows["records"], _ORIGIN):
        started, finished, jobs = (
            sorted({str(row[name]) for row in group if has_text(row.get(name))})
            for name in ("started_at", "finished_at", "job_id")
        )
        yield {
            **{name: group[0].get(name) for name in _ORIGIN},
            "records": len(group),
            "first": started[0] if started else None,
            "last": finished[-1] if finished else None,
            "jobs": "; ".join(jobs) or None,
            "throttled": sum(1 for row in group if has_text(row.get("throttle_reasons"))),
            "disturbed": sum(1 for row in group if is_known(row.get("other_processes")) and row["other_processes"] > 0),
        }


def _absences(rows: Mapping[str, Sequence[Row]]) -> Iterator[NewRow]:
    """Every state but `ok` with its reason, and of how many configurations it is, the most frequent first."""
    places: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for row in rows["times"]:
        if row["status"] != "ok":
            reason = str(row["reason"]) if has_text(row.get("reason")) else ""
            places[row["status"], reason].add(_key(row, ("strategy", "gpus", "batch_per_gpu", "environment")))
    for (status, reason), found in sorted(places.items(), key=lambda item: -len(item[1])):
        yield {"status": status, "reason": reason or None, "configurations": len(found)}


_TABLES: Mapping[str, Callable[[Mapping[str, Sequence[Row]]], Iterator[NewRow]]] = {
    "scopes": _scopes,
    "strategy_pairs": _strategy_pairs,
    "peer_copies": _peer_copies,
    "costs": _costs,
    "origins": _origins,
    "absences": _absences,
    # They ask tables above.
    "answer": answer_rows,
    "causes": cause_rows,
    "advice": advice_rows,
}


def _estimates(**sources: tuple[Row, str]) -> NewRow:
    """Figures of other rows under new names, with what they lie between."""
    found = {f"{name}{end}": row.get(f"{of}{end}") for name, (row, of) in sources.items() for end in ENDS}
    return {**found, "ranges": "; ".join(name for name, (row, of) in sources.items() if is_range(row, of)) or None}


def _are_known(row: Row, *names: str) -> bool:
    return all(is_known(row.get(name)) for name in names)


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    """What rows of the same place share. Missing entries are alike."""
    return tuple(row[name] if is_known(row.get(name)) else None for name in names)


def _groups(rows: Iterable[Row], names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """The rows that are equal in these columns, in the order of the first of each."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(_key(row, names), []).append(row)
    yield from found.items()
