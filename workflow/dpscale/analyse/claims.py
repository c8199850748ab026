"""What the page claims of rows of tables: which rows it asks, of which of them it holds, and how many these are.

A claim compares only where 95 % intervals carry it: a row without an interval is not asked. Rows are mappings, as the
tables are made of, or as they are read back from their files: an entry that is missing is not there, None or NaN.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

from dpscale.analyse.forecast.steps import HELD_OUT_TOLERANCE
from dpscale.formulas.figure import INTERVAL
from dpscale.vocabulary.states import (
    DISTORTED,
    DOES_NOT,
    HELD_OUT,
    HOLDS,
    NEVER,
    NOT_RESOLVABLE,
    PAYS,
    WHOLE_STEP,
    WORTH_IT,
)

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
NewRow = dict[str, Any]

# What a figure's columns end in: itself, and what it lies between.
ENDS = ("", "_low", "_high")

# Where ablation (E2) and profiler (E3) are held to agree: both measure exposed communication.
AGREEMENT_BATCH = 512
AGREEMENT = 0.15
# What the parts of a profiled step may be off the step by.
SUM_OF_PARTS = 0.03
# From which batch on predicted steps are scored.
FORECAST_BATCH = 128
# An arm is trained with at least so many seeds.
SEEDS_WANTED = 3
# An epoch time is well known where its interval, from end to end, is within this part of it.
WIDTH = 0.1
# A hypervisor takes little away from a cell: at most this part of its cores.
STOLEN = 0.01
# Devices by their own names, and the most of them that one job had; commits that measured, of so many records.
DEVICES_USED, COMMITS_USED = "devices used", "commits used"
# How many different intervals are looked at before findings and verdict are chosen.
INTERVALS_USED = "intervals used"
# Of 100 intervals, so many miss the true value by chance.
MISSED_OF_100 = round(100 * (1 - (INTERVAL[1] - INTERVAL[0])))
_UUID = re.compile(r"(?:GPU|MIG)-[\w-]+")


@dataclass(frozen=True)
class Claim:
    """Of the rows of `table` that `asks` picks, those for which it `holds`."""

    table: str
    asks: Callable[[Row], bool]
    holds: Callable[[Row], bool]
    once_per: tuple[str, ...] = ()
    """Rows that are equal in these columns are asked once."""
    intervals: tuple[str, ...] = ()
    """The quantities whose 95 % intervals decide."""

    def asked(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that count."""
        picked = (row for row in rows if self.asks(row))
        if not self.once_per:
            return list(picked)
        first: dict[tuple[Any, ...], Row] = {}
        for row in picked:
            first.setdefault(tuple(row[name] for name in self.once_per), row)
        return list(first.values())

    def holding(self, rows: Sequence[Row]) -> list[Row]:
        """The rows for which it holds."""
        return [row for row in self.asked(rows) if self.holds(row)]


def is_known(value: Any) -> bool:
    """Whether a table's entry holds something. An infinite number is nothing either."""
    return value is not None and (not isinstance(value, float) or isfinite(value))


def is_true(value: Any) -> bool:
    """Whether an entry is a truth value that is true; files have it as text."""
    return str(value).lower() == "true"


def has_interval(row: Row, *names: str) -> bool:
    """Whether these quantities of a row have 95 % intervals. The range of two blocks is none."""
    return not any(is_range(row, name) for name in names) and all(
        is_known(row.get(f"{name}{end}")) for name in names for end in ENDS
    )


def series_of(row: Row) -> tuple[Any, ...]:
    """The series of a row: a strategy on a number of devices in an environment."""
    return row["strategy"], row["gpus"], row.get("environment")


def is_range(row: Row, name: str) -> bool:
    """Whether a quantity's low and high are the range of two blocks."""
    return has_text(row.get("ranges")) and name in str(row["ranges"]).split("; ")


def has_text(value: Any) -> bool:
    """Whether an entry is text that is not empty."""
    return is_known(value) and str(value) != ""


def _is_headline(row: Row) -> bool:
    """Whether its epochs have steps enough to speak of."""
    return is_true(row.get("is_headline"))


def _weak(row: Row, *names: str) -> bool:
    return _is_headline(row) and bool(row["scaling"] == "weak") and has_interval(row, *names)


def _compares_strategies(row: Row, scope: str) -> bool:
    return _is_headline(row) and row["scope"] == scope and has_interval(row, "epoch_s", "other_epoch_s")


