"""The answer's own figures and what to do, from the other tables and nothing else.

A *series* is a strategy on a number of devices in an environment. Its answer is told at the batch that is best
supported: one with 95 % intervals, and of those the largest low end of the speedup. What to do is told where the
saving is best supported, by the same rule. Rows are mappings, as in `claims`.
"""

from collections.abc import Iterator
from typing import Any

from dpscale.analyse.claims import ENDS, NewRow, Row, Rows, has_interval, is_known, is_range, is_true, series_of
from dpscale.analyse.row_figures import figure_of, known_columns
from dpscale.formulas.figure import ratio
from dpscale.plan.study import BASE
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.states import DOES_NOT

# The problems, by what is done about each.
STRATEGY, BATCH, VARIANT, ONE_GPU, RECIPE = (
    "another strategy", "a larger batch", "a variant", "one device in place of more", "another recipe",
)  # fmt: skip
# What a saving is of.
EPOCH_TIME, DEVICE_SECONDS, TRAINING_TIME = "epoch time", "device-seconds", "training time"
# A smaller part is no reason to change anything.
LEAST_SAVING = 0.05
_COMPUTE = "compute"


def answer_rows(rows: Rows) -> Iterator[NewRow]:
    """A row for every series: its figures at the batch that is best supported."""
    scopes = {_point(row): row for row in rows["scopes"]}
    times = {(_point(row), row["scope"]): row for row in rows["times"] if row["status"] == "ok"}
    for gains in _series(rows).values():
        best = max(gains, key=lambda row: _support(row, "speedup"))
        point = _point(best)
        alone = (BASELINE, 1, *point[2:])
        here, one = times.get((point, best["scope"]), {}), times.get((alone, best["scope"]), {})
        loaded = scopes.get(point, {}) if best["scope"] == _COMPUTE else {}
        found: NewRow = {
            **{name: best.get(name) for name in ("strategy", "gpus", "batch_per_gpu", "global_batch", "environment")},
            "scope": best["scope"],
            "ranges": _ranges(best, loaded, here),
            **_copied(best, speedup="speedup", efficiency="efficiency"),
            **_copied(loaded, end_to_end_speedup="end_to_end_speedup"),
            **_copied(here, mfu="mfu"),
        }
        found |= _price("gpu_s_over_one", "efficiency", best)
        if is_known(here.get("energy_j")) and is_known(one.get("energy_j")):
            # Of separate runs: a job on several GPUs does not record what one of them takes alone.
            found |= known_columns("energy_over_one", ratio(figure_of(here, "energy_j"), figure_of(one, "energy_j")))
        yield found


def advice_rows(rows: Rows) -> Iterator[NewRow]:
    """For every series what to do, at most once per problem: what intervals carry first, the largest saving first.

    What its causes say is not said again (`causes`)."""
    for series in _series(rows):
        options = (
            _strategies(rows, series), _batches(rows, series), _variants(rows, series), _one_device(rows, series),
            _recipes(rows, series),
        )  # fmt: skip
        found = [max(worth, key=lambda row: _support(row, "saving")) for some in options if (worth := _worth(some))]
        found.sort(key=lambda row: (not is_known(row.get("saving_low")), -row["saving"]))
        yield from found


