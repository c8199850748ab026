"""What a reader must know before trusting the numbers: sentences computed from the data."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpscale.analyse.answer.claims import SEEDS_WANTED, STOLEN, WIDTH
from dpscale.analyse.answer.counts import COMMITS_USED, DEVICES_USED
from dpscale.analyse.timing.blocks import DRIFT_TOLERANCE
from dpscale.formulas.statistics import OUTLIER_DEVIATIONS
from dpscale.present import words
from dpscale.present.finding import count, extreme, holding, percent, place
from dpscale.present.words import Tables, Terms
from dpscale.vocabulary.quantities import SECONDS, SOFTWARE

_HARDWARE = {"device_model": "device", "cpu_model": "CPU", "links": "links"}


def first_cautions(study: Mapping[str, Any], tables: Tables) -> list[str]:
    """Those of the cautions that change what a number means, to be read before all others."""
    terms = Terms.of(study, tables)
    found = (
        _synthetic(terms),
        _no_records(tables),
        _missing(tables),
        _several_environments(tables, terms),
        _single_run(tables),
        _two_runs(tables),
        _memorised(tables, terms),
    )
    return [sentence for sentence in found if sentence]


def cautions(study: Mapping[str, Any], tables: Tables) -> list[str]:
    """The cautions that hold for these tables."""
    terms = Terms.of(study, tables)
    found = (
        _synthetic(terms),
        _no_records(tables),
        _missing(tables),
        _rejected(tables),
        _several_environments(tables, terms),
        *of_records(tables, terms),
    )
    return [sentence for sentence in found if sentence]


def of_records(tables: Tables, terms: Terms) -> list[str]:
    """The cautions about how things were measured."""
    found = (
        _single_run(tables),
        _older_versions(tables),
        _two_runs(tables),
        _wide_intervals(tables, terms),
        _no_baseline(tables),
        _runs_without_baseline(tables),
        _drifted(tables),
        _outliers(tables),
        _throttled(tables),
        _slowed(tables),
        _stolen(tables),
        _other_processes(tables, terms),
        _several_sets_of_gpus(tables, terms),
        _dirty(tables),
        _several_commits(tables),
        _memorised(tables, terms),
        _few_seeds(tables),
    )
    return [sentence for sentence in found if sentence]


def _synthetic(terms: Terms) -> str | None:
    return "The images are synthetic: noise of the same shape, no real photographs." if terms.synthetic else None


def _older_versions(tables: Tables) -> str | None:
    older = [row for row in words.rows(tables["environments"]) if words.is_known(row["older_measurements"])]
    if not older:
        return None
    named = words.listed([f"{row['environment']} ({row['older_measurements']})" for row in older])
    return (
        f"Older versions of the measurement made records of environment {named}. They are shown as what they are, and "
        "never pooled with newer ones."
    )


def _memorised(tables: Tables, terms: Terms) -> str | None:
    if not terms.synthetic or tables["training"].empty:
        return None
    return (
        "Arms were trained on noise, which holds nothing to learn: training accuracy says how much was memorised, test "
        "accuracy can only be chance, and no comparison of arms says anything about real images."
    )


def _few_seeds(tables: Tables) -> str | None:
    few = count(tables, "few seeds")
    if not few.number:
        return None
    return f"Arms trained with fewer than {SEEDS_WANTED} seeds: {few}. Their spread over seeds is hardly known."


def _no_records(tables: Tables) -> str | None:
    return "Nothing has been measured yet: there is no record." if tables["records"].empty else None


def _missing(tables: Tables) -> str | None:
    """The page is partial: say so, and how much of it is missing."""
    failed = count(tables, "a cell failed")
    if not failed.of:
        return None
    return (
        f"This page is partial. Cells without a record: {failed.of:,}, of which failed: {failed.number:,}. "
        "Which, and what their logs say, is under Not run."
    )


def _rejected(tables: Tables) -> str | None:
    number = count(tables, "a record is not used").number
    return f"Records found and not used: {number:,}. The reasons are under Provenance." if number else None


def _several_environments(tables: Tables, terms: Terms) -> str | None:
    if not terms.several_environments:
        return None
    number = count(tables, "an environment was found").number
    letters = words.listed([str(letter) for letter in tables["environments"]["environment"]])
    return (
        f"The records come from {number} environments ({letters}), combinations of "
        f"hardware, software and {terms.samples}, that differ in: {_differences(tables['environments'], terms)}. Their "
        "numbers are never pooled, and no baseline is taken from another one."
    )


def _differences(environments: pd.DataFrame, terms: Terms) -> str:
    """`device, links, driver`: in what environments differ."""
    names = {**_HARDWARE, **{name: name for name in SOFTWARE}, "dataset_sha256": terms.samples}
    return words.listed([
        name for column, name in names.items() if environments[column].nunique(dropna=False) > 1
    ]) or "nothing that is recorded here"  # fmt: skip


def _single_run(tables: Tables) -> str | None:
    single = count(tables, "a single run")
    if not single.number:
        return None
    return (
        f"Configurations measured in a single run: {single}. "
        "How much runs differ is not known there, and no figure of them has an interval."
    )


def _two_runs(tables: Tables) -> str | None:
    two = count(tables, "two runs")
    if not two.number:
        return None
    return (
        f"Configurations measured in two runs: {two}. Their range is shown, which is no 95 % interval, and no "
        "comparison is claimed of them."
    )


def _drifted(tables: Tables) -> str | None:
    drifted = holding(tables, "a baseline drifted")
    if not drifted:
        return None
    largest = extreme(drifted, "drift", largest=True, by_size=True)
    return (
        f"One device alone did not take the same time before and after the parallel epochs, by more than "
        f"{percent(DRIFT_TOLERANCE)}, in {count(tables, 'a baseline drifted').among('block')}; at most by "
        f"{percent(largest['drift'])}."
    )


def _runs_without_baseline(tables: Tables) -> str | None:
    without = count(tables, "a run has no baseline")
    if not without.number:
        return None
    rows = holding(tables, "a run has no baseline")
    reasons = words.listed(sorted({str(row["reason"]) for row in rows if words.is_known(row["reason"])}), 3)
    why = f", as {reasons}" if reasons else ""
    return (
        f"Blocks without a baseline: {without}{why}. They are left out of speedup and communication time; no other "
        "baseline is borrowed."
    )


def _outliers(tables: Tables) -> str | None:
    off = count(tables, "a run is off")
    if not off.number:
        return None
    return (
        f"Runs more than {words.figure(OUTLIER_DEVIATIONS, 1)} robust deviations off the median of their "
        f"configuration: {off.among('run')}. All of them stay in; the table of runs names them."
    )


def _wide_intervals(tables: Tables, terms: Terms) -> str | None:
    wide = holding(tables, "a wide interval")
    if not wide:
        return None
    widest = extreme(wide, "interval_width", largest=True)
    return (
        f"Epoch times whose 95 % interval is wider than {percent(WIDTH)} of them: {count(tables, 'a wide interval')}. "
        f"The widest is {words.estimate(widest, 'epoch_s', SECONDS, with_unit=True)} with {place(widest, terms)}."
    )


def _no_baseline(tables: Tables) -> str | None:
    without = holding(tables, "no baseline")
    if not without:
        return None
    reasons = words.listed(sorted({str(row["reason"]) for row in without if words.is_known(row["reason"])}), 3)
    return f"Speedups without a baseline: {count(tables, 'no baseline')}{f', as {reasons}' if reasons else ''}."


def _throttled(tables: Tables) -> str | None:
    throttled = holding(tables, "clocks were held down")
    if not throttled:
        return None
    named = words.listed(sorted({str(row["throttle_reasons"]) for row in throttled}))
    held = count(tables, "clocks were held down").among("record")
    return f"Clocks were held down in {held} without a count of how long: {named}."


def _slowed(tables: Tables) -> str | None:
    claim = "clocks were kept down in the clock"
    slowed = holding(tables, claim)
    if not slowed:
        return None
    longest = extreme(slowed, "slowed_s", largest=True)
    policies = words.listed(sorted({str(row["slowed_by"]) for row in slowed}))
    return (
        f"Inside timed epochs, clocks were kept down in {count(tables, claim).among('record')}, by {policies}; for at "
        f"most {words.measured(longest['slowed_s'], SECONDS)}."
    )


def _stolen(tables: Tables) -> str | None:
    claim = "cores were stolen"
    stolen = holding(tables, claim)
    if not stolen:
        return None
    most = extreme(stolen, "stolen_share", largest=True)
    return (
        f"Inside timed epochs, a hypervisor took away more than {percent(STOLEN)} of the cores given in "
        f"{count(tables, claim).among('record')}; at most {percent(most['stolen_share'])}."
    )


def _other_processes(tables: Tables, terms: Terms) -> str | None:
    disturbed = count(tables, "other processes")
    if not disturbed.number:
        return None
    return f"Other processes were seen on the {terms.devices} in {disturbed.among('record')}."


def _several_sets_of_gpus(tables: Tables, terms: Terms) -> str | None:
    """A host's name does not tell machines apart that all have the same; their GPUs do."""
    used = count(tables, DEVICES_USED)
    if used.number <= used.of:
        return None
    return (
        f"The records come from {terms.count(used.number)}, of which no job had more than {used.of:,}: figures hold "
        f"what these {terms.devices} and their hosts differ by."
    )


def _dirty(tables: Tables) -> str | None:
    dirty = count(tables, "dirty code")
    if not dirty.number:
        return None
    return f"Records from a dirty commit: {dirty}. The code that ran is not exactly the commit named."


def _several_commits(tables: Tables) -> str | None:
    number = count(tables, COMMITS_USED).number
    if number < 2:
        return None
    commits = sorted(set(tables["records"]["git_commit"].dropna().astype(str).str[:12]))
    return f"The records come from {number} commits: {words.listed(commits)}."