def _profiler_tells(row: Row) -> bool:
    """Whether profiling changed the step so little that what it shows can be held against other estimates."""
    return bool(row.get("profiler") == "ok")


def _disagrees(row: Row) -> bool:
    """Speedup from epochs and from steps, which should be equal, have disjoint intervals."""
    return bool(
        row["speedup_low"] > row["speedup_from_steps_high"] or row["speedup_high"] < row["speedup_from_steps_low"]
    )


def _compares_exposed(row: Row) -> bool:
    large = bool(row["batch_per_gpu"] >= AGREEMENT_BATCH)
    return large and _profiler_tells(row) and has_interval(row, "ablation_step_s", "profiler_exposed_step_s")


def _exposed_apart(row: Row) -> bool:
    """Ablation and profiler agree neither within their intervals nor within `AGREEMENT`."""
    ablation, profiler = row["ablation_step_s"], row["profiler_exposed_step_s"]
    overlap = (
        row["ablation_step_s_low"] <= row["profiler_exposed_step_s_high"]
        and row["profiler_exposed_step_s_low"] <= row["ablation_step_s_high"]
    )
    return not (overlap or abs(ablation - profiler) <= AGREEMENT * abs(profiler))


def _scored(row: Row) -> bool:
    return bool(row["kind"] == HELD_OUT and row["status"] == "ok" and row["batch_per_gpu"] >= FORECAST_BATCH)


def _surely_scored(row: Row) -> bool:
    return _scored(row) and has_interval(row, "relative_error")


def _remedied(row: Row) -> bool:
    return has_interval(row, "test_accuracy_gain")


def _beside_base(row: Row) -> bool:
    return _is_headline(row) and has_interval(row, "faster")


def _deviates_beside_base(row: Row) -> bool:
    return _is_headline(row) and has_interval(row, "deviation_ratio")


def _scales_beside_base(row: Row) -> bool:
    """Whether a variant is faster on one GPU, and its speedup and that of base are known."""
    known = _is_headline(row) and has_interval(row, "speedup", "base_speedup", "alone_faster")
    return known and bool(row["alone_faster_low"] > 1)


def _is_prepared(row: Row) -> bool:
    """Whether a variant is prepared before the clock, and an interval says what that saves."""
    return _is_headline(row) and has_text(row.get("pays")) and has_interval(row, "saved_s")


def _one_beside_more(row: Row) -> bool:
    return _is_headline(row) and has_interval(row, "ratio")


def _every(row: Row) -> bool:
    return True


def _is_ok(row: Row) -> bool:
    return bool(row["status"] == "ok")