def _series(rows: Rows) -> dict[tuple[Any, ...], list[Row]]:
    """The weak speedups that speak for their configuration, by (strategy, gpus, environment), of one scope each:
    compute, where there is one."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    weak = [row for row in rows["speedup"] if row.get("scaling") == "weak" and row.get("status") == "ok"]
    first_scope = min((str(row["scope"]) for row in weak), default=_COMPUTE)
    for row in weak:
        if row["scope"] == first_scope and is_true(row.get("is_headline")):
            found.setdefault((row["strategy"], row["gpus"], row.get("environment")), []).append(row)
    return found


def _strategies(rows: Rows, series: tuple[Any, ...]) -> Iterator[NewRow]:
    """This strategy in place of every other one, on as many devices at the same batch."""
    strategy, gpus, environment = series
    for row in rows["strategy_pairs"]:
        if (row["gpus"], row.get("environment")) != (gpus, environment) or not is_true(row.get("is_headline")):
            continue
        names = row["strategy"], row["other_strategy"]
        if strategy not in names:
            continue
        mine, others = ("epoch_s", "other_epoch_s") if strategy == names[0] else ("other_epoch_s", "epoch_s")
        used = names[1] if strategy == names[0] else names[0]
        saving = _saving(STRATEGY, "times", series, row, (row, others), (row, mine), row["scope"])
        yield {**saving, "used": used, "better": strategy}


def _batches(rows: Rows, series: tuple[Any, ...]) -> Iterator[NewRow]:
    """The smallest batch beside every larger one, without loading; nothing where a cause says what a larger one
    saves."""
    told = [row for row in rows["causes"] if series_of(row) == series and is_true(row["is_told"])]
    if any(is_known(row.get("larger_batch_per_gpu")) for row in told):
        return
    timed = [
        row
        for row in rows["times"]
        if series_of(row) == series
        and row["scope"] == _COMPUTE
        and row["status"] == "ok"
        and is_true(row.get("is_headline"))
    ]
    timed.sort(key=lambda row: row["batch_per_gpu"])
    for row in timed[1:]:
        smallest = timed[0]
        yield {
            **_saving(BATCH, "times", series, row, (smallest, "epoch_s"), (row, "epoch_s"), _COMPUTE),
            "used_batch_per_gpu": smallest["batch_per_gpu"],
        }


def _variants(rows: Rows, series: tuple[Any, ...]) -> Iterator[NewRow]:
    """Every variant beside the study's own settings: on the devices of the series, otherwise on one."""
    measured = [
        row
        for row in rows["variants"]
        if row["variant"] != BASE and row["status"] == "ok" and is_true(row.get("is_headline"))
    ]
    for place in (series, (BASELINE, 1, series[2])):
        here = [row for row in measured if series_of(row) == place and is_known(row.get("faster"))]
        if here:
            break
    base = {(_point(row), row["scope"]): row for row in rows["variants"] if row["variant"] == BASE}
    for row in here:
        used = base.get((_point(row), row["scope"]), {})
        yield {
            **_saving(VARIANT, "variants", series, row, (used, "epoch_s"), (row, "epoch_s"), row["scope"]),
            "used": BASE,
            "better": row["variant"],
            "on_gpus": row["gpus"],
            **_less_than_whole(row, "faster"),
        }


def _one_device(rows: Rows, series: tuple[Any, ...]) -> Iterator[NewRow]:
    """One device with its fastest variant, where it is as fast as the series with the study's own settings."""
    for row in rows["one_gpu"]:
        if series_of(row) != series or row["other_variant"] != BASE or not is_true(row.get("is_headline")):
            continue
        if row["as_fast"] == DOES_NOT or not is_known(row.get("ratio")) or row["ratio"] < 1:
            continue
        yield {
            **_saving(ONE_GPU, "one_gpu", series, row, (row, "other_epoch_s"), (row, "epoch_s"), row["scope"]),
            "used": BASE,
            "better": row["variant"],
            "on_gpus": 1,
            "saves": DEVICE_SECONDS,
            **_less_than_whole(row, "ratio", times=row["gpus"]),
        }


def _recipes(rows: Rows, series: tuple[Any, ...]) -> Iterator[NewRow]:
    """Arms with remedies that end higher than the same arm without, and higher than their baseline, beside its time."""
    cost = {(row["arm"], row.get("environment")): row for row in rows["frontier"]}
    summary = {(row["arm"], row.get("environment")): row for row in rows["training_summary"]}
    for (arm, environment), row in summary.items():
        baseline = summary.get((row.get("compared_with"), environment))
        plain = summary.get((row.get("without_remedies"), environment))
        if environment != series[2] or baseline is None or plain is None or not _is_above_zero(row):
            continue
        place = (row["strategy"], row["gpus"], environment)
        if place != series or (baseline["arm"], environment) not in cost or (arm, environment) not in cost:
            continue
        used_s, better_s = cost[baseline["arm"], environment], cost[arm, environment]
        yield {
            **_saving(RECIPE, "training_summary", series, row, (used_s, "training_s"), (better_s, "training_s")),
            "used": baseline["arm"],
            "better": arm,
            "saves": TRAINING_TIME,
            "on_gpus": baseline["gpus"],
            "used_gpu_s": used_s.get("gpu_s"),
            "better_gpu_s": better_s.get("gpu_s"),
            "without_remedies": plain["arm"],
            "without_accuracy": plain.get("test_accuracy"),
            "used_accuracy": baseline.get("test_accuracy"),
            "better_accuracy": row.get("test_accuracy"),
            "tuned_trials": row.get("tuned_trials"),
            "tuned_on": row.get("tuned_on"),
        }


