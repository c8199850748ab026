"""What a reader must know before trusting the numbers: sentences computed from the data."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpscale.present import words
from dpscale.present.phrases import extreme, percent, place, with_interval
from dpscale.present.words import Tables, Words

# By the project's method, an arm is trained with at least so many seeds.
SEEDS_WANTED = 3
# An epoch time is well known where its interval, from end to end, is within this part of it.
WIDTH = 0.1
_HARDWARE = {"device_model": "device", "cpu_model": "CPU", "links": "links"}
_SOFTWARE = ("driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python")
_UUID = re.compile(r"(?:GPU|MIG)-[\w-]+")


def cautions(study: Mapping[str, Any], tables: Tables) -> list[str]:
    """The cautions that hold for these tables."""
    say = Words.of(study, tables)
    found = (
        _synthetic(say),
        _no_records(tables),
        _missing(tables),
        _rejected(tables),
        _several_environments(tables, say),
        *of_records(tables, say),
    )
    return [sentence for sentence in found if sentence]


def of_records(tables: Tables, say: Words) -> list[str]:
    """The cautions about how things were measured."""
    found = (
        _single_run(tables),
        _no_interval(tables),
        _wide_intervals(tables, say),
        _no_baseline(tables),
        _throttled(tables),
        _other_processes(tables, say),
        _several_sets_of_gpus(tables, say),
        _dirty(tables),
        _several_commits(tables),
        _memorised(tables, say),
        _few_seeds(tables),
    )
    return [sentence for sentence in found if sentence]


def _synthetic(say: Words) -> str | None:
    return "The images are synthetic: noise of the same shape, no real photographs." if say.synthetic else None


def _memorised(tables: Tables, say: Words) -> str | None:
    if not say.synthetic or tables["training"].empty:
        return None
    return (
        "Arms were trained on noise, which holds nothing to learn: training accuracy says how much was memorised, test "
        "accuracy can only be chance, and no comparison of arms says anything about real images."
    )


def _few_seeds(tables: Tables) -> str | None:
    trained = tables["training_summary"][tables["training_summary"]["seeds"] > 0]
    few = int((trained["seeds"] < SEEDS_WANTED).sum())
    if not few:
        return None
    return (
        f"Arms trained with fewer than {SEEDS_WANTED} seeds: {few:,} of {len(trained):,}. Their spread over seeds is "
        "hardly known."
    )


def _no_records(tables: Tables) -> str | None:
    return "Nothing has been measured yet: there is no record." if tables["records"].empty else None


def _missing(tables: Tables) -> str | None:
    """The page is partial: say so, and how much of it is missing."""
    missing = tables["missing"]
    if missing.empty:
        return None
    failed = int((missing["status"] == "failed").sum())
    return (
        f"This page is partial. Cells without a record: {len(missing):,}, of which failed: {failed:,}. "
        "Which, and what their logs say, is under Not run."
    )


def _rejected(tables: Tables) -> str | None:
    number = len(tables["rejected"])
    return f"Records found and not used: {number:,}. The reasons are under Provenance." if number else None


def _several_environments(tables: Tables, say: Words) -> str | None:
    if not say.several_environments:
        return None
    letters = words.listed([str(letter) for letter in tables["environments"]["environment"]])
    return (
        f"The records come from {len(tables['environments'])} environments ({letters}), combinations of "
        f"hardware, software and images, that differ in: {_differences(tables['environments'])}. Their numbers are "
        "never pooled, and no baseline is taken from another one."
    )


def _differences(environments: pd.DataFrame) -> str:
    """`device, links, driver`: in what environments differ."""
    names = {**_HARDWARE, **{name: name for name in _SOFTWARE}, "dataset_sha256": "images"}
    return words.listed([
        name for column, name in names.items() if environments[column].nunique(dropna=False) > 1
    ]) or "nothing that is recorded here"  # fmt: skip


def _single_run(tables: Tables) -> str | None:
    measured = words.ok(tables["times"]).drop_duplicates([*words.POINT_COLUMNS, "environment"])
    single = int((measured["runs"] < 2).sum())
    if not single:
        return None
    return (
        f"Configurations measured in a single run: {single:,} of {len(measured):,}. "
        "How much runs differ is not known there, and the intervals do not contain it."
    )


def _no_interval(tables: Tables) -> str | None:
    measured = words.ok(tables["times"])
    without = int((measured["n"] < 2).sum())
    if not without:
        return None
    return f"Epoch times without an interval: {without:,} of {len(measured):,}, with 1 timed epoch (n < 2)."


def _wide_intervals(tables: Tables, say: Words) -> str | None:
    measured = with_interval(words.ok(tables["times"]), "epoch_s")
    width = (measured["epoch_s_high"] - measured["epoch_s_low"]) / measured["epoch_s"]
    wide = measured.assign(width=width)[width > WIDTH]
    if wide.empty:
        return None
    widest = extreme(wide, "width", largest=True)
    return (
        f"Epoch times whose 95 % interval is wider than {percent(WIDTH)} of them: {len(wide):,} of {len(measured):,}. "
        f"The widest is {words.estimate(widest, 'epoch_s', unit=' s')} with {place(widest, say)}."
    )


def _no_baseline(tables: Tables) -> str | None:
    speedup = tables["speedup"]
    without = speedup[speedup["status"] == "no baseline"]
    if without.empty:
        return None
    reasons = words.listed(sorted(set(without["reason"].dropna().astype(str))), 3)
    return f"Speedups without a baseline: {len(without):,} of {len(speedup):,}{f', as {reasons}' if reasons else ''}."


def _throttled(tables: Tables) -> str | None:
    records = tables["records"]
    reasons = records["throttle_reasons"].dropna().astype(str)
    reasons = reasons[reasons != ""]
    if reasons.empty:
        return None
    named = words.listed(sorted(set(reasons)))
    return f"Clocks were held down during {len(reasons):,} of {words.plural(len(records), 'record')}: {named}."


def _other_processes(tables: Tables, say: Words) -> str | None:
    records = tables["records"]
    disturbed = int((records["other_processes"].astype(float) > 0).sum())
    if not disturbed:
        return None
    total = words.plural(len(records), "record")
    return f"Other processes were on the {say.devices} during {disturbed:,} of {total}."


def _several_sets_of_gpus(tables: Tables, say: Words) -> str | None:
    """A host's name does not tell machines apart that all have the same; their GPUs do."""
    records = tables["records"]
    used = {uuid for uuids in records["gpu_uuids"].dropna().astype(str) for uuid in _UUID.findall(uuids)}
    most = int(records["gpus"].max()) if used else 0
    if len(used) <= most:
        return None
    return (
        f"The records come from {say.count(len(used))}, of which no job had more than {most:,}: {say.devices} of one "
        "model differ, and so do the hosts they are in."
    )


def _dirty(tables: Tables) -> str | None:
    dirty = sum(words.is_true(tables["records"]["git_dirty"]))
    if not dirty:
        return None
    return (
        f"Records from a dirty commit: {dirty:,} of {len(tables['records']):,}. "
        "The code that ran is not exactly the commit named."
    )


def _several_commits(tables: Tables) -> str | None:
    commits = sorted(set(tables["records"]["git_commit"].dropna().astype(str).str[:12]))
    if len(commits) < 2:
        return None
    return f"The records come from {len(commits)} commits: {words.listed(commits)}."