CLAIMS: Mapping[str, Claim] = {
    "more devices are worth it": Claim(
        "speedup",
        lambda row: _weak(row, "efficiency"),
        lambda row: row["worth"] == WORTH_IT,
        # The efficiency has the interval of the speedup, over N.
        intervals=("speedup",),
    ),
    "more devices are slower": Claim(
        "speedup", lambda row: _weak(row, "speedup"), lambda row: row["speedup_high"] < 1, intervals=("speedup",)
    ),
    **{
        f"one strategy is {outcome}{with_loading}": Claim(
            "strategy_pairs", partial(_compares_strategies, scope=scope), holds, intervals=("epoch_s", "other_epoch_s")
        )
        for scope, with_loading in (("compute", ""), ("end_to_end", " with loading"))
        for outcome, holds in (
            ("faster", lambda row: row["epoch_s_high"] < row["other_epoch_s_low"]),
            ("slower", lambda row: row["epoch_s_low"] > row["other_epoch_s_high"]),
        )
    },
    "the DataLoader hides speedup": Claim(
        "scopes",
        lambda row: _is_headline(row) and has_interval(row, "speedup", "end_to_end_speedup"),
        lambda row: row["speedup_low"] > 1 and row["end_to_end_speedup_high"] < row["speedup_low"],
        intervals=("speedup", "end_to_end_speedup"),
    ),
    "bandwidth is not resolvable": Claim(
        "bandwidth",
        lambda row: _is_headline(row) and has_interval(row, "communication_s"),
        lambda row: row["status"] == NOT_RESOLVABLE,
        intervals=("communication_s",),
    ),
    "epochs and steps disagree": Claim(
        "speedup",
        lambda row: _weak(row, "speedup", "speedup_from_steps"),
        _disagrees,
        intervals=("speedup", "speedup_from_steps"),
    ),
    "efficiency is above 100 %": Claim(
        "speedup",
        lambda row: _is_headline(row) and has_interval(row, "efficiency"),
        lambda row: row["efficiency_low"] > 1,
        intervals=("speedup",),
    ),
    "a rung takes time": Claim(
        "ladder",
        lambda row: has_interval(row, "difference_s"),
        lambda row: row["difference_s_low"] > 0,
        intervals=("difference_s",),
    ),
    "ablation and profiler are apart": Claim(
        "communication",
        _compares_exposed,
        _exposed_apart,
        intervals=("ablation_step_s", "profiler_exposed_step_s"),
    ),
    "subtraction counts more than communication": Claim(
        "communication",
        lambda row: (
            _is_headline(row) and _profiler_tells(row) and has_interval(row, "communication_step_s", "profiler_step_s")
        ),
        lambda row: row["profiler_step_s_high"] < row["communication_step_s_low"],
        intervals=("communication_step_s", "profiler_step_s"),
    ),
    "devices wait for each other": Claim(
        "communication",
        lambda row: _profiler_tells(row) and has_interval(row, "profiler_step_s", "profiler_least_step_s"),
        lambda row: row["profiler_least_step_s_high"] < row["profiler_step_s_low"],
        intervals=("profiler_step_s", "profiler_least_step_s"),
    ),
    "the profiler is left out": Claim(
        "communication", lambda row: has_text(row.get("profiler")), lambda row: not _profiler_tells(row)
    ),
    "parts do not make the step": Claim(
        "steps",
        lambda row: row["phase"] == WHOLE_STEP and is_known(row.get("difference")) and _profiler_tells(row),
        lambda row: abs(row["difference"]) > SUM_OF_PARTS,
    ),
    "profiling slows": Claim(
        "communication",
        lambda row: is_known(row.get("profiler_slows_by")),
        lambda row: row["profiler_slows_by"] > SUM_OF_PARTS,
    ),
    "the forecast is off": Claim("forecast", _scored, lambda row: not is_true(row["within_tolerance"])),
    "the forecast holds": Claim(
        "forecast",
        _surely_scored,
        lambda row: (
            -HELD_OUT_TOLERANCE <= row["relative_error_low"] <= row["relative_error_high"] <= HELD_OUT_TOLERANCE
        ),
        intervals=("relative_error",),
    ),
    "the forecast beats no model": Claim("forecast", _scored, lambda row: row.get("beats_unchanged") == "yes"),
    "a variant is faster": Claim("variants", _beside_base, lambda row: row["faster_low"] > 1, intervals=("faster",)),
    "a variant is slower": Claim("variants", _beside_base, lambda row: row["faster_high"] < 1),
    "runs of a variant differ less": Claim(
        "variants", _deviates_beside_base, lambda row: row["deviation_ratio_high"] < 1, intervals=("deviation_ratio",)
    ),
    "runs of a variant differ more": Claim(
        "variants", _deviates_beside_base, lambda row: row["deviation_ratio_low"] > 1
    ),
    "communication weighs more in a variant": Claim(
        "variants",
        _scales_beside_base,
        lambda row: row["speedup_high"] < row["base_speedup_low"],
        intervals=("speedup", "base_speedup", "alone_faster"),
    ),
    "communication weighs less in a variant": Claim(
        "variants", _scales_beside_base, lambda row: row["speedup_low"] > row["base_speedup_high"]
    ),
    "preparation pays": Claim("variants", _is_prepared, lambda row: row["pays"] == PAYS, intervals=("saved_s",)),
    "preparation never pays": Claim("variants", _is_prepared, lambda row: row["pays"] == NEVER),
    "one GPU is as fast as more": Claim(
        "one_gpu", _one_beside_more, lambda row: row["as_fast"] == HOLDS, intervals=("ratio",)
    ),
    "one GPU is not as fast as more": Claim("one_gpu", _one_beside_more, lambda row: row["as_fast"] == DOES_NOT),
    "profiling a variant distorts": Claim(
        "kernels", lambda row: has_text(row.get("profiler")), lambda row: row["profiler"] == DISTORTED
    ),
    "a remedy helps": Claim(
        "training_summary",
        _remedied,
        lambda row: row["test_accuracy_gain_low"] > 0,
        intervals=("test_accuracy_gain",),
    ),
    "a remedy shows no difference": Claim(
        "training_summary",
        _remedied,
        lambda row: row["test_accuracy_gain_low"] <= 0 <= row["test_accuracy_gain_high"],
    ),
    "a remedy harms": Claim("training_summary", _remedied, lambda row: row["test_accuracy_gain_high"] < 0),
    "an arm differs from the baseline": Claim(
        "training_summary",
        lambda row: has_interval(row, "test_accuracy_difference"),
        lambda row: row["test_accuracy_difference_low"] > 0 or row["test_accuracy_difference_high"] < 0,
        intervals=("test_accuracy_difference",),
    ),
    "an arm is trained to another accuracy": Claim(
        "training_summary",
        lambda row: has_interval(row, "training_accuracy_difference"),
        lambda row: row["training_accuracy_difference_low"] > 0 or row["training_accuracy_difference_high"] < 0,
        intervals=("training_accuracy_difference",),
    ),
    "a remedy changes the loss": Claim(
        "training_summary",
        lambda row: has_interval(row, "training_loss_change"),
        lambda row: row["training_loss_change_low"] > 0 or row["training_loss_change_high"] < 0,
        intervals=("training_loss_change",),
    ),
    "an arm diverged": Claim("training_summary", _every, lambda row: row["status"] == "diverged"),
    "few seeds": Claim(
        "training_summary",
        lambda row: is_known(row.get("seeds")) and row["seeds"] > 0,
        lambda row: row["seeds"] < SEEDS_WANTED,
    ),
    "a cell failed": Claim("missing", _every, lambda row: row["status"] == "failed"),
    "a record is not used": Claim("rejected", _every, _every),
    "an environment was found": Claim("environments", _every, _every),
    "a single run": Claim(
        "times",
        _is_ok,
        lambda row: row["runs"] < 2,
        once_per=("strategy", "gpus", "batch_per_gpu", "environment"),
    ),
    "two runs": Claim(
        "times",
        _is_ok,
        lambda row: row["runs"] == 2,
        once_per=("strategy", "gpus", "batch_per_gpu", "environment"),
    ),
    "a wide interval": Claim(
        "times",
        lambda row: row["status"] == "ok" and has_interval(row, "epoch_s"),
        lambda row: row["interval_width"] > WIDTH,
    ),
    "a baseline drifted": Claim(
        "blocks", lambda row: has_text(row.get("has_drifted")), lambda row: is_true(row["has_drifted"])
    ),
    "a run has no baseline": Claim("blocks", _every, lambda row: row["status"] == "no baseline"),
    "a run is off": Claim("runs", lambda row: has_text(row.get("is_outlier")), lambda row: is_true(row["is_outlier"])),
    "no baseline": Claim("speedup", _every, lambda row: row["status"] == "no baseline"),
    # Where nothing counted for how long: that is told with the seconds.
    "clocks were held down": Claim(
        "records", lambda row: not is_known(row.get("slowed_s")), lambda row: has_text(row.get("throttle_reasons"))
    ),
    "other processes": Claim(
        "records", _every, lambda row: is_known(row.get("other_processes")) and row["other_processes"] > 0
    ),
    "clocks were kept down in the clock": Claim(
        "records",
        lambda row: is_known(row.get("slowed_s")),
        lambda row: row["slowed_s"] > 0,
    ),
    "cores were stolen": Claim(
        "records", lambda row: is_known(row.get("stolen_share")), lambda row: row["stolen_share"] > STOLEN
    ),
    "dirty code": Claim("records", _every, lambda row: is_true(row.get("git_dirty"))),
}


def count_rows(rows: Rows) -> Iterator[dict[str, Any]]:
    """For every claim, of how many of the rows that it asks it holds; and what the records used."""
    for what, claim in CLAIMS.items():
        asked = claim.asked(rows[claim.table])
        yield {"what": what, "number": sum(1 for row in asked if claim.holds(row)), "of": len(asked)}
    used = {
        (claim.table, name, id(row))
        for claim in CLAIMS.values()
        for name in claim.intervals
        for row in claim.asked(rows[claim.table])
    }
    yield {"what": INTERVALS_USED, "number": len(used), "of": len(used)}
    records = rows["records"]
    devices = {uuid for row in records if has_text(row.get("gpu_uuids")) for uuid in _UUID.findall(row["gpu_uuids"])}
    most = max((row["gpus"] for row in records if is_known(row.get("gpus"))), default=0)
    yield {"what": DEVICES_USED, "number": len(devices), "of": most}
    commits = {str(row["git_commit"])[:12] for row in records if has_text(row.get("git_commit"))}
    yield {"what": COMMITS_USED, "number": len(commits), "of": len(records)}