def _is_above_zero(row: Row) -> bool:
    """Whether an arm gains against the same without remedies, and does not end below the baseline, by intervals."""
    names = ("test_accuracy_gain", "test_accuracy_difference")
    return has_interval(row, *names) and all(row[f"{name}_low"] > 0 for name in names)


def _saving(
    problem: str,
    evidence: str,
    series: tuple[Any, ...],
    place: Row,
    used: tuple[Row, str],
    better: tuple[Row, str],
    scope: str | None = None,
) -> NewRow:
    """What is used beside what is better: either's time, and the part that is saved, 1 − better / used."""
    strategy, gpus, environment = series
    found: NewRow = {
        "problem": problem,
        "strategy": strategy,
        "gpus": gpus,
        "environment": environment,
        "batch_per_gpu": place["batch_per_gpu"],
        "scope": scope,
        "evidence": evidence,
        "saves": EPOCH_TIME,
        **{f"used_s{end}": used[0].get(f"{used[1]}{end}") for end in ENDS},
        **{f"better_s{end}": better[0].get(f"{better[1]}{end}") for end in ENDS},
        "ranges": "; ".join(name for name, of in (("used_s", used), ("better_s", better)) if is_range(*of)) or None,
    }
    if is_known(found["used_s"]) and is_known(found["better_s"]):
        found |= known_columns("saving", ratio(figure_of(*better), figure_of(*used)).map(lambda value: 1 - value))
    return found


def _less_than_whole(row: Row, name: str, times: int = 1) -> NewRow:
    """The part that is saved by what is `name` times as fast on so many `times` fewer devices."""
    found: NewRow = {"saving": 1 - 1 / (row[name] * times), "saving_low": None, "saving_high": None}
    if has_interval(row, name):
        found |= {f"saving{end}": 1 - 1 / (row[f"{name}{end}"] * times) for end in ("_low", "_high")}
    return found


def _worth(found: Iterator[NewRow]) -> list[NewRow]:
    """Those that save enough, and whose interval, if any, lies above zero."""
    return [
        row
        for row in found
        if is_known(row.get("saving"))
        and row["saving"] >= LEAST_SAVING
        and not (is_known(row.get("saving_low")) and row["saving_low"] <= 0)
    ]


def _support(row: Row, name: str) -> tuple[bool, float]:
    """How well a figure is supported: by an interval or not, and its low end."""
    known = has_interval(row, name)
    return known, float(row[f"{name}_low"] if known else row[name])


def _price(name: str, of: str, row: Row) -> NewRow:
    """One over a figure: the more is got of the devices, the fewer device-seconds an epoch takes."""
    found: NewRow = {name: 1 / row[of]}
    low, high = row.get(f"{of}_low"), row.get(f"{of}_high")
    return found | {f"{name}_low": 1 / high, f"{name}_high": 1 / low} if low and high else found


def _copied(row: Row, **names: str) -> NewRow:
    return {f"{name}{end}": row.get(f"{of}{end}") for name, of in names.items() for end in ENDS}


def _ranges(best: Row, loaded: Row, here: Row) -> str | None:
    """The figures of an answer whose low and high are the range of two runs."""
    of_best = [name for name in ("speedup", "efficiency") if is_range(best, "speedup")]
    of_best += ["gpu_s_over_one"] if of_best else []
    of_others = [name for row, name in ((loaded, "end_to_end_speedup"), (here, "mfu")) if is_range(row, name)]
    return "; ".join([*of_best, *of_others]) or None


def _point(row: Row) -> tuple[Any, ...]:
    return row["strategy"], row["gpus"], row["batch_per_gpu"], row.get("environment")
